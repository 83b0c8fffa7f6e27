"""What a forecast starts from: public numbers about a release, and guesses about data that nobody has looked at.

A number is guessed to have mean 0 and variance `Setting.spread` in scaled units, a category to have its levels equally often,
and features to be uncorrelated but for the levels of one category. Features that repeat each other, or cells that crowd in a
small part of their range, need more patients than a forecast says: guess `spread` low for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np

from dprelease.data.column import EVEN_SPREAD, Assumption
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.weights import check_weights
from dprelease.errors import InvalidInput
from dprelease.mechanisms.expected_error import Assumed, Floats
from dprelease.one_line import listed
from dprelease.privacy.gaussian import check_target
from dprelease.spec_base import Target

MOST_COLUMNS = 10_000
"""Columns of one party that a forecast is made for at most."""


@dataclass(frozen=True)
class Setting:
    """What a forecast follows from.

    Attributes:
        rows: n.
        parties: party to declared columns.
        target: privacy target; for joint moments it is taken as a joint one, whatever its scope.
        mechanism: name in the registry.
        outcome: name of a declared column; of a category, one of its levels is meant.
        features: names of declared columns, the outcome not among them.
        spread: variance of every number in scaled units, in (0, 1]; 1/3 where cells spread evenly over their ranges.
        rows_per_subject: q.
        grid_bits: b.
        outputs: k of ``mixed``; None for the rule of `plan_mixing`.
        anchor_weight: rho of ``mixed``; None for the same rule.
        curious: t of ``moments``; None for 1, or 0 for one party.
        weights: column to weight in ``mixed`` and ``rows``, where it is not 1.
        outcomes: names of columns that are outcomes only in ``moments``; none of them is a feature.
        public_norm2: T2 as it is stated, of public outcomes.
        parts: of the price of ``moments``, one for each party with a private column; none where they are equal.
        signs: whether a category of one level is coded -1 or +1, not 0 or 1.
        ranges: part of mu^2 that ranges of the numbers take beforehand, 0 where they are published already; ``moments`` then
            codes numbers in them and clips rows. None for public bounds.
        source: digest of the release that published them; None where there is none yet, or nobody says.
        clip: k of that.
        number_weights: number to its weight in that, where it is not 1.
        stream: mechanism whose integers a ``stream`` adds up, and how many times more noise there is than in one release of all n
            patients; None for no stream.

    Raises:
        InvalidInput: a name or a number that makes no sense.
    """

    rows: int
    parties: Mapping[str, tuple[Column, ...]]
    target: Target
    mechanism: str
    outcome: str
    features: tuple[str, ...]
    spread: float = EVEN_SPREAD
    rows_per_subject: int = 1
    grid_bits: int = 16
    outputs: int | None = None
    anchor_weight: Fraction | None = None
    curious: int | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    outcomes: tuple[str, ...] = ()
    public_norm2: Fraction | None = None
    parts: tuple[Fraction, ...] = ()
    signs: bool = False
    ranges: Fraction | None = None
    source: str | None = None
    clip: float = 0.0
    number_weights: Mapping[str, float] = field(default_factory=dict)
    stream: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        known, named = set(names), set(self.outcomes)
        unknown = [name for name in (self.outcome, *self.features, *self.outcomes) if name not in known]
        if unknown:
            raise InvalidInput(f"no such column: {listed(unknown)}; there are {listed(names)}")
        if not self.features or self.outcome in self.features or len(set(self.features)) < len(self.features):
            raise InvalidInput("a fit needs an outcome and at least one other column as a feature, each named once")
        apart = [name for name in self.features if name in named]
        if apart:
            raise InvalidInput(f"{listed(apart)} cannot be a feature: the release names it as an outcome")
        if self.rows < 1 or not 0 < self.spread <= 1:
            raise InvalidInput(f"n = {self.rows} must be positive and the spread, {self.spread:g}, in (0, 1]")
        if self.outputs is not None and not 1 <= self.outputs <= self.rows:
            raise InvalidInput(f"k must lie between 1 and n = {self.rows}, not {self.outputs}")
        if len(self.parties) > 1 and not 1 <= self.pooled < len(self.parties):
            raise InvalidInput(f"curious must lie between 1 and {len(self.parties) - 1}, not {self.curious}")
        check_target(self.target.epsilon, self.target.delta)
        check_weights(self.columns, self.weights)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Declared columns of all parties."""
        return tuple(column for declared in self.parties.values() for column in declared)

    @property
    def plan(self) -> str:
        """What is released, in two words at most."""
        return self.mechanism if self.ranges is None else f"{self.mechanism} in ranges"

    @property
    def pooled(self) -> int:
        """t."""
        if len(self.parties) == 1:
            return 0
        return 1 if self.curious is None else self.curious

    def guess(self, name: str) -> Assumption:
        """What is guessed of a declared column."""
        return self._guesses[name]

    @cached_property
    def _guesses(self) -> dict[str, Assumption]:
        return {column.name: column.assumption(self.spread, signs=self.signs) for column in self.columns}

    def assumed(self, signal: float) -> Assumed:
        """The regression of the outcome on the features.

        Args:
            signal: R^2.

        Raises:
            InvalidInput: R^2 is not in (0, 1].
        """
        if not 0 < signal <= 1:
            raise InvalidInput(f"a share of variance explained lies above 0 and at most at 1, not {signal:g}")
        guesses, outcome = [self.guess(name) for name in self.features], self.guess(self.outcome)
        return Assumed(
            signal=signal,
            free=self.spread_out([guess.free for guess in guesses]),
            mean=self.spread_out([guess.mean for guess in guesses]),
            outcome_variance=outcome.variance,
            outcome_mean=outcome.mean,
        )

    def spread_out(self, values: list[float]) -> Floats:
        """(d,) from one value for each declared feature: all levels of a category have the same."""
        return np.repeat(values, [self.guess(name).width for name in self.features])


