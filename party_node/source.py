"""The only module that sees raw rows: a file in, bounded codes in canonical order out.

The table is read in record batches; a batch is bounded before the next one is read, so raw values are never held as a
whole. Counts of missing, unreadable and clipped cells are functions of private data: they are for the local screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from dprelease.alignment import Alignment, align, pseudonym
from dprelease.bounding import BoundedRows, RawColumn, bound
from dprelease.columns import Column, NumericColumn
from dprelease.errors import DataRefused
from party_node.settings import PartySettings, SourceSettings

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass
class Findings:
    """What a column's cells were like. Local screen only.

    Attributes:
        missing: empty cells, replaced by the fill value.
        unreadable: cells that are no number, or not finite, replaced by the fill value.
        outside: numbers beyond the bounds, clipped; or values that are no declared level, coded as ``other``.
    """

    missing: int = 0
    unreadable: int = 0
    outside: int = 0


@dataclass(frozen=True)
class Table:
    """A hospital's table, bounded and in canonical order.

    Attributes:
        bounded: codes on the grid.
        alignment: canonical order and its digest.
        findings: column name to what its cells were like.
    """

    bounded: BoundedRows
    alignment: Alignment
    findings: dict[str, Findings] = field(repr=False)


def read_table(settings: PartySettings, key: bytes, columns: tuple[Column, ...], grid_bits: int) -> Table:
    """Read, bound and align the hospital's table.

    Args:
        settings: names the source and its columns.
        key: alignment key.
        columns: declarations to bound by, in released order.
        grid_bits: b of the grid.

    Raises:
        DataRefused: the file cannot be read, a column or identifier is missing, or identifiers repeat.
    """
    findings = {column.name: Findings() for column in columns}
    names = {column.name: settings.source_name(column.name) for column in columns}
    codes, pseudonyms = [], []
    for batch in _batches(settings.source, [*names.values()]):
        raw = {column.name: _cells(batch, names[column.name], column, findings, settings) for column in columns}
        codes.append(bound(raw, columns, grid_bits))
        pseudonyms += _pseudonyms(batch, settings.source, key)
    if not codes:
        raise DataRefused(f"{settings.source.path} has no rows")
    alignment = align(key, pseudonyms, settings.roster, settings.rows_per_subject)
    bounded = BoundedRows(np.vstack(codes)[alignment.order], columns, grid_bits)
    return Table(bounded, alignment, findings)


def _batches(source: SourceSettings, columns: list[str]) -> Iterator[pa.RecordBatch]:
    kind = source.format or ("parquet" if source.path.suffix in {".parquet", ".pq"} else "csv")
    wanted = list(dict.fromkeys([source.subject, *([source.record] if source.record else []), *columns]))
    try:
        present = _header(source, kind)
        absent = [name for name in wanted if name not in present]
        if absent:
            raise DataRefused(f"{source.path} has no column {', '.join(absent)}")
        yield from (_parquet if kind == "parquet" else _csv)(source, wanted)
    except OSError as error:
        raise DataRefused(f"cannot read {source.path}: {error.strerror or 'not a readable file'}") from error
    except pa.ArrowInvalid as error:
        # Arrow's own message may quote a row, and this one may end up in a log.
        raise DataRefused(f"{source.path} is not a well-formed {kind} file in UTF-8") from error


def _header(source: SourceSettings, kind: str) -> list[str]:
    if kind == "parquet":
        return list(pa.parquet.read_schema(source.path).names)
    with pa.input_stream(str(source.path), compression=_compression(source.path)) as stream:
        reader = pa.csv.open_csv(stream, parse_options=pa.csv.ParseOptions(delimiter=source.delimiter))
        return list(reader.schema.names)


def _csv(source: SourceSettings, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    convert = pa.csv.ConvertOptions(
        include_columns=wanted,
        column_types={name: pa.string() for name in wanted},
        strings_can_be_null=True,
        null_values=list(source.missing),
    )
    with pa.input_stream(str(source.path), compression=_compression(source.path)) as stream:
        yield from pa.csv.open_csv(
            stream, parse_options=pa.csv.ParseOptions(delimiter=source.delimiter), convert_options=convert
        )


def _parquet(source: SourceSettings, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    with pa.parquet.ParquetFile(source.path) as file:
        yield from file.iter_batches(columns=wanted)


def _compression(path: Path) -> str | None:
    return "gzip" if path.suffix == ".gz" else None


def _cells(
    batch: pa.RecordBatch, name: str, column: Column, findings: dict[str, Findings], settings: PartySettings
) -> RawColumn:
    cells = batch.column(name)
    found = findings[column.name]
    found.missing += cells.null_count
    if isinstance(column, NumericColumn):
        numbers = _numbers(cells, name)
        finite = np.isfinite(numbers)
        found.unreadable += int(len(numbers) - finite.sum()) - cells.null_count
        found.outside += int(((numbers < column.lower) | (numbers > column.upper))[finite].sum())
        return numbers
    texts = [None if text is None else text.strip() for text in _texts(cells, name).to_pylist()]
    texts = [None if text in settings.source.missing else text for text in texts]
    known = set(column.levels)
    found.outside += sum(text is not None and text not in known for text in texts)
    return texts


def _numbers(cells: pa.Array, name: str) -> npt.NDArray[np.float64]:
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        readable = pc.match_substring_regex(cells, _NUMBER)
        cells = pc.utf8_trim_whitespace(pc.if_else(readable, cells, None))
    elif not (pa.types.is_boolean(cells.type) or _is_number(cells.type)):
        raise DataRefused(f"column {name} holds {cells.type}, which is not a number; convert it first")
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _texts(cells: pa.Array, name: str) -> pa.Array:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        return cells
    if pa.types.is_integer(cells.type) or pa.types.is_boolean(cells.type):
        return cells.cast(pa.string())
    raise DataRefused(f"column {name} holds {cells.type}; identifiers and categories must be text or whole numbers")


def _pseudonyms(batch: pa.RecordBatch, source: SourceSettings, key: bytes) -> list[bytes]:
    subjects = _texts(batch.column(source.subject), source.subject).to_pylist()
    records = [""] * len(subjects)
    if source.record:
        records = _texts(batch.column(source.record), source.record).to_pylist()
    nameless = sum(
        not (subject or "").strip() or record is None for subject, record in zip(subjects, records, strict=True)
    )
    if nameless:
        raise DataRefused(f"{nameless} rows have no identifier in {source.subject}; every row needs one")
    return [pseudonym(key, subject, record) for subject, record in zip(subjects, records, strict=True)]
