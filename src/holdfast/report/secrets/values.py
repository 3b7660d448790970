"""Values after a secret name in free text: `password=…`, `"token": "…"`, `--password …`.

The text may be anything: JSON, code in a traceback, SQL, a command line, an HTTP header, and it may
be cut anywhere. The name is found first and the value after it, so the time is linear.
"""

import re
from collections.abc import Iterator

from holdfast.report.secrets import names
from holdfast.report.secrets.names import REDACTED

# The separator between a name and its value, and the start of a value that is not a bare word.
# A Python string may have letters before its quote.
_LETTERS = r"""(?:[rbfuRBFU]{1,2}(?=\\*["']))?"""
_SEPARATOR = re.compile(rf"""(?P<quote>\\*["']?)\s*(?:[=:]|->)\s*{_LETTERS}""")
# In code, as in a traceback, name and value are arguments of a call. In SQL only a space separates
# a password from its text.
_CALL = re.compile(r"""\(\s{0,4}\\{0,4}["']\Z""")
_ARGUMENT = re.compile(rf"""(?P<quote>\\*["'])\s*,\s*{_LETTERS}(?=\\*["'])""")
_PASSWORD = re.compile(r"(?i)(?:pass(?:word|wd|phrase)|pwd)\Z")
_SQL_SEPARATOR = re.compile(r"""(?P<quote>)[ \t]+(?=\\*["'])""")
# On a command line a space separates them, and the value does not start with a dash. If an English
# word follows, the text only mentions the option.
_OPTION = re.compile(
    r"(?P<quote>)[ \t]+(?!-|(?:is|was|are|or|and|not|for|to|with|must|may|can|cannot|should|has|"
    r"needs|requires|option|in|of|on|as)\b)"
)
_QUOTE = re.compile(r"""(?<!\\)(\\*+)(["'])""")
_MARK = re.compile(r"""(?<!\\)(\\*+)(["'])|[{}\[\]]""")
_TUPLE = re.compile(r"""\(\s*[rbfuRBFU]{0,2}\\*["']""")
_TUPLE_MARK = re.compile(r"""(?<!\\)(\\*+)(["'])|[()]""")
# A backslash before a quote belongs to the quote.
_WORD = rf"""(?:{re.escape(REDACTED)}|(?!\\{{1,8}}["'])[^\s,;&"'`}}\])])++"""
_BARE = re.compile(_WORD)
# A partition folder may be named like a secret: `/auth=google/part-0.json`.
_FOLDER = re.compile(_WORD.replace("[^", "[^/"))
# An HTTP header names its scheme first; some schemes take several named values.
_HEADER = "authorization"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9\-]*+")
_PARAMETER = rf"""[\w\-]++=(?:\\*"[^"`]*+"?|(?:{_WORD}|[;&])*+)"""
_CREDENTIALS = re.compile(rf"[ \t]++(?:{_PARAMETER}(?:,[ \t]*+{_PARAMETER})*+|{_WORD})")
# A column may be named like a secret; in a schema its type follows.
_TYPE = re.compile(
    r"(?:string|binary|boolean|tinyint|smallint|int|bigint|float|double|date|timestamp(?:_ntz)?|"
    r"void|variant)(?=[,>)\s]|$)|(?:struct|array|map)<|(?:decimal|char|varchar)\("
)
# A path may be named like a secret; a message about it follows: `/lake/tokens: permission denied`.
_PATH_MESSAGE = re.compile(r": +[A-Za-z]+ [A-Za-z]")
_AFTER = re.compile(r"""(?:[\s):,.;][^"'{}\[\]\\]*)?""")
_WORDS = frozenset({"null", "true", "false", "…"})
# A topic may be named like a secret; its partitions and their offsets follow.
_OFFSETS = re.compile(r"""\{(?:\s*\\*"\d+\\*"\s*:\s*-?\d+\s*,?)*+\s*\}""")
_LETTER = re.compile(r"[\w.\-]")


def remove(text: str) -> str:
    """Return a text without the values that follow secret names."""
    return "".join(_replace(text))


