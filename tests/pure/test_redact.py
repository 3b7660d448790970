"""Secrets are taken out, by the name of an option and by the look of a text; nothing else is."""

import json
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.report import redact

if TYPE_CHECKING:
    from holdfast.model.json import Json


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("password=abc x", "password=(redacted) x"),
        ("url: password=abc", "url: password=(redacted)"),
        ('token: "a b c", x', 'token: "(redacted)", x'),
        ("{'api_key': 'k'}", "{'api_key': '(redacted)'}"),
        (r"{\"password\":\"x y\"}", r"{\"password\":\"(redacted)\"}"),
        ("s3://user:pass@host/x", "s3://(redacted)@host/x"),
        ("https://h/x?sig=abc&se=1", "https://h/x?(redacted)&se=1"),
        ("AccountKey=abc==;EntityPath=e", "AccountKey=(redacted);EntityPath=e"),
        ("SharedAccessKey=k;x", "SharedAccessKey=(redacted);x"),
        ("fs.s3a.access.key=AKIAABCDEFGHIJKLMNOP", "fs.s3a.access.key=(redacted)"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: (redacted)"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig b", "a (redacted) b"),
        (
            'sasl.jaas.config=o.a.k.PlainLoginModule required username="u" password="p"; x',
            "sasl.jaas.config=(redacted) x",
        ),
        ("AKIAIOSFODNN7EXAMPLE", "(redacted)"),
        ("dapi" + "0123456789abcdef" * 2, "(redacted)"),
        ("s3://AKIAIOSFODNN7EXAMPLE:a/b+c@bucket/c", "s3://(redacted)@bucket/c"),
        ("s3://user:p@ss@bucket/c", "s3://(redacted)@bucket/c"),
        ('`{"id":"x","password":"hunter` is not', '`{"id":"x","password":"(redacted)"` is not'),
        ('`{"password":"hun`ter…` is not', '`{"password":"(redacted)"` is not'),
        (r"`{\"password\":\"hunter` x", r"`{\"password\":\"(redacted)\"` x"),
        ('{"password":"hunter', '{"password":"(redacted)"'),
        ("{'password':'hunter", "{'password':'(redacted)'"),
        ('{"id":"AKIAIOSFODNN…', '{"id":"(redacted)…'),
        ('{"password":{"value":"x"},"n":1}', '{"password":"(redacted)","n":1}'),
        ('{"password":["x",{"y":"}"}],"n":1}', '{"password":"(redacted)","n":1}'),
        (r"{\"password\":{\"a\":\"x\"}}", r"{\"password\":\"(redacted)\"}"),
        (r'"{\"token\":\"a\\\"b\"}"', r'"{\"token\":\"(redacted)\"}"'),
        (r"{\\\"token\\\":\\\"x\\\"}", r"{\\\"token\\\":\\\"(redacted)\\\"}"),
        (r'{"token":"a\"b","n":1}', '{"token":"(redacted)","n":1}'),
        (r'{"token":"a\\","n":1}', '{"token":"(redacted)","n":1}'),
        ('`{"password":{"value":"x` is not', '`{"password":"(redacted)"` is not'),
        ('{"password":["x', '{"password":"(redacted)"'),
        ('`{"url":"s3://key:hunter…` is not', '`{"url":"s3://(redacted)…` is not'),
        ('`{"url":"s3://key:hunter` is not', '`{"url":"s3://(redacted)` is not'),
        ('{"pwd":1234,"n":1}', '{"pwd":"(redacted)","n":1}'),
        ("https://user:p,w@host", "https://(redacted)@host"),
        ('https://user:p",w@host', "https://(redacted)@host"),
        (r'{"u":"s3://u:p\",w@h","n":1}', '{"u":"s3://(redacted)@h","n":1}'),
        ('{"u":"s3://u:p@h","o":"b@x.com"}', '{"u":"s3://(redacted)@h","o":"b@x.com"}'),
        ('["s3://lake","s3://u:p@h","b@x"]', '["s3://lake","s3://(redacted)@h","b@x"]'),
        ("https://0123456789abcdef@sentry.example/7", "https://(redacted)@sentry.example/7"),
        ("hdfs://me@name:8020/c", "hdfs://(redacted)@name:8020/c"),
        ("`https://h/x?sig=abcdef`, then", "`https://h/x?(redacted)`, then"),
        ("https://h/x?sig=abc,def, then", "https://h/x?(redacted), then"),
        (r"{\"u\":\"https://h?sig=abc\",\"n\":1}", r"{\"u\":\"https://h?(redacted)\",\"n\":1}"),
        (
            "https://hooks.slack.com/services/T0/B0/Xy",
            "https://hooks.slack.com/services/(redacted)",
        ),
        ("Cookie: JSESSIONID=abc", "Cookie: (redacted)"),
        ("Authorization: Token abc, then", "Authorization: (redacted), then"),
        ("-H 'Authorization: ApiKey a:b/c' x", "-H 'Authorization: (redacted)' x"),
        ("Authorization=Bearer abc x", "Authorization=(redacted) x"),
        ("Proxy-Authorization: Negotiate YII=", "Proxy-Authorization: (redacted)"),
        (
            'Authorization: Digest username="u v", realm=x, response="abc", then',
            "Authorization: (redacted), then",
        ),
        (r"{\"h\":\"Authorization: Digest a=b\"}", r"{\"h\":\"Authorization: (redacted)\"}"),
        ('`Authorization: Digest response="abc…` is', "`Authorization: (redacted)` is"),
        (
            "Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=c;d, Signature=fe\nX: b",
            "Authorization: (redacted)\nX: b",
        ),
        (
            "Authorization: SharedAccessSignature sr=h%2f&sig=abc%3d&se=1 x",
            "Authorization: (redacted) x",
        ),
        (r"{\"h\":\"password=abc\"}", r"{\"h\":\"password=(redacted)\"}"),
        ("run --password abc --user u", "run --password (redacted) --user u"),
        ('run -token "a b" x', 'run -token "(redacted)" x'),
        ("run --db.api-key=abc x", "run --db.api-key=(redacted) x"),
        ("run --password  -x", "run --password  -x"),
        ("kafka.sasl.username=bob, a=b", "kafka.sasl.username=(redacted), a=b"),
        ('.option("password", "abc").x', '.option("password", "(redacted)").x'),
        (r".set(\"fs.s3a.secret.key\", \"a b\")", r".set(\"fs.s3a.secret.key\", \"(redacted)\")"),
        ("conf.set( 'api_key' , f'a{b}c' )", "conf.set( 'api_key' , f'(redacted)' )"),
        ('`.option("password", "abc…` is', '`.option("password", "(redacted)"` is'),
        ('{"Authorization": f"Token abc"}', '{"Authorization": f"(redacted)"}'),
        ('get(u, auth=("u", "a)b"), x=1)', "get(u, auth=(redacted), x=1)"),
        ("CREATE USER u PASSWORD 'abc' x", "CREATE USER u PASSWORD '(redacted)' x"),
        ("OPTIONS (user 'u', password 'abc')", "OPTIONS (user 'u', password '(redacted)')"),
        ("CREATE USER u IDENTIFIED BY 'abc';", "CREATE USER u IDENTIFIED BY (redacted);"),
        ("token=dapi0123456789abcdef-2/x, b", "token=(redacted), b"),
        ("s3://in/auth=google/a.json", "s3://in/auth=(redacted)/a.json"),
        ("key sk-proj-" + "aB3_" * 10 + " is", "key (redacted) is"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc", "(redacted)"),
    ],
)
def test_a_secret_is_taken_out_of_a_text(given: str, shown: str) -> None:
    assert redact.text(given) == shown
    assert redact.text(shown) == shown


