"""Analyses on a page: the document that `learner analyze` prints, a section each, and curves of survival."""

from __future__ import annotations

from typing import Any

from dprelease.analyses import Analysis, Survival
from dprelease.document.cells import LEVEL
from dprelease.document.charts import CoefficientPath, Curve, panels
from dprelease.document.html import Figure, Section, facts_table
from dprelease.one_line import counted
from dprelease.report.content import Report
from dprelease.report.page import DATA, write
from dprelease.version import __version__


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
    tables = [table for table in document.tables if not table.detail]
    notes = Section(document.heading, (document.notes,))
    return Section(document.title, (facts_table(document), *curves, *tables, notes), name)


def _curves(found: Survival, name: str) -> Figure:
    shown: list[Any] = [
        CoefficientPath(
            title=title,
            zero=True,
            across="time, in the unit of the cuts",
            curves=[Curve(group, found.times, ends) for group, ends in groups.items()],
        )
        for title, groups in found.panels().items()
    ]
    words = f"Curves with {LEVEL:.0%} bands for privacy noise and sampling; the tables have them at the cuts."
    return Figure(panels(name, found.title, words, shown), f"{found.title}. {words}")
