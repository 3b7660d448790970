"""How wide a text is on a terminal."""

import pytest

from holdfast.report.terminal import columns, lines, table


@pytest.mark.parametrize(
    ("shown", "width"),
    [
        ("abc", 3),
        ("uni-ü漢🙂", 9),
        ("u\u0308", 1),
        ("a\u200db", 2),
        ("\uff46", 2),
        ("a\udcff", 7),
        ("", 0),
    ],
)
def test_the_columns_of_a_text(shown: str, width: int) -> None:
    assert columns.measure(shown) == width
    assert columns.align_left(shown, 10) == shown + " " * (10 - width)
    assert columns.align_right(shown, 10) == " " * (10 - width) + shown


def test_a_table_with_wide_letters_is_aligned() -> None:
    shown = lines.strip_styles(
        table.to_lines(["key", "count"], [["漢字", "1"], ["ab", "2"], ["e\u0301", "3"]])
    )
    assert shown.splitlines() == ["key   count", "漢字  1", "ab    2", "e\u0301     3"]