@pytest.mark.parametrize(
    "given",
    [
        "offsets/3",
        "spark.sql.streaming.stateStore.providerClass=org.apache.Provider",
        "tokens consumed: 5",
        "batch 7 is committed (password)",
        '{"orders":{"0":30}}',
        "file:///C:/landing/a.json",
        "2026-01-01 00:00:00",
        '{"auth-events":{"0":30,"1":-2}}',
        '{"token":null,"password":""}',
        "hdfs://name:8020/user/me@example.com/c",
        "`https://[::1]:9000`, `http://host:9000`, `file://C:/x`",
        "abfss://container@account.dfs.core.windows.net/c",
        "WASB://container@account.blob.core.windows.net/c",
        '{"location":"s3://lake","owner":"bob@x.com","position":17}',
        r"{\"location\":\"s3://lake\",\"owner\":\"bob@x.com\"}",
        '["s3://lake","bob@x.com"]',
        '`{"location":"s3://lake","owner":"bob…` is not',
        "https://host?mail=bob@example.com",
        "jdbc:sqlserver://host;user=bob@host;x=1",
        "the option --password is required, and --token must be given",
        "- password missing",
        "listeners=SASL_SSL://b:9092, security.protocol=SASL_PLAINTEXT",
        "TopicAuthorizationException: Not authorized to access topics: [orders]",
        "o.a.k.c.errors.SaslAuthenticationException: Authentication failed",
        "groupByKey: 7, primaryKey=id, client.key: no such file",
        "file:///in/token_type=refresh/a.json",
        "as in `--storage azure_storage_account_key=…`, or",
        "/lake/auth-events: expected storage that lasts, s3://b/tokens: No such file",
        'drop("token"), col("password"), ["token", "user"], ("user", "token")',
        'password authentication failed for user "u"',
    ],
)
def test_what_is_no_secret_stays(given: str) -> None:
    assert redact.text(given) == given


