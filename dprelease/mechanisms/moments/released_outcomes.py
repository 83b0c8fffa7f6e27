"""Joint moments whose outcomes are apart: the covariance of the features, their association with the outcomes, and squares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.data.columns import Column, public
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import Kind, Layout
from dprelease.mechanisms.moments.released import Indices, Moments, NoisyMoments, crossed, noise_sd, with_constant
from dprelease.mpc.ring import product


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
        scales: Mapping[Kind, float],
        parties: int,
        codes: npt.NDArray[np.int32],
    ) -> OutcomeMoments:
        """From released integers.

        Args:
            layout: of the spec.
            values: (E,) from `add_up`.
            rows: n.
            grid_bits: b.
            scales: noise scale of each party's share, by kind of entry.
            parties: m.
            codes: (n, a) codes of the public columns, as released.
        """
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
        raise InvalidInput("products of two outcomes are not released; use features")


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
