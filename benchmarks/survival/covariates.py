"""Hazard ratios of several covariates on simulated releases: coverage of their intervals, and size of their tests.

Patients are those of `tests.support.covariates`. Events are rare, covariates are collinear, or one has twenty levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.survival.simulated import Z95
from dprelease.analyses import hazards
from dprelease.errors import InvalidInput
from tests.support.covariates import Patients, released, true_ratios

NOISE = 30.0
"""Standard deviation of an entry, patients: of seven columns at epsilon = 1, delta = 1e-5."""
RARE = (0.03,)
SHAPES = (
    Patients(),
    Patients(effect=0.0),
    Patients(20_000, rate=RARE),
    Patients(20_000, effect=0.0, rate=RARE),
    Patients(20_000, shape="collinear"),
    Patients(20_000, effect=0.0, shape="collinear"),
    Patients(20_000, shape="twenty levels"),
    Patients(20_000, effect=0.0, shape="twenty levels"),
    Patients(2000, effect=0.0),
    Patients(5000, effect=0.0, rate=(0.1,)),
    Patients(20_000, effect=2.0, rate=RARE),
)


@dataclass(frozen=True)
class FoundOf:
    """Over all releases of a shape: of ratios, the first three, and of tests of a covariate.

    Attributes:
        bias: mean distance from the truth, in standard errors.
        held: share of intervals that hold the truth.
        below: share of P below 0.05.
        joint: the same of the tests.
        answered: share of releases on which something is told.
    """

    bias: float
    held: float
    below: float
    joint: float
    answered: float


def told(people: Patients) -> str:
    """A shape in words."""
    effect = {0.0: ["no effect"], 1.0: []}.get(people.effect, [f"effects times {people.effect:g}"])
    return ", ".join([f"n = {people.n:,}", people.shape, f"rate {people.rate[0]:g}", *effect])


def measure(people: Patients, releases: int, seed: int = 1) -> FoundOf:
    """Draw patients and a release of them, time and again."""
    away: list[float] = []
    below: list[bool] = []
    joint: list[bool] = []
    answered = 0
    for number in range(releases):
        release = released(people, 1000 * seed + number, NOISE)
        try:
            found = hazards(release, "exit", list(people.levels), "died")
        except InvalidInput:
            continue
        ratios, answered = found.tables["hazard ratios"], answered + 1
        away += ((ratios.location[0] - true_ratios(people, found)) / ratios.standard_error).tolist()
        below += (ratios.p_value < 0.05).tolist()
        joint += [test.p_value < 0.05 for test in found.tests.values()]
    if not answered:
        return FoundOf(0.0, 0.0, 0.0, 0.0, 0.0)
    held = float((np.abs(away) < Z95).mean())
    return FoundOf(float(np.mean(away)), held, float(np.mean(below)), float(np.mean(joint)), answered / releases)
