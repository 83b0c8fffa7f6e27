"""Joint moments in a learner's hands: the blocks summed, lifted to signed integers and put in their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.columns import CategoricalColumn, Column, NumericColumn
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.moments.layout import Layout, code, is_binary
from dprelease.moments.ring import product
from dprelease.moments.scales import released_sd

Floats = npt.NDArray[np.float64]

PLAUSIBLE = 20
"""Noise standard deviations beyond the data's own range at which an entry counts as garbage (joint_moments.md step 9)."""


def limits(layout: Layout, rows: int, grid_bits: int, scale: float, diagonal_scale: float, parties: int) -> list[int]:
    """(E,) largest absolute value of each noisy entry that is not garbage: n G^2 + 20 standard deviations, exact."""
    whole = rows << (2 * grid_bits)
    beyond = {
        flag: int(PLAUSIBLE * released_sd(each, parties)) + 1 for flag, each in ((False, scale), (True, diagonal_scale))
    }
    return [whole + beyond[bool(flag)] for flag in layout.diagonal]


def add_up(blocks: Sequence[npt.NDArray[np.int64]], largest: Sequence[int]) -> npt.NDArray[np.int64]:
    """The released integers: all parties' blocks added modulo 2^64, where their masks cancel, read as signed.

    Args:
        blocks: one (1, E) array for each party.
        largest: (E,) from `limits`.

    Raises:
        IntegrityError: an entry is out of range: some party sent garbage, or not all blocks belong together.
    """
    total = np.zeros(blocks[0].size, np.uint64)
    for block in blocks:
        total += np.ascontiguousarray(block).reshape(-1).view(np.uint64)
    signed = total.view(np.int64)
    if any(abs(int(value)) > most for value, most in zip(signed, largest, strict=True)):
        raise IntegrityError(
            "the parties' blocks do not add up to moments: a party sent numbers that do not belong to this computation"
        )
    return signed


@dataclass(frozen=True)
class NoisyMoments:
    """G + N in scaled units: sums over patients of x x^T, x = (1, z), plus privacy noise.

    Attributes:
        layout: variables and entries.
        gram: (p+1, p+1) symmetric; exact and derived entries filled in.
        noise_sd: (p+1, p+1) standard deviation of the noise of each entry: 0 where it is exact, as between public variables; a
            level's own entry repeats the noise of its entry with the constant, every other noisy entry above the diagonal is
            independent.
        rows: n, patients.
    """

    layout: Layout
    gram: Floats
    noise_sd: Floats
    rows: int

    @classmethod
    def read(
        cls,
        layout: Layout,
        values: npt.NDArray[np.int64],
        rows: int,
        grid_bits: int,
        scale: float,
        diagonal_scale: float,
        parties: int,
        public: npt.NDArray[np.int64] | int = 0,
    ) -> NoisyMoments:
        """From released integers.

        Args:
            layout: of the spec.
            values: (E,) from `add_up`.
            rows: n.
            grid_bits: b.
            scale: noise scale of each party's share.
            diagonal_scale: the same for squares of numbers.
            parties: m.
            public: (a+1, a+1) from `public_gram`.
        """
        unit = math.ldexp(1.0, -2 * grid_bits)
        sd = np.where(layout.diagonal, released_sd(diagonal_scale, parties), released_sd(scale, parties))
        gram = layout.matrix(values * unit, float(rows), public * unit)
        return cls(layout, gram, layout.matrix(sd.astype(np.float64) * unit, 0.0), rows)

    @property
    def names(self) -> tuple[str, ...]:
        """(p,) names of the variables; index 0 of the matrices is the constant, variable i is index i + 1."""
        return tuple(variable.name for variable in self.layout.variables)

    def lookup(self, released: str) -> tuple[int, float, float]:
        """(index in the matrices, midpoint, half_width) of a released name: value = midpoint + half_width * x[index].

        A binary's two levels are the same variable: its declared level is (1 + z)/2, ``other`` is (1 - z)/2.

        Raises:
            InvalidInput: no such released column.
        """
        if released not in self._places:
            raise InvalidInput(f"not in this release: {released}")
        return self._places[released]

    @cached_property
    def _places(self) -> dict[str, tuple[int, float, float]]:
        index = {name: position for position, name in enumerate(self.names, 1)}
        return {name: _place(column, name, index) for column in self.layout.columns for name in column.released}


def public_gram(codes: npt.NDArray[np.int32], columns: tuple[Column, ...], grid_bits: int) -> npt.NDArray[np.int64]:
    """(a+1, a+1) exact sums over patients of products of the constant and the public variables, squared grid steps.

    Args:
        codes: (n, d) codes of the public columns, as released.
        columns: their declarations.
        grid_bits: b.
    """
    constant = np.full((len(codes), 1), 1 << grid_bits, np.int32)
    rows = np.hstack([constant, code(codes, columns)]) if columns else constant
    return product(rows, rows, left_bits=grid_bits, right_bits=grid_bits).view(np.int64)


def _place(column: Column, released: str, places: dict[str, int]) -> tuple[int, float, float]:
    if isinstance(column, NumericColumn):
        return places[released], column.midpoint, column.half_width
    if isinstance(column, CategoricalColumn) and is_binary(column):
        return places[column.released[0]], 0.5, 0.5 if released == column.released[0] else -0.5
    return places[released], 0.0, 1.0