def _replace(text: str) -> Iterator[str]:
    copied = searched = 0
    for name in names.PATTERN.finditer(text):
        start, end = name.span()
        if start < searched:
            continue
        while start > searched and _LETTER.match(text, start - 1):
            start -= 1
        while _LETTER.match(text, end):
            end += 1
        searched = end
        separator = _find_separator(text, start, end)
        if separator is None or not names.is_secret(text[start:end]):
            continue
        in_path = separator[0] == "=" and text[start - 1 : start] == "/"
        word = _FOLDER if in_path else _BARE
        stop, quote = _find_value_end(text, separator, word)
        if stop == separator.end():
            continue
        yield text[copied : separator.end()]
        yield f"{quote}{REDACTED}{quote}"
        copied = searched = stop
    yield text[copied:]


def _find_separator(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return what separates a name from its value, or None if no value follows."""
    if text[start - 1 : start] == "/" and _PATH_MESSAGE.match(text, end):
        return None
    separator = _SEPARATOR.match(text, end)
    if separator is None and text[start] == "-":
        separator = _OPTION.match(text, end)
    if separator is None and _CALL.search(text, max(0, start - 10), start):
        separator = _ARGUMENT.match(text, end)
    if separator is None and _PASSWORD.search(text, start, end):
        separator = _SQL_SEPARATOR.match(text, end)
    return separator


def _find_value_end(text: str, separator: re.Match[str], word: re.Pattern[str]) -> tuple[int, str]:
    """Return where the value of a name ends, and the quotes for its replacement.

    The end is the start of the value if there is nothing to replace.
    """
    at = separator.end()
    opened = _QUOTE.match(text, at)
    if opened:
        stop = _find_text_end(text, opened)
        is_done = text[opened.end() : stop] in (opened[0], REDACTED + opened[0])
        return (at if is_done else stop), opened[0]
    if text[at : at + 1] in ("{", "[") or _TUPLE.match(text, at):
        stop = _find_nested_end(text, at)
        return (at if _OFFSETS.fullmatch(text, at, stop) else stop), separator["quote"]
    bare = word.match(text, at)
    if not separator["quote"] and ":" in separator[0] and _TYPE.match(text, at):
        return at, ""
    if bare is None or bare[0] in _WORDS or bare[0] == REDACTED:
        return at, ""
    return _find_credentials_end(text, separator, bare), separator["quote"]


def _find_credentials_end(text: str, separator: re.Match[str], bare: re.Match[str]) -> int:
    """Return where a bare value ends; in an HTTP header the first word is only the scheme."""
    name = text[max(0, separator.start() - len(_HEADER)) : separator.start()]
    if name.lower() == _HEADER and _SCHEME.fullmatch(bare[0]):
        credentials = _CREDENTIALS.match(text, bare.end())
        return credentials.end() if credentials else bare.end()
    return bare.end()


def _find_text_end(text: str, opened: re.Match[str]) -> int:
    """Return the end of a quoted string, which may be nested in another string, or cut.

    A quote closes the string that a quote with as many backslashes opened. A quote with more is
    part of the string; a quote with fewer closes the outer string.
    """
    depth, closing = len(opened[1]), opened[2]
    for quote in _QUOTE.finditer(text, opened.end()):
        if quote[2] != closing:
            continue
        if len(quote[1]) < depth:
            return quote.start()
        if len(quote[1]) % (2 * depth + 2) == depth:
            return quote.end()
    return _find_cut_end(text, opened.end())


def _find_nested_end(text: str, at: int) -> int:
    """Return the end of an object, a list or a tuple, which may be cut."""
    depth, position = 0, at
    pattern = _TUPLE_MARK if text[at] == "(" else _MARK
    while mark := pattern.search(text, position):
        position = mark.end()
        if mark[2]:
            position = _find_text_end(text, mark)
            continue
        depth += 1 if mark[0] in "{[(" else -1
        if depth == 0:
            return position
    return _find_cut_end(text, at)


def _find_cut_end(text: str, at: int) -> int:
    """Return where an unclosed value ends: with the text, or at the backtick around it.

    The value may contain backticks itself. So a backtick ends the value only if it closes one
    before the value and if words follow it.
    """
    last = text.rfind("`", at)
    around = text.count("`", 0, at) % 2 and last >= 0 and _AFTER.fullmatch(text, last + 1)
    return last if around else len(text)
