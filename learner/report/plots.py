"""The report's three plots as SVG inside a page: intervals, eigenvalues against noise, correlations.

Each has a title and a description for those who do not see it; the page has its numbers in a table too. Colours come from
the page's style sheet, so that a plot is legible in the light, in the dark and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.arrays import Floats
from learner.report.axis import Axis
from learner.report.markup import element, joined, short

WIDTH = 760.0
_LETTER = 7.6
_NARROWEST_LABEL = 60.0
RIGHT = WIDTH - 24
_LINE = 24.0
_FOOT = 46.0
_LONGEST_LABEL = 32
_CELL = 42.0
_SMALLEST_CELL = 20.0
_VALUES_FIT = 38.0
_STRONGEST = 0.6


@dataclass(frozen=True)
class Interval:
    """A line of an interval plot; lower <= estimate <= upper, of which the ends may be infinite."""

    label: str
    estimate: float
    lower: float
    upper: float

    @property
    def clear(self) -> bool:
        """Tells whether zero lies outside, which is a test."""
        return self.lower > 0 or self.upper < 0


def forest(name: str, title: str, description: str, lines: Sequence[Interval], axis_label: str) -> Markup:
    """Estimates with intervals, one below the other, about a line at zero; hollow unless `Interval.clear`.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        description: the same in more words.
        lines: at least one.
        axis_label: what the numbers are, and their unit.
    """
    ends = [end for line in lines for end in (line.lower, line.estimate, line.upper) if math.isfinite(end)]
    left = _room(line.label for line in lines)
    axis = Axis.covering([0.0, *ends], left, RIGHT)
    bottom = 8 + _LINE * len(lines)
    zero = axis.at(0.0)
    parts = [
        *grid(axis, 4, bottom),
        element("line", x1=zero, x2=zero, y1=4, y2=bottom, class_="zero"),
        element("text", axis_label, x=(left + RIGHT) / 2, y=bottom + 38, class_="axis middle"),
    ]
    for place, line in enumerate(lines):
        y = 8 + _LINE * (place + 0.5)
        kind = "clear" if line.clear else "open"
        parts += [
            element("text", cut(line.label), x=left - 12, y=y + 4, class_="label end"),
            element("line", x1=axis.at(line.lower), x2=axis.at(line.upper), y1=y, y2=y, class_=f"interval {kind}"),
            element("circle", cx=axis.at(line.estimate), cy=y, r=4.5, class_=f"point {kind}"),
        ]
    return picture(name, title, description, bottom + _FOOT, parts)


def scree(name: str, title: str, description: str, values: Floats, noise: tuple[float, float], unit: str) -> Markup:
    """Eigenvalues from the largest to the smallest, and the band in which noise alone would put them.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        description: the same in more words.
        values: (d,) descending, d >= 1.
        noise: lower and upper end of the band.
        unit: of the eigenvalues.
    """
    top, bottom, left = 26.0, 286.0, 84.0
    low, high = noise
    log = min(*values.tolist(), high) > 0
    axis = Axis.covering([*values.tolist(), high if log and low <= 0 else low, high], bottom, top, log=log)
    band = element(
        "rect", x=left, width=RIGHT - left, y=axis.at(high), height=axis.at(low) - axis.at(high), class_="noise"
    )
    limit = axis.at(high)
    step = (RIGHT - left) / len(values)
    noise_alone = f"noise alone, up to {short(high)}"
    legend = RIGHT - _LETTER * len(noise_alone)
    every = max(1, -(-len(values) // 20))
    parts = [
        *rungs(axis, left),
        band,
        element("line", x1=left, x2=RIGHT, y1=limit, y2=limit, class_="limit"),
        element("line", x1=legend - 44, x2=legend - 8, y1=10, y2=10, class_="limit"),
        element("text", noise_alone, x=legend, y=14, class_="axis"),
        element("text", unit, x=left, y=14, class_="axis"),
        element("text", "direction of the features", x=(left + RIGHT) / 2, y=bottom + 40, class_="axis middle"),
    ]
    for place, value in enumerate(values):
        x, y = left + step * (place + 0.5), axis.at(float(value))
        if place % every == 0:
            parts.append(element("text", str(place + 1), x=x, y=bottom + 18, class_="tick middle"))
        parts += [
            element("line", x1=x, x2=x, y1=axis.at(low) if axis.log else axis.at(0.0), y2=y, class_="stem"),
            element("circle", cx=x, cy=y, r=4.5, class_="point clear" if value > high else "point open"),
        ]
    return picture(name, title, description, bottom + 48, parts)


def heat_map(name: str, title: str, description: str, labels: Sequence[str], values: Floats) -> Markup:
    """A symmetric matrix of numbers in [-1, 1] as coloured cells, with the numbers where they fit.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        description: the same in more words.
        labels: (p,).
        values: (p, p).
    """
    left = _room(f"{label}  {row}" for row, label in enumerate(labels, 10))
    cell = min(_CELL, max(_SMALLEST_CELL, (RIGHT - left) / len(labels)))
    parts: list[Markup] = []
    for row, label in enumerate(labels):
        y = 24 + cell * row
        parts += [
            element("text", f"{cut(label)}  {row + 1}", x=left - 8, y=y + cell / 2 + 4, class_="label end"),
            element("text", str(row + 1), x=left + cell * (row + 0.5), y=17, class_="tick middle"),
        ]
        parts += [_square(float(value), left + cell * column, y, cell) for column, value in enumerate(values[row])]
    return picture(name, title, description, 32 + cell * len(labels), parts)


def _square(value: float, x: float, y: float, cell: float) -> Markup:
    kind = "positive" if value >= 0 else "negative"
    size = cell - 2
    square = element(
        "rect", x=x + 1, y=y + 1, width=size, height=size, rx=2, class_=kind, fill_opacity=_STRONGEST * abs(value)
    )
    if cell < _VALUES_FIT:
        return square
    shown = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
    return joined((square, element("text", shown, x=x + cell / 2, y=y + cell / 2 + 4, class_="value middle")))


def grid(axis: Axis, top: float, bottom: float) -> list[Markup]:
    """Lines and numbers of a horizontal axis."""
    marks = []
    for tick in axis.ticks:
        x = axis.at(tick)
        marks += [
            element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"),
            element("text", short(tick), x=x, y=bottom + 18, class_="tick middle"),
        ]
    return marks


def rungs(axis: Axis, left: float) -> list[Markup]:
    """Lines and numbers of a vertical axis."""
    marks = []
    for tick in axis.ticks:
        y = axis.at(tick)
        marks += [
            element("line", x1=left, x2=RIGHT, y1=y, y2=y, class_="grid"),
            element("text", short(tick), x=left - 10, y=y + 4, class_="tick end"),
        ]
    return marks


def _room(labels: Iterable[str]) -> float:
    return max(_NARROWEST_LABEL, *(_LETTER * len(cut(label)) for label in labels)) + 16


def cut(label: str, longest: int = _LONGEST_LABEL) -> str:
    """A label that has room in a plot."""
    return label if len(label) <= longest else f"{label[: longest - 1]}…"


def picture(name: str, title: str, description: str, height: float, parts: Sequence[Markup]) -> Markup:
    """A plot of some height, with a title and a description for those who do not see it."""
    words = (
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-description"),
    )
    return element(
        "svg",
        *words,
        *parts,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-description",
    )
