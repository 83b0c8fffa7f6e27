"""The clipping that a request gets: weights, norms and the weight of squares, from public numbers alone.

Units are standard deviations as the ranges tell them: a range reaches `REACH` of them to either side. Numbers weigh 1 per
standard deviation, or what the request says; constant, binaries, groups and public columns weigh as much as one. A party of d
numbers with weights a_c keeps its rows within

    r^2 = sum a_c^2 + k sqrt(2 sum a_c^4),

which k standard deviations of the squared norm of a normal row reach. How far to clip is judged by

    nu = Delta sqrt(m/(m - t)) / (mu n),

the noise of a correlation at k = 1: where it is small little is won and the bias of clipping shows (docs/methods.md).
A party with one number never keeps it below two standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.clipped_sensitivity import Rows, clipped_sensitivity
from dprelease.mechanisms.moments.clipping import Clipping, Norm, numbers_of
from dprelease.mechanisms.moments.entries import Layout

REACH = 3
"""Standard deviations from the centre of a range to its ends."""

HEAVIEST = 4.0
"""Largest weight of a number: beyond, all other noise grows for nothing."""

ALONE, LITTLE = 4.0, 2.0
"""Least r^2 of a party with one number, in its weight squared; and k from which such a party clips nothing."""

STEPS = ((0.02, 4.0), (0.04, 2.0), (0.08, 1.0), (math.inf, 0.0))
"""nu up to which, to k."""


@dataclass(frozen=True)
class Situation:
    """What the rule reads.

    Attributes:
        mu: of the release.
        rows: n.
        parties: m.
        curious: t.
        grid_bits: b.
    """

    mu: float
    rows: int
    parties: int
    curious: int
    grid_bits: int


def choose_clipping(
    columns: Mapping[str, tuple[Column, ...]],
    ranges: Sequence[Range] | None,
    situation: Situation,
    weights: Mapping[str, float],
    k: float | None = None,
    source: str | None = None,
) -> Clipping:
    """The clipping of a release.

    Args:
        columns: party to its columns.
        ranges: of private numbers, by name, in any order; None where a first round will publish them. Nothing else depends on them.
        situation: n, m and the like.
        weights: number to its weight, for those that should have less noise than others; 1 unless named.
        k: how far to clip; infinite for no norms, None for the rule.
        source: digest of the release that has the ranges.

    Raises:
        InvalidInput: a private number has no range, or a weight is of no private number or out of range.
    """
    declared = tuple(column for own in columns.values() for column in own)
    numbers = {name for own in columns.values() for name in numbers_of(own)}
    known = None if ranges is None else {each.name: each for each in ranges}
    absent = [] if known is None else sorted(numbers - known.keys())
    if absent:
        raise InvalidInput(
            f"no range is known of {', '.join(absent)}; ask for a release of mechanism 'ranges' that has them"
        )
    for name, weight in weights.items():
        if name not in numbers:
            raise InvalidInput(f"outcome_weight: {name} is not a private number of this release")
        if not 1 <= weight <= HEAVIEST:
            raise InvalidInput(f"outcome_weight.{name} must lie between 1 and {HEAVIEST:g}, not {weight:g}")
    if k is None:
        noise = relative_noise(
            _clipping(columns, known, weights, 1.0, situation.grid_bits, source), declared, situation
        )
        k = next(each for most, each in STEPS if noise < most)
    return _clipping(columns, known, weights, k, situation.grid_bits, source)


def relative_noise(clipping: Clipping, columns: tuple[Column, ...], situation: Situation) -> float:
    """nu: standard deviation of the noise of a correlation of two numbers of weight 1.

    Args:
        clipping: that is weighed; its constant weighs as much as a standard deviation.
        columns: of all parties.
        situation: n, m and the like.
    """
    delta = math.sqrt(clipped_sensitivity(Layout(columns), clipping, 0).squared) / clipping.constant**2
    margin = math.sqrt(situation.parties / (situation.parties - situation.curious))
    return delta * margin / (situation.mu * situation.rows)


def _clipping(
    columns: Mapping[str, tuple[Column, ...]],
    ranges: Mapping[str, Range] | None,
    weights: Mapping[str, float],
    k: float,
    grid_bits: int,
    source: str | None,
) -> Clipping:
    declared = tuple(column for own in columns.values() for column in own)
    named = tuple(name for own in columns.values() for name in numbers_of(own))
    reach = {name: REACH * weights.get(name, 1.0) for name in named}
    one = (1 << grid_bits) / max([1.0, *(reach[name] for name in named)])  # the code of a standard deviation
    found = Clipping(
        constant=round(one),
        weights=tuple(round(one * (reach[each.name] if each.name in named else 1)) for each in declared),
        ranges=() if ranges is None else tuple(ranges[name] for name in named),
        norms=tuple(
            norm for own in columns.values() for norm in _norm(numbers_of(own), weights, k, one) if math.isfinite(k)
        ),
        square_weight="1/2",
        source=source,
    )
    weight = Rows.of(Layout(declared), found).best_weight()
    return found.model_copy(update={"square_weight": str(weight)})


def _norm(names: tuple[str, ...], weights: Mapping[str, float], k: float, one: float) -> Iterator[Norm]:
    """The norm of one party, if it clips its rows at all."""
    squares = [weights.get(name, 1.0) ** 2 for name in names]
    radius = sum(squares) + k * math.sqrt(2 * sum(square**2 for square in squares))
    if len(names) == 1:
        radius = REACH**2 * squares[0] if k >= LITTLE else max(radius, ALONE * squares[0])
    if names and radius < REACH**2 * sum(squares):
        yield Norm(columns=names, squared=int(radius * one**2))
