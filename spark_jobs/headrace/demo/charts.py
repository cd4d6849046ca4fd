"""Charts as SVG text: lines, columns and bars, drawn from plain numbers.

Pure: numbers in, text out. Colours are CSS classes `c0`, `c1`, … that the page defines for light and dark;
whatever a colour says is also said by a label, and every mark has a `<title>` with its values, which a browser
shows under the pointer and a screen reader reads. Names are escaped here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 92.0, 98.0, 12.0, 48.0
LABEL_GAP = 15.0  # least distance of two labels at the ends of lines

SMALLEST = 1e-300  # span of an axis: a fifth of it is still a normal number


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`, with labelled ticks (value, text)."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Where a value lies, 0 at `low` and 1 at `high`."""
        return (value - self.low) / ((self.high - self.low) or 1.0)


@dataclass(frozen=True, slots=True)
class Series:
    """A named line. `hints` are the points' tooltips; `step` holds a value until the next point."""

    name: str
    points: tuple[tuple[float, float], ...]
    hints: tuple[str, ...]
    colour: int
    dashed: bool = False
    step: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled value with its text; `note` goes into the tooltip."""

    label: str
    value: float
    text: str
    note: str = ""


def number_axis(label: str, values: Sequence[float]) -> Axis:
    """An axis that holds 0 and all values, with about five round ticks."""
    low, high = min([*values, 0.0]), max([*values, 0.0])
    step = _round_step(max((high - low) or 1.0, SMALLEST))
    first = math.ceil(low / step)
    last = max(_steps_to(high, step), first + 1)
    ticks = tuple((index * step, f"{index * step:,g}") for index in range(first, last + 1))
    fine = step / 5
    under = -_steps_to(-low, fine) * fine
    return Axis(label, min(first * step, under), last * step, ticks)


def _steps_to(value: float, step: float) -> int:
    """The fewest steps from 0 that reach the value."""
    count = math.ceil(value / step)
    return count + (count * step < value)  # a denormal's quotient may be no number but 0


def lines(series: Sequence[Series], x: Axis, y: Axis, summary: str) -> str:
    """Lines over one another, each labelled at its end."""
    marks = [_line(one, x, y) for one in series if one.points]
    return _svg([*_frame(x, y), *marks, *_end_labels(series, y)], summary)


def columns(
    values: Sequence[tuple[float, float, str]], x: Axis, y: Axis, summary: str, *, mark: str = ""
) -> str:
    """Upright columns at (x, height, tooltip); the highest is labelled with `mark`."""
    if not values:
        return _svg(_frame(x, y), summary)
    width = max(1.0, (WIDTH - LEFT - RIGHT) / max(1.0, x.high - x.low) * 0.85)
    drawn = []
    for at, value, hint in values:
        top, left = _y(y, value), _x(x, at) - width / 2
        size = f'width="{width:.1f}" height="{max(0.0, _y(y, 0) - top):.1f}"'
        drawn.append(
            f'<rect class="f0" x="{left:.1f}" y="{top:.1f}" {size}><title>{escape(hint)}</title></rect>'
        )
    at, value, _ = max(values, key=lambda point: point[1])
    if mark:
        drawn.append(_text(_x(x, at) + 8, _y(y, value) + 10, mark, "start strong"))
    return _svg([*_frame(x, y), *drawn], summary)


def bars(
    rows: Sequence[Bar], summary: str, *, colour: int = 0, width: float = WIDTH, names: float = 190.0
) -> str:
    """Lying bars with their names on the left and their texts at the end; `names` is the room for names."""
    pitch, thick = 24.0, 15.0
    height = pitch * len(rows) + 6
    least, most = min([0.0, *(row.value for row in rows)]), max([1e-9, *(row.value for row in rows)])
    scale = (width - names - 66) / (most - least)
    origin = names - least * scale
    drawn = []
    for index, row in enumerate(rows):
        top = 4 + index * pitch
        begin, end = sorted((origin, origin + row.value * scale))
        hint = escape(f"{row.label}: {row.text}{', ' + row.note if row.note else ''}")
        drawn += [
            _text(names - 8, top + thick - 3, row.label, "end tick"),
            f'<rect class="f{colour}" x="{begin:.1f}" y="{top:.1f}" width="{max(1.0, end - begin):.1f}" '
            f'height="{thick}" rx="2"><title>{hint}</title></rect>',
            _text(end + 6, top + thick - 3, row.text, "start strong"),
        ]
    return _svg(drawn, summary, width, height)


# ---- parts -------------------------------------------------------------------------------------
def _svg(parts: Sequence[str], summary: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(summary)}">'
    return "\n".join([head, *parts, "</svg>"])


def _frame(x: Axis, y: Axis) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = []
    for value, text in y.ticks:
        at = _y(y, value)
        parts.append(
            f'<line class="grid-line" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(_text(LEFT - 8, at + 4, text, "end tick"))
    for value, text in x.ticks:
        at = _x(x, value)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:g}" y2="{bottom + 5:g}"/>')
        parts.append(_text(at, bottom + 18, text, "middle tick"))
    parts.append(f'<line class="axis" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{bottom:g}" y2="{bottom:g}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x.label, "middle label"))
    middle = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 12 {middle:g})"'
    return [*parts, _text(12, middle, y.label, "middle label", turned)]


def _line(series: Series, x: Axis, y: Axis) -> str:
    dots, path, before = [], [], None
    for (at, value), hint in zip(series.points, series.hints, strict=True):
        left, top = _x(x, at), _y(y, value)
        if before is None:
            path.append(f"M{left:.1f} {top:.1f}")
        else:
            path.append(f"H{left:.1f}V{top:.1f}" if series.step else f"L{left:.1f} {top:.1f}")
        before = top
        title = f"<title>{escape(series.name)}: {escape(hint)}</title>"
        dots.append(f'<circle class="f{series.colour}" cx="{left:.1f}" cy="{top:.1f}" r="3">{title}</circle>')
    dash = ' stroke-dasharray="6 4"' if series.dashed else ""
    return f'<path class="c{series.colour}"{dash} d="{"".join(path)}"/>' + "".join(dots)


def _end_labels(series: Sequence[Series], y: Axis) -> list[str]:
    """Each line's name on the right, as high as its last point, moved apart where two would touch."""
    ends = sorted(((_y(y, one.points[-1][1]), one) for one in series if one.points), key=lambda end: end[0])
    tops: list[float] = []
    for top, _ in ends:
        tops.append(max(top, tops[-1] + LABEL_GAP) if tops else top)
    over = max(0.0, tops[-1] - (HEIGHT - BOTTOM)) if tops else 0.0
    return [
        _text(WIDTH - RIGHT + 10, top - over + 4, one.name, f"start t{one.colour}")
        for top, (_, one) in zip(tops, ends, strict=True)
    ]


def _text(x: float, y: float, text: str, style: str, extra: str = "") -> str:
    """`style` is a list of the page's classes: one of start, middle and end, and what kind of text it is."""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" {extra}>{escape(text)}</text>'


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _round_step(span: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that cuts the span into four to seven parts or so."""
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
