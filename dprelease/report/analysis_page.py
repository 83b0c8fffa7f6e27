"""Analyses on a page: the document that `learner analyze` prints, a section each, and curves of survival."""

from __future__ import annotations

from typing import Any

from dprelease.analyses import Analysis, Survival
from dprelease.document.cells import LEVEL
from dprelease.document.charts import CoefficientPath, Curve, Mark, forest, panels
from dprelease.document.document import Table
from dprelease.document.html import Figure, Section, facts_table
from dprelease.one_line import counted
from dprelease.report.content import Report
from dprelease.report.page import DATA, write
from dprelease.version import __version__

MOST_LINES = 40
"""Lines of an interval plot."""


def analyses_page(report: Report) -> str:
    """A page of analyses alone, both HTML and well-formed XML.

    Args:
        report: what to say; text in it may come from strangers.
    """
    spec = report.release.spec
    lead = (
        f"Analyses beside linear regression: {spec.patients:,} patients, {counted(len(spec.parties), 'hospital')}, "
        f"consortium {spec.consortium}."
    )
    return write(
        (report.release,),
        lead,
        analyses(report),
        report.roles,
        report.caveats,
        (f"Analysed with dprelease {__version__}.", *report.commands("report", "report.html"), DATA),
    )


def analyses(report: Report) -> list[Section]:
    """The sections of a report's analyses."""
    return [_section(each, f"analysis-{place}") for place, each in enumerate(report.analyses, 1)]


def _section(found: Analysis, name: str) -> Section:
    document = found.document()
    curves = [_curves(found, f"{name}-curves")] if isinstance(found, Survival) else []
    parts: list[Any] = []
    for table in (each for each in document.tables if not each.detail):
        if table.title.endswith("ratios"):
            parts.append(_ratios(table, f"{name}-ratios", found.title))
        parts.append(table)
    notes = Section(document.heading, (document.notes,))
    return Section(document.title, (facts_table(document), *curves, *parts, notes), name)


def _ratios(table: Table, name: str, about: str) -> Figure:
    """Ratios about 1."""
    name_at, at = ([each.key for each in table.headings].index(key) for key in ("name", "value"))
    pairs: list[tuple[Any, Any]] = [(row[name_at], row[at]) for row in table.rows]
    marks = [Mark.tested(label, one.value, one.lower, one.upper, null=1.0) for label, one in pairs]
    shown = marks[:MOST_LINES]
    clear = ", ".join(mark.label for mark in shown if mark.clear) or "none"
    title = f"{table.title.capitalize()}, {about[0].lower()}{about[1:]}"
    words = f"Ratios with {LEVEL:.0%} intervals on a logarithmic axis. Clear of 1: {clear}."
    picture = forest(name, title, words, shown, table.title, ratios=True)
    caption = f"{title}, with {LEVEL:.0%} intervals. Hollow: 1 lies within."
    return Figure(picture, caption + some_of(len(shown), len(marks), "ratios"))


def some_of(shown: int, count: int, things: str) -> str:
    """A sentence below a plot that does not have all of the things; nothing if it has."""
    return f" {shown} of {count} {things} are shown." if shown < count else ""


def _curves(found: Survival, name: str) -> Figure:
    shown: list[Any] = [
        CoefficientPath(
            title=title,
            zero=True,
            across=f"time {found.unit}",
            curves=[Curve(group, found.times, ends) for group, ends in groups.items()],
        )
        for title, groups in found.panels().items()
    ]
    words = f"Curves with {LEVEL:.0%} bands for privacy noise and sampling; the tables have them at the cuts."
    return Figure(panels(name, found.title, words, shown), f"{found.title}. {words}")
