"""Populations over which `coverage` is measured, and the settings of its simulations.

They have ten features, an outcome, and known coefficients:

    S0, S1    those of `blocks_utility`: features uniform on [-1, 1]; S0 has exact outcomes and weights uniform on +-0.1, S1 weights
              uniform on +-0.3 and residual variance 0.1; intercepts uniform on +-0.3;
    uneven    features correlated by one half and centred at 0.2, one of them of two values; weights uniform on +-0.05,
              intercepts near -0.4, residual variance 0.02;
    flat      S1 with a feature that is the same for all patients, about whose weight nobody can know anything;
    weak      S1 with normal features centred at 0.2, the first of them correlated by one half with the second and so narrow
              that the part of its variance that the second does not tell is `signal` standard errors of the noise in it; its
              weight is `slope` times the outcome's noise by its own;
    unequal   S1 with a feature that 5 % of the patients have, around whose outcomes the residuals spread six times as far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.common.block_releases import DELTA, Blocks, wishart_root
from benchmarks.common.exact_releases import declared
from benchmarks.common.moment_releases import noisy_moments
from dprelease.arrays import Floats
from dprelease.privacy.gaussian import mu_of

FEATURES, PARTIES = 10, 6
COLUMNS = declared((2, 2, 2, 2, 2, 1), -1.0)
SHARED = 0.5
"""Correlation of the weakly seen feature with the second."""
Mechanism = Literal["mixed", "rows", "moments"]


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes:
        mechanism: of the release.
        data: population.
        patients: n.
        epsilon: of each block, or for moments of the whole row.
        signal: of the weakly seen feature, in standard errors.
        slope: of that feature.
    """

    mechanism: Mechanism
    data: str
    patients: int
    epsilon: float
    signal: float = 0.0
    slope: float = 0.0

    def __str__(self) -> str:
        name = f"{self.mechanism}, {self.data}, n = {self.patients:,}, epsilon = {self.epsilon:g}"
        return f"{name}, signal {self.signal:g}, slope {self.slope:g}" if self.signal else name


SETTINGS = (
    Setting("mixed", "S0", 100_000, 1.0),
    Setting("mixed", "S1", 100_000, 1.0),
    Setting("mixed", "uneven", 300_000, 3.0),
    Setting("mixed", "S0", 100_000, 3.0),
    Setting("mixed", "S1", 100_000, 3.0),
    Setting("mixed", "S0", 1_000_000, 1.0),
    Setting("mixed", "S1", 1_000_000, 1.0),
    Setting("mixed", "uneven", 1_000_000, 1.0),
    Setting("rows", "S1", 20_000, 10.0),
    Setting("moments", "S0", 2_000, 1.0),
    Setting("moments", "S1", 2_000, 1.0),
    Setting("moments", "S0", 10_000, 0.3),
    Setting("moments", "S1", 10_000, 0.3),
    Setting("moments", "uneven", 20_000, 1.0),
    Setting("moments", "S0", 100_000, 1.0),
    Setting("moments", "S1", 100_000, 1.0),
    Setting("moments", "uneven", 100_000, 1.0),
    Setting("mixed", "S1", 10_000, 1.0),
    Setting("mixed", "S1", 50_000, 1.0),
    Setting("mixed", "S1", 100_000, 0.3),
    Setting("mixed", "uneven", 100_000, 1.0),
    Setting("mixed", "uneven", 100_000, 3.0),
    Setting("moments", "S1", 500, 1.0),
    Setting("moments", "S1", 1_500, 1.0),
    Setting("moments", "S1", 10_000, 0.1),
    Setting("moments", "uneven", 2_000, 1.0),
    Setting("mixed", "flat", 100_000, 3.0),
    Setting("moments", "flat", 100_000, 1.0),
)
_RELEASES: tuple[tuple[Mechanism, int, float], ...] = (("mixed", 100_000, 3.0), ("moments", 20_000, 1.0))
WEAK = tuple(
    Setting(mechanism, "weak", patients, epsilon, signal, slope)
    for mechanism, patients, epsilon in _RELEASES
    for slope in (1.0, 5.0)
    for signal in (2.0, 3.0, 4.0, 6.0)
)
UNEQUAL = Setting("moments", "unequal", 50_000, 3.0)
"""For information: nothing in a release shows it."""


