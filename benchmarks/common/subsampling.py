"""Privacy amplification by sub-sampling without replacement, for PRIMO's Algorithm 4.

A part of fixed size s = gamma n is drawn without replacement, secret, uniform and fresh for every release. What is
(eps_0, delta_0) private for the part is (ln(1 + gamma (e^eps_0 - 1)), gamma delta_0) private for all (replace-one). For a
Gaussian release that is mu_0-GDP on the part,

    delta(eps) = gamma delta_GDP(ln(1 + (e^eps - 1)/gamma); mu_0).

X_S^T X_S moves by sqrt(2) R^2, whatever n is. The paper's eps_0 = eps/gamma holds for no eps, and its noise has 1/n for 1/s.

It is no Gaussian mechanism of the whole: it never enters a sum of mu^2, and goes with an association of all rows only by
adding epsilons and deltas. So little is gained that it is left to experts, who have to say that they are.

Source: Balle, Barthe and Gaboardi 2018; docs/guarantees.md, "Where the papers differ".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import SystemRandom

import numpy as np
import numpy.typing as npt

from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.sensitivity import association_bound
from dprelease.privacy.calibration import least_scale
from dprelease.privacy.gaussian import check_target, delta_of, mu_of
from dprelease.privacy.noise import NoiseSource

_ROUNDING = 1e-13
"""Relative margin that keeps the rounding of exponentials and logarithms on the safe side."""
_MOST_EPSILON = 600


def secret_part(count: int, size: int) -> npt.NDArray[np.int64]:
    """(size,) distinct row numbers below `count`, every set of them equally likely, from the operating system's entropy.

    Args:
        count: n.
        size: s, between 1 and n.

    Raises:
        InvalidInput: no such part.
    """
    if not 1 <= size <= count:
        raise InvalidInput(f"{size} of {count} rows cannot be drawn")
    return np.array(SystemRandom().sample(range(count), size), np.int64)


def amplified(epsilon: float, delta: float, part: float) -> tuple[float, float]:
    """What is (epsilon, delta) private on the drawn part, for all patients; rounded up.

    Args:
        epsilon: eps_0 on the part, at most 600.
        delta: delta_0 on the part.
        part: gamma in (0, 1].

    Raises:
        InvalidInput: a target or part out of range.
    """
    check_target(epsilon, delta)
    _check(epsilon, part)
    return math.log1p(part * math.expm1(epsilon)) * (1 + _ROUNDING), part * delta * (1 + _ROUNDING)


def base_epsilon(epsilon: float, part: float) -> float:
    """eps_0 = ln(1 + (e^epsilon - 1)/gamma), what the part may take for epsilon over all; rounded down.

    Args:
        epsilon: over all patients, at most 600.
        part: gamma in (0, 1].

    Raises:
        InvalidInput: epsilon or part out of range.
    """
    _check(epsilon, part)
    return math.log1p(math.expm1(epsilon) / part) * (1 - _ROUNDING)


def delta_of_part(epsilon: float, mu: float, part: float) -> float:
    """delta(epsilon) over all patients of what is mu-GDP on the part.

    Args:
        epsilon: over all patients.
        mu: mu_0 on the part.
        part: gamma in (0, 1].

    Raises:
        InvalidInput: epsilon or part out of range.
    """
    return part * delta_of(base_epsilon(epsilon, part), mu)


def mu_of_part(epsilon: float, delta: float, part: float, *, expert: bool = False) -> float:
    """The largest mu_0 that a Gaussian release of the part may have for (epsilon, delta) over all; rounded down.

    Args:
        epsilon: over all patients.
        delta: over all patients.
        part: gamma in (0, 1].
        expert: that the caller knows the three conditions: the part is secret, uniform and fresh; nothing else about it
            is released; the result is not put into a sum of mu^2.

    Raises:
        InvalidInput: not said to be an expert, or a target or part out of range.
    """
    if not expert:
        raise InvalidInput(
            "a covariance of a random part of the patients is for experts: its privacy is no mu, and is lost when the part "
            "becomes known; release the covariance of all patients, or say expert"
        )
    check_target(epsilon, delta)
    base = base_epsilon(epsilon, part)
    if delta >= part:
        raise InvalidInput(
            f"a delta of {delta} allows to publish the drawn patients as they are; it must be below {part}"
        )
    return mu_of(base, delta / part * (1 - _ROUNDING))


@dataclass(frozen=True, eq=False)
class SampledMoments:
    """PRIMO's Algorithm 4 for one party: a covariance of some patients and an association of all, squared grid steps.

    Attributes:
        covariance: (d+1, d+1) noisy sums over the s patients of products of (1, x); the first entry exact.
        association: (d+1, l) noisy sums over all patients of products of (1, x) with outcomes.
        covariance_scale: noise scale of an entry of the covariance on and above the diagonal.
        association_scale: noise scale of an entry of the association.
        drawn: s, which is public; who was drawn is not.
        epsilon: of both together.
        delta: of both together.
    """

    covariance: npt.NDArray[np.int64]
    association: npt.NDArray[np.int64]
    covariance_scale: float
    association_scale: float
    drawn: int
    epsilon: float
    delta: float


def sampled_moments(
    features: npt.NDArray[np.int32],
    outcomes: npt.NDArray[np.int32],
    drawn: int,
    epsilon: float,
    delta: float,
    grid_bits: int,
    noise: NoiseSource,
    *,
    expert: bool = False,
    draw: Callable[[int, int], npt.NDArray[np.int64]] = secret_part,
) -> SampledMoments:
    """Release a covariance of a secret part of the patients and an association of all of them.

    Guarantee: replace-one of a patient's features and outcomes, (epsilon, delta) = (epsilon/2, delta/2) for the covariance,
    amplified as above, plus the same for the association, which is no part of the draw. No hospital's daemon calls this: it fits
    no ledger of mu^2, and at equal privacy its covariance is noisier than that of all patients.

    Args:
        features: (n, d) numbers on the grid, within [-2^b, 2^b].
        outcomes: (n, l) the same.
        drawn: s, patients that the covariance is of.
        epsilon: of both together.
        delta: of both together.
        grid_bits: b.
        noise: secret noise.
        expert: see `mu_of_part`.
        draw: the secret draw; another one in tests only.

    Raises:
        InvalidInput: not said to be an expert, a target that cannot be met, or numbers beyond the grid.
    """
    count, unit = len(features), 1 << grid_bits
    if len(outcomes) != count or max(np.abs(features).max(initial=0), np.abs(outcomes).max(initial=0)) > unit:
        raise InvalidInput("features and outcomes are of the same patients, and within their bounds on the grid")
    if not 1 <= drawn <= count:
        raise InvalidInput(f"{drawn} of {count} patients cannot be drawn")
    of_part = mu_of_part(epsilon / 2, delta / 2, drawn / count, expert=expert)
    norm2 = Fraction((1 + features.shape[1]) * unit**2)
    scales = [
        least_scale(moved, Fraction(mu) ** 2)
        for moved, mu in (
            (norm2**2, of_part),
            (
                association_bound(norm2, Fraction(outcomes.shape[1] * unit**2)),
                mu_of(epsilon / 2, delta / 2),
            ),
        )
    ]
    rows = np.column_stack([np.full(count, unit, np.int64), features])
    part = rows[draw(count, drawn)]
    upper = np.triu(noise.discrete_gaussian(scales[0], (rows.shape[1], rows.shape[1])))
    upper[0, 0] = 0
    covariance = part.T @ part + upper + np.triu(upper, 1).T
    association = rows.T @ outcomes.astype(np.int64)
    association = association + noise.discrete_gaussian(scales[1], (rows.shape[1], outcomes.shape[1]))
    return SampledMoments(covariance, association, scales[0], scales[1], drawn, epsilon, delta)


def _check(epsilon: float, part: float) -> None:
    if not 0 < part <= 1:
        raise InvalidInput(f"the part of the patients that is drawn lies between 0 and 1, not {part}")
    if not 0 < epsilon <= _MOST_EPSILON:
        raise InvalidInput(
            f"epsilon lies between 0 and {_MOST_EPSILON} where a part of the patients is drawn, not {epsilon}"
        )
