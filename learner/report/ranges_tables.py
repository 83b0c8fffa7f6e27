"""Ranges of each column, for a report's page: tables of means, spreads and quantiles, and a plot of each distribution."""

from __future__ import annotations

from markupsafe import Markup

from dprelease.document import html
from dprelease.mechanisms.ranges.released import Summary, boxes
from learner.client.describe_ranges import ranges_table
from learner.report.distribution_plot import distribution
from learner.report.markup import Cell, element, figure, short, table

READING = (
    "Errors are standard deviations of what privacy noise leaves open. The spread of a column with long tails comes out too small: "
    "sums count a cell at four first-round scales from the centre at most.",
    'Values beyond the bounds count in the outermost cell. A quantile that may be there is bounded by "at most" or '
    '"at least", and one that may be at either end is hidden.',
    "Within a cell of the distribution rows are taken to spread evenly; quantiles of columns with few values lie between these.",
)
"""How to read the tables and the plots."""


def numbers(columns: tuple[Summary, ...]) -> tuple[Markup, ...]:
    """Tables of means, standard deviations and quantiles with their errors; bounds that were found.

    Args:
        columns: those to show.
    """
    found = ranges_table(columns, "Means, standard deviations and quantiles")
    return (html.table(found), *(element("p", sentence) for sentence in boxes(columns)))


def distributions(columns: tuple[Summary, ...]) -> tuple[Markup, ...]:
    """A plot of each distribution function, its shares as a table below.

    Args:
        columns: those to show.
    """
    return tuple(_plot(place, each) for place, each in enumerate(columns))


def _plot(place: int, each: Summary) -> Markup:
    column, found = each.column, each.distribution
    unit = column.unit or "1"
    title = f"Distribution of {column.name}"
    words = f"Share of rows at or below a value; mean {short(each.mean)}, standard deviation {short(each.deviation)} {unit}."
    picture = distribution(f"distribution-{place}", title, words, each.edges, found, f"{column.name}, {unit}")
    lines: list[list[Cell]] = [
        [short(edge), float(share), float(sd), float(monotone)]
        for edge, share, sd, monotone in zip(
            each.edges[1:-1].tolist(), found.noisy, found.noise_sd, found.monotone[1:-1], strict=True
        )
    ]
    heads = (f"below ({unit})", "share as released", "error", "share, made monotone")
    caption = (
        f"{title}. Dots are the released shares with two standard errors either side, the line their monotone fit."
    )
    return element(
        "div",
        element("h3", column.name),
        figure(picture, caption, 1, 1, "columns"),
        element("details", element("summary", "The shares as a table"), table(title, heads, lines)),
    )
