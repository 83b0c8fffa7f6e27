"""A first look at the source: every problem at once, and what each column's cells are like beside what is declared of it.

It needs no key, no enrolment and no network. All of it is a function of private data, for the local screen alone.
Source: docs/party.md, "A first look".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.arrays import Mask
from dprelease.data.decades import EDGES
from dprelease.errors import DataRefused, DpReleaseError
from dprelease.one_line import nearest
from party_node.declarations.declarations import Declaration
from party_node.declarations.formula import CategoryFormula, Source
from party_node.declarations.source_columns import CodeColumn, code_text
from party_node.settings import PartySettings
from party_node.source.alignment import align, as_names, new_key
from party_node.source.cells import Cells, derive, read_cells, texts
from party_node.source.findings import Findings
from party_node.source.reader import batches_of, is_plain_csv, read_errors, reader_of
from party_node.source.records import Records
from party_node.source.table import NONE, Numbers, named_in, numbers_in, numbers_of, pseudonyms_in, subjects_in

BARS = 24
"""Cells of equal width between declared bounds."""


@dataclass
class Histogram:
    """Counts of numbers in cells between the bounds, and beyond them.

    Attributes:
        edges: (m + 1,) ends of the cells; of a number with unknown bounds those of the decade scale.
        counts: (m,) numbers in each; the last one has its upper end.
        below: numbers below the lower bound.
        above: numbers above the upper bound.
    """

    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64] = field(init=False)
    below: int = 0
    above: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.edges) - 1, np.int64)

    def add(self, cells: Cells) -> None:
        """Count a batch's numbers."""
        values = np.asarray(cells.values, np.float64)
        values = values[np.isfinite(values)]
        below, above = values < self.edges[0], values > self.edges[-1]
        self.below += int(below.sum())
        self.above += int(above.sum())
        self.counts += np.histogram(values[~(below | above)], self.edges)[0]

    @property
    def occupied(self) -> tuple[int, int]:
        """The first cell that is not empty and the one behind the last; of declared bounds all cells count."""
        (found,) = np.nonzero(self.counts)
        if len(self.edges) != len(EDGES) or not len(found):
            return 0, len(self.counts)
        return int(found[0]), int(found[-1]) + 1


@dataclass
class Levels:
    """Counts of a category's levels.

    Attributes:
        levels: counts of each declared level, in the order of the declaration.
        undeclared: values that are no declared level.
    """

    levels: dict[str, int]
    undeclared: int = 0

    def add(self, cells: Cells) -> None:
        """Count a batch's values."""
        found = Counter(value for value in cells.values if value is not None)
        for level in self.levels:
            self.levels[level] += found.pop(level, 0)
        self.undeclared += sum(found.values())


@dataclass
class Span:
    """The first and the last of a column's dates in ISO 8601; None where there is none."""

    first: str | None = None
    last: str | None = None

    def add(self, cells: Cells) -> None:
        """Look at a batch's dates."""
        days = np.asarray(cells.values, np.float64)
        days = days[np.isfinite(days)]
        if days.size:
            ends = [self.shown(float(day)) for day in (days.min(), days.max())]
            self.first = min(filter(None, (self.first, ends[0])))
            self.last = max(filter(None, (self.last, ends[1])))

    def shown(self, cell: float) -> str:
        """A date."""
        return str(np.datetime64(int(cell), "D"))


@dataclass
class CodeSpan(Span):
    """The first and the last of a column's codes."""

    def shown(self, cell: float) -> str:
        """A code."""
        return code_text(cell)


CellCounts = Histogram | Levels | Span
"""Counts of a column's cells, batch by batch."""


def distribution_of(column: Source) -> CellCounts:
    """Empty counts for a column."""
    if column.values:
        return Levels(dict.fromkeys(column.vocabulary, 0))
    if column.measured:
        return Histogram(np.linspace(*column.ends, BARS + 1) if column.bounded else EDGES)
    return CodeSpan() if isinstance(column, CodeColumn) else Span()


