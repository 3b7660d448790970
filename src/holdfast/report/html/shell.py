"""The shell of an HTML page, and the parts that every page is built from.

A page is one file that needs nothing else: its style is inside, and it has no script. Every text
goes through `escape` or `mark_code`, which take out secrets.
"""

import html
import re
from collections.abc import Iterable

from holdfast.report import redact
from holdfast.report.html import style

_CODE = re.compile("`([^`]+)`")


def render(title: str, body: str) -> str:
    """Return a whole page; both arguments are HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style.PAGE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def render_section(title: str, body: str) -> str:
    """Return a section; both arguments are HTML."""
    return f"<section><h2>{title}</h2>{body}</section>"


def add_title(title: str, body: str) -> str:
    """Return a part of a section with its title, or nothing if the part is empty."""
    return f"<h3>{title}</h3>{body}" if body else ""


def render_list(texts: Iterable[str]) -> str:
    """Return a list of plain texts."""
    return f'<ul class="files">{"".join(f"<li>{mark_code(text)}</li>" for text in texts)}</ul>'


def render_note(note: str) -> str:
    """Return a plain text in small print, or nothing if it is empty."""
    return f"<small>{mark_code(note)}</small>" if note else ""


def mark_code(text: str) -> str:
    """Return a plain text as HTML; the parts in backticks become code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def escape(text: str) -> str:
    """Return a plain text as HTML, without secrets."""
    return html.escape(redact.for_display(text))
