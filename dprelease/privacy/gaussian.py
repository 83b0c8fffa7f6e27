"""Gaussian differential privacy (Dong, Roth and Su 2022): (epsilon, delta) and mu, each way, rounded to the safe side.

A mechanism is mu-GDP when telling two neighbours apart is no easier than telling N(0, 1) from N(mu, 1). For Gaussian
noise mu = Delta / sigma exactly, mu^2 adds under composition, and

    delta(epsilon; mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Source: Balle and Wang 2018; Dong, Roth and Su 2022; docs/guarantees.md 4. The classical sqrt(2 ln(1.25/delta))/epsilon
is not used: it wastes noise below epsilon = 1 and fails above about 8.

On the integer grid the released law differs from the one bounded here by a factor e^{+-kappa}, kappa <= entries *
2.1e-34 (docs/guarantees.md 3). The margin of `MARGIN` that `mu_of` keeps is larger than that for any release below 1e20 entries.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache

from dprelease.errors import InvalidInput

MARGIN = 1e-11
"""Relative amount by which `mu_of` is rounded down and `epsilon_of` up."""
_FAR = 20.0
"""Standard errors beyond which a tail is read from its series: a double has none of them beyond 38."""


def _log_phi(x: float) -> float:
    """ln Phi(x): a process that is to stay small does without `scipy.special.log_ndtr`, which takes 14 MiB to load."""
    tail = math.erfc(abs(x) / math.sqrt(2)) / 2
    if x > 0:
        return math.log1p(-tail)
    if x > -_FAR:
        return math.log(tail)
    # The asymptotic series, Abramowitz and Stegun 26.2.12: its terms shrink until after the twelfth, where they are below 1e-19.
    term = total = 1.0
    for odd in range(1, 25, 2):
        term *= -odd / x**2
        total += term
    return -(x**2) / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log(total)


def log_delta(epsilon: float, mu: float) -> float:
    """ln delta(epsilon; mu), accurate also where delta is far below the smallest double difference."""
    first = _log_phi(mu / 2 - epsilon / mu)
    second = epsilon + _log_phi(-mu / 2 - epsilon / mu)
    if second >= first:
        return -math.inf
    return first + math.log(-math.expm1(second - first))


def _log_delta_above(epsilon: float, mu: float) -> float:
    """An upper bound of `log_delta` that allows for the rounding of its two nearly equal terms."""
    first = _log_phi(mu / 2 - epsilon / mu)
    second = epsilon + _log_phi(-mu / 2 - epsilon / mu)
    slack = 64 * sys.float_info.epsilon * (abs(first) + abs(second) + epsilon)
    return first + slack + math.log(-math.expm1(min(second - first, 0.0) - slack))


def delta_of(epsilon: float, mu: float) -> float:
    """delta(epsilon; mu), the exact privacy profile of a mu-GDP mechanism.

    Args:
        epsilon: >= 0.
        mu: > 0.
    """
    return math.exp(log_delta(epsilon, mu))


@lru_cache(maxsize=64)
def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu with delta(epsilon; mu) <= delta, rounded down.

    Args:
        epsilon: > 0.
        delta: in (0, 1).

    Raises:
        InvalidInput: the target is not in these ranges.
    """
    check_target(epsilon, delta)
    target = math.log(delta)
    high = 1.0
    while _log_delta_above(epsilon, high) < target:
        high *= 2
    low = high
    while _log_delta_above(epsilon, low) >= target:
        low /= 2
    return _last(lambda mu: _log_delta_above(epsilon, mu) <= target, low, high) * (1 - MARGIN)


@lru_cache(maxsize=64)
def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 with delta(epsilon; mu) <= delta, rounded up.

    Args:
        mu: >= 0; zero gives zero.
        delta: in (0, 1).

    Raises:
        InvalidInput: mu is negative or delta is not in (0, 1).
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1, not {delta}")
    if not 0 <= mu < math.inf:
        raise InvalidInput(f"mu must be non-negative and finite, not {mu}")
    # delta(0; mu) = erf(mu / sqrt(8)), to a few units in the last place; as a difference of two Phi it vanishes for small mu.
    if math.erf(mu / math.sqrt(8)) * (1 + MARGIN) <= delta:
        return 0.0
    target = math.log(delta)
    high = 1.0
    while _log_delta_above(high, mu) > target:
        high *= 2
    return _last(lambda epsilon: _log_delta_above(epsilon, mu) <= target, high, 0.0) * (1 + MARGIN)


def _last(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last number on the way from `inside` to `outside` at which a condition holds, by halving."""
    while abs(outside - inside) > 1e-14 * abs(inside):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def check_target(epsilon: float, delta: float) -> None:
    """Refuse a privacy target that means nothing.

    Raises:
        InvalidInput: epsilon is not between 1e-12 and 1e6, or delta is not between 1e-300 and 1.
    """
    if not 1e-12 <= epsilon <= 1e6:
        raise InvalidInput(f"epsilon must be positive, between 1e-12 and 1e6, not {epsilon}")
    if not 1e-300 <= delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1, and be at least 1e-300, not {delta}")