class IdentifiersLook:
    """Notes the identifiers of rows, batch by batch, as pseudonyms under a key that is forgotten."""

    def __init__(self, settings: PartySettings) -> None:
        self._settings = settings
        self._source = settings.source
        self._columns = [name for name in (self._source.subject, self._source.record) if name]
        self._key = new_key()
        self._names: list[bytes] = []
        self._rows: list[np.ndarray[tuple[int], np.dtype[np.intp]]] = []
        self._nameless: list[int] = []
        self._numbers: list[Numbers] = []
        self._refused: Counter[str] = Counter()

    def note(self, batch: pa.RecordBatch, before: int) -> list[str] | None:
        """Note a batch's rows.

        Args:
            batch: has the columns of identifiers and batches.
            before: rows of earlier batches.

        Returns:
            The patient's identifier of every row, in its normal form; None where a row has none.
        """
        found = None
        try:
            columns = [subjects_in(batch, self._source), *(batch.column(name) for name in self._columns[1:])]
            named_columns = zip(columns, self._columns, strict=True)
            parts = [texts(column, name, self._source.missing) for column, name in named_columns]
            named = np.array([all(row) for row in zip(*parts, strict=True)], bool)
            self._nameless += (before + 1 + np.flatnonzero(~named)).tolist()
            kept = batch.filter(pa.array(named))
            self._names += pseudonyms_in(kept, self._source, self._key)
            self._rows.append(before + 1 + np.flatnonzero(named))
            found = named_in(kept, self._source) if named.all() else None
        except DataRefused as error:
            self._refuse(error)
        try:
            self._numbers.append(numbers_in(batch, self._source))
        except DataRefused as error:
            self._refuse(error)
        return found

    def _refuse(self, error: DataRefused) -> None:
        count = re.match(r"\d+(?= )", error.message)
        self._refused[error.message[count.end() :] if count else error.message] += int(count[0]) if count else 0

    def problems(self, where: Callable[[int], str]) -> list[str]:
        """Mistakes of identifiers and batches, in words: counts, and where the first such row is.

        Args:
            where: says where the row of a number, from 1, is.
        """
        found = [f"{count or ''}{words}" for words, count in self._refused.items()]
        if self._nameless:
            names, first = " and ".join(self._columns), where(self._nameless[0])
            words = f"{len(self._nameless)} rows have no identifier in {names}, {first} is the first"
            found.append(f"{words}; every row needs one")
        if self._names and self._source.rows == "one":
            try:
                ordered = np.sort(as_names(self._names))
                align(self._key, ordered, self._settings.roster, self._settings.rows_per_subject)
            except DataRefused as error:
                found.append(error.message + self._repeated(where))
        return found

    def _repeated(self, where: Callable[[int], str]) -> str:
        """The first row that has the identifier of another one, and which one that is."""
        first: dict[bytes, int] = {}
        for name, row in zip(self._names, np.concatenate(self._rows).tolist(), strict=True):
            before = first.setdefault(name, row)
            if before != row:
                return f"; {where(row)} has the identifier of {where(before)}"
        return ""

    def batches(self) -> dict[int, int]:
        """Number of each batch to how many rows came with it; empty where the source does not say."""
        if not self._source.tells_batches or not self._numbers:
            return {}
        numbers, counts = np.unique(numbers_of(self._numbers, self._source), return_counts=True)
        pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
        return {number: count for number, count in pairs if number != NONE}


MOST_EXAMPLES = 5
"""Examples of a column's cells that are kept, of either kind."""

_LOOKED_AT = 100
"""Cells of a batch that are looked at for examples."""

_LONGEST_EXAMPLE = 100
"""Characters of an example that are kept."""

ExampleKind = Literal["unreadable", "outside"]