def test_a_secret_is_taken_out_of_json_by_its_name() -> None:
    given: Json = {
        "kafka.sasl.jaas.config": "x",
        "nested": [{"ssl.keystore.password": "x", "url": "s3://a:b@c"}],
        "secret": "",
        "partitions": 3,
        "offset": {"0": 5},
        "password": {"value": "x", "old": ["y", 7, None, True, ""]},
        "auth-events": {"0": 5},
        "auth source": {"orders": {"0": 5}, "key": "x"},
        "pwd": 1234,
        "id": "AKIAIOSFODNN7EXAMPLE",
        "AKIAIOSFODNN7EXAMPLE": 1,
    }
    assert redact.value(given) == {
        "kafka.sasl.jaas.config": "(redacted)",
        "nested": [{"ssl.keystore.password": "(redacted)", "url": "s3://(redacted)@c"}],
        "secret": "",
        "partitions": 3,
        "offset": {"0": 5},
        "password": {"value": "(redacted)", "old": ["(redacted)", "(redacted)", None, True, ""]},
        "auth-events": {"0": 5},
        "auth source": {"orders": {"0": 5}, "key": "(redacted)"},
        "pwd": "(redacted)",
        "id": "(redacted)",
        "(redacted)": 1,
    }
    assert redact.settings({"a.token": "x", "b": "y"}) == {"a.token": "(redacted)", "b": "y"}


@pytest.mark.parametrize(
    "given",
    [
        "pass" * 50_000,
        "a" * 200_000 + "=",
        "x.password " * 20_000,
        "://" * 60_000,
        '"' * 100_000,
        "password=" * 20_000,
        "LoginModule required " * 5_000,
        "-----BEGIN PRIVATE KEY-----" * 5_000,
        "--password " * 20_000,
        "authorization: a" * 20_000,
        "authorization: a b=c," * 10_000 + "d" * 100_000,
        'authorization: a b="' * 10_000,
        "-sasl." * 30_000,
        "eyJ" * 50_000,
        "?sig=" * 30_000,
        'password:"`' * 20_000,
        r"password:\"" * 20_000,
        "password:{" * 20_000,
        "password:[`" * 20_000,
        "password:" + "\\" * 200_000,
        "://a:b" * 30_000,
        "://a" * 40_000 + "@",
        "auth=('" * 20_000,
        "password '" * 20_000,
        """("password", '""" * 20_000,
        '"' + '://a":b' * 20_000 + "@",
        "://a:b@" + "c',@" * 40_000,
    ],
    ids=lambda given: given[:12],
)
def test_a_long_text_takes_no_longer_than_its_length(given: str) -> None:
    started = time.process_time()
    redact.text(given)
    assert time.process_time() - started < 5


