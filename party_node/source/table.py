"""Rows of the source as they are released: record batches in, bounded codes out.

The table is read in record batches; a batch is bounded before the next one is read, so raw values are never held as a
whole. Counts of missing, unreadable and clipped cells are functions of private data: they are for the local screen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.arrays import Codes, Mask, PieceMap, one_by_one
from dprelease.data.bounding import bound
from dprelease.data.columns import Column
from dprelease.errors import DataRefused
from dprelease.files.unnamed import UnnamedArray
from party_node.declarations.declarations import Declaration
from party_node.declarations.identifiers import DISTINCT, LOST
from party_node.settings import PartySettings, SourceSettings
from party_node.source.alignment import SUBJECT_BYTES, Names, Roster, as_names, pseudonym
from party_node.source.cells import Cells, derive, read_cells, texts
from party_node.source.findings import Findings
from party_node.source.reader import read_errors, record_batches
from party_node.source.records import Records
from party_node.source.sorting import SortedRows

Numbers = npt.NDArray[np.int64]

NONE = 0
"""The number of rows that are of no batch yet."""

_LONGEST = 9
"""Most digits of a batch's number."""


def numbers_in(batch: pa.RecordBatch, source: SourceSettings) -> Numbers:
    """(n,) numbers in the batch column of some rows; none where the source has no such column.

    Raises:
        DataRefused: a cell is no whole number from 1. Counts only.
    """
    if source.batch is None:
        return np.full(batch.num_rows, NONE, np.int64)
    cells = texts(batch.column(source.batch), source.batch, source.missing)
    found = np.array([int(cell) if cell and is_number(cell) else NONE for cell in cells], np.int64)
    wrong = int(np.sum(found == NONE))
    if wrong:
        raise DataRefused(
            f"{wrong} cells of {source.batch} are no whole number from 1; it must say of every row which batch it came with"
        )
    return found


def last_complete(numbers: Numbers, source: SourceSettings) -> int:
    """The number of the last batch that no more rows come to; `NONE` where there is none."""
    latest = int(numbers.max(initial=NONE))
    if source.batch is None or source.whole_batches:
        return latest
    return int(numbers[numbers < latest].max(initial=NONE))  # a later one has begun


def all_complete(numbers: Numbers, source: SourceSettings) -> bool:
    """Tells whether no row of the source is of a batch that is still filling; so where batches are not told."""
    last = last_complete(numbers, source)
    return not source.tells_batches or not bool(((numbers == NONE) | (numbers > last)).any())


def is_number(cell: str) -> bool:
    """Tells whether a cell is a number that a batch may have."""
    return cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST


def numbers_of(parts: Iterable[Numbers], source: SourceSettings) -> Numbers:
    """(n,) the batch of every row of the file, in its order; `NONE` of what is not complete yet."""
    named = np.concatenate([*parts])
    return whole(placed(named, 0, source), len(named), source)


def placed(named: Numbers, first: int, source: SourceSettings) -> Numbers:
    """(m,) the batch of some rows, where the source does not say otherwise by their place; `whole` leaves out one that is filling.

    Args:
        named: from `numbers_in`.
        first: place in the file of the first of them.
        source: says how batches are told.
    """
    return named if source.batch_rows is None else (first + np.arange(len(named))) // source.batch_rows + 1