def population(data: str, patients: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """((1 + d,) intercept and weights, (n, d + 2) patients with a constant first and the outcome last)."""
    x = random.uniform(-1, 1, (patients, FEATURES))
    residual: Floats | float
    if data == "uneven":
        x = 0.2 + 0.8 * (x + random.uniform(-1, 1, (patients, 1))) / 2
        x[:, 0] = np.where(x[:, 0] < 0, -1.0, 1.0)
        model = np.append(random.uniform(-0.45, -0.35), random.uniform(-0.05, 0.05, FEATURES))
        residual = math.sqrt(0.02)
    else:
        reach, residual = (0.1, 0.0) if data == "S0" else (0.3, math.sqrt(0.1))
        model = np.append(random.uniform(-0.3, 0.3), random.uniform(-reach, reach, FEATURES))
    if data == "flat":
        x[:, -1] = 0.3
    if data == "unequal":
        x[:, 0] = np.where(x[:, 0] > 0.9, 1.0, -1.0)
        residual = np.where(x[:, 0] > 0, 0.3, 0.05)
    y = model[0] + x @ model[1:] + residual * random.normal(size=patients)
    return model, np.column_stack([np.ones(patients), x, y])


def weak_population(patients: int, variance: float, slope: float, random: np.random.Generator) -> tuple[Floats, Floats]:
    """As `population`, but for rows: as few as have the second moments of n normal patients.

    Args:
        patients: n.
        variance: of the first feature, without what it shares with the second.
        slope: of the first feature.
        random: the draw.
    """
    model = np.append(random.uniform(-0.3, 0.3), random.uniform(-0.3, 0.3, FEATURES))
    model[1] = slope
    lower = np.diag([math.sqrt(variance), *np.full(FEATURES - 1, math.sqrt(1 / 3))])
    lower[0, 1] = math.sqrt(variance * SHARED**2 / (1 - SHARED**2))
    of_outcome = model[1:] @ lower
    factor = np.block([[lower, np.zeros((FEATURES, 1))], [of_outcome[None], np.full((1, 1), math.sqrt(0.1))]])
    mean = np.append(np.full(FEATURES, 0.2), model[0] + 0.2 * model[1:].sum())
    mean += factor @ random.normal(size=FEATURES + 1) / math.sqrt(patients)
    rest = np.column_stack([np.zeros(FEATURES + 1), wishart_root(patients - 1, factor, random)])
    return model, np.vstack([math.sqrt(patients) * np.append(1.0, mean), rest])


def narrow(setting: Setting, blocks: Blocks) -> tuple[float, float]:
    """(variance of the weakly seen feature, its slope) that a setting means; `blocks` of its patients and epsilon."""
    if setting.mechanism == "moments":
        released = noisy_moments(
            np.eye(FEATURES + 2), setting.patients, mu_of(setting.epsilon, DELTA), PARTIES, np.random.default_rng(0)
        )
        own, across = released.noise_own([1])[0], released.noise_between([1], [FEATURES + 1])[0, 0]
        return setting.signal * own / setting.patients, setting.slope * across / own
    outputs, (noise, *_, of_outcome) = blocks.plan.outputs, blocks.variance
    per_row = setting.patients * (1 - float(blocks.plan.anchor_weight)) / outputs
    outcome = math.sqrt(of_outcome + 0.1 * per_row)
    return setting.signal * noise * math.sqrt(2 / outputs) / per_row, setting.slope * outcome / math.sqrt(noise)
