"""Where a database is, how to log in, and which databases there are."""

from dataclasses import dataclass

from holdfast.model.definition import JdbcAppend, JdbcUpsert
from holdfast.sinks.secret import read_secret

_DRIVERS = {"postgresql": "org.postgresql.Driver", "mariadb": "org.mariadb.jdbc.Driver"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A database, and how to log in; the password itself is looked up when it is needed."""

    url: str
    user: str | None
    password: str | None
    options: tuple[tuple[str, str], ...]

    @staticmethod
    def of(sink: JdbcAppend | JdbcUpsert) -> "Address":
        """Where a sink is."""
        return Address(
            url=sink.url,
            user=sink.user,
            password=sink.password,
            options=tuple(sink.options.items()),
        )

    @property
    def kind(self) -> str:
        """The database's name in the URL."""
        return self.url.removeprefix("jdbc:").partition(":")[0].lower()

    @property
    def for_spark(self) -> str:
        """The URL under which Spark, too, knows the dialect.

        Spark speaks MySQL's to `jdbc:mysql:` only; MariaDB's driver takes that when it is told to.
        """
        if self.kind != "mariadb":
            return self.url
        rest = self.url.removeprefix("jdbc:mariadb:")
        return f"jdbc:mysql:{rest}{'&' if '?' in rest else '?'}permitMysqlScheme"

    def settings(self) -> dict[str, str]:
        """What Spark's JDBC reader and writer are told, the password too.

        The driver's class goes by name: Java finds none by itself among `spark.jars`.
        """
        driver = _DRIVERS.get(self.kind)
        found = {
            **({"driver": driver} if driver else {}),
            # Of several hosts: a standby's ledger may be older than the table's.
            **({"targetServerType": "primary"} if self.kind == "postgresql" else {}),
            **dict(self.options),
        }
        if self.user is not None:
            found["user"] = self.user
        if self.password is not None:
            found["password"] = read_secret(self.password)
        return found
