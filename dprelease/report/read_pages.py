"""Pages of releases on which nothing is fitted: of ranges, whose plots a fit's page has too, and of a synthetic control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dprelease.description.counterfactual import DescribedCounterfactual
from dprelease.description.ranges import DescribedRanges, ranges_table
from dprelease.document.cells import Estimate, figure
from dprelease.document.charts import CoefficientPath, Mark, panels
from dprelease.document.document import Heading, Table
from dprelease.document.html import Figure, Folded, Section
from dprelease.mechanisms.ranges.released import Summary, boxes
from dprelease.one_line import counted
from dprelease.report.page import write
from dprelease.version import __version__

MOST_MARKS = 20
"""Shares of a distribution that are drawn with their errors; the line goes through all, and the table has all."""
ERRORS = 2.0
"""Standard errors either side of a released share."""
READING = (
    "Errors are standard deviations of what privacy noise leaves open. The spread of a column with long tails comes out too small: "
    "sums count a cell at four first-round scales from the centre at most.",
    'Values beyond the bounds count in the outermost cell. A quantile that may be there is bounded by "at most" or '
    '"at least", and one that may be at either end is hidden.',
    "Within a cell of the distribution rows are taken to spread evenly; quantiles of columns with few values lie between these.",
)
"""How to read the tables and the plots."""
CAVEATS = (
    "Nothing here says how columns go together: no correlation, no regression.",
    "Values outside the declared bounds were clipped to them and missing cells were filled with the declared value before "
    "anything was counted.",
    *READING,
)


CONTROL_CAVEATS = (
    "The target's series is public and outside the guarantee; donors' values are clipped to the declared bounds first.",
    "Weights of the donors are those of a ridge regression: they may be negative and need not sum to 1.",
)


def ranges_page(found: DescribedRanges) -> str:
    """The page of a release of ranges, both HTML and well-formed XML; text in it may come from strangers."""
    spec, columns = found.release.spec, found.columns
    lead = (
        f"Centre, scale and distribution of {counted(len(columns), 'column')}: {spec.rows:,} patients, "
        f"{counted(len(spec.parties), 'hospital')}, consortium {spec.consortium}."
    )
    command = f"learner report {spec.digest()} --output report.html"
    again = (f"Read with dprelease {__version__}.", command, "learner describe with --json")
    roles = {"shown": [each.column.name for each in columns]}
    return write(
        (found.release,), lead, (Section("Columns", distributions(columns), "columns"),), roles, CAVEATS, again
    )


def distributions(columns: Sequence[Summary]) -> tuple[Any, ...]:
    """Means, standard deviations and quantiles as a table, and a plot of each distribution function."""
    table = ranges_table(columns, "Means, standard deviations and quantiles, errors in brackets")
    return (table, *boxes(columns), *(_plot(place, each) for place, each in enumerate(columns)), READING)


def _plot(place: int, each: Summary) -> Section:
    name, unit, found = each.column.name, each.column.unit or "1", each.distribution
    title, inner = f"Distribution of {name}", each.edges[1:-1].tolist()
    mean, deviation = Estimate(each.mean, each.mean_error).text, Estimate(each.deviation, each.deviation_error).text
    words = f"Share of rows at or below a value; mean {mean}, standard deviation {deviation} {unit}."
    shares = list(zip(inner, found.noisy.tolist(), found.noise_sd.tolist(), found.monotone[1:-1].tolist(), strict=True))
    drawn = shares[:: -(-len(shares) // MOST_MARKS) or 1]
    panel = CoefficientPath(
        [
            Mark("", *np.clip((share, share - ERRORS * sd, share + ERRORS * sd), 0.0, 1.0).tolist())
            for _, share, sd, _ in drawn
        ],
        unit="share of rows below",
        across=f"{name}, {unit}",
        places=[edge for edge, *_ in drawn],
        line=list(zip(each.edges.tolist(), found.monotone.tolist(), strict=True)),
    )
    caption = f"{title}. Dots are released shares, cut at 0 and 1, with two standard errors either side; the line is monotone."
    lines = [(f"{edge:.4g}", Estimate(share, sd), figure(monotone, sd)) for edge, share, sd, monotone in shares]
    heads = (
        Heading("below", unit=unit),
        Heading("share", "share as released"),
        Heading("monotone", "share, made monotone"),
    )
    numbers = Table.of("shares", heads, lines, title=f"{title}, errors in brackets")
    plot = Figure(panels(f"distribution-{place}", title, words, [panel]), caption)
    return Section(name, (plot, Folded("The shares as a table", numbers)))


def counterfactual_page(found: DescribedCounterfactual) -> str:
    """The page of a counterfactual, both HTML and well-formed XML."""
    releases, path, document = found.releases, found.found, found.document()
    spec = releases[0].spec
    lead = (
        f"The path of the target without the intervention, from {found.lines[0][0]} on: {sum(path.donors):,} donors, "
        f"{counted(len(releases), 'hospital')}, consortium {spec.consortium}."
    )
    results = [
        Section(
            "Path and effect",
            (_path(found), document.table("path"), f"Mean effect: {document.facts['mean_effect'].text}."),
            "path",
        ),
        Section("Placebos", (document.table(""),), "placebo"),
    ]
    if len(releases) > 1:
        rows = [(each.spec.parties[0].party, each.digest, each.spec.rows, each.guarantee[0]) for each in releases[1:]]
        others = Table.of("others", ("hospital", "release", "donors", "guarantee"), rows, title="Combined with it")
        results.append(Section("The other releases", (others,), "others"))
    names = [column.name for column in path.columns]
    roles = {"before": names[: path.before], "after": names[path.before :]}
    digests = " ".join(each.digest for each in releases)
    again = (
        f"Read with dprelease {__version__}.",
        f"learner counterfactual {digests} --output report.html",
        "learner counterfactual with --json",
    )
    return write(releases, lead, results, roles, (*found.notes, *CONTROL_CAVEATS), again)


def _path(found: DescribedCounterfactual) -> Figure:
    path, unit, (low, high) = found.found, found.unit or "1", found.found.band(found.level)
    title = "Target and counterfactual"
    words = (
        "The line is the observed series. Dots are the series that donors predict, "
        f"with {found.level:.0%} intervals for privacy noise."
    )
    after = dict(enumerate(zip(path.path.tolist(), low.tolist(), high.tolist(), strict=True), path.before))
    nothing = (float("nan"),) * 3
    marks = [Mark(column.name, *after.get(place, nothing)) for place, column in enumerate(path.columns)]
    line = [(place + 0.5, value) for place, value in enumerate(path.target.tolist())]
    panel = CoefficientPath(marks, unit=f"target (line) and counterfactual (dots), {unit}", line=line)
    return Figure(panels("path-plot", title, words, [panel]), f"{title}. {words}")
