"""The worth of a fit on a release before anything is spent, and the release that is recommended: never from data.

Noise and prices are those of the spec that the coordinator would propose; what a fit makes of them is in
`dprelease.mechanisms.expected_error`, what is guessed about the data in `assumptions`. A fit is called useful when it is
expected to keep more than half of what least squares on the private rows explain, and to beat the exact mean. A release
that explains less is close to the mean, whatever anybody does with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dprelease.data.columns import weights_of
from dprelease.errors import InvalidInput
from dprelease.files.settings import Mistakes
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options
from dprelease.one_line import listed
from dprelease.spec_base import PartyColumns, SpecBase

ALIKE = 0.02
"""Difference of expected R^2 that is not worth trusting others for."""

DEVIATIONS = (0.5, 0.3, 0.1)
"""Plausible standard deviations of a number, in half-widths of its bounds; cells that fill them evenly have 0.58."""

MOST_ROWS = 10**12
"""End of the search for enough patients."""
MOST_EPSILON = 100.0
"""End of the search for enough epsilon."""

_LEAST_EPSILON = 1e-3
_CLOSE = 1.01


@dataclass(frozen=True)
class Proposed:
    """The release that the coordinator would propose.

    Attributes:
        spec: of it, without names, keys and times.
        noise: of its numbers.
    """

    spec: SpecBase
    noise: ReleasedNoise

    @property
    def prices(self) -> Mapping[str, Fraction]:
        """Party to the mu^2 that its ledger would be charged, exactly."""
        return mechanism_of(self.spec).cost(self.spec).charges

    def mean_variance(self) -> float:
        """Noise variance of a released number, the mean over released columns."""
        found = [self.noise.columns[column.name] for column in self.spec.columns for _ in column.released]
        return sum(found) / len(found)


def proposed(scenario: Scenario) -> Proposed:
    """The release that the coordinator would propose.

    Raises:
        InvalidInput: it would refuse the request.
    """
    spec = _spec(scenario)
    return Proposed(spec, mechanism_of(spec).released_noise(spec))


def _spec(scenario: Scenario) -> SpecBase:
    """The spec of the proposal, as far as a mechanism reads it. Nobody signs it, and only the mechanism reads it."""
    mechanism, draft = mechanism_named(scenario.mechanism), scenario.draft
    try:
        options = read_options(scenario.mechanism, dict(scenario.asked))
    except Mistakes as error:
        raise InvalidInput(str(error)) from error
    numbers = mechanism.propose(options, draft)
    parts = {name: (columns, weights_of(columns, numbers.weights)) for name, columns in draft.columns.items()}
    unsigned: dict[str, Any] = dict.fromkeys(("title", "consortium", "roster", "alignment", "created", "expires"), "")
    return SpecBase.model_construct(
        **unsigned,
        rows=draft.agreed.rows,
        rows_per_subject=draft.agreed.rows_per_subject,
        grid_bits=numbers.grid_bits or draft.grid_bits,
        target=draft.target,
        parties=tuple(
            PartyColumns.model_construct(party=name, key="", columns=columns, weights=weights)
            for name, (columns, weights) in parts.items()
        ),
        terms=numbers.terms,
    )


def forecast(scenario: Scenario, signal: float) -> Forecast:
    """What to expect.

    Args:
        scenario: public numbers and guesses.
        signal: R^2, a guess in (0, 1].

    Raises:
        InvalidInput: `signal` is not in that range, the request cannot be met, or a feature is an outcome only.
    """
    spec = _spec(scenario)
    named = set(spec.outcomes)
    outcome_only = [name for name in scenario.fit.features if name in named]
    if outcome_only:
        raise InvalidInput(f"{listed(outcome_only)} cannot be a feature: the release names it as an outcome")
    return mechanism_of(spec).forecast(spec, scenario.fit, signal)


def rows_needed(scenario: Scenario, signal: float) -> int | None:
    """About the least n with which a fit is useful, all else as it is; None where there is none up to `MOST_ROWS`, or its room."""
    found = _least(lambda n: _useful(scenario.having(rows=math.ceil(n)), signal), 1, _room(scenario))
    return None if found is None else math.ceil(found)


def _room(scenario: Scenario) -> int:
    """The most patients that such a release may be of: `MOST_ROWS`, but for one that says how many it has room for."""
    low, high = scenario.draft.agreed.rows, MOST_ROWS
    if _possible(scenario.having(rows=high)):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _possible(scenario.having(rows=middle)) else (low, middle)
    return low


def _possible(scenario: Scenario) -> bool:
    """Tells whether there is such a release."""
    try:
        _spec(scenario)
    except InvalidInput:
        return False
    return True


def epsilon_needed(scenario: Scenario, signal: float) -> float | None:
    """About the least epsilon with which a fit is useful, all else as it is; None above `MOST_EPSILON`."""

    def useful(epsilon: float) -> bool:
        return _useful(scenario.having(target=scenario.draft.target.model_copy(update={"epsilon": epsilon})), signal)

    return _least(useful, _LEAST_EPSILON, MOST_EPSILON)


def _useful(scenario: Scenario, signal: float) -> bool:
    """Tells whether there is such a release, and a fit on it is useful."""
    try:
        return forecast(scenario, signal).useful
    except InvalidInput:
        return False


def _least(useful: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least number, within 1 %, that is useful, all larger ones being so too."""
    if useful(low):
        return low
    if not useful(high):
        return None
    while high > _CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if useful(middle) else (middle, high)
    return high


