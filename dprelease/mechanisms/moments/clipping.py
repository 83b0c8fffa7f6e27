"""Rows coded in ranges, by weight, and clipped so that each party's numbers of a patient have a bounded norm.

    code on the public grid -> code in the column's range, of weight H -> scaled down where the party's numbers are too long

Every step is one of integers, so that each machine makes the same codes. Public columns, binaries and groups take no part in
norms. `sensitivity` bounds the sensitivity of the result; docs/guarantees.md 17 says what it does to fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dprelease.arrays import Codes
from dprelease.canonical import Digest, Rational, Value
from dprelease.data.columns import Column, Name, numbers
from dprelease.data.ranges import Range, seen
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import Layout

_PLACES = 31
"""Binary places of the factor that a row's numbers are multiplied by."""

Unit = Annotated[int, Field(ge=1, le=1 << 24)]


class Norm(Value):
    """The largest squared norm of one party's private numbers of a patient.

    Attributes:
        columns: names of all its private numbers, in order.
        squared: R, in squares of the weights' unit; less than they could reach by themselves.
    """

    columns: Annotated[tuple[Name, ...], Field(min_length=1)]
    squared: Annotated[int, Field(ge=1)]


class Clipping(Value):
    """How rows are coded and clipped before they are multiplied.

    Attributes:
        constant: H_0, the code of the constant.
        weights: H, the largest code of each declared column, in the spec's order; the largest of all, H_0 among them, is 2^b.
        ranges: of every private number, in the spec's order; none where the release's own first round publishes them.
        norms: one for each party that clips its rows, in the spec's order.
        square_weight: v >= 1/2; squares of numbers take noise of variance smaller by v, or larger where it is below 1.
        source: digest of the release that the ranges were published in; None where they come from elsewhere.
    """

    constant: Unit
    weights: tuple[Unit, ...]
    ranges: tuple[Range, ...]
    norms: tuple[Norm, ...] = ()
    square_weight: Rational
    source: Annotated[Digest | None, Field(exclude_if=lambda source: source is None)] = None

    @model_validator(mode="after")
    def _norms_are_of_different_columns(self) -> Clipping:
        names = [name for norm in self.norms for name in norm.columns]
        if len(set(names)) != len(names):
            raise ValueError("a column counts in one norm only")
        return self

    def check(self, parties: tuple[tuple[Column, ...], ...], grid_bits: int, *, later: bool = False) -> None:
        """Tells whether this is a clipping of these parties' columns.

        Args:
            parties: declared columns of each party.
            grid_bits: b.
            later: whether ranges are not known yet.

        Raises:
            ValueError: it is not; why.
        """
        columns = tuple(column for declared in parties for column in declared)
        found = {each.name: each for each in self.ranges}
        own = [numbers_of(declared) for declared in parties]
        if len(self.weights) != len(columns) or max(self.constant, *self.weights) != 1 << grid_bits:
            raise ValueError("clipping has a weight for each column, and the largest is the grid's unit")
        if not later and tuple(each.name for each in self.ranges) != tuple(name for names in own for name in names):
            raise ValueError("clipping has a range for each private number, in the order of the columns")
        named = (column for column in numbers(columns) if column.name in found)
        if not all(found[column.name].fits(column) for column in named):
            raise ValueError("a range has a box where the column's bounds are unknown, and nowhere else")
        weight = {column.name: each for column, each in zip(columns, self.weights, strict=True)}
        places = [own.index(norm.columns) if norm.columns in own else -1 for norm in self.norms]
        if -1 in places or places != sorted(places):
            raise ValueError(
                "a norm is over all private numbers of one party, and norms are in the order of the parties"
            )
        if any(norm.squared >= sum(weight[name] ** 2 for name in norm.columns) for norm in self.norms):
            raise ValueError("a norm that no row can exceed is left out")

    def number_weights(self, columns: tuple[Column, ...]) -> dict[str, int]:
        """Private number to its H.

        Args:
            columns: of all parties.
        """
        named = set(numbers_of(columns))
        pairs = zip(columns, self.weights, strict=True)
        return {column.name: weight for column, weight in pairs if column.name in named}

    def units(self, layout: Layout) -> npt.NDArray[np.int64]:
        """(p+1,) the code that stands for 1 of each entry of x = (1, z)."""
        return np.array([self.constant, *(self.weights[each.column] for each in layout.variables)], np.int64)

    def seen(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns as learners see them: the bounds of a private number are the ends of its range."""
        return seen(columns, self.ranges)


def numbers_of(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Names of the private numbers among these columns."""
    return tuple(column.name for column in numbers(columns))


def clip_rows(
    codes: Codes, columns: tuple[Column, ...], weights: tuple[int, ...], clipping: Clipping, bits: int
) -> Codes:
    """Coded and clipped rows of one party, (n, variables): what it multiplies.

    Guarantee: a number's code lies in [-H, H], and the squares of a row's private numbers add up to at most R where the party
    has a norm (docs/guarantees.md 17). The row is scaled by f / 2^31, f = isqrt(floor(R 4^31 / N)) and N its squared norm, each
    code rounded towards 0: the sum is then at most N f^2 / 4^31 <= R.

    Args:
        codes: (n, variables) of `entries.code`, on the public grid.
        columns: declarations of the party.
        weights: H of each of them.
        clipping: of the spec.
        bits: b.

    Raises:
        InvalidInput: a private number has no range, or a code is beyond what was promised; nothing may be made of it.
    """
    layout, ranges = Layout(columns), {each.name: each for each in clipping.ranges}
    found = np.empty_like(codes)
    inner = np.zeros(codes.shape[1], np.bool_)
    for place, variable in enumerate(layout.variables):
        weight = weights[variable.column]
        if variable.measured:
            inner[place] = not variable.public
            if not variable.public and variable.name not in ranges:
                raise InvalidInput(
                    f"no range of {variable.name} is known; it is not coded in its public bounds instead"
                )
            within = Range.whole(variable.name) if variable.public else ranges[variable.name]
            found[:, place] = within.code(codes[:, place], bits, weight)
        else:  # 0, +G or -G
            found[:, place] = np.sign(codes[:, place]) * weight
    norm = next((each for each in clipping.norms if each.columns == numbers_of(columns)), None)
    if norm is not None:
        found[:, inner] = _shortened(found[:, inner], norm.squared)
        if _squared_norms(found[:, inner]).max(initial=0) > norm.squared:
            raise InvalidInput("a clipped row is longer than its norm allows")
    largest = np.array([weights[variable.column] for variable in layout.variables])
    if np.any(np.abs(found) > largest):
        raise InvalidInput("a coded cell is beyond its weight")
    return found


def _squared_norms(codes: Codes) -> npt.NDArray[np.int64]:
    wide = codes.astype(np.int64)
    found: npt.NDArray[np.int64] = np.einsum("ij,ij->i", wide, wide)
    return found


def _shortened(codes: Codes, squared: int) -> Codes:
    """Rows scaled to a squared norm of at most `squared`, rounded towards 0."""
    norms, found = _squared_norms(codes), codes.copy()
    for row in np.flatnonzero(norms > squared):
        factor = math.isqrt((squared << (2 * _PLACES)) // int(norms[row]))
        cells = codes[row].astype(np.int64)
        found[row] = np.sign(cells) * ((np.abs(cells) * factor) >> _PLACES)
    return found


@dataclass(frozen=True)
class Ball:
    """The largest norm of some numbers of a patient that are clipped together, in scaled units.

    Attributes:
        places: (d,) of these numbers in x = (1, z).
        radii: (d,) how far each reaches where the others are 0; a published standard deviation is 1/(3 t).
    """

    places: tuple[int, ...]
    radii: tuple[float, ...]


def balls(clipping: Clipping, layout: Layout) -> tuple[Ball, ...]:
    """Sets that rows are clipped to: a ball for each norm, and a range for each private number that no norm is about."""
    weights = clipping.number_weights(layout.columns)
    place = {variable.name: index for index, variable in enumerate(layout.variables, 1)}
    found = [
        Ball(
            tuple(place[name] for name in norm.columns),
            tuple(math.sqrt(norm.squared) / weights[name] for name in norm.columns),
        )
        for norm in clipping.norms
    ]
    together = {name for norm in clipping.norms for name in norm.columns}
    return (*found, *(Ball((place[name],), (1.0,)) for name in weights if name not in together))
