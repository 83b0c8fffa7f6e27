"""Rows in the order of their names beyond memory: sorted runs in a file without a name, and a merge of them.

NumPy sorts and merges 4e6 rows of 57 bytes in 0.6 s of a processor for each million. DuckDB took 1.0 s for rows of 48 bytes at a
memory limit of 64 MB, its output file included. But it held 100 MiB, and its files have names, so a process that is killed leaves
patients' rows in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.files.unnamed import UnnamedArray

RUN_BYTES = 1 << 24
"""Bytes of rows that are sorted together, and that are merged together."""

Rows = npt.NDArray[Any]


class SortedRows:
    """Rows that come in any order and leave in that of their names.

    Held are `RUN_BYTES` of rows a few times over, whatever their number. Names are merged by themselves, so that each row is
    read once even where thousands of runs meet.

    Args:
        folder: on the disk that they take meanwhile.
        dtype: of a row; its field ``name`` is bytes, compared as such.
    """

    def __init__(self, folder: Path, dtype: np.dtype[np.void]) -> None:
        self._dtype = dtype
        self._name = dtype["name"]
        self._runs, self._names = UnnamedArray(folder, dtype), UnnamedArray(folder, self._name)
        self._ends = [0]
        self._pending: list[Rows] = []

    def add(self, rows: Rows) -> None:
        """Take some rows; raises `PeerUnavailable` where the disk is full."""
        self._pending.append(rows)
        if sum(each.nbytes for each in self._pending) >= RUN_BYTES:
            self._end_run()

    def merged(self) -> Iterator[Rows]:
        """All rows in order, some at a time; raises `PeerUnavailable` where the disk is full."""
        self._end_run()
        ends = self._ends[1:]
        places, unread = self._ends[:-1], self._ends[:-1]
        at_most = max(1, RUN_BYTES // (self._name.itemsize * max(1, len(ends))))
        names = [np.zeros(0, self._name) for _ in ends]
        while any(place < end for place, end in zip(places, ends, strict=True)):
            for run, end in enumerate(ends):
                if not len(names[run]):
                    names[run] = self._names.read(unread[run], min(at_most, end - unread[run]))
                    unread[run] += len(names[run])
            # No run has a name up to the first of these beyond what was read of it.
            last = [each[-1:] for each, at, end in zip(names, unread, ends, strict=True) if at < end]
            bound = np.sort(np.concatenate(last or names))[0 if last else -1]
            counts = [int(np.searchsorted(each, bound, "right")) for each in names]
            yield from self._rows(places, [each[:count] for each, count in zip(names, counts, strict=True)])
            places = [place + count for place, count in zip(places, counts, strict=True)]
            names = [each[count:] for each, count in zip(names, counts, strict=True)]

    def close(self) -> None:
        """Let the disk go."""
        self._runs.close()
        self._names.close()

    def _rows(self, places: list[int], names: list[Rows]) -> Iterator[Rows]:
        """The rows of the next names of each run, in order; each is read once, some at a time."""
        order = np.argsort(np.concatenate(names), kind="stable")
        run_of = np.repeat(np.arange(len(names)), [len(each) for each in names])
        step = max(1, RUN_BYTES // self._dtype.itemsize)
        for start in range(0, len(order), step):
            some = order[start : start + step]
            counts = np.bincount(run_of[some], minlength=len(names)).tolist()
            # The order keeps that of each run, so these are its next rows.
            read = [self._runs.read(place, count) for place, count in zip(places, counts, strict=True) if count]
            yield np.concatenate(read)[np.argsort(np.argsort(some))]
            places = [place + count for place, count in zip(places, counts, strict=True)]

    def _end_run(self) -> None:
        if self._pending:
            rows = np.concatenate(self._pending)
            rows = rows[np.argsort(rows["name"], kind="stable")]
            self._pending = []
            self._runs.write(rows)
            self._names.write(rows["name"])
            self._ends.append(self._ends[-1] + len(rows))
