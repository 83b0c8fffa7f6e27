"""The sections of a report's page about the models: how well they predict, and their coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dprelease.document.cells import LEVEL
from learner.report.content import Coefficient, Report
from learner.report.markup import Cell, Markup, cut_off, element, figure, section, short, table
from learner.report.plots import Interval, forest

MOST_TARGETS = 8
"""Targets that get a section of their own; of the others there is a line each."""

MOST_LINES = 40
"""Lines of an interval plot."""

LONGEST_TABLE = 1000


def fits(report: Report) -> Markup:
    """How well each model does beside the constant predictor."""
    fit, quality = report.fit, report.fit.quality
    parts = [
        element(
            "p",
            "Estimated on the private rows from the release alone, with the known noise removed and corrected for having "
            "been fitted on it. 0 is the constant predictor, 1 a perfect model; an estimate may be below 0.",
        )
    ]
    explained, explained_se = report.explained.tolist(), report.explained_se.tolist()
    shares = zip(fit.targets, explained, explained_se, strict=True)
    known = [
        Interval(name, value, value - 2 * se, value + 2 * se)
        for (name, value, se), hidden in zip(shares, fit.hidden, strict=True)
        if "explained" not in hidden
    ]
    if known:
        title, plotted = "Share of variance explained, with two standard errors either side", known[:MOST_LINES]
        words = "; ".join(f"{each.label}: {short(each.estimate)}" for each in plotted)
        picture = forest("fit", title, f"A line for each target. {words}.", plotted, "share of variance explained")
        parts.append(figure(picture, title, len(known), len(plotted), "targets"))
    heads = ("target", "share explained", "standard error", "model's error", "constant's error", "unit", "model is")
    lines: list[list[Cell]] = [
        [
            name,
            _told(fit.hidden[row], "explained", explained[row]),
            _told(fit.hidden[row], "explained", explained_se[row]),
            _told(fit.hidden[row], "mse", float(quality.mse[row] + quality.optimism[row])),
            _told(
                fit.hidden[row],
                "constant_mse",
                float(quality.gain[row] + quality.mse[row] + quality.optimism[row]),
            ),
            _square(fit.units[name]),
            "better" if report.better(row) else "no better",
        ]
        for row, name in enumerate(fit.targets[:LONGEST_TABLE])
    ]
    parts.append(table("Mean squared errors against the constant predictor", heads, lines))
    return section(
        "fit", "Fit against the constant predictor", *parts, *cut_off(len(fit.targets), LONGEST_TABLE, "targets")
    )


def coefficients(report: Report) -> Markup:
    """Coefficients with intervals: a part for each of the first targets, one line for each of the others."""
    explained = element(
        "p",
        "A model predicts with its coefficients, which are shrunken as far as noise asks and have no standard error. "
        "Standard errors and intervals belong to the unshrunken estimates of the population's coefficients; they account "
        "for sampling, mixing and privacy noise.",
    )
    if report.fit.inference.statement:
        explained = element("p", report.fit.inference.statement)
    parts = [*_unbounded(report), *_clipping(report)]
    parts += [_target(report, row) for row in range(min(len(report.fit.targets), MOST_TARGETS))]
    return section("coefficients", "Coefficients", explained, *parts, *_others(report))


def _clipping(report: Report) -> list[Markup]:
    """What clipping may take from the coefficients, and how far numbers reach; nothing in public bounds."""
    found = report.fit.inference
    lines: list[list[Cell]] = [
        [each.name, each.lower, each.upper, each.unit, "hides in its tail" if each.hidden else f"{each.kept:.0%}"]
        for each in found.reaches
    ]
    heads = ("number", "reaches from", "to", "unit", "slopes keep")
    shown = [table("How far numbers reach", heads, lines)] if lines else []
    return [*(element("p", sentence) for sentence in found.clipping_notes), *shown]


def _unbounded(report: Report) -> list[Markup]:
    """What an interval without an end means, where there is one."""
    found = report.fit.inference
    ends = np.array(found.intercept_interval(LEVEL)) if report.fit.fit_intercept else np.zeros(0)
    if found.bounded.all() and not np.isinf(ends).any():
        return []
    return [element("p", '"no bound" in place of an end: this release sets no bound on that side.')]


def _target(report: Report, row: int) -> Markup:
    fit, name = report.fit, report.fit.targets[row]
    unit = fit.units[name]
    value, noise_sd = _with_unit(fit.constant[row], unit), short(fit.constant_noise_sd[row])
    constant = f"Constant predictor: {fit.hidden[row].get('constant', f'{value} (noise sd {noise_sd})')}."
    if not fit.fit_intercept:
        middle = _with_unit(fit.intercept[row], unit)
        constant += f" No intercept: through the midpoints of the public ranges, hence {middle} at 0."
    parts: list[Markup] = [element("h3", name), element("p", report.finding(row)), element("p", constant)]
    slopes = report.coefficients(row)
    known = [each for each in slopes if each.standard_error > 0]
    clearest = sorted(known, key=lambda each: -each.clearness)[:MOST_LINES]
    plotted = [_interval(each) for each in known if each in clearest]
    if plotted:
        title = f"Difference in {name} that goes with each feature, across its public range"
        clear = ", ".join(line.label for line in plotted if line.clear) or "none"
        picture = forest(
            f"coefficients-{row + 1}",
            title,
            f"Estimates with {LEVEL:.0%} intervals. Clear of zero: {clear}.",
            plotted,
            f"difference in {name}{f' ({unit})' if unit else ''} from the lower to the upper end",
        )
        caption = f"{title}. Hollow: zero lies within."
        parts.append(figure(picture, caption, len(slopes), len(plotted), "features"))
    terms = (*([report.intercept(row)] if fit.fit_intercept else []), *slopes)
    title = f"Coefficients for {name}"
    if report.known(row):
        beside = _beside(report)
        heads = ("feature", "coefficient", "unshrunken", *beside, "standard error", f"{LEVEL:.0%} from", "to", "unit")
        lines: list[list[Cell]] = [
            [
                each.feature,
                each.value,
                each.estimate,
                *(_end(each.wider) for _ in beside),
                each.standard_error,
                _end(each.lower),
                _end(each.upper),
                each.unit,
            ]
            for each in terms
        ]
        return element("section", *parts, table(title, heads, lines))
    bare = table(title, ("feature", "coefficient", "unit"), [[each.feature, each.value, each.unit] for each in terms])
    if not report.better(row):
        bare = element("details", element("summary", "The model's coefficients all the same"), bare)
    return element("section", *parts, bare)


def _others(report: Report) -> list[Markup]:
    lines: list[list[Cell]] = []
    beside = _beside(report)
    for row, name in list(enumerate(report.fit.targets))[MOST_TARGETS:LONGEST_TABLE]:
        intercept = float(report.fit.intercept[row])
        slopes = [each for each in report.coefficients(row) if each.standard_error > 0]
        if slopes:
            best = max(slopes, key=lambda each: each.clearness)
            numbers: list[Cell] = [
                best.estimate,
                *(_end(best.wider) for _ in beside),
                _end(best.lower),
                _end(best.upper),
            ]
            lines.append([name, intercept, best.feature, *numbers, best.unit])
        else:
            lines.append([name, intercept, "none is known", *[math.nan] * (3 + len(beside)), ""])
    if not lines:
        return []
    heads = ("target", "intercept", "clearest feature", "unshrunken", *beside, f"{LEVEL:.0%} from", "to", "unit")
    return [
        element("h3", "Other targets"),
        element(
            "p", "The feature whose estimate is the most standard errors from zero; all others are in the model card."
        ),
        table("Other targets in a line each", heads, lines),
        *cut_off(len(report.fit.targets), LONGEST_TABLE, "targets"),
    ]


def _beside(report: Report) -> tuple[str, ...]:
    """Head of the column of what clipping may take; none where rows are not clipped."""
    return () if report.fit.inference.wider is None else ("w",)


def _told(hidden: Mapping[str, str], name: str, value: float) -> Cell:
    return "cannot be told" if name in hidden else value


def _interval(slope: Coefficient) -> Interval:
    estimate, lower, upper = (slope.reach * each for each in (slope.estimate, slope.lower, slope.upper))
    return Interval(slope.feature, estimate, lower, upper)


def _end(value: float) -> Cell:
    return "no bound" if math.isinf(value) else value


def _with_unit(value: float, unit: str) -> str:
    return f"{short(value)} {unit}".strip()


def _square(unit: str) -> str:
    return f"({unit})²" if unit else "1"
