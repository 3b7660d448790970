"""Explanations -> text for one code, and the reference page of all."""

from collections.abc import Iterator

from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.report.terminal.text import Line, Part, Style


def to_lines(code: Code, shown: Explanation) -> Iterator[Line]:
    """One code, for people."""
    yield (Part(code.value, Style.HEAD),)
    yield (Part(shown.meaning),)
    yield ()
    yield (Part("How it comes about  ", Style.HEAD), Part(shown.causes))
    yield (Part("What Spark does", Style.HEAD),)
    for versions, does in shown.spark:
        yield (Part(f"  {versions}: ", Style.DIM), Part(does))
    yield (Part("What cures it  ", Style.HEAD), Part(shown.cures))


def to_markdown(code: Code, shown: Explanation) -> Iterator[str]:
    """One code, in Markdown."""
    yield f"## {code.value}"
    yield ""
    yield shown.meaning
    yield ""
    yield f"**How it comes about.** {shown.causes}"
    yield ""
    yield "| Spark | does |"
    yield "|---|---|"
    for versions, does in shown.spark:
        yield f"| {versions} | {does} |"
    yield ""
    yield f"**What cures it.** {shown.cures}"
    yield ""
