"""The start of a forecast: public numbers about a release, and guesses about data that nobody has looked at.

A number is guessed to have mean 0 and variance `PlannedFit.spread` in scaled units, a category to have its levels equally often,
and features to be uncorrelated but for the levels of one category. Features that repeat each other, or cells that crowd in a
small part of their range, need more patients than a forecast says: guess `spread` low for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from dprelease.arrays import Floats
from dprelease.catalogue import Catalogue
from dprelease.data.column import EVEN_SPREAD, Assumption
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import InvalidInput
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.expected_error import AssumedModel
from dprelease.one_line import listed
from dprelease.privacy.gaussian import check_target
from dprelease.spec_base import Target

MOST_COLUMNS = 10_000
"""Columns of one party that a forecast is made for at most."""


@dataclass(frozen=True)
class PlannedFit:
    """A regression that somebody plans, and guesses about its columns.

    Attributes:
        columns: declared columns of all parties.
        outcome: name of a declared column; of a category, one of its levels is meant.
        features: names of declared columns, the outcome not among them.
        spread: variance of every number in scaled units, in (0, 1]; 1/3 where cells spread evenly over their ranges.
        signs: whether a category of one level is coded -1 or +1, not 0 or 1.

    Raises:
        InvalidInput: a name or a number that makes no sense.
    """

    columns: tuple[Column, ...]
    outcome: str
    features: tuple[str, ...]
    spread: float = EVEN_SPREAD
    signs: bool = False

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        known = set(names)
        unknown = [name for name in (self.outcome, *self.features) if name not in known]
        if unknown:
            raise InvalidInput(f"no such column: {listed(unknown)}; there are {listed(names)}")
        if not self.features or self.outcome in self.features or len(set(self.features)) < len(self.features):
            raise InvalidInput("a fit needs an outcome and at least one other column as a feature, each named once")
        if not 0 < self.spread <= 1:
            raise InvalidInput(f"the spread, {self.spread:g}, must lie in (0, 1]")

    def guess(self, name: str) -> Assumption:
        """The guess about a declared column."""
        return self._guesses[name]

    @cached_property
    def _guesses(self) -> dict[str, Assumption]:
        return {column.name: column.assumption(self.spread, signs=self.signs) for column in self.columns}

    def assumed(self, signal: float) -> AssumedModel:
        """The regression of the outcome on the features.

        Raises:
            InvalidInput: R^2 is not in (0, 1].
        """
        if not 0 < signal <= 1:
            raise InvalidInput(f"a share of variance explained lies above 0 and at most at 1, not {signal:g}")
        guesses, outcome = [self.guess(name) for name in self.features], self.guess(self.outcome)
        return AssumedModel(
            signal=signal,
            free=self.spread_out([guess.free for guess in guesses]),
            mean=self.spread_out([guess.mean for guess in guesses]),
            outcome_variance=outcome.variance,
            outcome_mean=outcome.mean,
        )

    def spread_out(self, values: list[float]) -> Floats:
        """(d,) from one value for each declared feature: all levels of a category have the same."""
        return np.repeat(values, [self.guess(name).width for name in self.features])


@dataclass(frozen=True)
class Scenario:
    """One way to release and one fit on it, as planners compare them.

    Attributes:
        draft: what is fixed of the release.
        mechanism: name in the registry.
        fit: what is planned on it.
        asked: what a request says to the mechanism, by key.
        way: how it releases, where it has several ways; it follows the mechanism's name.

    Raises:
        InvalidInput: the target makes no sense.
    """

    draft: Draft
    mechanism: str
    fit: PlannedFit
    asked: Mapping[str, Any] = field(default_factory=dict)
    way: str = ""

    def __post_init__(self) -> None:
        check_target(self.draft.target.epsilon, self.draft.target.delta)
        if self.draft.agreed.rows < 1:
            raise InvalidInput(f"n = {self.draft.agreed.rows} must be positive")

    @property
    def plan(self) -> str:
        """The released numbers, in few words."""
        return f"{self.mechanism} {self.way}".rstrip()

    def having(self, rows: int | None = None, target: Target | None = None) -> Scenario:
        """The same of other patients, or with another target."""
        draft = self.draft.having(self.draft.agreed.rows if rows is None else rows)
        return replace(self, draft=draft if target is None else replace(draft, target=target))

    def asking(self, **keys: Any) -> Scenario:
        """The same where a request says this besides."""
        return replace(self, asked={**self.asked, **keys})


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


def draft_of(parties: Mapping[str, tuple[Column, ...]], rows: int, rows_per_subject: int, target: Target) -> Draft:
    """A draft of patients that no hospital has reported, for planning alone: seeds in it are zeros."""
    unsaid: dict[str, Any] = dict.fromkeys(("party", "roster", "alignment"), "")
    everything = tuple(column for declared in parties.values() for column in declared)
    agreed = Catalogue.model_construct(**unsaid, rows=rows, rows_per_subject=rows_per_subject, columns=everything)
    return Draft(parties, agreed, target, 16, bytes)


def chosen(
    parties: Mapping[str, tuple[Column, ...]], outcome: str | None, features: str | None, outcomes: tuple[str, ...] = ()
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
    outcome_only = frozenset(outcomes)
    others = tuple(name for name in names if name != wanted and name not in outcome_only)
    if features is None:
        return wanted, others
    if not features.isdecimal():
        return wanted, tuple(part.strip() for part in features.split(",") if part.strip())
    if not 1 <= int(features) <= len(others):
        raise InvalidInput(f"there are {len(others)} columns besides {wanted}; {features} cannot be features")
    return wanted, others[: int(features)]
