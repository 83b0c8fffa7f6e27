"""Plots of a page as SVG: numbers with intervals on an axis, curves with bands, and a matrix of correlations.

Each has a title and a description for those who do not see it; the page has its numbers in a table too. Colours come from
the page's style sheet, so that a plot is legible in the light, in the dark and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup

from dprelease.arrays import Floats
from dprelease.document.html import environment

WIDTH = 600.0
RIGHT = WIDTH - 24
_LETTER, _WIDE = 9.5, 13.5  # on small screens, where letters are larger
_LONGEST_LABEL = 24
_LONGEST_UNIT = 54
_LONGEST_BELOW = int(WIDTH / _WIDE)
_LINE = 24.0
_FOOT = 46.0
_LEFT = 64.0
_SAMPLE = 30.0
_COLOURS, _DASHES = 4, 5
_STEPS = (1.0, 2.0, 5.0, 10.0)
_MARKS = 6
_ARROW = 6.0
_FURTHEST = 50.0  # by which an axis of ratios goes beyond them, and beyond 1
_FEW_DECADES = 2
_NARROW = 1.6
_CELL = 42.0
_SMALLEST_CELL = 20.0
_VALUES_FIT = 32.0
_STRONGEST = 0.5  # numbers on the cells stay legible in the dark
_TEMPLATE = environment("dprelease.document").get_template("chart.svg")


@dataclass(frozen=True)
class Axis:
    """A straight or logarithmic scale.

    Attributes:
        ticks: round numbers from one end to the other.
        near: place of the first tick, in the picture's units.
        far: place of the last tick.
        log: whether equal ratios are equally long.
    """

    ticks: tuple[float, ...]
    near: float
    far: float
    log: bool

    @classmethod
    def covering(cls, values: Iterable[float], near: float, far: float, *, log: bool = False) -> Axis:
        """An axis on which all of some numbers have room, if they are finite; positive ones if it is logarithmic."""
        found = [value for value in values if math.isfinite(value)]
        low, high = min(found), max(found)
        return cls(_decades(low, high) if log else _round(low, high), near, far, log)

    def at(self, value: float) -> float:
        """Place of a number; one beyond the ends stands at the end."""
        first, last, here = (self._along(each) for each in (self.ticks[0], self.ticks[-1], value))
        return self.near + (self.far - self.near) * min(max((here - first) / (last - first), 0.0), 1.0)

    def _along(self, value: float) -> float:
        if not self.log:
            return value
        return math.log(value) if value > 0 else -math.inf


def _round(low: float, high: float) -> tuple[float, ...]:
    if not low < high:
        low, high = low - (abs(low) or 1.0), high + (abs(high) or 1.0)
    rough = (high - low) / _MARKS
    decade = 10.0 ** math.floor(math.log10(rough))
    step = decade * next(each for each in _STEPS if each * decade >= rough * (1 - 1e-9))
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(number * step for number in range(first, last + 1))


def _decades(low: float, high: float) -> tuple[float, ...]:
    if low * (1 + 1e-9) < high < _NARROW * low:  # so the first tick is positive
        return _round(low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    first, last = first - (10.0**first > low), max(last + (10.0**last < high), first + 1)  # logarithms are rounded
    if last - first <= _FEW_DECADES:
        marks = (*(10.0**power * step for power in range(first, last) for step in _STEPS[:3]), 10.0**last)
        start = max(mark for mark in marks[:-1] if mark <= low)
        end = min(mark for mark in marks if mark > start and mark >= high)
        return tuple(mark for mark in marks if start <= mark <= end)
    every = -(-(last - first) // _MARKS)
    return tuple(10.0**power for power in range(first, last + every, every))


@dataclass(frozen=True)
class Mark:
    """A number with an interval, whose ends may be infinite; a number that is not known is NaN.

    Attributes:
        label: name of its place.
        value: the number.
        lower: end of the interval.
        upper: the other end.
        clear: whether the mark is filled; others are hollow.
    """

    label: str
    value: float
    lower: float
    upper: float
    clear: bool = False

    @classmethod
    def tested(cls, label: str, value: float, lower: float, upper: float, null: float = 0.0) -> Mark:
        """A mark that is filled if the null value lies outside of the interval, which is a test."""
        return cls(label, value, lower, upper, lower > null or upper < null)

    @property
    def ends(self) -> tuple[float, float, float]:
        """All three numbers."""
        return self.lower, self.value, self.upper


@dataclass(frozen=True)
class Curve:
    """A curve with a band.

    Attributes:
        label: beside it in the legend.
        places: (t,) from left to right.
        ends: (3, t) lower end, curve and upper end.
    """

    label: str
    places: Floats
    ends: Floats


@dataclass(frozen=True)
class CoefficientPath:
    """Marks beside one another, or curves.

    Attributes:
        marks: from left to right.
        title: above them.
        unit: of the numbers, above the axis.
        across: below the marks; empty for nothing.
        places: number of each mark's place on an axis; empty for marks at equal distances with their labels.
        line: (place, value) of a line through the plot, in distances of marks or in numbers of `places`.
        noise: a band, with a line at its upper end.
        zero: a straight line at zero, from which stems rise; None for none.
        log: whether the axis of the numbers is logarithmic.
        curves: in place of marks; those of all panels of a picture have one legend.
    """

    marks: Sequence[Mark] = ()
    title: str = ""
    unit: str = ""
    across: str = ""
    places: Sequence[float] = ()
    line: Sequence[tuple[float, float]] = ()
    noise: tuple[float, float] | None = None
    zero: bool = False
    log: bool = False
    curves: Sequence[Curve] = ()


@dataclass(frozen=True)
class _Drawing:
    """Shapes of a picture: tag, attributes and text of each."""

    shapes: list[tuple[str, dict[str, object], str]] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        self.shapes.append(("line", {**{key: _rounded(at) for key, at in ends.items()}, "class": kind}, ""))

    def dot(self, x: float, y: float, kind: str, radius: float = 4.5) -> None:
        self.shapes.append(("circle", {"cx": _rounded(x), "cy": _rounded(y), "r": radius, "class": kind}, ""))

    def text(self, said: str, x: float, y: float, kind: str) -> None:
        if said:
            self.shapes.append(("text", {"x": _rounded(x), "y": _rounded(y), "class": kind}, said))

    def box(self, x: float, y: float, wide: float, high: float, kind: str, opacity: float) -> None:
        size = {"x": x, "y": y, "width": wide, "height": high, "fill-opacity": opacity}
        self.shapes.append(("rect", {**{key: _rounded(at) for key, at in size.items()}, "class": kind}, ""))

    def path(self, tag: str, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A polygon or a polyline."""
        at = " ".join(f"{_rounded(x):g},{_rounded(y):g}" for x, y in points)
        self.shapes.append((tag, {"points": at, "class": kind}, ""))

    def across(self, axis: Axis, top: float, bottom: float) -> None:
        """Lines and numbers of a horizontal axis."""
        for tick in axis.ticks:
            self.line(axis.at(tick), top, axis.at(tick), bottom, "grid")
            self.text(_number(tick), axis.at(tick), bottom + 18, "tick middle")

    def upwards(self, axis: Axis, left: float, right: float) -> None:
        """Lines and numbers of a vertical axis."""
        for tick in axis.ticks:
            self.line(left, axis.at(tick), right, axis.at(tick), "grid")
            self.text(_number(tick), left - 8, axis.at(tick) + 4, "tick end")

    def svg(self, name: str, title: str, words: str, height: float) -> Markup:
        """The picture; its name distinguishes it from others of a page."""
        about = {"name": name, "title": title, "words": words, "width": f"{WIDTH:g}", "height": f"{height:g}"}
        return Markup(_TEMPLATE.render(**about, shapes=self.shapes))


