"""A release of ranges as one HTML page: every column's mean, spread, quantiles and distribution function, with errors."""

from __future__ import annotations

from markupsafe import Markup

from dprelease.one_line import counted
from dprelease.version import __version__
from learner.client.describe_ranges import DescribedRanges
from learner.client.library import Opened
from learner.report import frame
from learner.report.markup import element, listing, section
from learner.report.ranges_tables import READING, distributions, numbers

CAVEATS = (
    "Nothing here says how columns go together: no correlation, no regression.",
    "Values outside the declared bounds were clipped to them and missing cells were filled with the declared value before "
    "anything was counted.",
    *READING,
)

_SECTIONS = (
    ("columns", "Columns"),
    ("distributions", "Distributions"),
    ("release", "The release"),
    ("caveats", "Caveats"),
    ("again", "Cite and reproduce"),
    ("promises", "Guarantee and trust"),
)


def ranges_page(opened: Opened, found: DescribedRanges) -> str:
    """The page as text, both HTML and well-formed XML.

    Args:
        opened: the release; text in it may come from strangers.
        found: what it says.
    """
    spec, columns = opened.release.spec, found.columns
    lead = (
        f"Centre, scale and distribution of {counted(len(columns), 'column')}: {spec.rows:,} patients, "
        f"{counted(len(spec.parties), 'hospital')}, consortium {spec.consortium}."
    )
    main = element(
        "main",
        section("columns", "Columns", *numbers(columns)),
        section("distributions", "Distributions", *distributions(columns)),
        frame.release(opened, dict.fromkeys((each.column.name for each in columns), "shown")),
        section("caveats", "Caveats", listing(CAVEATS)),
        _again(opened),
        frame.promises(opened),
    )
    return frame.document(spec.title, frame.header(opened, lead), frame.contents(_SECTIONS), main, frame.footer())


def _again(opened: Opened) -> Markup:
    spec = opened.release.spec
    commands = (
        f"learner fetch {spec.digest()} --from {spec.consortium}",
        f"learner report {spec.digest()} --output report.html",
    )
    made, hint = f"Read with dprelease {__version__}.", "learner describe with --json"
    return frame.again(opened, f"{spec.rows:,} patients", made, listing(commands), hint)
