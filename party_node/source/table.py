"""Rows of the source as they are released: record batches in, bounded codes in canonical order out.

The table is read in record batches; a batch is bounded before the next one is read, so raw values are never held as a
whole. Counts of missing, unreadable and clipped cells are functions of private data: they are for the local screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalogue import Batch
from dprelease.data.bounding import BoundedRows, Codes, bound
from dprelease.data.columns import Column
from dprelease.errors import DataRefused
from party_node.declarations.declarations import Declaration
from party_node.declarations.identifiers import DISTINCT, LOST
from party_node.settings import PartySettings, SourceSettings
from party_node.source.alignment import Alignment, Roster, align, pseudonym
from party_node.source.batches import NONE, Numbers, all_complete, numbers_in, numbers_of
from party_node.source.cells import Cells, read_cells, texts
from party_node.source.derived import derive
from party_node.source.findings import Findings
from party_node.source.reader import read_errors, record_batches
from party_node.source.records import Records


@dataclass(frozen=True)
class Table:
    """A hospital's table, bounded and in canonical order.

    Attributes:
        bounded: codes on the grid.
        alignment: canonical order and its digest.
        findings: column name to what its cells were like, sources of derived columns included.
        implausible: columns that must not be released; see `Findings.implausible`.
        batches: rows that came together, in the order of their numbers; none where the source does not say.
        complete: whether no row of the source is of a batch that is still filling.
    """

    bounded: BoundedRows
    alignment: Alignment
    findings: dict[str, Findings] = field(repr=False)
    implausible: frozenset[str] = field(repr=False)
    batches: tuple[Batch, ...] = ()
    complete: bool = True


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of a file in its order.

    Attributes:
        codes: (n, d) on the grid.
        pseudonyms: of each row.
        numbers: which batch each is of, as `numbers_in` has it, part by part.
        findings: column name to what its cells were like.
        implausible: columns that must not be released.
    """

    codes: Codes
    pseudonyms: list[bytes]
    numbers: list[Numbers]
    findings: dict[str, Findings]
    implausible: frozenset[str]


def read_table(
    settings: PartySettings, key: bytes, columns: tuple[Column, ...], grid_bits: int, roster: Roster | None = None
) -> Table:
    """Read, bound and align the hospital's table.

    Args:
        settings: names the source and its columns.
        key: alignment key.
        columns: declarations to bound by, in released order.
        grid_bits: b of the grid.
        roster: the patients whose rows count; None for all.

    Raises:
        DataRefused: the file cannot be read, a column or identifier is missing, or identifiers repeat.
    """
    rows = read_rows(settings, key, columns, grid_bits, roster=roster)
    pseudonyms, codes, numbers = rows.pseudonyms, rows.codes, numbers_of(rows.numbers, settings.source)
    complete = all_complete(numbers, settings.source)
    if roster is not None:
        kept = roster.of(pseudonyms)
        pseudonyms, codes, numbers = [*compress(pseudonyms, kept)], codes[kept], numbers[kept]
    alignment = align(key, pseudonyms, settings.roster, settings.rows_per_subject)
    of_batch = numbers[alignment.order]
    batches = []
    for number in np.unique(of_batch[of_batch != NONE]):
        names = [pseudonyms[place] for place in alignment.order[of_batch == number]]
        batches.append(batch_of(int(number), names, settings, key))
    bounded = BoundedRows(codes[alignment.order], columns, grid_bits)
    return Table(bounded, alignment, rows.findings, rows.implausible, tuple(batches), complete)


def batch_of(number: int, pseudonyms: Sequence[bytes], settings: PartySettings, key: bytes) -> Batch:
    """Rows that came together, as if they were alone.

    Raises:
        DataRefused: as `align`.
    """
    alone = align(key, pseudonyms, settings.roster, settings.rows_per_subject)
    return Batch(number=number, rows=alone.rows, alignment=alone.digest)


