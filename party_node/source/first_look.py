"""A first look at the source: every problem at once, and what each column's cells are like beside what is declared of it.

It needs no key, no enrolment and no network. All of it is a function of private data, for the local screen alone.
Source: docs/party.md, "A first look".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa

from dprelease.data.columns import is_binary
from dprelease.errors import DataRefused
from party_node.declarations.dates import DateColumn
from party_node.declarations.declarations import Declaration
from party_node.settings import PartySettings
from party_node.source.cells import Cells, Mask, read_cells
from party_node.source.csv_reader import CsvReader
from party_node.source.derived import derive
from party_node.source.distribution import Distribution, distribution_of
from party_node.source.findings import Findings
from party_node.source.identifiers_look import IdentifiersLook
from party_node.source.reader import read_errors, reader_of

MOST_EXAMPLES = 3
"""Different texts of a column that are shown of each kind."""

_SEARCHED = 1000
"""Cells of a batch among which other texts are looked for."""


@dataclass(frozen=True)
class Example:
    """A cell that was replaced or clipped, as it stands in the source.

    Attributes:
        text: the cell.
        where: its row.
    """

    text: str
    where: str


@dataclass
class ColumnLook:
    """What a column's cells are like.

    Attributes:
        declared: its declaration.
        findings: counts of cells that were replaced or clipped.
        distribution: counts of all others.
        unreadable: examples.
        outside: examples of numbers beyond the bounds and of undeclared levels.
        problem: why the column cannot be released; empty if it can.
        cells: how many there are.
    """

    declared: Declaration
    distribution: Distribution
    findings: Findings = field(default_factory=Findings)
    unreadable: list[Example] = field(default_factory=list)
    outside: list[Example] = field(default_factory=list)
    problem: str = ""
    cells: int = 0

    @property
    def unread(self) -> bool:
        """Whether no cell of it was read."""
        return bool(self.problem) and not self.cells

    def note(self, cells: Cells, raw: pa.Array | None, where: Callable[[int], str]) -> None:
        """Count a batch's cells.

        Args:
            cells: as they were read.
            raw: as they stand in the source; None of a derived column.
            where: says where the row of a place in the batch is.
        """
        self.cells += len(cells.missing)
        self.findings.count(cells.missing, cells.unreadable, cells.outside)
        self.distribution.add(cells)
        if raw is None:
            return
        _collect(self.unreadable, cells.unreadable, raw, where)
        column = self.declared.column
        if isinstance(column, DateColumn) or not is_binary(column):  # beside one level every other value is in order
            _collect(self.outside, cells.outside, raw, where)


def _collect(found: list[Example], chosen: Mask, raw: pa.Array, where: Callable[[int], str]) -> None:
    for place in islice(np.nonzero(chosen)[0].tolist(), _SEARCHED):
        if len(found) == MOST_EXAMPLES:
            return
        text = str(raw[place].as_py())
        if all(each.text != text for each in found):
            found.append(Example(text, where(place)))


@dataclass
class SourceLook:
    """What a source is like.

    Attributes:
        place: where it is, in words.
        columns: column of party.toml to what it is like, in the order of the file.
        rows: n.
        problems: what is wrong with the whole of it.
        undeclared: columns of the source that party.toml does not read.
        batches: number of each batch to how many rows came with it.
    """

    place: str
    columns: dict[str, ColumnLook]
    rows: int = 0
    problems: list[str] = field(default_factory=list)
    undeclared: tuple[str, ...] = ()
    batches: dict[int, int] = field(default_factory=dict)

    @property
    def in_order(self) -> bool:
        """Whether the table can be declared."""
        return not self.problems and not any(each.problem for each in self.columns.values())


def look_at(settings: PartySettings) -> SourceLook:
    """Look at the source once, from its beginning to its end, and note whatever is wrong with it.

    Args:
        settings: name the source and its columns.
    """
    source = settings.source
    columns = {name: ColumnLook(each, distribution_of(each.column)) for name, each in settings.declared.items()}
    found = SourceLook(source.place, columns)
    identifiers = IdentifiersLook(settings)
    try:
        with read_errors(source):
            reader = reader_of(source)
            header = reader.header()
            keys = [name for name in (source.subject, source.record, source.batch) if name]
            found.problems += [f"[source]: {words}" for name in keys if (words := _absent(name, header))]
            _find_columns(found, header)
            there = {name for each in columns.values() if not each.problem for name in each.declared.source_names}
            found.undeclared = tuple(name for name in header if name not in {*keys, *_sources(columns.values())})
            wanted = [name for name in (*keys, *sorted(there)) if not _absent(name, header)]
            for batch in reader.batches(list(dict.fromkeys(wanted)), 0) if wanted else ():
                where = partial(_where, found.rows, lines=isinstance(reader, CsvReader))
                if not any(_absent(name, header) for name in keys):
                    identifiers.note(batch, where)
                _note(found, batch, source.missing, where)
                found.rows += batch.num_rows
    except DataRefused as error:
        found.problems.append(error.message)
        return found
    if not found.rows:
        found.problems.append(f"{source.place} has no rows")
        return found
    found.problems += identifiers.problems()
    found.batches = identifiers.batches()
    for each in columns.values():
        replaced = each.declared.mostly_replaced
        if not each.problem and each.findings.implausible(each.declared.column, found.rows, mostly_replaced=replaced):
            each.problem = "look at its declaration"
    return found


def _where(before: int, place: int, *, lines: bool) -> str:
    """A row of a batch in words; a CSV file's first line is its header, and records are taken to be a line each."""
    return f"line {before + place + 2}" if lines else f"row {before + place + 1}"


def _sources(columns: Iterable[ColumnLook]) -> set[str]:
    return {name for each in columns for name in each.declared.source_names}


def _find_columns(found: SourceLook, header: list[str]) -> None:
    """Note which columns cannot be read because the source does not have them, or has them twice."""
    for each in found.columns.values():
        each.problem = "; ".join(filter(None, (_absent(name, header) for name in each.declared.source_names)))


def _absent(name: str, header: list[str]) -> str:
    """Why a column of the source cannot be read by its name; empty if it can."""
    if header.count(name) > 1:
        return f"the source has more than one column {name!r}; rename all but one"
    if name in header:
        return ""
    alike = {each.strip().casefold(): each for each in header}
    near = [alike[each] for each in get_close_matches(name.strip().casefold(), alike, 1)]
    return f"the source has no column {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _note(found: SourceLook, batch: pa.RecordBatch, missing: tuple[str, ...], where: Callable[[int], str]) -> None:
    """Count the cells of a batch, column by column; a column that cannot be read is left out from then on."""
    cells: dict[str, Cells] = {}
    for name, look in found.columns.items():
        if look.problem or look.declared.formula is not None:
            continue
        (called,) = look.declared.source_names
        try:
            cells[name] = read_cells(batch.column(called), called, look.declared.column, missing)
        except DataRefused as error:
            look.problem = error.message
            continue
        look.note(cells[name], batch.column(called), where)
    for look in found.columns.values():
        formula, sources = look.declared.formula, look.declared.sources
        if formula is None or look.problem:
            continue
        unread = [each.column.name for each in sources if each.column.name not in cells]
        if unread:
            look.problem = f"it is derived from {' and '.join(unread)}, which cannot be read"
            continue
        column = look.declared.column
        assert not isinstance(column, DateColumn)  # noqa: S101 - nothing derived is a date
        look.note(derive(formula, [(each.column, cells[each.column.name]) for each in sources], column), None, where)
