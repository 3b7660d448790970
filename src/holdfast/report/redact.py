"""Takes secrets out of what is shown: by the name of an option, and by the look of a text.

A checkpoint can hold them: offsets of some connectors carry options and URLs, pinned settings
and run records carry whatever was set. A value is taken out when its name says that it is
secret, or when it stands in a text where secrets stand:

    password=…   "token": "…"   sasl.jaas.config=…     by the name in front of it
    scheme://user:…@host   ?sig=…   AccountKey=…;      by its place in a URL or connection string
    AKIA…   eyJ….eyJ….…   Bearer …                     by its own look
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from holdfast.model.json import Json

REDACTED = "(redacted)"

_NAME = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|credential|sasl\.jaas|jaas|private.?key|"
    r"access.?key|account.?key|shared.?access|api.?key|auth(?:orization|entication)?|"
    r"encryption.?key|connection.?string|keystore|truststore|sas\b|signature"
)
_SECRET_NAME = re.compile(rf"(?i){_NAME}")
# Names that look secret and hold no secret: what they tell is needed to read a report.
_HARMLESS = re.compile(
    r"(?i)(?:\.|^)(?:location|type|format|class|enabled|mechanism|provider|protocol|version|"
    r"partitions|algorithm|host|port|topic)$|shuffle|tokeni[sz]er|\.providerClass$|^keystore$"
)
# What follows a name: an equals sign or colon, and a value in quotes, in escaped quotes, or bare.
_VALUE = re.compile(
    r"""\\?["']?\s*[=:]\s*(?P<value>\\"(?:[^"\\]|\\(?!"))*+\\"|"(?:\\.|[^"\\])*+"|'[^']*+'|(?:\(redacted\)|[^\s,;&"'}\])])++)"""
)
_LETTER = re.compile(r"[\w.\-]")
# No scheme in front: looking for one from every letter of a long text would take for ever.
_USER_INFO = re.compile(r"://[^/\s@:]*+:[^/\s@]++@")
_LOOKS = (
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\beyJ[\w\-]{8,}\.[\w\-]{4,}(?:\.[\w\-]*)?"),
    re.compile(r"(?i)\bbearer\s+[\w.\-~+/]{8,}=*"),
    re.compile(r"(?i)(?<=[?&])(?:sig|x-amz-(?:signature|security-token|credential))=[^&\s\"']+"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"),
    re.compile(r"LoginModule\s+(?:required|requisite|sufficient|optional)\b[^;\n]*;?"),
    re.compile(r"\b(?:dapi[0-9a-f]{32}|gh[pousr]_\w{36,}|xox[abprs]-[\w\-]{10,})\b"),
)


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS.search(name)


def text(shown: str) -> str:
    """A text without the secrets that can be told from it."""
    if not shown or shown.isalnum():
        return shown
    for look in _LOOKS:
        shown = look.sub(REDACTED, shown)
    shown = _USER_INFO.sub(f"://{REDACTED}@", shown)
    return "".join(_without_values(shown))


def _without_values(shown: str) -> Iterator[str]:
    """Names are found first and their values after them: linear, however long the text is."""
    done = looked = 0
    for found in _SECRET_NAME.finditer(shown):
        start, end = found.span()
        if start < looked:
            continue
        while start > looked and _LETTER.match(shown, start - 1):
            start -= 1
        while _LETTER.match(shown, end):
            end += 1
        looked = end
        given = _VALUE.match(shown, end)
        if given is None or not is_secret(shown[start:end]):
            continue
        if shown.startswith(REDACTED, given.start("value")):
            continue
        yield shown[done : given.start("value")]
        yield _masked(given["value"])
        done = looked = given.end()
    yield shown[done:]


def _masked(found: str) -> str:
    quote = next((mark for mark in ('\\"', '"', "'") if found.startswith(mark)), "")
    return f"{quote}{REDACTED}{quote}"


def value(shown: Json) -> Json:
    """Any JSON without secrets: by the names in it, and by the look of its texts."""
    if isinstance(shown, str):
        return text(shown)
    if isinstance(shown, Mapping):
        return {key: _member(key, one) for key, one in shown.items()}
    if isinstance(shown, Sequence):
        return [value(one) for one in shown]
    return shown


def _member(name: str, shown: Json) -> Json:
    if is_secret(name) and isinstance(shown, str) and shown:
        return REDACTED
    return value(shown)


def settings(shown: Mapping[str, str]) -> dict[str, str]:
    """Settings without the values of secrets."""
    return {key: setting(key, one) for key, one in shown.items()}


def setting(name: str, shown: str) -> str:
    """The value of a setting, unless it is secret."""
    return REDACTED if is_secret(name) and shown else text(shown)