def forest(
    name: str, title: str, words: str, marks: Sequence[Mark], axis_label: str, *, ratios: bool = False
) -> Markup:
    """Numbers with intervals, one below the other, about a line at zero; ratios about 1 on a logarithmic axis.

    An arrow stands where an interval goes on beyond the axis: those of ratios may be so wide that all others would be dots.
    """
    left, drawing, null = _room(mark.label for mark in marks), _Drawing(), float(ratios)
    found = [null, *(mark.value for mark in marks)]
    least, most = (min(found) / _FURTHEST, max(found) * _FURTHEST) if ratios else (-math.inf, math.inf)
    ends = [min(max(end, least), most) for mark in marks for end in mark.ends]
    axis = Axis.covering([null, *ends], left, RIGHT, log=ratios)
    bottom = 8 + _LINE * len(marks)
    drawing.across(axis, 4, bottom)
    drawing.line(axis.at(null), 4, axis.at(null), bottom, "zero")
    middle = (left + RIGHT) / 2
    if middle + _length(axis_label) / 2 > WIDTH:
        middle = WIDTH / 2
    drawing.text(_cut(axis_label, _LONGEST_BELOW), middle, bottom + 38, "axis middle")
    for place, mark in enumerate(marks):
        y, kind = 8 + _LINE * (place + 0.5), "clear" if mark.clear else "open"
        drawing.text(_cut(mark.label), left - 12, y + 4, "label end")
        drawing.line(axis.at(mark.lower), y, axis.at(mark.upper), y, f"interval {kind}")
        drawing.dot(axis.at(mark.value), y, f"point {kind}")
        for end, edge, way in ((mark.lower, axis.ticks[0], -1), (mark.upper, axis.ticks[-1], 1)):
            if (end - edge) * way > 0:
                x = axis.at(edge)
                drawing.path("polygon", ((x + _ARROW * way, y), (x, y - _ARROW), (x, y + _ARROW)), f"arrow {kind}")
    return drawing.svg(name, title, words, bottom + _FOOT)


