"""The claim that a proof shows of every row of masked columns, and the bits that its numbers are made of.

A number with values lower, lower + step, .., lower + span step is

    lower + step (w_1 bit_1 + .. + w_k bit_k),    w = 1, 2, 4, .., 2^(k-2), span - 2^(k-1) + 1,    k = bits of span

The first k - 1 weights reach everything up to 2^(k-1) - 1, the last is between 1 and 2^(k-1), and all add up to the span. So
the sums are exactly 0..span, *whatever the bits are*: a bit string that P chooses freely cannot say anything else. (Several
strings may say the same.) A number in [-G, G], G = 2^b, has b + 2 bits; a binary, -G or G, and a level, 0 or G, have one.

Numbers are the columns, then for every open group one more level 0 or H that no column shows, then for every norm the slack
R - |q|^2 in 0..R. With them a claim is linear, but for squares:

    one-hot group:   sum of its columns (+ the hidden level) = H        each is 0 or H, so exactly one is H
    norm:            sum of squares + slack = R                         as integers, for sum max q^2 + R < p and q is in its range

Bits of a row lie one behind the other in units of 32, little end first, without regard to where a number ends.

Source: docs/range_proofs.md 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers
from dprelease.errors import InvalidInput
from dprelease.mpc.ring import Words

Bits = npt.NDArray[np.uint32]
"""(r, units): the bits of rows."""

UNIT = 32
"""Bits of a unit; tests on small fields take fewer, and leave the others unused."""


@dataclass(frozen=True)
class GridInterval:
    """Values of one column: lower, lower + step, .., upper.

    Attributes:
        lower: the least value.
        upper: the largest, a whole number of steps above.
        step: positive.
    """

    lower: int
    upper: int
    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1 or self.upper < self.lower or (self.upper - self.lower) % self.step:
            raise InvalidInput(f"{self.lower} to {self.upper} in steps of {self.step} is no range of values")

    @property
    def span(self) -> int:
        """Steps from the least to the largest."""
        return (self.upper - self.lower) // self.step


@dataclass(frozen=True)
class OneHot:
    """A category: in every row one of its columns has the value `level` and the others 0.

    Attributes:
        columns: their places; each has the values 0 and `level` alone.
        level: H, positive.
        open: whether all columns may be 0, for a category of which one level is not among the columns.
    """

    columns: tuple[int, ...]
    level: int
    open: bool = False


@dataclass(frozen=True)
class RowNorm:
    """A bound on the squared norm of some columns of a row.

    Attributes:
        columns: their places.
        squared: R, not negative.
    """

    columns: tuple[int, ...]
    squared: int


@dataclass(frozen=True)
class Claim:
    """The claim about every row of one party's columns.

    Attributes:
        columns: values of each column.
        groups: one-hot groups.
        norms: one for each block of columns that is bounded together.

    Raises:
        InvalidInput: it contradicts itself.
    """

    columns: tuple[GridInterval, ...]
    groups: tuple[OneHot, ...] = ()
    norms: tuple[RowNorm, ...] = ()

    def __post_init__(self) -> None:
        everything = range(len(self.columns))
        for columns in (*(group.columns for group in self.groups), *(norm.columns for norm in self.norms)):
            if not columns or len(set(columns)) < len(columns) or not set(columns) <= set(everything):
                raise InvalidInput(f"columns {columns} of {len(everything)}: give one or more, each once")
        for group in self.groups:
            level = GridInterval(0, group.level, group.level)
            if any(self.columns[place] != level for place in group.columns):
                raise InvalidInput(f"{group} has a column with other values than 0 and {group.level}")
        if any(norm.squared < 0 for norm in self.norms):
            raise InvalidInput("the square of a norm is negative")

    @cached_property
    def numbers(self) -> tuple[GridInterval, ...]:
        """All that is made of bits: columns, hidden levels of open groups, slacks of norms."""
        hidden = (GridInterval(0, group.level, group.level) for group in self.groups if group.open)
        return (*self.columns, *hidden, *(GridInterval(0, norm.squared) for norm in self.norms))

    @cached_property
    def weights(self) -> Integers:
        """Weight of each bit of a row, times its number's step."""
        found = [number.step * weight for number in self.numbers for weight in bit_weights(number.span)]
        return np.array(found, np.int64)

    @cached_property
    def number_of(self) -> Integers:
        """The number that each bit of a row belongs to."""
        return np.repeat(np.arange(len(self.numbers)), [number.span.bit_length() for number in self.numbers])

    @property
    def largest(self) -> int:
        """Largest magnitude of what a claim says is 0: numbers and bits that differ, groups less H, norms with slack less R."""
        reach = [max(abs(each.lower), abs(each.upper)) for each in self.columns]
        numbers = [abs(each.lower) + each.upper - each.lower for each in self.numbers]
        groups = [group.level * max(1, len(group.columns) + group.open - 1) for group in self.groups]
        norms = [sum(reach[c] ** 2 for c in norm.columns) + norm.squared for norm in self.norms]
        return max((0, *numbers, *groups, *norms))

    def steps(self, codes: npt.NDArray[np.integer]) -> list[Integers]:
        """(r,) for each number how many steps above its least value it is, from (r, d) values of the columns.

        Raises:
            InvalidInput: the claim is not true of some row: no honest party has it.
        """
        columns = [codes[:, place].astype(np.int64) for place in range(len(self.columns))]
        found = [column - each.lower for column, each in zip(columns, self.columns, strict=True)]
        for place, each in enumerate(self.columns):
            if each.step > 1:
                above = found[place]
                found[place] = above // each.step
                if not np.array_equal(found[place] * each.step, above):
                    raise InvalidInput(f"column {place} has a value between the steps of its range")
        for group in self.groups:
            hidden = 1 - np.sum([found[place] for place in group.columns], axis=0)
            if group.open:
                found.append(hidden)
            elif hidden.any():
                raise InvalidInput("a row has no level of a category, or two")
        found += [norm.squared - np.sum([columns[place] ** 2 for place in norm.columns], axis=0) for norm in self.norms]
        for steps, number in zip(found, self.numbers, strict=True):
            if len(steps) and (int(steps.min()) < 0 or int(steps.max()) > number.span):
                raise InvalidInput("a row has a value beyond its bounds, two levels of a category, or too large a norm")
        return found

    def bits(self, codes: npt.NDArray[np.integer], unit: int = UNIT) -> Bits:
        """The bits of rows; arguments and errors as of `steps` and `packed`."""
        return self.packed(self.steps(codes), unit)

    def units(self, unit: int = UNIT) -> int:
        """Units of a row, one at least."""
        return max(1, -(-len(self.weights) // unit))

    def packed(self, steps: list[Integers], unit: int = UNIT) -> Bits:
        """(r, units), the bits of numbers as `Claim.steps` has them."""
        mask, at = np.uint64((1 << unit) - 1), 0
        words: Words = np.zeros((self.units(unit), len(steps[0]) if steps else 0), np.uint64)
        for each, number in zip(steps, self.numbers, strict=True):
            size = number.span.bit_length()
            left, bits = size, _code(each, number.span).view(np.uint64)
            while left:
                place, shift = divmod(at, unit)
                taken = min(left, unit - shift)
                words[place] |= bits << np.uint64(shift) & mask
                bits = bits >> np.uint64(taken)
                at, left = at + taken, left - taken
        return np.ascontiguousarray(words.T.astype(np.uint32))


def bit_weights(span: int) -> tuple[int, ...]:
    """Weights whose sums are exactly 0..span."""
    size = span.bit_length()
    return (*(1 << bit for bit in range(size - 1)), span - (1 << (size - 1)) + 1) if size else ()


def _code(steps: Integers, span: int) -> Integers:
    """Bits, by `bit_weights`, of numbers 0..span, the first bit lowest."""
    size = span.bit_length()
    if size < 2:
        return steps
    half, last = 1 << (size - 1), span - (1 << (size - 1)) + 1
    upper = (steps >= half).astype(np.int64)
    return (steps - last * upper) | upper << (size - 1)
