"""The section of a stream's report: coefficients and share of variance at its checkpoints, in small plots and as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from dprelease.document.cells import LEVEL
from dprelease.estimators import FitResult
from learner.report.axis import Axis
from learner.report.content import Report
from learner.report.markup import Cell, element, figure, joined, section, short, table
from learner.report.models import MOST_TARGETS
from learner.report.plots import RIGHT, Interval, cut, picture

MOST_PANELS = 12
"""Features that are plotted; the tables have all."""

_ACROSS, _HIGH, _GAP = 3, 176.0, 26.0
_MARGIN, _TOP, _FOOT = 64.0, 24.0, 30.0
_TICKS = 5
_PANEL_LABEL = 24


@dataclass(frozen=True)
class Panel:
    """A coefficient at checkpoints, in order.

    Attributes:
        label: the feature.
        numbers: of the checkpoints.
        lines: estimates with intervals; NaN where nothing is known.
    """

    label: str
    numbers: Sequence[int]
    lines: Sequence[Interval]


def over_time(report: Report) -> list[Markup]:
    """The section; nothing for a release that is no later checkpoint of a stream."""
    fits = report.checkpoints
    if not fits:
        return []
    released = len(report.opened.release.checkpoints())
    words = (
        f"Each checkpoint is about all patients up to it. This release has the numbers of all {released} checkpoints so far, "
        "under one guarantee, and each is fitted anew."
    )
    if len(fits) < released:
        words += f" {len(fits)} of them are shown."
    if report.fit.inference.reaches:
        words += " They are about all rows, and wider for what clipping may take: see Coefficients."
    rows = range(min(len(report.fit.targets), MOST_TARGETS))
    return [section("time", "Over time", element("p", words), *(_target(report, fits, row) for row in rows))]


def _target(report: Report, fits: Mapping[int, FitResult], row: int) -> Markup:
    name, features = report.fit.targets[row], report.fit.features
    intervals = {number: fit.inference.interval(LEVEL) for number, fit in fits.items()}
    panels = [
        Panel(
            feature,
            tuple(fits),
            [
                Interval(str(number), fit.inference.estimate[row, place], lower[row, place], upper[row, place])
                for (number, fit), (lower, upper) in zip(fits.items(), intervals.values(), strict=True)
            ],
        )
        for place, feature in enumerate(features)
    ]
    plotted = panels[:MOST_PANELS]
    title = f"Coefficients for {name} at each checkpoint"
    clear = ", ".join(each.label for each in plotted if each.lines[-1].clear) or "none"
    plot = multiples(
        f"time-{row + 1}",
        title,
        f"Estimates with {LEVEL:.0%} intervals, a panel each. Clear of zero at the last: {clear}.",
        plotted,
    )
    heads = ("checkpoint", "patients", *features, "share of variance explained")
    lines: list[list[Cell]] = [
        [
            str(number),
            f"{fit.patients:,}",
            *(_told(panel.lines[place]) for panel in panels),
            "hidden by noise" if "explained" in fit.hidden[row] else float(fit.quality.explained[row]),
        ]
        for place, (number, fit) in enumerate(fits.items())
    ]
    caption = f"{title}, {LEVEL:.0%} intervals. Hollow: zero lies within."
    return element(
        "section",
        element("h3", name),
        figure(plot, caption, len(panels), len(plotted), "features"),
        element("details", element("summary", "The numbers as a table"), table(title, heads, lines)),
    )


def multiples(name: str, title: str, description: str, panels: Sequence[Panel]) -> Markup:
    """Small plots beside one another, each with an axis of its own.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        description: the same in more words.
        panels: at least one.
    """
    width = RIGHT / _ACROSS
    parts = [
        _panel(panel, width * (place % _ACROSS), (_HIGH + _GAP) * (place // _ACROSS), width)
        for place, panel in enumerate(panels)
    ]
    return picture(name, title, description, (_HIGH + _GAP) * -(-len(panels) // _ACROSS), parts)


def _panel(panel: Panel, x: float, y: float, width: float) -> Markup:
    left, right, top, bottom = x + _MARGIN, x + width - 12, y + _TOP, y + _HIGH - _FOOT
    ends = [end for line in panel.lines for end in (line.lower, line.estimate, line.upper) if math.isfinite(end)]
    up = Axis.covering([0.0, *ends], bottom, top)
    step = (right - left) / len(panel.numbers)
    places = [left + step * (place + 0.5) for place in range(len(panel.numbers))]
    every = max(1, -(-len(up.ticks) // _TICKS))
    parts = [element("text", cut(panel.label, _PANEL_LABEL), x=(left + right) / 2, y=y + 14, class_="label middle")]
    for tick in up.ticks[::every]:
        parts += [
            element("line", x1=left, x2=right, y1=up.at(tick), y2=up.at(tick), class_="grid"),
            element("text", short(tick), x=left - 6, y=up.at(tick) + 4, class_="tick end"),
        ]
    parts.append(element("line", x1=left, x2=right, y1=up.at(0.0), y2=up.at(0.0), class_="zero"))
    known = [(at, line) for at, line in zip(places, panel.lines, strict=True) if math.isfinite(line.estimate)]
    parts += [
        element("line", x1=at, x2=then, y1=up.at(line.estimate), y2=up.at(following.estimate), class_="stem")
        for (at, line), (then, following) in pairwise(known)
    ]
    for at, line in known:
        kind = "clear" if line.clear else "open"
        parts += [
            element("line", x1=at, x2=at, y1=up.at(line.lower), y2=up.at(line.upper), class_=f"interval {kind}"),
            element("circle", cx=at, cy=up.at(line.estimate), r=3.5, class_=f"point {kind}"),
        ]
    parts += [
        element("text", str(number), x=at, y=bottom + 18, class_="tick middle")
        for at, number in zip(places, panel.numbers, strict=True)
    ]
    return joined(parts)


def _told(line: Interval) -> str:
    if not math.isfinite(line.estimate):
        return "nothing known"
    lower, upper = (short(end) if math.isfinite(end) else "no bound" for end in (line.lower, line.upper))
    return f"{short(line.estimate)} ({lower} to {upper})"
