"""Joint moments in a learner's hands: the blocks summed, lifted to signed integers and put in their places.

If some columns are outcomes only, these are the covariance of the features, their association with the outcomes, and squares.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats, Integers
from dprelease.data.columns import Column, public
from dprelease.data.ranges import Range
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mechanisms.moments.calibration import noise_reach, released_sd
from dprelease.mechanisms.moments.clipping import Ball, Clipping, balls
from dprelease.mechanisms.moments.entries import EntryKind, Layout, code
from dprelease.mechanisms.view import CONSTANT, SQUARES, ReleasedTable, View
from dprelease.mpc.modulus import Modulus
from dprelease.mpc.ring import product
from dprelease.one_line import listed

Indices = Sequence[int] | Integers


def limits(layout: Layout, rows: int, grid_bits: int, scales: Mapping[EntryKind, float], parties: int) -> list[int]:
    """(E,) largest absolute value of each noisy entry that is not garbage: n G^2 + 20 standard deviations, exact."""
    whole = rows << (2 * grid_bits)
    beyond = {int(kind): noise_reach(scale, parties) for kind, scale in scales.items()}
    return [whole + beyond[int(kind)] for kind in layout.kinds]


def add_up(blocks: Sequence[Integers], largest: Sequence[int], modulus: Modulus) -> Integers:
    """The released integers: all parties' blocks added, so that their masks cancel, and read as signed.

    Args:
        blocks: one (rows, E) array for each party.
        largest: (E,) from `limits`, the same for every row.
        modulus: of the spec.

    Returns:
        (rows E,) row after row.

    Raises:
        IntegrityError: an entry is out of range: some party sent garbage, or not all blocks belong together.
    """
    shape = blocks[0].size // len(largest), len(largest)
    total = modulus.signed(modulus.combined((1, block.reshape(shape)) for block in blocks).view(np.uint64))
    above = np.array([min(most, modulus.reach - 1) for most in largest], np.int64)
    below = np.array([max(-most, -modulus.reach) for most in largest], np.int64)
    if ((total > above) | (total < below)).any():
        raise IntegrityError(
            "the parties' blocks do not add up to moments: a party sent numbers that do not belong to this computation"
        )
    return total.reshape(-1)


class Moments(View, ABC):
    """Sums over patients of products of variables, with privacy noise, in scaled units; index 0 is the constant.

    Attributes:
        layout: variables and entries.
        rows: n, patients.
        clipping: how rows were coded and clipped; None in public bounds.
        kind: what there is to read.
    """

    layout: Layout
    rows: int
    clipping: Clipping | None = None
    kind: ClassVar[Literal["moments"]] = "moments"

    @property
    @abstractmethod
    def joint(self) -> NoisyMoments:
        """Moments of which all products are released: those of the features with outcome-only columns."""

    @abstractmethod
    def between(self, rows: Indices, columns: Indices) -> Floats:
        """(r, c) sums of products of some variables with others.

        Raises:
            InvalidInput: they are not released.
        """

    @abstractmethod
    def noise_between(self, rows: Indices, columns: Indices) -> Floats:
        """(r, c) standard deviations of their noise: 0 where they are exact.

        Raises:
            InvalidInput: they are not released.
        """

    @abstractmethod
    def own(self, chosen: Indices) -> Floats:
        """(c,) sums of squares."""

    @abstractmethod
    def noise_own(self, chosen: Indices) -> Floats:
        """(c,) standard deviations of their noise."""

    @property
    def size(self) -> int:
        """(p + 1)^2 / 2."""
        return len(self.layout.outcome) ** 2 // 2

    def released(self) -> ReleasedTable:
        """All numbers: sums of products of the features with everything, and squares where some columns are outcomes only."""
        names = (CONSTANT, *self.names)
        every, features = range(len(names)), np.flatnonzero(~self.layout.outcome)
        row_names = tuple(names[place] for place in features)
        values, noise_sd = self.between(features, every), self.noise_between(features, every)
        if len(features) < len(names):
            values, noise_sd = np.vstack([values, self.own(every)]), np.vstack([noise_sd, self.noise_own(every)])
            row_names = (*row_names, SQUARES)
        return ReleasedTable(names, row_names, values, noise_sd)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Ranges that numbers were coded in; none in public bounds."""
        return () if self.clipping is None else self.clipping.ranges

    @property
    def lower(self) -> Floats:
        """(p+1,) least scaled value of each variable; the largest is 1."""
        return self.layout.lower

    def means(self) -> tuple[Floats, Floats]:
        """Released means and the standard deviations of their noise, scaled units, each (p+1,)."""
        every = range(len(self.names) + 1)
        return self.between([0], every)[0] / self.rows, self.noise_between([0], every)[0] / self.rows

    def noise_in(self, places: Sequence[int]) -> Floats:
        """(q,) standard deviations of the noise in the sums of some variables."""
        found: Floats = self.noise_between([0], places)[0]
        return found

    @property
    def coded(self) -> tuple[Column, ...]:
        """Declarations, with the bounds that cells were scaled by."""
        return self.layout.columns

    @property
    def names(self) -> tuple[str, ...]:
        """(p,) names of the variables; index 0 of the matrices is the constant, variable i is index i + 1."""
        return tuple(variable.name for variable in self.layout.variables)

    def lookup(self, released: str) -> tuple[int, float, float]:
        """(index in the matrices, midpoint, half_width) of a released name: value = midpoint + half_width * x[index].

        A binary's two values are the same variable: the first is (1 + z)/2, the last is (1 - z)/2.

        Raises:
            InvalidInput: no such released column.
        """
        if released not in self._places:
            raise InvalidInput(f"not in this release: {released}")
        return self._places[released]

    @cached_property
    def _places(self) -> dict[str, tuple[int, float, float]]:
        numbered = enumerate(self.layout.variables, 1)
        return {name: (at, middle, half) for at, variable in numbered for name, middle, half in variable.readings}


