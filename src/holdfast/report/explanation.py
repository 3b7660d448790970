"""Explanations -> text for one code, and the reference page of all codes."""

from collections.abc import Iterator

from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.report.terminal.lines import Line, Part, Style

_CAUSES, _SPARK, _CURES = "How it happens", "What Spark does", "How to fix it"


def to_lines(code: Code, explanation: Explanation) -> Iterator[Line]:
    """Yield the explanation of one code, for people."""
    yield (Part(code.value, Style.HEAD),)
    yield (Part(explanation.meaning),)
    yield ()
    yield (Part(f"{_CAUSES}  ", Style.HEAD), Part(explanation.causes))
    yield (Part(_SPARK, Style.HEAD),)
    for versions, behaviour in explanation.spark:
        yield (Part(f"  {versions}: ", Style.DIM), Part(behaviour))
    yield (Part(f"{_CURES}  ", Style.HEAD), Part(explanation.cures))


def to_markdown(code: Code, explanation: Explanation) -> Iterator[str]:
    """Yield the explanation of one code, in Markdown."""
    yield f"## {code.value}"
    yield ""
    yield explanation.meaning
    yield ""
    yield f"**{_CAUSES}.** {explanation.causes}"
    yield ""
    yield "| Spark | what it does |"
    yield "|---|---|"
    for versions, behaviour in explanation.spark:
        yield f"| {versions} | {behaviour} |"
    yield ""
    yield f"**{_CURES}.** {explanation.cures}"
    yield ""
