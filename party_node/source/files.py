"""Files of a source: which there are, and what changes when they do."""

from __future__ import annotations

from glob import glob
from pathlib import Path

from dprelease.errors import DataRefused
from party_node.settings import SourceSettings

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
