"""Readers of a source: the names of its columns, and its rows in record batches, whatever it is kept in."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from glob import glob
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.csv

from dprelease.errors import DataRefused
from dprelease.one_line import listed
from dprelease.progress import watched
from dprelease.threads import ahead
from party_node.settings import SourceSettings
from party_node.source.databases import PostgreSql, Sqlite
from party_node.source.limits import LONGEST_LINE, MOST_ROWS, bounded, checked_text, is_text, opened

if TYPE_CHECKING:  # it takes 9 MiB, and most hospitals have no Parquet file: `parquet_file` imports it
    from pyarrow import parquet

PARQUET = frozenset({".parquet", ".pq"})

Stamp = tuple[tuple[str, int, int, int, int], ...]
"""Each file's name, inode, times in nanoseconds at which its bytes and its entry last changed, and bytes. A copy can carry the
first time along, and only the system sets the second."""


def files_of(source: SourceSettings) -> list[Path]:
    """The files that a path names, sorted by name; it alone where it is no pattern and no folder.

    Raises:
        DataRefused: there is none.
    """
    return [] if source.path is None else files_at(source.path)


def files_at(path: Path) -> list[Path]:
    """The files of a path, pattern or folder of Parquet files, sorted by name.

    Raises:
        DataRefused: there is none.
    """
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.suffix in PARQUET)
        if not found:
            raise DataRefused(
                f"cannot read {path}: a folder without Parquet files; name CSV files by a pattern, such as {path / '*.csv'}"
            )
        return found
    if path.exists() or not set("*?[") & set(str(path)):
        return [path]
    found = sorted(map(Path, glob(str(path), recursive=True)))  # noqa: PTH207 - the whole path is the pattern
    if not found:
        raise DataRefused(f"cannot read {path}: no file has such a name")
    return found


def stamp(source: SourceSettings) -> Stamp:
    """State that changes with the rows; for PostgreSQL nothing.

    Raises:
        OSError: a file is not there.
        DataRefused: as `files_of`.
    """
    files = files_of(source)
    if source.database_file is not None:  # its log has what was written lately
        files = [source.database_file, *filter(Path.exists, [Path(f"{source.database_file}-wal")])]
    found = ((str(each), each.stat()) for each in files)
    return tuple((name, each.st_ino, each.st_mtime_ns, each.st_ctime_ns, each.st_size) for name, each in found)


_READ_BYTES = 1 << 20


class CsvReader:
    """Reads one CSV file."""

    _file: BinaryIO

    def __init__(self, source: SourceSettings, path: Path) -> None:
        self._source = source
        self._path = path

    def header(self) -> list[str]:
        """Names of all columns."""
        return [_bare(name) for name in self._written_header]

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns, as text; cells of words that mean a missing one are null."""
        encoding = self._encoding if self._encoding == "utf-16" else "utf-8"  # in the others marks are the same bytes
        with self._opened(encoding) as stream:
            checked_text(iter(lambda: stream.read(_READ_BYTES), b""), self._path)
        yield from self._rows(columns)

    def share(self) -> float:
        """The part of the file that was read, while `batches` gives rows; Arrow reads a few blocks ahead."""
        return self._file.tell() / max(1, self._path.stat().st_size)

    def uneven(self) -> str:
        """Place of the first row that has more or fewer cells than the header, or is too long; empty where there is none.

        Read once more, by a reader that counts lines: a row may have several.
        """
        try:
            with self._opened() as stream, TextIOWrapper(stream, "utf-8", newline="") as text:
                rows = csv.reader(_lines(text), delimiter=self._source.delimiter)
                filled = filter(None, rows)  # Arrow reads over empty lines too
                width = len(next(filled, ()))
                count = next((len(row) for row in filled if len(row) != width), None)
        except _TooLongError:
            return f"a line has more than {LONGEST_LINE:,} bytes"
        except (csv.Error, UnicodeError, pa.ArrowException):
            return ""
        if count is None:
            return ""
        return f"line {rows.line_num} has {count} cells, and the header has {width}"

    def _rows(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        written = {_bare(name): name for name in self._written_header}
        convert = pa.csv.ConvertOptions(
            include_columns=[written[name] for name in columns],
            column_types=dict.fromkeys((written[name] for name in columns), pa.string()),
            strings_can_be_null=True,
            null_values=list(self._source.missing),
        )
        with self._opened() as stream:
            for batch in ahead(self._parsed(stream, convert)):
                yield batch.rename_columns(columns)

    @cached_property
    def _written_header(self) -> list[str]:
        with self._opened() as stream:
            return list(self._parsed(stream).schema.names)

    def _parsed(self, stream: pa.NativeFile, convert: pa.csv.ConvertOptions | None = None) -> pa.csv.CSVStreamingReader:
        # Without newlines_in_values a quoted line break would be refused only where it falls on a block's end.
        parsing = pa.csv.ParseOptions(delimiter=self._source.delimiter, newlines_in_values=True)
        return pa.csv.open_csv(stream, pa.csv.ReadOptions(block_size=LONGEST_LINE), parsing, convert)

    @contextmanager
    def _opened(self, encoding: str | None = None) -> Iterator[pa.NativeFile]:
        # Arrow reads ahead in a thread, also where reading ends early. A file of Python's is closed only once no read is under
        # way; Arrow's own would let that thread go on with the descriptor, which by then may be that of the next file.
        with opened(self._path) as file:
            self._file = file
            stream = pa.PythonFile(file, mode="r")
            if self._path.suffix == ".gz":
                stream = pa.CompressedInputStream(stream, "gzip")
            encoding = encoding or self._encoding
            yield stream if encoding == "utf-8" else pa.transcoding_input_stream(stream, encoding, "utf-8")

    @property
    def _encoding(self) -> str:
        return self._source.encoding.removesuffix("-sig")  # Arrow reads over a mark of the byte order


class _TooLongError(Exception):
    """A line that is longer than any row may be."""


def _lines(text: TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise _TooLongError
        yield line


def _bare(name: str) -> str:
    return name.strip().strip('"').strip()


_BYTES = 1 << 26
"""Size of a batch, as the file says how long its columns are before they are compressed."""


class ParquetReader:
    """Reads one Parquet file."""

    def __init__(self, source: SourceSettings, path: Path) -> None:
        self._path = path

    def header(self) -> list[str]:
        """Names of all columns."""
        from pyarrow import parquet

        with opened(self._path) as file:
            return list(parquet.read_schema(file).names)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        with parquet_file(self._path, columns) as file:
            self._rows, self._read = file.metadata.num_rows, 0
            for batch in file.iter_batches(rows_at_a_time(file, columns), columns=columns):
                self._read += batch.num_rows
                yield batch

    def share(self) -> float:
        """The part of the rows that was read, while `batches` gives them."""
        return float(self._read / max(1, self._rows))


@contextmanager
def parquet_file(path: Path, columns: list[str] | None = None) -> Iterator[parquet.ParquetFile]:
    """A Parquet file whose texts stay as the file has them: each once, with numbers in place of cells."""
    from pyarrow import parquet

    with opened(path) as handle:
        schema = parquet.read_schema(handle)
        times = Counter(schema.names)
        wanted = times.keys() if columns is None else {*columns}
        texts = [each.name for each in schema if times[each.name] == 1 and each.name in wanted and is_text(each.type)]
        # With a buffer ahead Arrow would keep every piece of every column that it has read.
        with parquet.ParquetFile(handle, read_dictionary=texts, pre_buffer=False) as file:
            yield file


def rows_at_a_time(file: parquet.ParquetFile, columns: list[str]) -> int:
    """Rows of a batch of some columns, fewer where they are long."""
    wanted, groups = set(columns), file.metadata
    longest = 1
    for number in range(groups.num_row_groups):
        group = groups.row_group(number)
        chunks = (group.column(place) for place in range(group.num_columns))
        size = sum(
            chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted
        )
        longest = max(longest, size // max(group.num_rows, 1))
    return max(1, min(MOST_ROWS, _BYTES // longest))


def record_batches(source: SourceSettings, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Identifiers, batches and these columns of the source, in pieces.

    Raises:
        DataRefused: a column is not there, or there twice; or it cannot be read.
        PeerUnavailable: its database does not answer, or stopped before the last row.
    """
    reader = reader_of(source)
    wanted = list(dict.fromkeys([*filter(None, (source.subject, source.record, source.batch)), *columns]))
    present = reader.header()
    absent = [name for name in wanted if name not in present]
    if absent:
        raise DataRefused(f"{source.place} has no column {listed(absent)}")
    doubled = [name for name in wanted if present.count(name) > 1]
    if doubled:
        raise DataRefused(f"{source.place} has more than one column {listed(doubled)}; rename all but one")
    yield from batches_of(reader, wanted)


def batches_of(reader: Reader, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of some columns, with lines in the log where that takes long."""
    return watched(reader.batches(columns), lambda rows: reader.share() if isinstance(reader, FilesReader) else None)


def reader_of(source: SourceSettings) -> Reader:
    """Reader of a source; raises `DataRefused` where there is no file."""
    if source.url is None:
        return FilesReader(source)
    return PostgreSql(source) if source.database_file is None else Sqlite(source)


class FilesReader:
    """Reads one file, or several with the same header one after another.

    Raises:
        DataRefused: there is none.
    """

    def __init__(self, source: SourceSettings) -> None:
        self._source = source
        self._readers = {
            path: (ParquetReader if _kind(source, path) == "parquet" else CsvReader)(source, path)
            for path in files_of(source)
        }
        self._read, self._reading = 0, next(iter(self._readers.values()))

    def header(self) -> list[str]:
        """Names of all columns; raises `DataRefused` where two files have others."""
        headers = {}
        for path, reader in self._readers.items():
            with read_errors(self._source, path):
                headers[path] = reader.header()
        first, header = next(iter(headers.items()))
        other = [path.name for path, each in headers.items() if each != header]
        if other:
            raise DataRefused(
                f"{other[0]} has other columns than {first.name}, or in another order; all of {self._source.place} need the same"
            )
        return header

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        self._read = 0
        for path, reader in self._readers.items():
            self._reading = reader
            with read_errors(self._source, path):
                size = path.stat().st_size
                yield from bounded(reader.batches(columns), str(path), size)
                self._read += size

    def share(self) -> float:
        """The part of all files that was read, while `batches` goes through them."""
        sizes = {path: path.stat().st_size for path in self._readers}
        here = next(sizes[path] for path, reader in self._readers.items() if reader is self._reading)
        return (self._read + here * self._reading.share()) / max(1, sum(sizes.values()))


Reader = FilesReader | PostgreSql | Sqlite
"""One way to keep rows: the names of its columns, as often as each stands there, and the rows of some of them in pieces."""


def is_plain_csv(source: SourceSettings) -> bool:
    """Tells whether the source is one file of CSV with bytes for each line."""
    path = source.path
    plain = path is not None and path.is_file() and _kind(source, path) == "csv" and path.suffix != ".gz"
    return plain and source.encoding != "utf-16"


@contextmanager
def read_errors(source: SourceSettings, path: Path | None = None) -> Iterator[None]:
    """Refusals in our own words: Arrow's messages may quote a row, and ours may end up in a log.

    Args:
        source: what is read.
        path: the one of its files that is; None where it is no file.
    """
    place = source.place if path is None else path
    try:
        yield
    except OSError as error:
        raise DataRefused(f"cannot read {place}: {error.strerror or 'not a readable file'}") from None
    except (pa.ArrowException, UnicodeError):
        kind = "table" if path is None else _kind(source, path)
        what = kind if path is None else f"{kind} file in {source.encoding.upper()}"
        uneven = CsvReader(source, path).uneven() if path is not None and kind == "csv" else ""
        raise DataRefused(f"{place} is not a well-formed {what}" + (uneven and f": {uneven}")) from None


def _kind(source: SourceSettings, path: Path) -> str:
    return source.format or ("parquet" if path.suffix in PARQUET else "csv")
