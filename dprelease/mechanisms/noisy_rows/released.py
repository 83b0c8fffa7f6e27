"""Noisy rows in a learner's hands: scaled so that every entry of a column carries equal noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, FileRows, Floats, Integers, RowTable
from dprelease.data.columns import Column, is_public, private_weights
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mechanisms.noisy_rows.privatize import mixer
from dprelease.mechanisms.noisy_rows.terms import EXACT, MixedTerms, NoisyRowsTerms
from dprelease.mechanisms.view import CONSTANT, ReleasedTable, View
from dprelease.one_line import listed
from dprelease.progress import watched
from dprelease.spec_base import SpecBase

Engine = Literal["local", "dask"]
"""This process; or dask.array, on the cluster whose client is open, or else by threads of this process."""

READ_BYTES = 1 << 26
"""Bytes of released rows that are read together."""


def turns(rows: int, columns: int) -> Iterator[slice]:
    """All rows, some at a time: as many as `READ_BYTES` of so many columns have. The log tells of the progress."""
    step = max(1, READ_BYTES // (8 * max(1, columns)))
    every = (range(start, min(start + step, rows)) for start in range(0, rows, step))
    for part in watched(every, lambda read: read / rows):
        yield slice(part.start, part.stop)


def check_exact(released: Floats | Integers) -> None:
    """Refuse integers that doubles may not hold.

    Raises:
        IntegrityError: there is one.
    """
    if ((released >= EXACT) | (released <= -EXACT)).any():
        raise IntegrityError("a party sent integers of 2^53 or more, which no honest block of this release has")


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Released rows in scaled units out of the integers of blocks, which may stay in files.

    Attributes:
        blocks: (r, p_j) released integers, side by side.
        row_weights: (r,) weight of each row.
        column_weights: (p,) what the integers of each column are divided by.
        grid: unit of the integers.
        places: d columns that are wanted, by their places in the blocks side by side.
    """

    blocks: tuple[Integers | Floats | FileRows, ...]
    row_weights: Floats
    column_weights: Floats
    grid: float
    places: npt.NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        """(r, d)."""
        return len(self.row_weights), len(self.places)

    def __len__(self) -> int:
        """r."""
        return len(self.row_weights)

    def __getitem__(self, rows: slice, /) -> Floats:
        """Some rows.

        Raises:
            IntegrityError: an integer is one that no honest block has.
        """
        weights = self.row_weights[rows]
        found, start = np.empty((len(weights), len(self.places))), 0
        for block in self.blocks:
            own = (self.places >= start) & (self.places < start + block.shape[1])
            if own.any():
                found[:, own] = block[rows][:, self.places[own] - start]
            start += block.shape[1]
        check_exact(found)
        found /= self.column_weights[self.places]
        found *= self.grid
        found *= weights[:, None]
        return found

    def part(self, rows: slice) -> BlockRows:
        """Some rows, which stay where they are."""
        blocks = tuple(block.part(rows) if isinstance(block, FileRows) else block[rows] for block in self.blocks)
        return replace(self, blocks=blocks, row_weights=self.row_weights[rows])

    def some(self, places: Sequence[int] | slice) -> BlockRows:
        """Some of these columns."""
        return replace(self, places=self.places[places])


