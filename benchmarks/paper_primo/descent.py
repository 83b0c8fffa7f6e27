"""The baseline DP gradient descent, once for every outcome: full-batch steps, composed exactly.

T steps go down the sum over rows of gradients clipped to length c, which moves by 2 c: noise of 2 c sqrt(T) / mu on every
coordinate makes all steps mu-GDP together, exactly (rho = mu^2 / 2 in zCDP). The paper samples batches and composes over its l
regressions in zCDP too; here each of them gets mu / sqrt(l).

As in `accuracy.descent` an oracle that sees the private R^2 chooses T, c, the length of a step and whether the second half of
the path is averaged, and no budget is charged for that; models are then drawn anew. It clips residuals to a fraction of the
outcomes' bound, which sufficient statistics pay for in full. `public` chooses without an oracle.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from benchmarks.accuracy.descent import Descent
from benchmarks.paper_primo.data import Single, Sums
from dprelease.arrays import Floats

STEPS = (5, 10, 20, 50)
CLIPS = (0.05, 0.1, 0.2, 0.4)
"""c in units of R: gradients of outcomes within [-1, 1] are at most R long at the start."""
RATES = (0.03, 0.3, 1.0, 1.8)
MANY_STEPS = 100


def tuned(x: Floats, y: Single, sums: Sums, mu: float, radius: float, random: np.random.Generator) -> Descent:
    """The oracle's choice for all outcomes together, by their mean R^2.

    Args:
        x: (n, d).
        y: (n, k) outcomes.
        sums: of both.
        mu: budget of one outcome's model.
        radius: R.
        random: of the noise.
    """
    pairs, found = list(itertools.product(CLIPS, RATES)), {}
    for steps in STEPS:
        for averaged, models in enumerate(descend(x, y, sums, mu, radius, steps, pairs, random)):
            for (clip, rate), weights in zip(pairs, models, strict=True):
                found[Descent(steps, clip, rate, bool(averaged))] = float(sums.r_squared(weights).mean())
    return max(found, key=lambda choice: found[choice])


def public(rows: int, width: int, top: float, mu: float, radius: float) -> Descent:
    """A choice from public numbers: c = R, which leaves gradients at the start alone.

    The length of a step is that of Bassily, Smith and Thakurta 2014,

        |w| / sqrt(T ((n c)^2 + d s^2)),   s = 2 c sqrt(T) / mu,   |w|^2 guessed as d / (2 R^2).

    Args:
        rows: n.
        width: d.
        top: lambda_max of X^T X, whose inverse is the unit of `Descent.rate`; it does not enter the length of a step.
        mu: budget.
        radius: R.
    """
    sd2 = MANY_STEPS * (2 * radius / mu) ** 2
    length = math.sqrt(width / 2) / radius / math.sqrt(MANY_STEPS * ((rows * radius) ** 2 + width * sd2))
    return Descent(MANY_STEPS, 1.0, length * top, averaged=True)


def repeated(
    x: Floats,
    y: Single,
    sums: Sums,
    mu: float,
    radius: float,
    choice: Descent,
    releases: int,
    random: np.random.Generator,
) -> Floats:
    """(releases, d, k) models, mu-GDP each, as `tuned` and for one choice."""
    pairs = [(choice.clip, choice.rate)] * releases
    return descend(x, y, sums, mu, radius, choice.steps, pairs, random)[int(choice.averaged)]


def descend(
    x: Floats,
    y: Single,
    sums: Sums,
    mu: float,
    radius: float,
    steps: int,
    pairs: list[tuple[float, float]],
    random: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Last models and averages over the second half of the steps, each (choices, d, k).

    Args:
        x: (n, d).
        y: (n, k).
        sums: of both.
        mu: budget of one model.
        radius: R.
        steps: T >= 2.
        pairs: clip in units of R, and rate in units of 1 / lambda_max of X^T X.
        random: of the noise.
    """
    width, outcomes = x.shape[1], y.shape[1]
    single, outcome = x.astype(np.float32), np.tile(y, (1, len(pairs)))
    lengths = np.maximum(np.linalg.norm(single, axis=1, keepdims=True), 1e-6)
    clips, rates = (np.repeat([pair[part] for pair in pairs], outcomes) for part in (0, 1))
    most = (clips * radius).astype(np.float32) / lengths
    step_length = rates / float(np.linalg.eigvalsh(sums.xx)[-1])
    sd = 2 * clips * radius * math.sqrt(steps) / mu
    models, total = np.zeros((2, width, len(clips)))
    for step in range(steps):
        residual = outcome - single @ models.astype(np.float32)
        gradient = single.T @ np.clip(residual, -most, most, out=residual)
        models = models + step_length * (gradient + sd * random.normal(size=models.shape))
        if 2 * step >= steps:
            total += models

    def apart(flat: Floats) -> Floats:
        return np.moveaxis(flat.reshape(width, len(pairs), outcomes), 1, 0)

    return apart(models), apart(total / (steps - (steps + 1) // 2))