def whole(numbers: Numbers, rows: int, source: SourceSettings) -> Numbers:
    """(m,) numbers from `placed`, `NONE` of a batch that is still filling where the file has so many rows."""
    return numbers if source.batch_rows is None else np.where(numbers <= rows // source.batch_rows, numbers, NONE)


@dataclass(frozen=True, repr=False)
class BoundedPiece:
    """Some rows of a source in its order.

    Attributes:
        codes: (m, d) on the grid, of the rows that count.
        counted: (n,) whether each row counts.
        names: (n,) pseudonyms.
        numbers: (n,) which batch each is of, as `numbers_in` has it.
    """

    codes: Codes
    counted: Mask
    names: Names
    numbers: Numbers


@dataclass(frozen=True, repr=False)
class Rules:
    """Rules by which cells become codes: all that a worker of a cluster is told beside cells, and so no place, key or identifier.

    Attributes:
        source: how cells are written.
        read: declarations of the columns that are read, by name.
        derived: columns that others are made into, each behind its sources.
        columns: released columns.
        grid_bits: b of the grid.
    """

    source: SourceSettings
    read: dict[str, Declaration]
    derived: list[tuple[Column, Declaration]]
    columns: tuple[Column, ...]
    grid_bits: int

    @classmethod
    def of(cls, settings: PartySettings, columns: tuple[Column, ...], grid_bits: int) -> Rules:
        """The rules of party.toml for some columns."""
        read, derived = _plan(settings, columns)
        return cls(settings.source.model_copy(update=_NOWHERE), read, derived, columns, grid_bits)

    def cells(self, batch: pa.RecordBatch) -> dict[str, Cells]:
        """Cells by column of some rows; raises `DataRefused` where a column is of another type than its declaration."""
        return {
            name: read_cells(batch.column(each.source_names[0]), each, self.source) for name, each in self.read.items()
        }

    def bounded(self, raw: dict[str, Cells], counted: Mask | None = None) -> tuple[Codes, dict[str, Findings]]:
        """(m, d) codes of the rows that count, and what the cells of each column that is read or derived were like."""
        for column, each in self.derived:
            raw[column.name] = derive(each, raw, column)
        codes = bound({name: cells.values for name, cells in raw.items()}, self.columns, self.grid_bits)
        found = {name: Findings() for name in raw}
        for name, cells in raw.items():
            masks = cells.missing, cells.unreadable, cells.outside
            found[name].count(*(mask if counted is None else mask[counted] for mask in masks))
        return codes if counted is None else codes[counted], found

    def coded(self, batch: pa.RecordBatch) -> tuple[Codes, dict[str, Findings]]:
        """`bounded` of `cells`: one row of a patient in, one row of codes out."""
        return self.bounded(self.cells(batch))


_NOWHERE = dict.fromkeys(("path", "url", "table", "query", "password_file"))


def read_rows(
    settings: PartySettings,
    key: bytes,
    columns: tuple[Column, ...],
    grid_bits: int,
    findings: dict[str, Findings],
    roster: Roster | None = None,
    run: PieceMap = one_by_one,
) -> Iterator[BoundedPiece]:
    """The rows of the source, bounded, in pieces.

    A row's batch is a number in a column of the source, or follows from its place in the file: batch t is the t-th N rows, once
    all N are there (docs/party.md, "Streams").

    Args:
        settings: names the source and its columns.
        key: alignment key.
        columns: declarations to bound by, in released order.
        grid_bits: b of the grid.
        findings: empty; gets by name what the cells of each column were like that is read, or derived, of the rows that count.
        roster: the patients whose rows count; None for all.
        run: reads the cells of each piece, which have no identifiers beside them.

    Raises:
        DataRefused: the source cannot be read, or a column or an identifier is missing.
        PeerUnavailable: the database or the cluster is away.
    """
    rules = Rules.of(settings, columns, grid_bits)
    findings.update({name: Findings() for name in names_read(settings, columns)})
    pieces = _whole_rows if settings.source.rows == "one" else _merged_rows
    with read_errors(settings.source):
        for piece, found in pieces(settings.source, rules, key, roster, run):
            for name, each in found.items():
                findings[name].add(each)
            yield piece


def names_read(settings: PartySettings, columns: tuple[Column, ...]) -> frozenset[str]:
    """Names of some columns, and of all others whose cells theirs depend on."""
    read, derived = _plan(settings, columns)
    return frozenset({*read, *(column.name for column, _ in derived)})


_Pieces = Iterator[tuple[BoundedPiece, dict[str, Findings]]]


def _whole_rows(source: SourceSettings, rules: Rules, key: bytes, roster: Roster | None, run: PieceMap) -> _Pieces:
    """Rows of patients with one each. Identifiers stay here, with the batches and who counts."""
    kept = deque[tuple[Names, Mask, Numbers]]()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch, cells in _read(source, rules):
            names = as_names(pseudonyms_in(batch, source, key))
            counted = _counted(names, roster)
            kept.append((names, counted, numbers_in(batch, source)))
            yield cells if counted.all() else cells.filter(pa.array(counted))

    for codes, found in run(rules.coded, batches()):
        names, counted, numbers = kept.popleft()
        yield BoundedPiece(codes, counted, names, numbers), found


def _merged_rows(source: SourceSettings, rules: Rules, key: bytes, roster: Roster | None, run: PieceMap) -> _Pieces:
    """One row of each patient, where the source has several of them; cells are read first, and rows made of them here."""
    records, kept = Records(source, rules.read, _public(rules.columns, rules.derived)), deque[list[str]]()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch, cells in _read(source, rules):
            kept.append(named_in(batch, source))
            yield cells

    for raw in run(rules.cells, batches()):
        records.add(kept.popleft(), raw)
    for patients, raw in records.merged():
        names = as_names([pseudonym(key, patient) for patient in patients])
        counted = _counted(names, roster)
        codes, found = rules.bounded(raw, counted)
        yield BoundedPiece(codes, counted, names, np.full(len(names), NONE, np.int64)), found


def _read(source: SourceSettings, rules: Rules) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Rows of the source, and of them the columns that cells are read from."""
    wanted = list(dict.fromkeys(name for each in rules.read.values() for name in each.source_names))
    for batch in record_batches(source, wanted):
        yield batch, batch.select(wanted)


def _counted(names: Names, roster: Roster | None) -> Mask:
    return np.ones(len(names), bool) if roster is None else roster.among(names)


def _plan(
    settings: PartySettings, columns: tuple[Column, ...]
) -> tuple[dict[str, Declaration], list[tuple[Column, Declaration]]]:
    """The columns to read from the file, by name, with all that derives columns or orders rows; and the derived ones."""
    wanted = [(column, settings.declared[column.name]) for column in columns]
    read = {column.name: replace(each, column=column) for column, each in wanted if each.formula is None}
    sources = {of.column.name: of for _, each in wanted for of in each.reads}
    if settings.source.by is not None:
        sources[settings.source.by] = settings.declared[settings.source.by]
    inner = [(column, of) for _, each in wanted for of in each.sources for column in of.offered]
    derived = {pair[0].name: pair for pair in [*inner, *wanted] if pair[1].formula is not None}
    return sources | read, [*derived.values()]


def _public(columns: tuple[Column, ...], derived: list[tuple[Column, Declaration]]) -> frozenset[str]:
    """Names of columns that are public, those included that public ones are derived from."""
    sources = {of.column.name for column, each in derived if column.public for of in each.reads}
    return frozenset(sources | {column.name for column in columns if column.public})


def pseudonyms_in(batch: pa.RecordBatch, source: SourceSettings, key: bytes) -> list[bytes]:
    """The pseudonym of each row.

    Raises:
        DataRefused: a row has no identifier, or one that its rules forbid. Counts only.
    """
    if source.record is None:
        return [pseudonym(key, name) for name in named_in(batch, source)]
    records = texts(batch.column(source.record), source.record, source.missing)
    pairs = zip(identifiers_in(batch, source), records, strict=True)
    whole = [(subject, record) for subject, record in pairs if subject and record]
    _refuse_nameless(batch.num_rows - len(whole), f"{source.subject} and {source.record}")
    return [pseudonym(key, *pair) for pair in whole]


def named_in(batch: pa.RecordBatch, source: SourceSettings) -> list[str]:
    """The identifier of each row in its normal form.

    Raises:
        DataRefused: a row has none, or one that its rules forbid. Counts only.
    """
    found = [name for name in identifiers_in(batch, source) if name]
    _refuse_nameless(batch.num_rows - len(found), source.subject)
    return found


def _refuse_nameless(count: int, where: str) -> None:
    if count:
        raise DataRefused(f"{count} rows have no identifier in {where}; every row needs one")


def identifiers_in(batch: pa.RecordBatch, source: SourceSettings) -> list[str | None]:
    """The identifier of each row in its normal form, None where there is none."""
    return source.identifiers.normal(texts(subjects_in(batch, source), source.subject, source.missing), source.subject)


def subjects_in(batch: pa.RecordBatch, source: SourceSettings) -> pa.Array:
    """The column of identifiers; floats and decimals are whole numbers where identifiers are.

    Raises:
        DataRefused: a number is no whole one, or so large that a float no longer tells it from the next one.
    """
    cells = batch.column(source.subject)
    if source.identifiers.whole_numbers and (pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type)):
        if pa.types.is_floating(cells.type) and pc.any(pc.greater_equal(pc.abs(cells), float(DISTINCT))).as_py():
            raise DataRefused(f"column {source.subject} holds floats of {DISTINCT} or more, {LOST}")
        try:
            cells = cells.cast(pa.int64())
        except pa.ArrowInvalid:
            raise DataRefused(
                f"column {source.subject} holds numbers that are no whole ones; identifiers have to be"
            ) from None
    return cells


def read_subjects(settings: PartySettings, key: bytes) -> Names:
    """(n,) pseudonyms of all patients of the table, rising, each once; mapped from a file without a name.

    Raises:
        DataRefused: the source cannot be read, or a row has no identifier.
        PeerUnavailable: the folder has no room for them.
    """
    name = np.dtype(f"S{SUBJECT_BYTES}")
    row, last = np.dtype([("name", name)]), np.zeros(1, name)
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(SortedRows(settings.state, row)) as sorter, closing(UnnamedArray(settings.state, name)) as subjects:
        with read_errors(settings.source):
            for batch in record_batches(settings.source, []):
                if batch.num_rows:
                    sorter.add(as_names(pseudonyms_in(batch, settings.source, key)).astype(name).view(row))
        for some in sorter.merged():
            names = some["name"]
            subjects.write(names[names != np.concatenate([last, names[:-1]])])
            last = names[-1:]
        found = subjects.mapped()
    if not len(found):
        raise DataRefused(f"{settings.source.place} has no rows")
    return found