@dataclass(frozen=True)
class NoisyRows(View):
    """A release as the linear map A D + noise of the scaled rows D in [-1, 1].

    Rows of A have weights such that every patient's column of A has norm 1 (where rows are mixed: the anchor, when there
    is one, has weight sqrt(rho), each mixing row sqrt((1-rho)/c)), so every entry of one column carries equal noise.

    Attributes:
        names: (p,) released column names.
        table: (r, p) noisy A D; r = k, k + 1 or n.
        ones: (r,) A 1, the constant column after the same map: public and exact.
        noise_sd: (p,) standard deviation of each entry of a column; 0 for public columns.
        rows: n, patients.
        coded: declarations, with the bounds that cells were scaled by.
        anchor: whether row 0 is the anchor.
        kind: whether a row is a mixture of all patients, or one of them.
        clipping: none beside that to the bounds.
    """

    names: tuple[str, ...]
    table: RowTable
    ones: Floats
    noise_sd: Floats
    rows: int
    coded: tuple[Column, ...]
    anchor: bool
    kind: Literal["mixtures", "rows"] = "mixtures"
    clipping: ClassVar[None] = None

    @cached_property
    def values(self) -> Floats:
        """(r, p) all rows, in memory."""
        return self.table[:]

    @property
    def size(self) -> int:
        """r p."""
        return math.prod(self.table.shape)

    def released(self) -> ReleasedTable:
        """All numbers, in memory."""
        values, noise_sd = np.column_stack([self.ones, self.values]), np.concatenate([[0.0], self.noise_sd])
        return ReleasedTable((CONSTANT, *self.names), (), values, noise_sd)

    @property
    def mixed(self) -> bool:
        """Tells whether a row is a mixture of all patients."""
        return self.kind == "mixtures"

    @property
    def lower(self) -> Floats:
        """(p,) least scaled value of each released column; the largest is 1."""
        return np.array([column.least for column in self.coded for _ in column.released])

    def lookup(self, released: str) -> tuple[int, float, float]:
        """(position, midpoint, half_width) of a released name: value = midpoint + half_width * scaled.

        Raises:
            InvalidInput: no such released column.
        """
        if released not in self._places:
            raise InvalidInput(f"not in this release: {released}; it has {listed(self.names)}")
        return self._places[released]

    @cached_property
    def _places(self) -> dict[str, tuple[int, float, float]]:
        places = zip(range(len(self.names)), *self.original_units(), strict=True)
        return dict(zip(self.names, places, strict=True))

    def noise_in(self, places: Sequence[int]) -> Floats:
        """(q,) standard deviations of the noise in every entry of some columns."""
        return self.noise_sd[places]

    def original_units(self) -> tuple[Floats, Floats]:
        """(midpoint, half_width) of every released column, each (p,): value = midpoint + half_width * scaled."""
        return original_units(self.coded)

    def means(self) -> tuple[Floats, Floats]:
        """Estimated column means and the standard deviation of their noise, scaled units, each (p,).

        From the anchor row where there is one (error sd / (n sqrt(rho)) instead of sd / sqrt(n)), else by least squares
        on the constant column.
        """
        if self.anchor:
            return self.table[:1][0] / self.ones[0], self.noise_sd / self.ones[0]
        weight = float(self.ones @ self.ones)
        if weight == 0:  # two or fewer mixing rows may cancel; then the release says nothing about means
            return np.zeros(len(self.names)), np.full(len(self.names), np.inf)
        sums = (self.ones[rows] @ self.table[rows] for rows in turns(*self.table.shape))
        return sum(sums, np.zeros(len(self.names))) / weight, self.noise_sd / np.sqrt(weight)


def original_units(declared: Sequence[Column]) -> tuple[Floats, Floats]:
    """(midpoint, half_width) of the released columns of these, each (p,): value = midpoint + half_width * scaled."""
    columns = [column for column in declared for _ in column.released]
    return np.array([each.midpoint for each in columns]), np.array([each.half_width for each in columns])


def read(
    batches: Sequence[SpecBase],
    terms: Sequence[NoisyRowsTerms],
    noisy: Sequence[Floats | Integers],
    noise: float,
    public_codes: Codes,
) -> NoisyRows:
    """A release in scaled units with equal variances along every column.

    A column of weight w was noised as w times itself: it is divided by w here, and so is its noise.

    Args:
        batches: a spec for each batch of patients whose released rows were added up.
        terms: their terms, which differ in seeds alone.
        noisy: the rows, added up: of all parties, or of one after another.
        noise: what the declared noise scales are multiplied by.
        public_codes: (n, a) codes of all public columns, party after party.
    """
    spec, own = batches[0], terms[0]
    grid, rho, first = 2.0**-spec.grid_bits, float(own.rho), 1 if own.rho else 0
    rows = sum(each.rows for each in batches)
    public, shown = is_public(spec.columns), np.zeros((len(noisy[0]), 0), np.int64)
    column_weights = np.concatenate([private_weights(part.columns, part.weights) for part in spec.parties])
    mixing = np.sqrt((1 - rho) / own.squared_norm)
    row_weight, ones = np.full(len(noisy[0]), mixing), np.ones(rows)
    if isinstance(own, MixedTerms):
        signs = [mixer(each, batch) for each, batch in zip(terms, batches, strict=True) if isinstance(each, MixedTerms)]
        ones = sum(each.row_sums() for each in signs) + np.zeros(own.mixing.outputs)
        if public.any():  # the columns' owners publish them as they are; here they become rows like all others
            total = public_codes.sum(axis=0, dtype=np.int64)[None, :]
            shown = np.vstack([total[:first], signs[0].apply([public_codes])])
    if first:
        row_weight[0] = np.sqrt(rho)
        ones = np.concatenate([[float(rows)], ones])
    noise_sd = np.concatenate(
        [np.full(len(part.released), own.noise_of(part.party).scale * noise * grid * mixing) for part in spec.parties]
    )
    noise_sd[public] = 0.0
    noise_sd[~public] /= column_weights
    table = BlockRows(
        blocks=(*noisy, shown),
        row_weights=row_weight,
        column_weights=np.concatenate([column_weights, np.ones(shown.shape[1])]),
        grid=grid,
        places=np.argsort(np.argsort(public, kind="stable")),
    )
    return NoisyRows(
        names=spec.released,
        table=table,
        ones=ones * row_weight,
        noise_sd=noise_sd,
        rows=rows,
        coded=spec.columns,
        anchor=bool(first),
        kind="mixtures" if isinstance(own, MixedTerms) else "rows",
    )