class Example(NamedTuple):
    """A cell that was not read as declared.

    Attributes:
        kind: what is wrong with it.
        text: what it holds.
        row: which row of the source it is in, from 1, the header not counted.
    """

    kind: ExampleKind
    text: str
    row: int


@dataclass
class ColumnLook:
    """Look at a column's cells.

    Attributes:
        declared: its declaration.
        distribution: counts of cells by what they hold.
        findings: counts of cells that were replaced or clipped.
        problem: why the column cannot be released; empty if it can.
        cells: how many there are.
        examples: the first different texts of unreadable cells and of those outside, for the screen alone: they are never written.
    """

    declared: Declaration
    distribution: CellCounts
    findings: Findings = field(default_factory=Findings)
    problem: str = ""
    cells: int = 0
    examples: list[Example] = field(default_factory=list, repr=False)

    @property
    def unread(self) -> bool:
        """Tells whether no cell of it was read."""
        return bool(self.problem) and not self.cells

    @property
    def told(self) -> Findings:
        """The counts to show: all where there is a problem."""
        return self.findings if self.problem else self.findings.told(self.declared)

    def count(self, cells: Cells) -> None:
        """Count some rows' cells."""
        self.cells += len(cells.missing)
        self.findings.count(cells.missing, cells.unreadable, cells.outside)
        formula = self.declared.formula
        if isinstance(formula, CategoryFormula) and formula.fill_level:  # missing cells have a level of their own
            cells = replace(cells, values=[formula.fill_level if each is None else each for each in cells.values])
        self.distribution.add(cells)

    def note(self, cells: Cells, raw: pa.Array, before: int) -> None:
        """Keep examples of a batch's cells, if there are too few yet.

        Args:
            cells: as they were read.
            raw: as they stand in the source.
            before: rows of earlier batches.
        """
        column, reading = self.declared.column, self.declared.reading
        # Beside the only level every other value is in order; numbers that are aggregated are compared with the bounds afterwards.
        two_valued = len(column.vocabulary) == 1
        in_order = two_valued or reading.aggregate not in (None, "first", "last")
        self._keep("unreadable", cells.unreadable, raw, before)
        if not in_order:
            self._keep("outside", cells.outside, raw, before)

    def _keep(self, kind: ExampleKind, mask: Mask, raw: pa.Array, before: int) -> None:
        known = {example.text for example in self.examples if example.kind == kind}
        for place in np.flatnonzero(mask)[:_LOOKED_AT].tolist():
            text = str(raw[place].as_py())[:_LONGEST_EXAMPLE]
            if text not in known and len(known) < MOST_EXAMPLES:
                known.add(text)
                self.examples.append(Example(kind, text, before + place + 1))


@dataclass
class SourceLook:
    """Look at a source.

    Attributes:
        place: where it is, in words.
        columns: column of party.toml to what it is like, in the order of the file.
        where: says where the row of a number, from 1, is.
        rows: n; of a source with several rows a patient, patients.
        read: rows of the source, where they are more than n.
        problems: what is wrong with the whole of it.
        undeclared: columns of the source that party.toml does not read.
        batches: number of each batch to how many rows came with it.
    """

    place: str
    columns: dict[str, ColumnLook]
    where: Callable[[int], str] = "row {}".format
    rows: int = 0
    read: int | None = None
    problems: list[str] = field(default_factory=list)
    undeclared: tuple[str, ...] = ()
    batches: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> str:
        """How many rows there are, and of how many patients, in words."""
        return f"{self.rows:,} rows" if self.read is None else f"{self.read:,} rows of {self.rows:,} patients"

    @property
    def in_order(self) -> bool:
        """Tells whether the table can be declared."""
        return not self.problems and not any(each.problem for each in self.columns.values())

    def count(self, cells: dict[str, Cells], rows: int) -> None:
        """Count some rows' cells of the columns that are read, and of those that are derived from them."""
        self.rows += rows
        cells = dict(cells)
        for name, look in sorted(
            self.columns.items(), key=lambda each: any(of.formula for of in each[1].declared.sources)
        ):
            declared = look.declared
            unread = [each.column.name for each in declared.sources if each.column.name not in cells]
            if name in cells:
                look.count(cells[name])
            elif unread:
                look.problem = look.problem or f"it is derived from {' and '.join(unread)}, which cannot be read"
            elif declared.formula is not None and not look.problem:
                cells[name] = derive(declared, cells, declared.column)
                look.count(cells[name])