@dataclass(frozen=True)
class NoisyMoments(Moments):
    """G + N in scaled units: sums over patients of x x^T, x = (1, z), plus privacy noise.

    Attributes:
        layout: variables and entries.
        gram: (p+1, p+1) symmetric; exact and derived entries filled in.
        noise_sd: (p+1, p+1) standard deviation of the noise of each entry: 0 where it is exact, as between public variables; a
            level's own entry repeats the noise of its entry with the constant, every other noisy entry above the diagonal is
            independent.
        rows: n, patients.
        clipping: how rows were clipped; None where they are not.
    """

    layout: Layout
    gram: Floats
    noise_sd: Floats
    rows: int
    clipping: Clipping | None = None

    @property
    def joint(self) -> NoisyMoments:
        """These."""
        return self

    @classmethod
    def read(
        cls,
        layout: Layout,
        values: npt.NDArray[np.int64],
        rows: int,
        grid_bits: int,
        scales: Mapping[EntryKind, float],
        parties: int,
        public: npt.NDArray[np.int64] | int = 0,
        clipping: Clipping | None = None,
    ) -> NoisyMoments:
        """From released integers. Numbers that were coded in ranges have the ends of their ranges for bounds.

        Args:
            layout: of the spec, no column of it an outcome only.
            values: (E,) from `add_up`.
            rows: n.
            grid_bits: b.
            scales: noise scale of each party's share, by kind of entry.
            parties: m.
            public: (a+1, a+1) from `public_gram`.
            clipping: of the spec.
        """
        unit, noise = math.ldexp(1.0, -2 * grid_bits), noise_sd(layout, scales, parties)
        seen, entry = layout, np.full(layout.entries, unit)
        if clipping is not None:
            one = clipping.units(layout)
            seen, entry = Layout(clipping.seen(layout.columns)), 1 / (one[layout.rows] * one[layout.cols])
        gram = layout.matrix(values * entry, float(rows), public * unit)
        return cls(seen, gram, layout.matrix(noise * entry, 0.0), rows, clipping)

    @property
    def balls(self) -> tuple[Ball, ...]:
        """The sets that rows were clipped to; nothing where they were not."""
        return () if self.clipping is None else balls(self.clipping, self.layout)

    def between(self, rows: Indices, columns: Indices) -> Floats:
        """(r, c) sums of products."""
        return crossed(self.gram, rows, columns)

    def noise_between(self, rows: Indices, columns: Indices) -> Floats:
        """(r, c) standard deviations of their noise."""
        return crossed(self.noise_sd, rows, columns)

    def own(self, chosen: Indices) -> Floats:
        """(c,) sums of squares."""
        return self.gram[chosen, chosen]

    def noise_own(self, chosen: Indices) -> Floats:
        """(c,) standard deviations of their noise."""
        return self.noise_sd[chosen, chosen]


def crossed(matrix: Floats, rows: Indices, columns: Indices) -> Floats:
    """(r, c) entries of a matrix."""
    return matrix[np.asarray(rows, np.int64)[:, None], np.asarray(columns, np.int64)]


def noise_sd(layout: Layout, scales: Mapping[EntryKind, float], parties: int) -> Floats:
    """(E,) standard deviation of each entry's noise, squared grid steps."""
    return np.array([released_sd(scales[kind], parties) for kind in EntryKind])[layout.kinds]


def public_gram(codes: npt.NDArray[np.int32], columns: tuple[Column, ...], grid_bits: int) -> npt.NDArray[np.int64]:
    """(a+1, a+1) exact sums over patients of products of the constant and the public variables, squared grid steps.

    Args:
        codes: (n, d) codes of the public columns, as released.
        columns: their declarations.
        grid_bits: b.
    """
    rows = with_constant(codes, columns, grid_bits)
    return product(rows, rows, left_bits=grid_bits, right_bits=grid_bits).view(np.int64)


