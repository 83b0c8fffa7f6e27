"""Types of arrays that go from hand to hand, and a way through those that are larger than memory.

Their shapes stand where they are used.
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dprelease.errors import IntegrityError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

AnyType = TypeVar("AnyType", bound=np.generic)

Item = TypeVar("Item")
Found = TypeVar("Found")


class PieceMap(Protocol):
    """The results of a function of each item, in order, wherever they are made: here, or on other machines."""

    def __call__(self, function: Callable[[Item], Found], items: Iterable[Item], /) -> Iterator[Found]:
        """Ask for an item when its turn comes, or some items before."""


def one_by_one(function: Callable[[Item], Found], items: Iterable[Item], /) -> Iterator[Found]:
    """`PieceMap` of this process: an item is asked for once the result before was taken."""
    return map(function, items)


class RowTable(Protocol):
    """(r, d) numbers, of which some rows at a time are asked for; an array is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(r, d)."""

    def __len__(self) -> int:
        """r."""

    def __getitem__(self, rows: slice, /) -> Floats:
        """Some rows, in memory."""


PIECE_BYTES = 1 << 23
"""Bytes of rows that are gone through together."""


def pieces(rows: npt.NDArray[AnyType], chosen: Mask | None = None) -> Iterator[npt.NDArray[AnyType]]:
    """Rows of an array, some at a time and in order; pages of a file that it is mapped from are let go behind them.

    Args:
        rows: (n,) or (n, d).
        chosen: (n,) which of them; all unless told.
    """
    step = max(1, PIECE_BYTES // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        yield piece if chosen is None else piece[chosen[start : start + step]]
        let_go(rows)


def sha256_by_piece(data: bytes | memoryview | FileRows) -> str:
    """SHA-256 of bytes, as 64 lower-case hexadecimal digits; those of a file need not fit into memory."""
    digest = hashlib.sha256()
    rows: Any = data if isinstance(data, FileRows) else np.frombuffer(data, np.uint8) if data else np.zeros(0)
    for piece in pieces(rows):
        digest.update(piece.data)
    return digest.hexdigest()


def mapped(path: Path) -> memoryview:
    """The bytes of a file, mapped and not read; none where there is no file."""
    if not path.exists() or not path.stat().st_size:
        return memoryview(b"")
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def let_go(rows: npt.NDArray[AnyType]) -> None:
    """Let the system take the pages of a mapped file back, which it reads again where they are needed; no other array changes."""
    base = _base(rows)
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _base(rows: npt.NDArray[AnyType]) -> object:
    """Whatever has the memory of an array."""
    base: object = rows
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


@dataclass(frozen=True)
class FileRows:
    """Rows that stay in a file, and are read when they are asked for: here, or in a process that has it at the same path.

    A file that is cut short meanwhile is an error. It would end a process that had mapped it.

    Attributes:
        path: of the file.
        offset: bytes before the first row.
        shape: (r, d), or (r,).
        dtype: of the numbers.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def __len__(self) -> int:
        """r."""
        return self.shape[0]

    def __getitem__(self, rows: slice, /) -> npt.NDArray[Any]:
        """Some rows, in memory.

        Raises:
            IntegrityError: the file is not there, or ends before.
        """
        part = self.part(rows)
        try:
            return np.fromfile(part.path, part.dtype, math.prod(part.shape), offset=part.offset).reshape(part.shape)
        except (OSError, ValueError) as error:
            raise IntegrityError(
                f"{part.path} is not as it was verified, or not seen by workers ({type(error).__name__}): fetch the release again"
            ) from error

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All rows, for who needs them at once."""
        return self[:].astype(dtype or self.dtype, copy=False)

    def part(self, rows: slice) -> FileRows:
        """Rows one behind the other, which stay where they are."""
        start, stop, _ = rows.indices(len(self))
        width = math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize
        return replace(self, offset=self.offset + start * width, shape=(max(0, stop - start), *self.shape[1:]))