def useful_from(forecasts: Sequence[Forecast]) -> float | None:
    """The weakest signal of which a fit keeps most; None where there is none."""
    return next((found.signal for found in forecasts if found.useful), None)


def choice(ways: Mapping[str, Sequence[Forecast]]) -> str | None:
    """The way that is useful from the weakest signal on, of several the first that is as good as the best; None where all fail.

    Args:
        ways: name to forecasts by ascending signal; those that need less trust come first.
    """
    useful = {name: signal for name, found in ways.items() if (signal := useful_from(found)) is not None}
    earliest = [name for name, signal in useful.items() if signal == min(useful.values())]
    best = max(earliest, key=lambda name: sum(found.r2 for found in ways[name]), default=None)
    return None if best is None else next(name for name in earliest if _alike(ways[name], ways[best]))


def _alike(one: Sequence[Forecast], best: Sequence[Forecast]) -> bool:
    return all(found.r2 >= other.r2 - ALIKE for found, other in zip(one, best, strict=True))


@dataclass(frozen=True)
class OtherSpread:
    """Another guess of how numbers spread, with which another way to release is chosen.

    Attributes:
        deviation: standard deviation of numbers in half-widths of their bounds, the guess nearest to what was assumed.
        assumed: the one that was assumed.
        choice: what is chosen then; None for none of them.
    """

    deviation: float
    assumed: float
    choice: str | None

    def explain(self) -> str:
        """One sentence."""
        return (
            f"If numbers have a standard deviation of {self.deviation:.2g} of their half-widths instead of {self.assumed:.2g} "
            f"(--spread {self.deviation**2:.2g}), {self.choice or 'none of them'} would be the choice."
        )


def other_spread(scenarios: Sequence[Scenario], signals: Sequence[float], chosen: str | None) -> OtherSpread | None:
    """The nearest plausible spread with which the choice is another one; None where it never is."""
    assumed = scenarios[0].fit.spread ** 0.5
    for deviation in sorted(DEVIATIONS, key=lambda each: max(each / assumed, assumed / each)):
        spread = [replace(each, fit=replace(each.fit, spread=deviation**2)) for each in scenarios]
        found = choice({each.plan: [forecast(each, signal) for signal in signals] for each in spread})
        if found != chosen:
            return OtherSpread(deviation, assumed, found)
    return None
