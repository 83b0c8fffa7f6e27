"""The sections of a report's page about the models: how well they predict, and their coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import Markup

from dprelease.document import html
from dprelease.document.cells import LEVEL
from dprelease.document.document import Heading, Table
from dprelease.estimators.fit_document import coefficient_heading, quality_table, reach_table, slope
from learner.report.content import Coefficient, Report
from learner.report.markup import Cell, cut_off, element, figure, section, short, table
from learner.report.plots import Interval, forest

MOST_TARGETS = 8
"""Targets that get a section of their own; of the others there is a line each."""

MOST_LINES = 40
"""Lines of an interval plot."""

LONGEST_TABLE = 1000


def fits(report: Report) -> Markup:
    """How well each model does beside the constant predictor."""
    fit = report.fit
    parts = [
        element(
            "p",
            "Estimates for the private rows, from the release alone. The known noise is removed, and so is the gain of a fit "
            "on its own data. 0 is the constant predictor, 1 a perfect model; an estimate may be below 0.",
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
    found = quality_table(fit)
    shown = replace(found, rows=found.rows[:LONGEST_TABLE], title="Mean squared errors against the constant predictor")
    parts.append(html.table(shown))
    return section(
        "fit", "Fit against the constant predictor", *parts, *cut_off(len(fit.targets), LONGEST_TABLE, "targets")
    )


def coefficients(report: Report) -> Markup:
    """Coefficients with intervals: a part for each of the first targets, one line for each of the others."""
    explained = element(
        "p",
        "Estimates of the population's coefficients, with standard errors and intervals that account for sampling, mixing and "
        "privacy noise. The model that predicts is another one, mostly regularised and without standard errors.",
    )
    if report.fit.inference.statement:
        explained = element("p", report.fit.inference.statement)
    parts = [*_unbounded(report), *_clipping(report)]
    parts += [_target(report, row) for row in range(min(len(report.fit.targets), MOST_TARGETS))]
    return section("coefficients", "Coefficients", explained, *parts, *_others(report))


def _clipping(report: Report) -> list[Markup]:
    """The effect of clipping on the coefficients, and how far numbers reach; nothing in public bounds."""
    found = report.fit.inference
    shown = [html.table(each) for each in reach_table(found)]
    return [*(element("p", sentence) for sentence in found.clipping_notes), *shown]


def _unbounded(report: Report) -> list[Markup]:
    """The meaning of an interval without an end, if there is one."""
    found = report.fit.inference
    ends = np.array(found.intercept_interval(LEVEL)) if report.fit.fit_intercept else np.zeros(0)
    if found.bounded.all() and not np.isinf(ends).any():
        return []
    return [element("p", '"none" in place of an end: this release sets no bound on that side.')]


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
        step = "for one standard deviation of it" if report.spreads else "across its public range"
        title = f"Difference in {name} that goes with each feature, {step}"
        clear = ", ".join(line.label for line in plotted if line.clear) or "none"
        picture = forest(
            f"coefficients-{row + 1}",
            title,
            f"Estimates with {LEVEL:.0%} intervals. Clear of zero: {clear}.",
            plotted,
            f"difference in {name}{f' ({unit})' if unit else ''}",
        )
        caption = f"{title}, of an indicator from 0 to 1. Hollow: zero lies within."
        parts.append(figure(picture, caption, len(slopes), len(plotted), "features"))
    terms = (*([report.intercept(row)] if fit.fit_intercept else []), *slopes)
    lines: list[list[Cell]] = [[each.feature, each.value, each.unit] for each in terms]
    predictor = table(f"The model that predicts {name}", ("feature", "coefficient", "unit"), lines)
    if report.known(row):
        found = fit.document().tables[row]
        parts.append(html.table(replace(found, title=f"Coefficients for {name}", detail=False)))
    return element("section", *parts, element("details", element("summary", "The model that predicts"), predictor))


def _others(report: Report) -> list[Markup]:
    fit = report.fit
    rows = []
    for row, name in list(enumerate(fit.targets))[MOST_TARGETS:LONGEST_TABLE]:
        known = [(place, each) for place, each in enumerate(report.coefficients(row)) if each.standard_error > 0]
        best, feature = max(known, key=lambda pair: pair[1].clearness)[0] if known else 0, "none is identified"
        rows.append((name, fit.features[best] if known else feature, slope(fit, row, best)))
    if not rows:
        return []
    heads = (Heading("target"), Heading("feature", "clearest feature"), coefficient_heading(fit.inference))
    return [
        element("h3", "Other targets"),
        element(
            "p", "The feature whose estimate is the most standard errors from zero; all others are in the model card."
        ),
        html.table(Table("others", heads, tuple(rows), title="Other targets in a line each")),
        *cut_off(len(report.fit.targets), LONGEST_TABLE, "targets"),
    ]


def _interval(slope: Coefficient) -> Interval:
    estimate, lower, upper = (slope.reach * each for each in (slope.estimate, slope.lower, slope.upper))
    return Interval(slope.feature, estimate, lower, upper)


def _with_unit(value: float, unit: str) -> str:
    return f"{short(value)} {unit}".strip()
