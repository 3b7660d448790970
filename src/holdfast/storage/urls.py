"""The same place, spelled for each engine.

Spark takes `s3a:`, delta-rs and obstore take `s3:`; a plain path stays a plain path.
"""

import os.path
import re
from pathlib import Path

from holdfast.errors import LocationMissing

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/(/)?")
_FOR_RUST = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_FOR_SPARK = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}


def get_scheme(url: str) -> str:
    """Return the URL's scheme in lower case; `file` for a plain path."""
    match = _SCHEME.match(url)
    # Hadoop also spells the default file system of HDFS with one slash.
    return match[1].lower() if match and (match[2] or match[1].lower() == "hdfs") else "file"


def is_s3(url: str) -> bool:
    """Return whether the place is in a bucket that S3A serves."""
    return get_scheme(url) in ("s3", "s3a", "s3n")


def is_hdfs(url: str) -> bool:
    """Return whether the place is on HDFS."""
    return get_scheme(url) == "hdfs"


def is_local(url: str) -> bool:
    """Return whether the place is on this machine's own file system."""
    return get_scheme(url) == "file"


def to_local_path(url: str) -> Path:
    """Return the absolute path that a plain path or a `file:` URL names.

    Like Hadoop, it does not decode the URL: `%41` is three characters, not an `A`.
    """
    path = _strip_host(url[5:]) if url.lower().startswith("file:") else url
    try:
        absolute = os.path.normpath(Path(path).absolute())
    except FileNotFoundError as error:
        raise LocationMissing(
            f"cannot resolve `{url}`: the current directory no longer exists",
            hint='enter the directory that has its name now: `cd "$PWD"`',
        ) from error
    return Path("/" + absolute.lstrip("/"))  # POSIX keeps two slashes at the beginning


def _strip_host(rest: str) -> str:
    """Return the path of a `file:` URL; like Hadoop, it treats `?` and `#` as part of the path."""
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    return f"{slash}{path}" if slash else host


def to_canonical(url: str) -> str:
    """Return the same text for the same place: absolute, no trailing slash, `s3` for `s3a`."""
    if is_local(url):
        return str(to_local_path(url))
    place = to_rust_url(url).rstrip("/")
    return f"{place}///" if place.endswith(":") else place  # the root of the default file system


def get_bucket(url: str) -> str:
    """Return the bucket, container or host of the place, with its scheme."""
    scheme, _, rest = to_rust_url(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def to_rust_url(url: str) -> str:
    """Return the place as obstore and delta-rs spell it."""
    return str(to_local_path(url)) if is_local(url) else _respell(url, _FOR_RUST)


def to_spark_url(url: str) -> str:
    """Return the place as Spark spells it; a local place as a `file:` URL.

    Spark would look for a plain path on the default file system.
    """
    if is_local(url):
        return f"file://{to_local_path(url)}"
    return _respell(url, _FOR_SPARK)


def _respell(url: str, schemes: dict[str, str]) -> str:
    scheme = get_scheme(url)
    rest = url[len(scheme) :]
    if not rest.startswith("://"):  # Hadoop allows one slash if there is no host
        rest = f"://{rest.removeprefix(':')}"
    return schemes.get(scheme, scheme) + rest
