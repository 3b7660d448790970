"""The text of an error that ended a run -> the one line that says what went wrong.

Spark reports a Java stack trace. If Python code failed, the trace contains a Python traceback. The
last line of the traceback is the reason; more Java frames follow it:

    py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most
      File "job.py", line 7, in write                                        recent call last):
        connect()
    ValueError: cannot connect
    <an empty line>
        at py4j.Protocol.getReturnValue(Protocol.java:476)

If there are several tracebacks, the last one is the cause of the others, or their result.
"""

import re

from holdfast.report import redact

_TRACEBACK = "Traceback (most recent call last):"
_NAMED = re.compile(r"[\w.<>]+(?::|$)")
_MARGIN = " |+-"
_LONGEST = 300
_KEPT_LINES, _KEPT_LETTERS = 20, 4000


def extract(error: str) -> str:
    """Return the line, without secrets: the first one, if there is no Python traceback."""
    lines = error.splitlines()
    line = _find_python_line(lines) or next((line.strip() for line in lines if line.strip()), "")
    # Redacted before it is cut: half a secret may look like any other text.
    clean = redact.for_display(line)
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}…"


def shorten(error: str) -> str:
    """Return the first lines of a long error, and the line that matters if it comes later.

    The result has no secrets, because it is stored.
    """
    # Redacted before it is cut: half a secret may look like any other text.
    error = redact.text(error)
    kept = "\n".join(error.splitlines()[:_KEPT_LINES])[:_KEPT_LETTERS]
    line = extract(error)
    return kept if extract(kept) == line else f"{kept}\n…\n{_TRACEBACK}\n{line}"


def _find_python_line(lines: list[str]) -> str:
    """Return the line after the frames of the last traceback, which are indented."""
    start = max((at for at, line in enumerate(lines) if _TRACEBACK in line), default=None)
    if start is None:
        return ""
    # The lines of an exception group have a margin.
    before = lines[start].partition(_TRACEBACK)[0]
    margin = 0 if before.strip(_MARGIN) else len(before)
    rest = [line[margin:].rstrip() for line in lines[start + 1 :]]
    rest = [line for line in rest if line]
    at = next((at for at, line in enumerate(rest) if not line[0].isspace()), None)
    if at is None or not _NAMED.match(rest[at]):
        return ""
    following = rest[at + 1].strip() if at + 1 < len(rest) else ""
    if following.startswith(": "):
        return following[2:]  # Py4J first says that there was an error, then which error
    return f"{rest[at]} {following}" if rest[at].endswith(":") else rest[at]
