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


def scheme(url: str) -> str:
    """The URL's scheme, in small letters; `file` for a plain path."""
    named = _SCHEME.match(url)
    # Hadoop also spells the default file system of HDFS with one slash.
    return named[1].lower() if named and (named[2] or named[1].lower() == "hdfs") else "file"


def is_s3(url: str) -> bool:
    """Whether the place is in a bucket that S3A serves."""
    return scheme(url) in ("s3", "s3a", "s3n")


def is_hdfs(url: str) -> bool:
    """Whether the place is on HDFS."""
    return scheme(url) == "hdfs"


def is_local(url: str) -> bool:
    """Whether the place is on this machine's own file system."""
    return scheme(url) == "file"


def local_path(url: str) -> Path:
    """The absolute path that a plain path or a `file:` URL names.

    As Hadoop reads the text of a URL: `%41` is three letters, and not an `A`.
    """
    path = _after_host(url[5:]) if url.lower().startswith("file:") else url
    try:
        absolute = os.path.normpath(Path(path).absolute())
    except FileNotFoundError as error:
        raise LocationMissing(
            f"expected a folder that `{url}` begins at, found that this one was removed",
            hint='go to the one that has its name now: `cd "$PWD"`',
        ) from error
    return Path("/" + absolute.lstrip("/"))  # POSIX keeps two slashes at the beginning


def _after_host(rest: str) -> str:
    """The path of a `file:` URL. Hadoop knows no `?` and no `#` in paths, so they are letters."""
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    return f"{slash}{path}" if slash else host


def canonical(url: str) -> str:
    """The same text for the same place: absolute, without a trailing slash, `s3` for `s3a`."""
    if is_local(url):
        return str(local_path(url))
    named = for_rust(url).rstrip("/")
    return f"{named}///" if named.endswith(":") else named  # the root of the default file system


def bucket(url: str) -> str:
    """The bucket, container or host that the place is in, with its scheme."""
    named, _, rest = for_rust(url).partition("://")
    return f"{named}://{rest.partition('/')[0]}"


def for_rust(url: str) -> str:
    """As obstore and delta-rs want it."""
    return str(local_path(url)) if is_local(url) else _spelled(url, _FOR_RUST)


def for_spark(url: str) -> str:
    """As Spark wants it: local places as `file:` URLs, so that no default file system decides."""
    if is_local(url):
        return f"file://{local_path(url)}"
    return _spelled(url, _FOR_SPARK)


def _spelled(url: str, names: dict[str, str]) -> str:
    found = scheme(url)
    rest = url[len(found) :]
    if not rest.startswith("://"):  # no host and one slash, as Hadoop allows it
        rest = f"://{rest.removeprefix(':')}"
    return names.get(found, found) + rest