def evenly(widths: str) -> dict[str, tuple[Column, ...]]:
    """Parties that hold numbers called x1, x2, and so on.

    Args:
        widths: columns of each party, such as ``3,4,2`` for three parties.

    Raises:
        InvalidInput: it is not such a list of positive integers.
    """
    parts = [part.strip() for part in widths.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= MOST_COLUMNS for part in parts):
        raise InvalidInput(f"{widths!r} does not say how many columns each party has; 3,4,2 stands for three parties")
    counts = [int(part) for part in parts]
    return {
        f"party{number}": tuple(
            NumericColumn(name=f"x{place}", lower=-1, upper=1, fill=0) for place in range(end - width + 1, end + 1)
        )
        for number, (width, end) in enumerate(zip(counts, accumulate(counts), strict=True), 1)
    }


def chosen(
    parties: Mapping[str, tuple[Column, ...]],
    outcome: str | None,
    features: str | None,
    outcomes: tuple[str, ...] = (),
) -> tuple[str, tuple[str, ...]]:
    """The outcome and the features of a fit, as a person asked for them.

    Args:
        parties: party to declared columns.
        outcome: name of a column; the last column, of `outcomes` if there are any, if None.
        features: names with commas between them, or how many of the other columns; None for all of them.
        outcomes: columns that are outcomes only, and so not among the others.

    Raises:
        InvalidInput: there are not so many others.
    """
    names = [column.name for declared in parties.values() for column in declared]
    wanted = (outcomes or names)[-1] if outcome is None else outcome
    apart = frozenset(outcomes)
    others = tuple(name for name in names if name != wanted and name not in apart)
    if features is None:
        return wanted, others
    if not features.isdecimal():
        return wanted, tuple(part.strip() for part in features.split(",") if part.strip())
    if not 1 <= int(features) <= len(others):
        raise InvalidInput(f"there are {len(others)} columns besides {wanted}; {features} cannot be features")
    return wanted, others[: int(features)]