def look_at(settings: PartySettings) -> SourceLook:
    """Look at the source once, from its beginning to its end, and note whatever is wrong with it."""
    columns = {name: ColumnLook(each, distribution_of(each.column)) for name, each in settings.declared.items()}
    found = SourceLook(settings.source.place, columns)
    identifiers = IdentifiersLook(settings)
    try:
        with read_errors(settings.source):
            _read(settings, found, identifiers)
    except DpReleaseError as error:  # also a database that does not answer
        found.problems.append(error.message)
        return found
    if not found.rows and not found.problems:
        found.problems.append(f"{found.place} has no rows")
    found.problems += identifiers.problems(found.where)
    found.batches = identifiers.batches()
    for each in columns.values():
        if each.cells and each.findings.implausible(each.declared, each.cells):
            each.problem = "look at its declaration"
            if each.findings.replaced < each.cells:
                each.problem += ", or say mostly_replaced = true if most patients have no value"
    return found


def _read(settings: PartySettings, found: SourceLook, identifiers: IdentifiersLook) -> None:
    source, reader = settings.source, reader_of(settings.source)
    if is_plain_csv(source):  # the first line is the header, and records are taken to be a line each
        found.where = lambda row: f"line {row + 1}"
    header = reader.header()
    keys = [name for name in (source.subject, source.record, source.batch) if name]
    absent = {name: words for name in (*keys, *_sources(found.columns.values())) if (words := _absent(name, header))}
    found.problems += [f"[source]: {absent[name]}" for name in keys if name in absent]
    for look in found.columns.values():
        look.problem = "; ".join(absent[name] for name in look.declared.source_names if name in absent)
    wanted = dict.fromkeys([*keys, *_sources(found.columns.values())])
    found.undeclared = tuple(name for name in header if name not in wanted)
    wanted = dict.fromkeys(name for name in wanted if name not in absent)
    records: Records | None = None
    before = 0
    for batch in batches_of(reader, list(wanted)) if wanted else ():
        cells = _cells(settings, found, batch, before)
        names = None if absent.keys() & keys else identifiers.note(batch, before)
        if source.rows == "one":
            found.count(cells, batch.num_rows)
        elif names is not None and (source.by is None or source.by in cells):
            records = records or Records(source, {name: settings.declared[name] for name in cells})
            records.add(names, cells)
        before += batch.num_rows
    found.read = None if source.rows == "one" else before
    for patients, merged in () if records is None else records.merged():
        found.count(merged, len(patients))


def _cells(settings: PartySettings, found: SourceLook, batch: pa.RecordBatch, before: int) -> dict[str, Cells]:
    """The cells of a batch, column by column, with examples; a column that cannot be read is left out."""
    cells = {}
    for name, look in found.columns.items():
        if look.problem or look.declared.formula is not None:
            continue
        raw = batch.column(look.declared.source_names[0])
        try:
            cells[name] = read_cells(raw, look.declared, settings.source)
        except DataRefused as error:
            look.problem = error.message
        else:
            look.note(cells[name], raw, before)
    return cells


def _sources(columns: Iterable[ColumnLook]) -> list[str]:
    return [name for each in columns for name in each.declared.source_names]


def _absent(name: str, header: list[str]) -> str:
    """Why a column of the source cannot be read by its name; empty if it can."""
    if header.count(name) > 1:
        return f"the source has more than one column {name!r}; rename all but one"
    if name in header:
        return ""
    return f"the source has no column {name!r}{nearest(name, header)}"