HIDDEN = 'hun"ter2`s\\}]'
INNER = json.dumps({"password": {"now": HIDDEN, "old": [HIDDEN, {"x": HIDDEN}]}, "token": HIDDEN})


@pytest.mark.parametrize(
    "given",
    [INNER, json.dumps({"conf": INNER}), json.dumps({"a": json.dumps({"b": INNER})})],
    ids=["plain", "a text in JSON", "a text in a text"],
)
def test_a_secret_is_taken_out_wherever_its_text_is_cut(given: str) -> None:
    for length in range(len(given) + 1):
        for cut in (
            given[:length],
            f"`{given[:length]}…` is not JSON",
            f'found "{given[:length]}"',
        ):
            shown = redact.text(cut)
            assert "hun" not in shown, cut
            assert "ter2" not in shown, cut


@pytest.mark.parametrize(
    "name",
    [
        *("pass", "db.pass", "dbPass", "DB_PASS", "auth", "oauth", "sas", "authKey", "masterKey"),
        *("cookie", "sessionCookie", "Set-Cookie", "cred", "aws.creds", "awsCred", "credJson"),
        *("signingKey", "jwt.signing-key", "subscriptionKey", "Ocp-Apim-Subscription-Key"),
        *("clientKey", "client_key", "hmacKey", "sharedKey", "decryption.key", "app_key"),
        *("kafka.sasl.username", "sasl.kerberos.keytab", "sasl.kerberos.principal"),
        *("sasl.jaas.config", "SASL_USERNAME", "saslUsername", "sasl.oauthbearer.scope"),
    ],
)
def test_short_names_of_secrets_are_words_of_their_own(name: str) -> None:
    assert redact.value({name: "x"}) == {name: "(redacted)"}


@pytest.mark.parametrize(
    "name",
    [
        *("passenger_count", "author_id", "bypass", "tokens_per_second"),
        *("credit", "CREDIT", "creditLimit", "sacred", "incredible", "cookies_seen", "cookieName"),
        *(
            "key",
            "keys",
            "primaryKey",
            "partitionKey",
            "sortKey",
            "rowKey",
            "foreignKey",
            "keyColumn",
        ),
        *(
            "key.deserializer",
            "kafka.consumer.key.deserializer",
            "groupByKey",
            "routing_key",
            "hashKey",
            "messageKey",
            "dedupKey",
        ),
        *("kafka.sasl.mechanism", "SASL_MECHANISM", "saslMechanism", "sasl.enabled.mechanisms"),
        *("sasl.login.callback.handler.class", "SASL_SSL", "clientKeyFile", "subscriptionKeys"),
    ],
)
def test_names_that_hold_no_secret_are_left(name: str) -> None:
    assert redact.value({name: 7}) == {name: 7}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: (redacted)"),
        ("Map(password -> hunter2, a -> b)", "Map(password -> (redacted), a -> b)"),
        ("found `password=abc`, expected", "found `password=(redacted)`, expected"),
        ("jdbc:oracle:thin:scott/tiger@//h", "jdbc:oracle:thin:(redacted)@//h"),
        ("password=int", "password=(redacted)"),
        ("struct<token:string,auth:struct<a:int>>", "struct<token:string,auth:struct<a:int>>"),
        ("fs.azure.account.auth.type.a=OAuth", "fs.azure.account.auth.type.a=OAuth"),
    ],
)
def test_secrets_in_other_spellings_and_types_of_columns(given: str, shown: str) -> None:
    assert redact.text(given) == shown


def test_what_nobody_sees_is_shown() -> None:
    assert redact.for_display("\ufeffv1 a\u200bb \U0001f468\u200d\U0001f33e") == (
        r"\ufeffv1 a\u200bb " + "\U0001f468\u200d\U0001f33e"
    )
