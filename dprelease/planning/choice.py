"""The way to release that a plan recommends, and the spread of numbers with which it would recommend another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast
from dprelease.planning.forecast import forecast

ALIKE = 0.02
"""Difference of expected R^2 that is not worth trusting others for."""

DEVIATIONS = (0.5, 0.3, 0.1)
"""Plausible standard deviations of a number, in half-widths of its bounds; cells that fill them evenly have 0.58."""


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


def other_spread(settings: Sequence[Setting], signals: Sequence[float], chosen: str | None) -> OtherSpread | None:
    """The nearest plausible spread with which the choice is another one; None where it never is."""
    assumed = settings[0].fit.spread ** 0.5
    for deviation in sorted(DEVIATIONS, key=lambda each: max(each / assumed, assumed / each)):
        spread = [replace(each, fit=replace(each.fit, spread=deviation**2)) for each in settings]
        found = choice({each.plan: [forecast(each, signal) for signal in signals] for each in spread})
        if found != chosen:
            return OtherSpread(deviation, assumed, found)
    return None