def panels(name: str, title: str, words: str, shown: Sequence[CoefficientPath], columns: int = 1) -> Markup:
    """Plots with axes of their own, beside and below one another."""
    drawing, high = _Drawing(), 320.0 if columns == 1 else 200.0
    for place, panel in enumerate(shown):
        wide = RIGHT / columns
        left, top = wide * (place % columns), high * (place // columns)
        right = RIGHT if columns == 1 else left + wide - 12
        _panel(drawing, panel, (left + _LEFT, top + 26, right, top + high - 50))
    bottom = high * -(-len(shown) // columns)
    labels = list(dict.fromkeys(curve.label for panel in shown for curve in panel.curves))
    for place, label in enumerate(labels if any(labels) else ()):
        y, bottom = bottom + _LINE / 2, bottom + _LINE
        drawing.path("polyline", ((_LEFT, y), (_LEFT + _SAMPLE, y)), f"curve {_colour(place)}")
        drawing.text(_cut(label, _LONGEST_UNIT), _LEFT + _SAMPLE + 10, y + 4, "label")
    return drawing.svg(name, title, words, bottom)


def heat_map(name: str, title: str, words: str, labels: Sequence[str], values: Floats) -> Markup:
    """A symmetric matrix of numbers in [-1, 1] as coloured cells, with the numbers where they fit.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        words: the same in more words.
        labels: (p,).
        values: (p, p); cells of those that are not known stay empty.
    """
    numbers, least, drawing = 3 * _LETTER, _SMALLEST_CELL * len(labels), _Drawing()
    fitting = (each for each in range(_LONGEST_LABEL, 1, -1) if _room(labels, each) + numbers + least <= RIGHT)
    longest = next(fitting, 1)
    left = _room(labels, longest) + numbers
    cell = min(_CELL, max(_SMALLEST_CELL, (RIGHT - left) / len(labels)))
    for row, label in enumerate(labels):
        y = 24 + cell * row
        drawing.text(f"{_cut(label, longest)}  {row + 1}", left - 8, y + cell / 2 + 4, "label end")
        drawing.text(str(row + 1), left + cell * (row + 0.5), 17, "tick middle")
        for column, value in enumerate(values[row]):
            x, kind = left + cell * column, "positive" if value >= 0 else "negative"
            if math.isnan(value):
                continue
            drawing.box(x + 1, y + 1, cell - 2, cell - 2, kind, _STRONGEST * abs(value))
            if cell >= _VALUES_FIT:
                told = _signed(f"{value:.2f}".replace("-0.00", "0.00"))
                drawing.text(told, x + cell / 2, y + cell / 2 + 4, "value middle")
    return drawing.svg(name, title, words, 32 + cell * len(labels))


def _panel(drawing: _Drawing, panel: CoefficientPath, box: tuple[float, float, float, float]) -> None:
    left, top, right, bottom = box
    ends = [end for mark in panel.marks for end in mark.ends] + [value for _, value in panel.line]
    ends += [end for curve in panel.curves for end in curve.ends.ravel().tolist()]
    ends += [*([0.0] if panel.zero else []), *(panel.noise or ())]
    if panel.log:
        ends = [end for end in ends if end > 0]
    up = Axis.covering(ends, bottom, top, log=panel.log)
    drawing.upwards(up, left, right)
    if panel.places or panel.curves:
        ends = [place for curve in panel.curves for place in curve.places.tolist()]
        along = Axis.covering([*panel.places, *(place for place, _ in panel.line), *ends], left, right)
        drawing.across(along, top, bottom)
        x = [along.at(place) for place in panel.places]
    else:
        step = (right - left) / len(panel.marks)
        along = Axis((0.0, float(len(panel.marks))), left, right, log=False)
        x = [left + step * (place + 0.5) for place in range(len(panel.marks))]
        every = max(1, math.ceil(max(_length(mark.label) + 8 for mark in panel.marks) / step))
        for at, mark in list(zip(x, panel.marks, strict=True))[::every]:
            drawing.text(mark.label, at, bottom + 18, "tick middle")
    drawing.text(_cut(panel.unit, _LONGEST_UNIT), left, top - 12, "axis")
    drawing.text(_cut(panel.title), (left + right) / 2, top - 12, "label middle")
    drawing.text(panel.across, (left + right) / 2, bottom + 40, "axis middle")
    if panel.noise:
        low, high = map(up.at, panel.noise)
        drawing.box(left, high, right - left, low - high, "noise", 0.16)
        drawing.line(left, high, right, high, "limit")
    if panel.zero:
        drawing.line(left, up.at(0.0), right, up.at(0.0), "zero")
    for at, mark in zip(x, panel.marks, strict=True):
        if math.isfinite(mark.value):
            kind = "clear" if mark.clear else "open"
            drawing.line(at, up.at(mark.lower), at, up.at(mark.upper), f"interval {kind}")
            drawing.dot(at, up.at(mark.value), f"point {kind}", 3.5)
    for number, curve in enumerate(panel.curves):
        lower, middle, upper = (
            [(along.at(x), up.at(y)) for x, y in zip(curve.places, end, strict=True)] for end in curve.ends
        )
        drawing.path("polygon", [*upper, *lower[::-1]], f"band {_colour(number)}")
        drawing.path("polyline", middle, f"curve {_colour(number)}")
    for (place, value), (following, then) in pairwise(panel.line):
        drawing.line(along.at(place), up.at(value), along.at(following), up.at(then), "interval clear")


def _colour(place: int) -> str:
    """Classes of a curve: colours and dashes in turn, which differ in number, so that many curves differ."""
    return f"colour-{place % _COLOURS + 1} dash-{place % _DASHES + 1}"


def _rounded(place: float) -> float:
    return round(place, 2)


def _number(value: float) -> str:
    return _signed(f"{value:.4g}")


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def _room(labels: Iterable[str], longest: int = _LONGEST_LABEL) -> float:
    return max(60.0, *(_length(_cut(label, longest)) for label in labels)) + 16


def _length(label: str) -> float:
    """Room for a label, of fonts with wide letters."""
    return sum(_WIDE if each.isupper() or each in "mw%@=<>+~" or not each.isascii() else _LETTER for each in label)


def _cut(label: str, longest: int = _LONGEST_LABEL) -> str:
    """A label that has room in a plot."""
    return label if len(label) <= longest else f"{label[: longest - 1]}…"
