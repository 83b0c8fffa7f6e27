"""Arrays that are larger than memory, in files that nobody else can open and that never outlive the process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.files.durable import disk_takes


class UnnamedArray:
    """An array in a file without a name: no other program can open it, and the system frees it when the process ends, in any way.

    Args:
        folder: on the disk that the array takes.
        dtype: of its elements.

    Raises:
        PeerUnavailable: from every method that writes: the disk is full.
    """

    def __init__(self, folder: Path, dtype: npt.DTypeLike) -> None:
        self._refused = f"the folder {folder} has no room for the sorted rows"
        with disk_takes(self._refused):
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`
        self._dtype = np.dtype(dtype)

    def write(self, rows: npt.NDArray[Any]) -> None:
        """Write elements behind the others."""
        with disk_takes(self._refused):
            self._file.write(np.ascontiguousarray(rows, self._dtype).data)

    def read(self, start: int, count: int) -> npt.NDArray[Any]:
        """So many elements from a place on, in memory."""
        self._file.seek(start * self._dtype.itemsize)
        return np.fromfile(self._file, self._dtype, count)

    def mapped(self) -> npt.NDArray[Any]:
        """All elements, mapped from the file, also once it is closed."""
        with disk_takes(self._refused):
            self._file.flush()
        return np.asarray(np.memmap(self._file, self._dtype, "r") if self._file.tell() else np.zeros(0, self._dtype))

    def close(self) -> None:
        """Let the disk go, unless elements are mapped from it; what a full one did not take is given up."""
        with suppress(OSError):
            self._file.close()
