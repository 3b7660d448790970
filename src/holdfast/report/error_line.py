"""The text of an error that ended a run -> the one line of it that says what went wrong.

Spark tells a stack trace of Java. Where Python code has failed, one of Python is inside of it, and
its last line is the reason, with Java's own frames behind it:

    py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most
      File "job.py", line 7, in write                                        recent call last):
        connect()
    ValueError: cannot connect
    <an empty line>
        at py4j.Protocol.getReturnValue(Protocol.java:476)

Of several tracebacks the last one is the cause of the others, or what came of them.
"""

import re

from holdfast.report import redact

_TRACEBACK = "Traceback (most recent call last):"
_NAMED = re.compile(r"[\w.<>]+(?::|$)")
_MARGIN = " |+-"
_LONGEST = 300
_KEPT_LINES, _KEPT_LETTERS = 20, 4000


def extract(error: str) -> str:
    """The line, without secrets; the first one where there is no traceback of Python."""
    lines = error.splitlines()
    told = _find_python_line(lines) or next((one.strip() for one in lines if one.strip()), "")
    # A secret that is cut cannot always be told from other text.
    shown = redact.for_display(told)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def shorten(error: str) -> str:
    """The first lines of a long error, and the one that says what went wrong if it is later.

    Without secrets: it is stored.
    """
    # Before it is cut: half of a secret cannot always be told from other text.
    error = redact.text(error)
    kept = "\n".join(error.splitlines()[:_KEPT_LINES])[:_KEPT_LETTERS]
    told = extract(error)
    return kept if extract(kept) == told else f"{kept}\n…\n{_TRACEBACK}\n{told}"


def _find_python_line(lines: list[str]) -> str:
    """What stands behind the frames of the last traceback, which are indented."""
    begun = max((at for at, one in enumerate(lines) if _TRACEBACK in one), default=None)
    if begun is None:
        return ""
    # Those of a group of exceptions have a margin.
    before = lines[begun].partition(_TRACEBACK)[0]
    margin = 0 if before.strip(_MARGIN) else len(before)
    rest = [one[margin:].rstrip() for one in lines[begun + 1 :]]
    rest = [one for one in rest if one]
    at = next((at for at, one in enumerate(rest) if not one[0].isspace()), None)
    if at is None or not _NAMED.match(rest[at]):
        return ""
    following = rest[at + 1].strip() if at + 1 < len(rest) else ""
    if following.startswith(": "):
        return following[2:]  # Py4J says first that there was an error, and then which
    return f"{rest[at]} {following}" if rest[at].endswith(":") else rest[at]
