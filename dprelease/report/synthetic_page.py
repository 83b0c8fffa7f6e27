"""The page of made-up rows: the agreement with the release that the release itself can show."""

from __future__ import annotations

from typing import Any

import numpy as np

from dprelease.analyses.synthetic import SyntheticRows, TwoColumns
from dprelease.document.cells import Estimate
from dprelease.document.charts import CoefficientPath, Mark, panels
from dprelease.document.document import Heading, Table
from dprelease.document.html import Figure, Folded, Section, facts_table
from dprelease.one_line import counted
from dprelease.release.release import Release
from dprelease.report.page import write
from dprelease.version import __version__

MOST_PAIRS = 6
"""Pairs of columns that are drawn for each of two reasons; the table has all."""
MOST_CELLS = 24
"""Cells of a drawn pair, those with the most patients."""
BAND = 2.0
"""Standard deviations of noise on either side of a released cell."""
LONGEST_TABLE = 1000
READING = (
    "Dots are released cells with two standard deviations of their noise either side. The line is the rows, scaled to the number "
    "of patients. About 1 released cell in 20 lies further away where the model is right.",
    "A small distance says that tables of two columns agree. It says nothing of three columns together, which no release has.",
)


def synthetic_page(release: Release, made: SyntheticRows, command: str) -> str:
    """The page as text, both HTML and well-formed XML.

    Args:
        release: verified; text in it may come from strangers.
        made: its rows.
        command: the line that makes them again.
    """
    spec, several = release.spec, len(made.sets)
    lead = (
        f"{counted(several, 'set')} of {len(made.sets[0]):,} made-up rows of {len(made.names)} columns, from a release about "
        f"{made.joint.patients:,} patients of {counted(len(spec.parties), 'hospital')}, consortium {spec.consortium}."
    )
    document = made.document()
    parts: list[Any] = [facts_table(document)]
    if made.pairs:
        (table,) = document.tables
        parts += [*_drawn(made), READING, _cut(table)]
    else:
        parts.append("The release has no table of two categories, so there is nothing to compare cell by cell.")
    roles = {"made up": spec.released}
    again = (f"Made with dprelease {__version__}.", command, "the file beside the rows")
    results = (
        Section("In short", (made.cautions[:2],), "findings"),
        Section("Released and made-up tables", parts, "tables"),
    )
    return write((release,), lead, results, roles, made.cautions, again)


def _cut(table: Table) -> Table:
    return Table(table.key, table.headings, table.rows[:LONGEST_TABLE], title=table.title)


def _drawn(made: SyntheticRows) -> list[Section]:
    """The pairs that fit worst, and those that go together most clearly."""
    worst = made.pairs[:MOST_PAIRS]
    clearest = sorted(made.pairs, key=lambda pair: -_dependence(pair))[:MOST_PAIRS]
    drawn = (("worst", "Pairs that agree least", worst), ("clearest", "Pairs that go together most clearly", clearest))
    return [_section(name, title, pairs) for name, title, pairs in drawn]


def _dependence(pair: TwoColumns) -> float:
    """How far a made-up table is from that of independent columns, in all cells together."""
    cells = pair.made_up.reshape(pair.shape)
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / float(cells.sum())
    return float(np.abs(cells - expected).sum())


def _section(name: str, title: str, pairs: tuple[TwoColumns, ...] | list[TwoColumns]) -> Section:
    words = "Dots are released cells with bands of their noise, the line is the made-up rows."
    picture = panels(f"pairs-{name}", title, words, [_panel(pair) for pair in pairs], columns=2)
    caption = f"{title}: patients in each cell, of at most {MOST_CELLS} cells. {words} Hollow: 0 lies within the noise."
    return Section(
        title, (Figure(picture, caption), *(Folded(" and ".join(pair.names), _numbers(pair)) for pair in pairs))
    )


def _shown(pair: TwoColumns) -> list[int]:
    return sorted(np.argsort(-pair.made_up, kind="stable")[:MOST_CELLS].tolist())


def _panel(pair: TwoColumns) -> CoefficientPath:
    shown = _shown(pair)
    marks = [
        Mark.tested(
            str(place + 1),
            float(pair.released[at]),
            float(pair.released[at] - BAND * pair.noise[at]),
            float(pair.released[at] + BAND * pair.noise[at]),
        )
        for place, at in enumerate(shown)
    ]
    line = [(place + 0.5, float(pair.made_up[at])) for place, at in enumerate(shown)]
    return CoefficientPath(marks, title=" and ".join(pair.names), zero=True, line=line)


def _numbers(pair: TwoColumns) -> Table:
    lines = [
        (
            str(place + 1),
            pair.labels[at],
            Estimate(float(pair.released[at]), float(pair.noise[at])),
            float(pair.made_up[at]),
        )
        for place, at in enumerate(_shown(pair))
    ]
    heads = ("cell", "values", Heading("released", "released patients"), Heading("made_up", "made-up rows, scaled"))
    return Table.of("cells", heads, lines, title=f"{' and '.join(pair.names)}, errors of noise in brackets")
