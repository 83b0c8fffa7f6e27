"""From raw cells to bounded integers: fill, clip, scale to [-1, 1], round onto the public grid.

`BoundedRows` is the last form that still describes single patients. It can only be made here, and its entries lie within
the declared codes by construction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Codes, pieces
from dprelease.data.column import RawColumn
from dprelease.data.columns import Column, is_public
from dprelease.errors import DataRefused, InvalidInput

MAX_GRID_BITS = 24
USUAL_GRID_BITS = 16
"""The grid of a release that asks for no other one."""


@dataclass(frozen=True)
class BoundedRows:
    """Rows of one party on the public grid, in canonical order.

    Attributes:
        codes: (n, d_j) int32; numeric columns in [-G, G], or in [-60.5 G, 60.5 G] on the decade scale where bounds are unknown,
            one-hot columns in {0, G}, where G = 2**grid_bits.
        columns: the declarations the codes were made from.
        grid_bits: b; one grid step is 2**-b of a column's half-width.
    """

    codes: Codes
    columns: tuple[Column, ...]
    grid_bits: int

    def __post_init__(self) -> None:
        expected = sum(len(column.released) for column in self.columns)
        if self.codes.dtype != np.int32 or self.codes.ndim != 2 or self.codes.shape[1] != expected:
            raise InvalidInput(f"codes must be an int32 array of {expected} columns")
        if not within(self.codes, self.columns, self.grid_bits):
            raise InvalidInput("codes lie beyond the grid that the columns' bounds call for")

    def pieces(self) -> Iterator[BoundedRows]:
        """The same rows, some at a time and in order; see `arrays.pieces`."""
        for codes in pieces(self.codes):
            piece = copy(self)  # `replace` would check again what was checked with the whole
            object.__setattr__(piece, "codes", codes)
            yield piece

    @property
    def private(self) -> Codes:
        """(n, a) codes of the private columns."""
        return self.codes[:, ~is_public(self.columns)]

    @property
    def public(self) -> Codes:
        """(n, a) codes of the public columns."""
        return self.codes[:, is_public(self.columns)]

    def digest(self) -> str:
        """SHA-256 of the ordered codes; recorded at approval, compared before any noise is drawn."""
        return codes_digest(self.codes, self.grid_bits)


def codes_digest(codes: Codes, grid_bits: int) -> str:
    """SHA-256 of (n, d) codes with their shape and grid, in hexadecimal; no copy of them is made."""
    digest = hashlib.sha256(f"dprelease/codes/v1|{grid_bits}|{codes.shape}".encode())
    for piece in pieces(codes):
        digest.update(np.ascontiguousarray(piece, dtype="<i4").data)
    return digest.hexdigest()


def within(codes: Codes, columns: tuple[Column, ...], grid_bits: int) -> bool:
    """Tells whether every code is one that its column's declaration allows: what the sensitivity rests on.

    Args:
        codes: (n, d) codes of these columns.
        columns: declarations.
        grid_bits: b.
    """
    places, position = [], 0
    for column in columns:
        places.append(slice(position, position + len(column.released)))
        position += len(column.released)
    return all(
        column.allows(piece[:, place], grid_bits)
        for piece in pieces(codes)
        for column, place in zip(columns, places, strict=True)
    )


def bound(raw: Mapping[str, RawColumn], columns: tuple[Column, ...], grid_bits: int) -> Codes:
    """Bound a batch of raw rows onto the grid.

    Missing, unreadable and non-finite numeric cells become the column's public fill; a value outside its bounds
    becomes the nearest bound; an unknown level becomes ``other``, or the fill where levels are exhaustive. A cell never
    affects any other cell (docs/guarantees.md 1).

    Args:
        raw: column name to raw cells, all of the same length n.
        columns: declarations, in the order of the released columns.
        grid_bits: b, 1 to 24.

    Returns:
        (n, d_j) int32 codes.

    Raises:
        InvalidInput: `grid_bits` is out of range.
        DataRefused: a declared column is absent, or lengths differ.
    """
    if not 1 <= grid_bits <= MAX_GRID_BITS:
        raise InvalidInput(f"grid_bits must be between 1 and {MAX_GRID_BITS}, not {grid_bits}")
    blocks = []
    for column in columns:
        if column.name not in raw:
            raise DataRefused(f"the source has no column {column.name!r}; rename it or mend the declaration")
        blocks.append(column.code(raw[column.name], grid_bits))
    if len({len(block) for block in blocks}) > 1:
        raise DataRefused("the columns of a batch have different lengths")
    return np.hstack(blocks) if blocks else np.zeros((0, 0), np.int32)
