"""A release of ranges as one HTML page: every column's mean, spread, quantiles and distribution function, with errors."""

from __future__ import annotations

from dprelease.mechanisms.ranges.released import HIDDEN, SHARES, Summary
from dprelease.version import __version__
from learner.client.describe_ranges import DescribedRanges, boxes
from learner.client.library import Opened
from learner.report import frame
from learner.report.distribution_plot import distribution
from learner.report.markup import Cell, Markup, element, figure, listing, section, short, table

CAVEATS = (
    "Nothing here says how columns go together: no correlation, no regression.",
    "Values outside the declared bounds were clipped to them and missing cells were filled with the declared value before "
    "anything was counted.",
    "Errors are standard deviations of what privacy noise leaves open. The spread of a column with long tails comes out too small: "
    "sums count a cell at four first-round scales from the centre at most.",
    "Values beyond the bounds count in the outermost cell: of a quantile that may be there it is told what it is at most or at "
    "least, and one that may be at either end is hidden.",
    "Within a cell of the distribution rows are taken to spread evenly; quantiles of columns with few values lie between these.",
)

_SECTIONS = (
    ("promises", "Guarantee and trust"),
    ("columns", "Columns"),
    ("distributions", "Distributions"),
    ("release", "The release"),
    ("caveats", "Caveats"),
    ("again", "Cite and reproduce"),
)


def ranges_page(opened: Opened, found: DescribedRanges) -> str:
    """The page as text, both HTML and well-formed XML.

    Args:
        opened: the release; text in it may come from strangers.
        found: what it says.
    """
    spec, columns = opened.release.spec, found.columns
    lead = (
        f"Centre, scale and distribution of {frame.count(len(columns), 'column')}: {spec.rows:,} patients, "
        f"{frame.count(len(spec.parties), 'hospital')}, consortium {spec.consortium}."
    )
    main = element(
        "main",
        frame.promises(opened),
        _numbers(columns, boxes(found.columns)),
        section("distributions", "Distributions", *(_plot(place, each) for place, each in enumerate(columns))),
        frame.release(opened, dict.fromkeys((each.column.name for each in columns), "shown")),
        section("caveats", "Caveats", listing(CAVEATS)),
        _again(opened),
    )
    return frame.document(spec.title, frame.header(opened, lead), frame.contents(_SECTIONS), main, frame.footer())


def _numbers(columns: tuple[Summary, ...], found: tuple[str, ...]) -> Markup:
    means: list[list[Cell]] = [
        [each.column.name, each.mean, each.mean_error, each.deviation, each.deviation_error, each.column.unit or "1"]
        for each in columns
    ]
    quantiles: list[list[Cell]] = [[each.column.name, *_pairs(each), each.column.unit or "1"] for each in columns]
    heads = [head for share in SHARES for head in (f"{share:.0%}", "error")]
    return section(
        "columns",
        "Columns",
        table(
            "Means and standard deviations",
            ("column", "mean", "error", "standard deviation", "error", "unit"),
            means,
        ),
        table("Quantiles", ("column", *heads, "unit"), quantiles),
        *(element("p", sentence) for sentence in found),
    )


def _pairs(each: Summary) -> list[Cell]:
    told = zip(each.quantile_words, each.quantiles.tolist(), each.quantile_errors.tolist(), strict=True)
    return [
        cell
        for words, value, error in told
        for cell in ((words, "") if words == HIDDEN else (f"{words} {short(value)}" if words else value, error))
    ]


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


def _again(opened: Opened) -> Markup:
    spec = opened.release.spec
    commands = (
        f"learner fetch {spec.digest()} --from {spec.consortium}",
        f"learner report {spec.digest()} --output report.html",
    )
    made, hint = f"Read with dprelease {__version__}.", "learner describe with --json"
    return frame.again(opened, f"{spec.rows:,} patients", made, listing(commands), hint)
