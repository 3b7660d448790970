"""How many columns of a terminal a text takes, and texts padded to a number of columns.

An East Asian letter or an emoji takes two columns, a combining mark takes none. A byte of a file
name that is not UTF-8 is printed as an escape.
"""

import unicodedata

_WIDE = frozenset({"W", "F"})
_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_ESCAPE = len(r"\udc80")


def measure(text: str) -> int:
    """Return the number of columns that a text takes."""
    return len(text) if text.isascii() else sum(_measure_letter(letter) for letter in text)


def align_left(text: str, columns: int) -> str:
    """Return the text, padded on the right to this many columns."""
    return text + " " * (columns - measure(text))


def align_right(text: str, columns: int) -> str:
    """Return the text, padded on the left to this many columns."""
    return " " * (columns - measure(text)) + text


def _measure_letter(letter: str) -> int:
    category = unicodedata.category(letter)
    if category == "Cs":
        return _ESCAPE
    if category in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
