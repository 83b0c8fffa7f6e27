"""The clipping that a request gets: weights, norms and the weight of squares, from public numbers alone.

Units are those of reaches as the ranges tell them (`dprelease.data.ranges`): a range reaches `REACH` of them to either side.
Numbers weigh a_c = 1 per unit, or what the request says. A party of d numbers keeps its rows within

    r^2 = sum a_c^2 + k sqrt(2 sum a_c^4),

which k standard deviations of the squared norm of a normal row reach where a unit is a standard deviation. k is 0 unless a request
says otherwise: how far to clip is for reaches to say, column by column, as a larger unit is a larger k for all.
A party with one number never keeps it below two units: a norm of one number is no more than a narrower range, and cuts its tail
off. For all that it is kept, however few numbers parties hold: without norms every number counts with the square of its whole
range, `REACH`^2 = 9, in the noise of all products.

Constant, binaries, groups and public columns, f in all, weigh q units. Delta is then f q^2 + R^2 with R^2 the sum of r^2, and the
noise of a product of two columns in their own units is Delta over both weights, times the reach t_c of each that is a number. With
t_0 for all of these, which is known before the ranges are, the sum of its square over all pairs is Delta^2 (f/q^2 + t_0^2 sum
1/a_c^2)^2, least at

    q^4 = R^2 / (t_0^2 sum 1/a_c^2).

As a number's range takes more of Delta than its standard deviation needs, columns without tails get some of it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dprelease.data.columns import Column
from dprelease.data.ranges import ALONE, REACH, GuessedNoise, Range, guess
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.clipping import Clipping, Norm, numbers_of
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import RowBounds
from dprelease.one_line import listed

HEAVIEST = 4.0
"""Largest weight of a number: beyond, all other noise grows for nothing."""

LITTLE = 2.0
"""k from which on a party with one number, whose r^2 is at least `ALONE` in its weight squared, clips nothing."""


@dataclass(frozen=True)
class ClippingInputs:
    """Inputs of the rule.

    Attributes:
        mu: of the release.
        rows: n.
        parties: m.
        collusion_threshold: t.
        grid_bits: b.
    """

    mu: float
    rows: int
    parties: int
    collusion_threshold: int
    grid_bits: int


def choose_clipping(
    columns: Mapping[str, tuple[Column, ...]],
    ranges: Sequence[Range] | None,
    inputs: ClippingInputs,
    weights: Mapping[str, float],
    k: float = 0.0,
    source: str | None = None,
) -> Clipping:
    """The clipping of a release.

    Args:
        columns: party to its columns.
        ranges: of private numbers, by name, in any order; None where a first round will publish them. Nothing else depends on them.
        inputs: n, m and the like.
        weights: number to its weight, for those that should have less noise than others; 1 unless named.
        k: how far to clip; infinite for no norms.
        source: digest of the release that has the ranges.

    Raises:
        InvalidInput: a private number has no range, or a weight is of no private number or out of range.
    """
    numbers = {name for own in columns.values() for name in numbers_of(own)}
    known = None if ranges is None else {each.name: each for each in ranges}
    absent = [] if known is None else sorted(numbers - known.keys())
    if absent:
        raise InvalidInput(
            f"no range is known of {listed(absent)}; ask for a release of mechanism 'ranges' that has them"
        )
    for name, weight in weights.items():
        if name not in numbers:
            raise InvalidInput(f"outcome_weight: {name} is not a private number of this release")
        if not 1 <= weight <= HEAVIEST:
            raise InvalidInput(f"outcome_weight.{name} must lie between 1 and {HEAVIEST:g}, not {weight:g}")
    return _clipping(columns, known, weights, k, inputs, source)


def guess_of(columns: Mapping[str, tuple[Column, ...]], inputs: ClippingInputs) -> GuessedNoise:
    """t_0 of these columns, and the noise at it."""
    own = [len(numbers_of(each)) for each in columns.values()]
    margin = math.sqrt(inputs.parties / (inputs.parties - inputs.collusion_threshold))
    others = 1 + sum(map(len, columns.values())) - sum(own)
    return guess([count for count in own if count], others, margin / (inputs.mu * inputs.rows))


def deviation(clipping: Clipping, columns: tuple[Column, ...]) -> float:
    """The code of a unit of the numbers that weigh least; of the constant where there are none."""
    weights = clipping.number_weights(columns)
    return min(weights.values()) / REACH if weights else float(clipping.constant)


def _clipping(
    columns: Mapping[str, tuple[Column, ...]],
    ranges: Mapping[str, Range] | None,
    weights: Mapping[str, float],
    k: float,
    inputs: ClippingInputs,
    source: str | None,
) -> Clipping:
    declared = tuple(column for own in columns.values() for column in own)
    parts = [numbers_of(own) for own in columns.values()]
    weighed = {name: weights.get(name, 1.0) for names in parts for name in names}
    one = (1 << inputs.grid_bits) / (REACH * max(weighed.values(), default=1 / REACH))  # the code of a unit
    radii = [_squared_radius([weighed[name] for name in names], k) for names in parts]
    least = sum(1 / weight**2 for weight in weighed.values())
    other = one * ((sum(radii) / least / guess_of(columns, inputs).reach ** 2) ** 0.25 if weighed else 1.0)
    found = Clipping(
        constant=round(other),
        weights=tuple(
            round(one * REACH * weighed[each.name]) if each.name in weighed else round(other) for each in declared
        ),
        ranges=() if ranges is None else tuple(ranges[name] for name in weighed),
        norms=tuple(
            Norm(columns=names, squared=max(1, int(radius * one**2)))
            for names, radius in zip(parts, radii, strict=True)
            if radius < REACH**2 * sum(weighed[name] ** 2 for name in names)
        ),
        square_weight="1/2",
        source=source,
    )
    weight = RowBounds.of(Layout(declared), found).best_weight()
    return found.model_copy(update={"square_weight": str(weight)})


def _squared_radius(weights: Sequence[float], k: float) -> float:
    """r^2 of one party's numbers; that of their ranges where rows are not clipped."""
    squares = [weight**2 for weight in weights]
    whole = REACH**2 * sum(squares)
    if not math.isfinite(k) or (len(weights) == 1 and k >= LITTLE):
        return whole
    radius = sum(squares) + k * math.sqrt(2 * sum(square**2 for square in squares))
    return min(whole, max(radius, ALONE * squares[0]) if len(weights) == 1 else radius)
