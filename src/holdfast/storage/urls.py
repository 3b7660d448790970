"""One place, spelled as each engine wants it.

Spark speaks `s3a:`, delta-rs and obstore speak `s3:`; a plain path stays a plain path.
"""

import os.path
import re
from pathlib import Path

from holdfast.errors import LocationMissing

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/(/)?")
_FOR_RUST = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_FOR_SPARK = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}


def get_scheme(url: str) -> str:
    """The URL's scheme, in small letters; `file` for a plain path."""
    named = _SCHEME.match(url)
    # Hadoop also spells the default file system of HDFS with one slash.
    return named[1].lower() if named and (named[2] or named[1].lower() == "hdfs") else "file"


def is_s3(url: str) -> bool:
    """Whether the place is in a bucket that S3A serves."""
    return get_scheme(url) in ("s3", "s3a", "s3n")


def is_hdfs(url: str) -> bool:
    """Whether the place is on HDFS."""
    return get_scheme(url) == "hdfs"


def is_local(url: str) -> bool:
    """Whether the place is on this machine's own file system."""
    return get_scheme(url) == "file"


def to_local_path(url: str) -> Path:
    """The absolute path that a plain path or a `file:` URL names.

    As Hadoop reads the text of a URL: `%41` is three letters, and not an `A`.
    """
    path = _strip_host(url[5:]) if url.lower().startswith("file:") else url
    try:
        absolute = os.path.normpath(Path(path).absolute())
    except FileNotFoundError as error:
        raise LocationMissing(
            f"expected a folder that `{url}` begins at, found that this one was removed",
            hint='go to the one that has its name now: `cd "$PWD"`',
        ) from error
    return Path("/" + absolute.lstrip("/"))  # POSIX keeps two slashes at the beginning


def _strip_host(rest: str) -> str:
    """The path of a `file:` URL. Hadoop knows no `?` and no `#` in paths, so they are letters."""
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    return f"{slash}{path}" if slash else host


def to_canonical(url: str) -> str:
    """The same text for the same place: absolute, without a trailing slash, `s3` for `s3a`."""
    if is_local(url):
        return str(to_local_path(url))
    named = to_rust_url(url).rstrip("/")
    return f"{named}///" if named.endswith(":") else named  # the root of the default file system


def get_bucket(url: str) -> str:
    """The bucket, container or host that the place is in, with its scheme."""
    named, _, rest = to_rust_url(url).partition("://")
    return f"{named}://{rest.partition('/')[0]}"


def to_rust_url(url: str) -> str:
    """As obstore and delta-rs want it."""
    return str(to_local_path(url)) if is_local(url) else _respell(url, _FOR_RUST)


def to_spark_url(url: str) -> str:
    """As Spark wants it: local places as `file:` URLs, so that no default file system decides."""
    if is_local(url):
        return f"file://{to_local_path(url)}"
    return _respell(url, _FOR_SPARK)


def _respell(url: str, names: dict[str, str]) -> str:
    found = get_scheme(url)
    rest = url[len(found) :]
    if not rest.startswith("://"):  # no host and one slash, as Hadoop allows it
        rest = f"://{rest.removeprefix(':')}"
    return names.get(found, found) + rest
