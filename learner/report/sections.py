"""The sections of a report's page about the release's numbers: in short, noise, means and correlations, caveats."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from dprelease.document import html
from learner.report.content import Report
from learner.report.markup import Cell, cut_off, element, figure, listing, section, short, table
from learner.report.models import LONGEST_TABLE, MOST_TARGETS
from learner.report.plots import heat_map, scree
from learner.report.ranges_tables import READING, distributions, numbers

MOST_CORRELATED = 20
"""Columns of a heat map."""


def noise(report: Report) -> Markup:
    """Eigenvalues of the released features against those of noise alone."""
    found = report.spectrum
    if found is None:
        return section(
            "noise", "Features and noise", element("p", "The released features carry no noise to compare with.")
        )
    sentence = f"{found.clear} of {len(found.values)} directions of the features stand clear of the privacy noise."
    if found.clear < len(found.values):
        sentence += " This release cannot tell relations along the others from noise."
    title = "Eigenvalues of the released features against the noise level"
    picture = scree("eigenvalues", title, sentence, found.values, found.noise, found.unit)
    lines: list[list[Cell]] = [
        [str(place), float(value), "clear" if value > found.noise[1] else "within the noise"]
        for place, value in enumerate(found.values, 1)
    ]
    band = f"Noise alone would put nearly all of them between {short(found.noise[0])} and {short(found.noise[1])}."
    numbers = table("Eigenvalues", ("direction", found.unit, "against the noise"), lines)
    return section(
        "noise",
        "Features and noise",
        element("p", sentence),
        element("figure", picture, element("figcaption", f"{title}. {band}")),
        element("details", element("summary", "The eigenvalues as a table"), numbers),
    )


def columns(report: Report) -> Markup:
    """Means, and standard deviations and correlations where the release has them."""
    found = report.described
    shown = found.document().table("columns")
    means = html.table(replace(shown, rows=shown.rows[:LONGEST_TABLE]))
    return section(
        "columns",
        "Means and correlations",
        means,
        *cut_off(len(found.names), LONGEST_TABLE, "columns"),
        *([element("p", "They are those of rows as clipped.")] if found.rows else []),
        *_correlations(report),
    )


def _correlations(report: Report) -> list[Markup]:
    found = report.described
    if found.correlation is None or found.correlation_noise_sd is None:
        return [element("p", "Correlations need a release of joint moments (mechanism moments); this one has rows.")]
    names = found.correlated[:MOST_CORRELATED]
    values, noise_sd = (part[: len(names), : len(names)] for part in (found.correlation, found.correlation_noise_sd))
    pairs = [(row, column) for row in range(len(names)) for column in range(row)]
    pairs.sort(key=lambda pair: -abs(values[pair]))
    strongest = "; ".join(f"{names[row]} and {names[column]}: {values[row, column]:.2f}" for row, column in pairs[:3])
    title = "Correlations"
    picture = heat_map("correlations", title, f"The strongest are {strongest or 'none'}.", names, values)
    lines: list[list[Cell]] = [
        [f"{names[row]} and {names[column]}", float(values[row, column]), float(noise_sd[row, column])]
        for row, column in pairs
    ]
    numbers = table("Correlations, the strongest first", ("columns", "correlation", "noise sd"), lines)
    caption = "Correlations as far as the noise lets them be known; they fall to 0 where it hides them."
    return [
        figure(picture, caption, len(found.correlated), len(names), "columns"),
        *([element("details", element("summary", "The correlations as a table"), numbers)] if lines else []),
    ]


def before_clipping(report: Report) -> list[Markup]:
    """The ranges that a first round published of each number; nothing without one."""
    found = report.described.ranges
    if not found:
        return []
    lead = "From the first round of the release, which its guarantee covers: about rows before clipping, of any law."
    parts = (*numbers(found), *distributions(found), listing(READING))
    return [section("ranges", "Before clipping: ranges and distributions", element("p", lead), *parts)]


def findings(report: Report) -> Markup:
    """The findings for a hurried reader."""
    targets = range(len(report.fit.targets))
    shown = [
        element("li", report.finding(row), class_="learned" if report.better(row) else "unlearned")
        for row in targets[:MOST_TARGETS]
    ]
    if len(targets) > MOST_TARGETS:
        learned = sum(map(report.better, targets))
        shown.append(element("li", f"{learned} of {len(targets)} targets have a model better than a constant."))
    said = (report.fit.inference.statement, *report.fit.diagnostics.warnings)
    warnings = [element("li", f"Warning: {each}", class_="warning") for each in said if each]
    return section("findings", "In short", element("ul", *shown, *warnings, class_="findings"))


def caveats(report: Report) -> Markup:
    """The caveats that a user must know."""
    return section("caveats", "Caveats", listing(report.caveats))
