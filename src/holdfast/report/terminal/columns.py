"""How many columns of a terminal a text takes, and texts filled up to as many.

A letter of East Asia or a face takes two, and a mark that is put on the letter before it none. A
byte of a file name that is no UTF-8 is written as an escape.
"""

import unicodedata

_WIDE = frozenset({"W", "F"})
_NONE = frozenset({"Mn", "Me", "Cf"})
_ESCAPE = len(r"\udc80")


def measure(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(_measure_letter(letter) for letter in text)


def align_left(text: str, columns: int) -> str:
    """The text at the left of so many columns."""
    return text + " " * (columns - measure(text))


def align_right(text: str, columns: int) -> str:
    """The text at the right of so many columns."""
    return " " * (columns - measure(text)) + text


def _measure_letter(letter: str) -> int:
    category = unicodedata.category(letter)
    if category == "Cs":
        return _ESCAPE
    if category in _NONE:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
