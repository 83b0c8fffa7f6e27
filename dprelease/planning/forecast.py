"""What a fit on a release will be worth, before anything is spent: from public numbers and guesses, never from data.

Noise and prices are those of the spec that the coordinator would propose; what a fit makes of them is in
`dprelease.mechanisms.expected_error`, what is guessed about the data in `assumptions`. A fit is called useful when it is
expected to keep more than half of what least squares on the private rows explain, and to beat the exact mean. Below that,
the best anybody can do with the release is close to the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed
from dprelease.mechanisms.registry import mechanism_named

MOST_ROWS = 10**12
"""Where the search for enough patients ends."""
MOST_EPSILON = 100.0
"""Where the search for enough epsilon ends."""

_LEAST_EPSILON = 1e-3
_CLOSE = 1.01


def proposed(setting: Setting) -> Proposed:
    """The release that the coordinator would propose."""
    return mechanism_named(setting.mechanism).proposed(setting)


def mean_variance(setting: Setting, release: Proposed) -> float:
    """Noise variance of a released number, the mean over released columns."""
    found = [release.columns[column.name] for column in setting.columns for _ in column.released]
    return sum(found) / len(found)


def forecast(setting: Setting, signal: float) -> Forecast:
    """What to expect.

    Args:
        setting: public numbers and guesses.
        signal: R^2, a guess in (0, 1].

    Raises:
        InvalidInput: `signal` is not in that range.
    """
    return mechanism_named(setting.mechanism).forecast(setting, signal)


def rows_needed(setting: Setting, signal: float) -> int | None:
    """About the least n with which a fit is useful, all else as it is; None above `MOST_ROWS`."""
    least = setting.outputs or 1
    found = _least(lambda n: forecast(replace(setting, rows=math.ceil(n)), signal).useful, least, MOST_ROWS)
    return None if found is None else math.ceil(found)


def epsilon_needed(setting: Setting, signal: float) -> float | None:
    """About the least epsilon with which a fit is useful, all else as it is; None above `MOST_EPSILON`."""

    def useful(epsilon: float) -> bool:
        target = setting.target.model_copy(update={"epsilon": epsilon})
        return forecast(replace(setting, target=target), signal).useful

    return _least(useful, _LEAST_EPSILON, MOST_EPSILON)


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
