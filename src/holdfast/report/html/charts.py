"""Numbers -> SVG inside a page: no script, colours from the style sheet of the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 150
_COLOURS = 12
_LEFT, _TOP, _BOTTOM = 64, 14, 22
_LABELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    """One bar: its height, the label below it, its tooltip and its CSS class."""

    value: float
    label: str
    title: str
    style: str = "bar"


def draw_bars(bars: Sequence[ChartBar], highest: str, about: str) -> str:
    """Draw bars side by side; `highest` is the label of the tallest."""
    if not bars:
        return ""
    top = max(bar.value for bar in bars) or 1
    plot = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT) / len(bars)
    width = max(1.0, min(step * 0.78, 46))
    parts = [*_draw_frame(highest, about)]
    every = max(1, -(-len(bars) // (_LABELS * 2)))
    for index, bar in enumerate(bars):
        height = max(1.5, plot * bar.value / top) if bar.value else 0
        x = _LEFT + index * step + (step - width) / 2
        y = _HEIGHT - _BOTTOM - height
        parts.append(
            f'<rect class="{bar.style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
            f' height="{height:.1f}" rx="2"><title>{escape(bar.title)}</title></rect>'
        )
        if index % every == 0:
            parts.append(
                f'<text class="tick" x="{x + width / 2:.1f}" y="{_HEIGHT - 6}"'
                f' text-anchor="middle">{escape(bar.label)}</text>'
            )
    return "".join([*parts, "</svg>"])


def _draw_frame(highest: str, about: str) -> Iterator[str]:
    """Draw the start of a chart: the axis, the grid line at the top, and their labels."""
    bottom, left = _HEIGHT - _BOTTOM, _LEFT - 8
    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(about)}">'
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH}" y2="{bottom}"/>'
    yield f'<line class="grid" x1="{_LEFT}" y1="{_TOP}" x2="{_WIDTH}" y2="{_TOP}"/>'
    yield f'<text class="tick" x="{left}" y="{_TOP + 4}" text-anchor="end">{escape(highest)}</text>'
    yield f'<text class="tick" x="{left}" y="{bottom}" text-anchor="end">0</text>'


def draw_shares(bars: Sequence[ChartBar], about: str) -> str:
    """Draw one band that is divided into the shares of a whole, with a legend below."""
    total = sum(bar.value for bar in bars)
    if not total:
        return ""
    frame = f'<svg class="band" viewBox="0 0 {_WIDTH} 18" role="img" aria-label="{escape(about)}">'
    parts = [frame]
    x = 0.0
    for index, bar in enumerate(bars):
        width = _WIDTH * bar.value / total
        parts.append(
            f'<rect class="share s{index % _COLOURS}" x="{x:.2f}" y="0"'
            f' width="{max(width - 1, 0.5):.2f}"'
            f' height="18"><title>{escape(bar.title)}</title></rect>'
        )
        x += width
    legend = "".join(
        f'<li><span class="dot s{index % _COLOURS}"></span>{escape(bar.label)}</li>'
        for index, bar in enumerate(bars)
    )
    return "".join([*parts, f'</svg><ul class="legend">{legend}</ul>'])