def with_constant(codes: npt.NDArray[np.int32], columns: tuple[Column, ...], grid_bits: int) -> npt.NDArray[np.int32]:
    """(n, a+1) the constant and the public variables on the grid. Arguments as of `public_gram`."""
    constant = np.full((len(codes), 1), 1 << grid_bits, np.int32)
    return np.hstack([constant, code(codes, columns)]) if columns else constant


@dataclass(frozen=True, eq=False)
class OutcomeMoments(Moments):
    """Products with features only, so that l outcomes of d features take O(l d) and not O(l^2).

    Attributes:
        layout: variables and entries.
        across: (d+1, p+1) sums of products of the constant and the features with everything; indices are those of x = (1, z).
        across_sd: (d+1, p+1) standard deviation of their noise.
        squares: (p+1,) sums of squares of everything.
        squares_sd: (p+1,) standard deviation of their noise.
        rows: n, patients.
    """

    layout: Layout
    across: Floats
    across_sd: Floats
    squares: Floats
    squares_sd: Floats
    rows: int

    @classmethod
    def read(
        cls,
        layout: Layout,
        values: npt.NDArray[np.int64],
        rows: int,
        grid_bits: int,
        scales: Mapping[EntryKind, float],
        parties: int,
        codes: npt.NDArray[np.int32],
    ) -> OutcomeMoments:
        """From released integers; arguments as of `NoisyMoments.read`, and (n, a) codes of the public columns as released."""
        unit = math.ldexp(1.0, -2 * grid_bits)
        across, squares = _placed(layout, values.astype(np.float64) * unit)
        across_sd, squares_sd = _placed(layout, noise_sd(layout, scales, parties) * unit)
        at = np.flatnonzero(layout.public)
        exact = with_constant(codes, public(layout.columns), grid_bits)
        inner = ~layout.outcome[at]
        products = product(np.ascontiguousarray(exact[:, inner]), exact, left_bits=grid_bits, right_bits=grid_bits)
        across[np.ix_(layout.feature_place[at[inner]], at)] = products.view(np.int64) * unit
        squares[at] = np.einsum("ij,ij->j", exact, exact, dtype=np.int64) * unit
        for index, variable in enumerate(layout.variables, 1):
            if variable.public or variable.measured:
                continue
            # A level is 0 or G: its square is G times itself. That of a binary is n G^2.
            squares[index], squares_sd[index] = (
                (across[0, index], across_sd[0, index]) if variable.level else (rows, 0.0)
            )
        features = np.flatnonzero(~layout.outcome)
        diagonal = np.arange(len(features)), features
        across[diagonal], across_sd[diagonal] = squares[features], squares_sd[features]
        return cls(layout, across, across_sd, squares, squares_sd, rows)

    def between(self, rows: Indices, columns: Indices) -> Floats:
        """(r, c) sums of products."""
        return self._cut(self.across, rows, columns)

    def noise_between(self, rows: Indices, columns: Indices) -> Floats:
        """(r, c) standard deviations of their noise."""
        return self._cut(self.across_sd, rows, columns)

    def own(self, chosen: Indices) -> Floats:
        """(c,) sums of squares."""
        return self.squares[np.asarray(chosen, np.int64)]

    def noise_own(self, chosen: Indices) -> Floats:
        """(c,) standard deviations of their noise."""
        return self.squares_sd[np.asarray(chosen, np.int64)]

    @cached_property
    def joint(self) -> NoisyMoments:
        """The moments of the features alone, as of any joint moments."""
        inner = np.flatnonzero(~self.layout.outcome)
        named = set(self.layout.outcomes)
        columns: tuple[Column, ...] = tuple(column for column in self.layout.columns if column.name not in named)
        return NoisyMoments(Layout(columns), self.across[:, inner], self.across_sd[:, inner], self.rows)

    def _cut(self, matrix: Floats, rows: Indices, columns: Indices) -> Floats:
        first, second, place = np.asarray(rows, np.int64), np.asarray(columns, np.int64), self.layout.feature_place
        outcome = self.layout.outcome
        if not outcome[first].any():
            return crossed(matrix, place[first], second)
        if not outcome[second].any():
            return crossed(matrix, place[second], first).T
        twice = [
            self.layout.columns[self.layout.variables[at - 1].column].name for at in (*first, *second) if outcome[at]
        ]
        raise InvalidInput(
            f"products of two outcomes are not released, and {listed(dict.fromkeys(twice))} are outcomes only; name one of them"
        )


def _placed(layout: Layout, values: Floats) -> tuple[Floats, Floats]:
    """(d+1, p+1) and (p+1,) with the noisy entries in their places and zeros elsewhere."""
    row, column, outcome, place = layout.rows, layout.cols, layout.outcome, layout.feature_place
    across, squares = np.zeros((int((~outcome).sum()), len(outcome))), np.zeros(len(outcome))
    for first, second in ((row, column), (column, row)):
        inner = ~outcome[first]
        across[place[first[inner]], second[inner]] = values[inner]
    own = row == column
    squares[row[own]] = values[own]
    return across, squares