def read_rows(
    settings: PartySettings,
    key: bytes,
    columns: tuple[Column, ...],
    grid_bits: int,
    start: int = 0,
    roster: Roster | None = None,
) -> Rows:
    """The rows of the file, bounded; as `read_table`, but for what follows from all of them together.

    Args:
        settings: names the source and its columns.
        key: alignment key.
        columns: declarations to bound by, in released order.
        grid_bits: b of the grid.
        start: byte of a plain CSV file at which a row begins; the rows before are not read.
        roster: the patients whose cells are counted; None for all.
    """
    source = settings.source
    read, derived = _plan(settings, columns)
    findings = {name: Findings() for name in [column.name for column in columns] + list(read)}
    codes: list[Codes] = []
    pseudonyms: list[bytes] = []
    numbers: list[Numbers] = []
    count = 0
    with read_errors(source):
        for raw, names, of_batch in _pieces(settings, read, _public(columns, derived), findings, key, start):
            for column, each in derived:
                assert each.formula is not None  # noqa: S101 - it is derived
                sources = [(of.column, raw[of.column.name]) for of in each.sources]
                raw[column.name] = derive(each.formula, sources, column)
            counted = np.ones(len(names), bool) if roster is None else roster.among(names)
            for name, cells in raw.items():
                findings[name].count(*(mask[counted] for mask in (cells.missing, cells.unreadable, cells.outside)))
            count += int(counted.sum())
            codes.append(bound({name: cells.values for name, cells in raw.items()}, columns, grid_bits))
            pseudonyms += names
            numbers.append(of_batch)
    if not codes:
        raise DataRefused(f"{source.place} has no rows")
    return Rows(np.vstack(codes), pseudonyms, numbers, findings, implausible(settings, findings, count))


def _pieces(
    settings: PartySettings,
    read: dict[str, Declaration],
    public: frozenset[str],
    findings: dict[str, Findings],
    key: bytes,
    start: int,
) -> Iterator[tuple[dict[str, Cells], list[bytes], Numbers]]:
    """Cells, pseudonyms and batches of some rows at a time; one row of each patient, where the source has several of them."""
    source = settings.source
    records = None if source.rows == "one" else Records(source, read, public)
    before = 0
    wanted = [name for each in read.values() for name in each.source_names]
    for batch in record_batches(source, wanted, start):
        raw = {}
        for name, each in read.items():
            column = batch.column(each.source_names[0])
            raw[name] = cells = read_cells(column, each, source)
            outside = cells.outside & (each.reading.aggregate is None)  # of others it shows in the aggregate
            findings[name].note(column, cells.unreadable, outside, before)
        before += batch.num_rows
        if records is None:
            yield raw, pseudonyms_in(batch, source, key), numbers_in(batch, source)
        else:
            records.add(named_in(batch, source), raw)
    for patients, raw in () if records is None else records.merged():
        yield raw, [pseudonym(key, patient) for patient in patients], np.full(len(patients), NONE, np.int64)


def _plan(
    settings: PartySettings, columns: tuple[Column, ...]
) -> tuple[dict[str, Declaration], list[tuple[Column, Declaration]]]:
    """What is read from the file, by name, with sources of derived columns and what orders rows; and what is derived then."""
    wanted = [(column, settings.declared[column.name]) for column in columns]
    read = {column.name: replace(each, column=column) for column, each in wanted if each.formula is None}
    sources = {of.column.name: of for _, each in wanted for of in each.sources}
    if settings.source.by is not None:
        sources[settings.source.by] = settings.declared[settings.source.by]
    return sources | read, [(column, each) for column, each in wanted if each.formula is not None]


def _public(columns: tuple[Column, ...], derived: list[tuple[Column, Declaration]]) -> frozenset[str]:
    """Names of columns that are public, those included that public ones are derived from."""
    sources = {of.column.name for column, each in derived if column.public for of in each.sources}
    return frozenset(sources | {column.name for column in columns if column.public})


def implausible(settings: PartySettings, findings: dict[str, Findings], rows: int) -> frozenset[str]:
    """Columns that must not be released, by the counts of so many rows; see `Findings.implausible`."""
    declared = {name: settings.declared[name] for name in findings}
    return frozenset(
        name
        for name, each in declared.items()
        if findings[name].implausible(each.column, rows, mostly_replaced=each.mostly_replaced)
    )


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
