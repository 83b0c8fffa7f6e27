"""The page of a fit: findings, coefficients, predictions, checkpoints, columns, ranges and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dprelease.document.cells import LEVEL, Estimate
from dprelease.document.charts import CoefficientPath, Mark, forest, heat_map, panels
from dprelease.document.document import Heading, Table
from dprelease.document.html import Figure, Folded, Section
from dprelease.estimators import FitResult
from dprelease.estimators.result import PREDICTOR, quality_table, reach_table, slope
from dprelease.one_line import counted
from dprelease.report.analysis_page import MOST_LINES, analyses, some_of
from dprelease.report.content import FitReport
from dprelease.report.page import DATA, write
from dprelease.report.read_pages import distributions
from dprelease.version import __version__

MOST_TARGETS = 8
"""Targets that get a section of their own; of the others there is a line each."""
MOST_PANELS = 12
"""Features that are plotted over time; the table has all."""
MOST_CORRELATED = 20
"""Columns of a heat map."""
LONGEST_TABLE = 1000


def fit_page(report: FitReport) -> str:
    """The page of a fit as text, both HTML and well-formed XML.

    Args:
        report: what to say; text in it may come from strangers.
    """
    spec, fit = report.release.spec, report.fit
    more = len(fit.targets) - 3
    targets = ", ".join(fit.targets[:3]) + (f" and {more} more" if more > 0 else "")
    features = f"{len(fit.features)} features" if len(fit.features) > 1 else fit.features[0]
    lead = (
        f"Linear models of {targets} on {features} by method {fit.method}: {spec.patients:,} patients, "
        f"{counted(len(spec.parties), 'hospital')}, consortium {spec.consortium}."
    )
    made = f"Fitted with dprelease {__version__}, method {fit.method}, algorithm {fit.algorithm}."
    return write(
        (report.release,),
        lead,
        (
            _findings(report),
            _coefficients(report),
            _predictions(report),
            *_over_time(report),
            *analyses(report),
            _columns(report),
            *_before_clipping(report),
            _noise(report),
        ),
        report.roles,
        report.caveats,
        (made, *report.commands("report", "report.html"), DATA),
    )


def _findings(report: FitReport) -> Section:
    """The findings for a hurried reader."""
    targets = range(len(report.fit.targets))
    said = [report.finding(row) for row in targets[:MOST_TARGETS]]
    if len(targets) > MOST_TARGETS:
        learned = sum(map(report.better, targets))
        said.append(f"{learned} of {len(targets)} targets have a model better than a constant.")
    warnings = (report.fit.inference.statement, *report.fit.diagnostics.warnings)
    return Section("In short", ((*said, *(f"Warning: {each}" for each in warnings if each)),), "findings")


def _coefficients(report: FitReport) -> Section:
    """Coefficients with intervals: a part for each of the first targets, one line for each of the others."""
    found = report.fit.inference
    about = found.statement or (
        "Estimates of the population's coefficients, with standard errors and intervals that account for sampling, mixing and "
        "privacy noise. The model that predicts is another one, mostly regularised and without standard errors."
    )
    ends = np.array(found.intercepts.interval(LEVEL)) if report.fit.fit_intercept else np.zeros(0)
    bounded = found.bounded.all() and not np.isinf(ends).any()
    parts: list[Any] = [
        about,
        *([] if bounded else ['"none" in place of an end: this release sets no bound on that side.']),
    ]
    parts += [_target(report, row) for row in range(min(len(report.fit.targets), MOST_TARGETS))]
    clipping = (*found.clipping_notes, *reach_table(found))
    parts += [*_others(report), *([Section("Clipping", clipping)] if clipping else [])]
    return Section("Coefficients", parts, "coefficients")


def _target(report: FitReport, row: int) -> Section:
    fit, name = report.fit, report.fit.targets[row]
    unit, document = fit.units[name], fit.document()
    constant = Estimate(float(fit.constant[row]), float(fit.constant_noise_sd[row])).text
    told = fit.unresolved[row].get("constant", f"{f'{constant} {unit}'.strip()}, error in brackets")
    parts: list[Any] = [report.finding(row), f"Constant predictor: {told}."]
    if not fit.fit_intercept:
        at_zero = f"{fit.intercept[row]:.4g} {unit}".strip()
        parts.append(f"No intercept: through the midpoints of the public ranges, hence {at_zero} at 0.")
    known = [(feature, slope(fit, row, place)) for place, feature in enumerate(fit.features)]
    known = [(feature, each) for feature, each in known if each.error > 0]
    clearest = sorted(known, key=lambda pair: -abs(pair[1].ratio))[:MOST_LINES]
    marks = [_mark(report, *pair) for pair in known if pair in clearest]
    if marks:
        step = "for one standard deviation of it" if report.spreads else "across its public range"
        title = f"Difference in {name} that goes with each feature, {step}"
        clear = ", ".join(mark.label for mark in marks if mark.clear) or "none"
        words = f"Estimates with {LEVEL:.0%} intervals. Clear of zero: {clear}."
        label = f"difference in {name}{f' ({unit})' if unit else ''}"
        caption = f"{title}, of an indicator from 0 to 1. Hollow: zero lies within."
        caption += some_of(len(marks), len(fit.features), "features")
        parts.append(Figure(forest(f"coefficients-{row + 1}", title, words, marks, label), caption))
    if report.identified(row):
        parts.append(
            replace(document.tables[row], title=f"Coefficients for {document.tables[row].title}", detail=False)
        )
    predictor = document.table(PREDICTOR)
    rows = tuple(line[1:] for line in predictor.rows if line[0] == name)
    only = Table(PREDICTOR, predictor.headings[1:], rows, title=f"The model that predicts {name}")
    return Section(name, (*parts, Folded("The model that predicts", only)))


def _mark(report: FitReport, feature: str, one: Estimate) -> Mark:
    step = report.step(feature)
    return Mark.tested(feature, *(step * each for each in (one.value, one.lower, one.upper)))


def _others(report: FitReport) -> list[Any]:
    count = len(report.fit.targets)
    if count <= MOST_TARGETS:
        return []
    found = report.fit.document().table("strongest")
    title = "The strongest feature of each other target"
    about = "One line a target: the feature whose estimate is the most standard errors from zero. The model card has all features."
    table = replace(found, rows=found.rows[MOST_TARGETS:LONGEST_TABLE], title=title)
    return [Section("Other targets", (about, table, *_rest(count, "targets")))]


def _predictions(report: FitReport) -> Section:
    """How well each model does beside the constant predictor."""
    fit, found = report.fit, quality_table(report.fit)
    shares = zip(fit.targets, fit.quality.explained.tolist(), fit.quality.explained_se.tolist(), strict=True)
    marks = [
        Mark.tested(name, value, value - 2 * se, value + 2 * se)
        for (name, value, se), hidden in zip(shares, fit.unresolved, strict=True)
        if "explained" not in hidden
    ]
    parts: list[Any] = [
        "Estimates for the private rows, from the release alone. The known noise is removed, and so is the gain of a fit "
        "on its own data. 0 is the constant predictor, 1 a perfect model; an estimate may be below 0."
    ]
    if marks:
        title, plotted = "Share of variance explained, with two standard errors either side", marks[:MOST_LINES]
        picture = forest("explained", title, "A line for each target.", plotted, "share of variance explained")
        parts.append(Figure(picture, title + some_of(len(plotted), len(marks), "targets")))
    parts.append(replace(found, rows=found.rows[:LONGEST_TABLE]))
    return Section("Fit against the constant predictor", (*parts, *_rest(len(fit.targets), "targets")), "fit")


def _over_time(report: FitReport) -> list[Section]:
    """Coefficients at the checkpoints of a stream; nothing for a release that is no later checkpoint."""
    fits, released = report.checkpoints, len(report.release.checkpoints())
    if not fits:
        return []
    words = (
        f"Each checkpoint is about all patients up to it. This release has the numbers of all {released} checkpoints so far, "
        "under one guarantee, and each is fitted anew."
    )
    if len(fits) < released:
        words += f" {len(fits)} of them are shown."
    if report.fit.inference.reaches:
        words += " They are about all rows, and wider for the clipping of numbers: see Coefficients."
    rows = range(min(len(report.fit.targets), MOST_TARGETS))
    return [Section("Over time", (words, *(_target_over_time(report, fits, row) for row in rows)), "time")]


def _target_over_time(report: FitReport, fits: Mapping[int, FitResult], row: int) -> Section:
    name, features = report.fit.targets[row], report.fit.features
    slopes = {number: [slope(fit, row, place) for place in range(len(features))] for number, fit in fits.items()}
    plotted = [
        CoefficientPath(
            [
                Mark.tested(str(number), at[place].value, at[place].lower, at[place].upper)
                for number, at in slopes.items()
            ],
            title=feature,
            zero=True,
        )
        for place, feature in enumerate(features[:MOST_PANELS])
    ]
    title = f"Coefficients for {name} at each checkpoint"
    clear = ", ".join(panel.title for panel in plotted if panel.marks[-1].clear) or "none"
    words = f"Estimates with {LEVEL:.0%} intervals, a panel each. Clear of zero at the last: {clear}."
    caption = f"{title}, {LEVEL:.0%} intervals. Hollow: zero lies within."
    picture = panels(f"time-{row + 1}", title, words, plotted, columns=2)
    lines = [(str(number), fit.patients, *slopes[number], _explained(fit, row)) for number, fit in fits.items()]
    heads = ("checkpoint", "patients", *features, Heading("explained", "share of variance explained"))
    table = Table.of("time", heads, lines, title=f"{title}, standard errors in brackets")
    figure = Figure(picture, caption + some_of(len(plotted), len(features), "features"))
    return Section(name, (figure, Folded("The numbers as a table", table)))


def _explained(fit: FitResult, row: int) -> Estimate | str:
    if "explained" in fit.unresolved[row]:
        return "hidden by noise"
    return Estimate(float(fit.quality.explained[row]), float(fit.quality.explained_se[row]))


def _columns(report: FitReport) -> Section:
    """Means, and standard deviations and correlations where the release has them."""
    found = report.described
    shown = found.document().table("columns")
    parts = [replace(shown, rows=shown.rows[:LONGEST_TABLE]), *_rest(len(found.names), "columns")]
    if found.rows:
        parts.append("They are those of rows as clipped.")
    return Section("Means and correlations", (*parts, *_correlations(report)), "columns")


def _correlations(report: FitReport) -> list[Any]:
    found = report.described
    if found.correlation is None or found.correlation_noise_sd is None:
        return ["Correlations need a release of joint moments (mechanism moments); this one has rows."]
    names = found.correlated[:MOST_CORRELATED]
    values = found.correlation[: len(names), : len(names)]
    pairs = [(row, column) for row in range(len(names)) for column in range(row)]
    pairs.sort(key=lambda pair: -abs(values[pair]))
    strongest = "; ".join(f"{names[row]} and {names[column]}: {values[row, column]:.2f}" for row, column in pairs[:3])
    picture = heat_map("correlations", "Correlations", f"The strongest are {strongest or 'none'}.", names, values)
    caption = "Correlations as far as the noise lets them be known; they fall to 0 where it hides them."
    rows = [
        (
            f"{names[row]} and {names[column]}",
            Estimate(float(values[row, column]), float(found.correlation_noise_sd[row, column])),
        )
        for row, column in pairs
    ]
    table = Table.of(
        "correlations", ("columns", "correlation"), rows, title="Correlations, the strongest first, errors in brackets"
    )
    figure = Figure(picture, caption + some_of(len(names), len(found.correlated), "columns"))
    return [figure, *([Folded("The correlations as a table", table)] if rows else [])]


def _before_clipping(report: FitReport) -> list[Section]:
    """The ranges that a first round published of each number; nothing without one."""
    found = report.described.ranges
    if not found:
        return []
    lead = "From the first round of the release, which its guarantee covers: about rows before clipping, of any law."
    return [Section("Before clipping: ranges and distributions", (lead, *distributions(found)), "ranges")]


def _noise(report: FitReport) -> Section:
    """Eigenvalues of the released features against those of noise alone."""
    title, found = "Features and noise", report.spectrum
    if found is None:
        return Section(title, ("The released features carry no noise to compare with.",), "noise")
    sentence = f"{found.clear} of {len(found.values)} directions of the features stand clear of the privacy noise."
    if found.clear < len(found.values):
        sentence += " This release cannot tell relations along the others from noise."
    low, high = found.noise
    log = min(*found.values.tolist(), high) > 0
    marks = [
        Mark(str(place), value, value, value, value > high) for place, value in enumerate(found.values.tolist(), 1)
    ]
    panel = CoefficientPath(
        marks, "", found.unit, "direction of the features", noise=(high if log and low <= 0 else low, high), log=log
    )
    about = "Eigenvalues of the released features against the noise level"
    band = f"Noise alone would put nearly all of them between {low:.3g} and {high:.3g}, the band."
    lines = [(mark.label, mark.value, "clear" if mark.clear else "within the noise") for mark in marks]
    heads = ("direction", Heading("value", found.unit), Heading("noise", "against the noise"))
    parts = (
        sentence,
        Figure(panels("eigenvalues", about, sentence, [panel]), f"{about}. {band}"),
        Folded("The eigenvalues as a table", Table.of("eigenvalues", heads, lines, title="Eigenvalues")),
    )
    return Section(title, parts, "noise")


def _rest(count: int, things: str) -> Sequence[str]:
    """A sentence below a table that does not have all of the things; nothing if it has."""
    return (
        [f"The first {LONGEST_TABLE} of {count} {things}; the model card has all of them."]
        if count > LONGEST_TABLE
        else []
    )
