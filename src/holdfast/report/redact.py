"""Takes secrets out of everything that is shown or stored.

A checkpoint can contain secrets: the offsets of some connectors have options and URLs, pinned
settings and run records have whatever was set. A value is taken out if its name is secret, or if a
text shows that it is one:

    password=…   "token": "…"   sasl.username=…   --password …   option("token", "…")
                                                       by the name before it
    scheme://user:…@host   scheme://…@host   ?sig=…   AccountKey=…;
                                                       by its place in a URL or connection string
    AKIA…   eyJ….eyJ….…   Bearer …                     by its shape
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from holdfast.model.json import Json
from holdfast.report.secrets import names, shapes, urls, values

REDACTED = names.REDACTED
_SHORTEST = 12
# Control characters; also those that change the direction of a text, so that it reads differently,
# and invisible ones, such as a byte order mark.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def is_secret(name: str) -> bool:
    """Return whether an option of this name contains a secret."""
    return names.is_secret(name)


def text(given: str) -> str:
    """Return a text without the secrets that can be recognised in it."""
    if len(given) < _SHORTEST and given.isalnum():
        return given
    given = url_users(shapes.remove(given))
    given = urls.remove_cut_users(given)
    return values.remove(given)


def url_users(given: str) -> str:
    """Return a text whose URLs contain no users, and so no passwords."""
    return urls.remove_users(given)


def for_display(given: str) -> str:
    """Return a text for people: without secrets and without control characters."""
    return _CONTROL.sub(lambda mark: mark[0].encode("unicode_escape").decode(), text(given))


def value(json: Json) -> Json:
    """Return any JSON without secrets, by the names in it and by its texts."""
    if isinstance(json, str):
        return text(json)
    if isinstance(json, Mapping):
        return {_redact_key(key): _redact_member(key, member) for key, member in json.items()}
    if isinstance(json, Sequence):
        return [value(item) for item in json]
    return json


@lru_cache(maxsize=1024)
def _redact_key(name: str) -> str:
    """Return a key without secrets; cached, because a long report repeats a few keys."""
    return text(name)


def _redact_member(name: str, member: Json) -> Json:
    return _hide(member) if is_secret(name) else value(member)


def _has_only_offsets(json: Json) -> bool:
    """Return whether these are partitions and offsets, of a topic that is named like a secret."""
    return isinstance(json, Mapping) and all(
        name.isdecimal() and isinstance(offset, int) for name, offset in json.items()
    )


def _hide(json: Json) -> Json:
    """Return the shape of the JSON below a secret name, without its values."""
    if _has_only_offsets(json):
        return json
    if isinstance(json, Mapping):
        return {_redact_key(key): _hide(member) for key, member in json.items()}
    if isinstance(json, Sequence) and not isinstance(json, str):
        return [_hide(item) for item in json]
    return json if json is None or isinstance(json, bool) or json == "" else REDACTED


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return settings without the values of secrets."""
    return {key: setting(key, setting_value) for key, setting_value in given.items()}


def setting(name: str, given: str) -> str:
    """Return the value of a setting, unless it is secret."""
    return REDACTED if is_secret(name) and given else text(given)
