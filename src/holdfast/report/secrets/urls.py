"""User names, passwords and tokens in URLs: `scheme://user:…@host`, `scheme://…@host`."""

import re
from collections.abc import Iterator

from holdfast.report.secrets.names import REDACTED

_MOST_SLASHES = 64

# Without the scheme: searching for one from every letter of a long text takes quadratic time. An S3
# key may contain slashes; a number with a slash after it is a port. Without a colon it is a token
# or a user name, except in an Azure URL, where it is the container.
_USER_INFO = re.compile(
    r"://[^/\s@:]*+:(?!\d+(?:[^\w\-.~%+=@:]|$))[^\s@]{1,1024}+@(?:[^\s@/]{1,256}+@)*+|"
    r"(?i:(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs))://[^/\s@:,;?#\"'`<>(){}\[\]]{1,1024}+@"
)
# The same, cut before the `@`; the colon distinguishes it from a host.
_CUT_USER_INFO = re.compile(r"://[^/\s@:\[]*+:(?![\d/\\])[^\s@`…]{1,1024}+(?=[`…])")
_CLOSING = re.compile(r"""(?<!\\)(\\*+)(["'])(?=\s*[,;:}\])])""")


def remove_users(text: str) -> str:
    """Return a text whose URLs contain no users, and so no passwords."""
    return "".join(_replace(text, _USER_INFO, f"://{REDACTED}@"))


def remove_cut_users(text: str) -> str:
    """Return a text without users and passwords of URLs that were cut before the `@`."""
    return "".join(_replace(text, _CUT_USER_INFO, f"://{REDACTED}"))


def _replace(text: str, pattern: re.Pattern[str], replacement: str) -> Iterator[str]:
    """Yield the text with its user parts replaced; an `@` after the URL does not belong to it."""
    copied = at = 0
    while match := pattern.search(text, at):
        at = _find_url_end(match)
        inside = match if at == match.end() else pattern.match(text, match.start(), at)
        if inside:
            yield text[copied : inside.start()]
            yield replacement
            copied = at = inside.end()
    yield text[copied:]


def _find_url_end(match: re.Match[str]) -> int:
    """Return where the URL ends: with the match, or at the quote that closes the text around it.

    A password may contain quotes. A quote closes the text only if an opening quote with at least as
    many backslashes precedes the URL, and JSON punctuation follows.
    """
    slashes: dict[str, int] = {}
    for quote in _CLOSING.finditer(match.string, match.start(), match.end()):
        if quote[2] not in slashes:
            opening = match.string.rfind(quote[2], 0, match.start())
            slashes[quote[2]] = _count_slashes(match.string, opening)
        if slashes[quote[2]] >= len(quote[1]):
            return quote.start()
    return match.end()


def _count_slashes(text: str, at: int) -> int:
    """Return how many backslashes precede a position, or -1 if there is no such position."""
    if at < 0:
        return -1
    before = text[max(0, at - _MOST_SLASHES) : at]
    return len(before) - len(before.rstrip("\\"))
