"""The only module that sees raw rows: a file in, bounded codes in canonical order out.

The table is read in record batches; a batch is bounded before the next one is read, so raw values are never held as a
whole. Counts of missing, unreadable and clipped cells are functions of private data: they are for the local screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import DataRefused
from party_node.settings import PartySettings, SourceSettings
from party_node.source.alignment import Alignment, align, pseudonym
from party_node.source.findings import Findings

_READ_BYTES = 1 << 20
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True)
class Table:
    """A hospital's table, bounded and in canonical order.

    Attributes:
        bounded: codes on the grid.
        alignment: canonical order and its digest.
        findings: column name to what its cells were like.
        implausible: columns that must not be released; see `Findings.implausible`.
    """

    bounded: BoundedRows
    alignment: Alignment
    findings: dict[str, Findings] = field(repr=False)
    implausible: frozenset[str] = field(repr=False)


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
    source = settings.source
    findings = {column.name: Findings() for column in columns}
    codes, pseudonyms = [], []
    with _read_errors(source):
        for batch in _batches(source, [settings.source_name(column.name) for column in columns]):
            raw: dict[str, RawColumn] = {}
            for column in columns:
                name = settings.source_name(column.name)
                raw[column.name] = _cells(batch.column(name), name, column, findings[column.name], source.missing)
            codes.append(bound(raw, columns, grid_bits))
            pseudonyms += _pseudonyms(batch, source, key)
    if not codes:
        raise DataRefused(f"{settings.source.path} has no rows")
    alignment = align(key, pseudonyms, settings.roster, settings.rows_per_subject)
    bounded = BoundedRows(np.vstack(codes)[alignment.order], columns, grid_bits)
    implausible = frozenset(
        column.name
        for column in columns
        if findings[column.name].implausible(
            column, alignment.rows, mostly_replaced=settings.mostly_replaced(column.name)
        )
    )
    return Table(bounded, alignment, findings, implausible)


@contextmanager
def _read_errors(source: SourceSettings) -> Iterator[None]:
    """Refusals in our own words: Arrow's messages may quote a row, and ours may end up in a log."""
    try:
        yield
    except OSError as error:
        raise DataRefused(f"cannot read {source.path}: {error.strerror or 'not a readable file'}") from None
    except (pa.ArrowException, UnicodeDecodeError):
        raise DataRefused(f"{source.path} is not a well-formed {_kind(source)} file in UTF-8") from None


def _kind(source: SourceSettings) -> str:
    return source.format or ("parquet" if source.path.suffix in {".parquet", ".pq"} else "csv")


def _batches(source: SourceSettings, columns: list[str]) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys([source.subject, *([source.record] if source.record else []), *columns]))
    present = _header(source)
    absent = [name for name in wanted if name not in present]
    if absent:
        raise DataRefused(f"{source.path} has no column {', '.join(absent)}")
    doubled = [name for name in wanted if present.count(name) > 1]
    if doubled:
        raise DataRefused(f"{source.path} has more than one column {', '.join(doubled)}; rename all but one")
    yield from (_parquet if _kind(source) == "parquet" else _csv)(source, wanted)


def _header(source: SourceSettings) -> list[str]:
    if _kind(source) == "parquet":
        return list(pa.parquet.read_schema(source.path).names)
    with pa.input_stream(str(source.path), compression=_compression(source.path)) as stream:
        return list(pa.csv.open_csv(stream, parse_options=_parsing(source)).schema.names)


def _parsing(source: SourceSettings) -> pa.csv.ParseOptions:
    # Without newlines_in_values a quoted line break would be refused only where it falls on a block's end.
    return pa.csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True)


def _csv(source: SourceSettings, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    # Arrow takes what follows an open quotation mark, to the end of the file, for one cell: rows would go missing.
    with pa.input_stream(str(source.path), compression=_compression(source.path)) as stream:
        if sum(data.count(b'"') for data in iter(lambda: stream.read(_READ_BYTES), b"")) % 2:
            raise DataRefused(f"{source.path} has a quotation mark that is never closed")
    convert = pa.csv.ConvertOptions(
        include_columns=wanted,
        column_types={name: pa.string() for name in wanted},
        strings_can_be_null=True,
        null_values=list(source.missing),
    )
    with pa.input_stream(str(source.path), compression=_compression(source.path)) as stream:
        yield from pa.csv.open_csv(stream, parse_options=_parsing(source), convert_options=convert)


def _parquet(source: SourceSettings, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    with pa.parquet.ParquetFile(source.path) as file:
        yield from file.iter_batches(columns=wanted)


def _compression(path: Path) -> str | None:
    return "gzip" if path.suffix == ".gz" else None


def _cells(cells: pa.Array, name: str, column: Column, found: Findings, missing: tuple[str, ...]) -> RawColumn:
    if isinstance(column, NumericColumn):
        numbers, absent = _numbers(cells, name, missing)
        finite = np.isfinite(numbers)
        found.missing += absent
        found.unreadable += int(len(numbers) - finite.sum()) - absent
        found.outside += int(((numbers < column.lower) | (numbers > column.upper))[finite].sum())
        return numbers
    texts = _texts(cells, name, missing)
    known = {*column.levels, None}
    found.missing += texts.count(None)
    found.outside += sum(text not in known for text in texts)
    return texts


def _numbers(cells: pa.Array, name: str, missing: tuple[str, ...]) -> tuple[npt.NDArray[np.float64], int]:
    """Numbers, NaN where there is none, and how many cells were missing."""
    cells = _decoded(cells)
    if _is_text(cells.type):
        cells = pc.utf8_trim_whitespace(cells)
        cells = pc.if_else(pc.is_in(cells, value_set=pa.array(missing, cells.type)), None, cells)
        absent = cells.null_count
        cells = pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, None)
    elif pa.types.is_boolean(cells.type) or _is_number(cells.type):
        absent = cells.null_count
    else:
        raise DataRefused(f"column {name} holds {cells.type}, which is not a number; convert it first")
    numbers = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64), absent


def _texts(cells: pa.Array, name: str, missing: tuple[str, ...]) -> list[str | None]:
    """Texts without white space at their ends, None where there is none."""
    cells = _decoded(cells)
    if pa.types.is_integer(cells.type) or pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.string())
    if not _is_text(cells.type):
        raise DataRefused(f"column {name} holds {cells.type}; identifiers and categories must be text or whole numbers")
    texts = [None if text is None else text.strip() for text in cells.to_pylist()]
    return [None if text in missing else text for text in texts]


def _decoded(cells: pa.Array) -> pa.Array:
    """The cells themselves where a dictionary stands for them; a column that holds nothing at all counts as text."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    return cells.cast(pa.string()) if pa.types.is_null(cells.type) else cells


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _pseudonyms(batch: pa.RecordBatch, source: SourceSettings, key: bytes) -> list[bytes]:
    parts = [_texts(batch.column(name), name, source.missing) for name in (source.subject, source.record) if name]
    whole = [tuple(text for text in row if text) for row in zip(*parts, strict=True)]
    nameless = sum(len(row) < len(parts) for row in whole)
    if nameless:
        names = " and ".join(name for name in (source.subject, source.record) if name)
        raise DataRefused(f"{nameless} rows have no identifier in {names}; every row needs one")
    return [pseudonym(key, *row) for row in whole]
