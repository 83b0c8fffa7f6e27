"""Coverage of 95 % intervals of predictions in ranges: of the mean of patients with some features, and of a patient outside.

Releases, tables and models are those of `reaches`. Others are patients that a release leaves out, or drawn once more where it
takes all. The mean is that of least squares on the whole table within its public bounds, which releases draw their patients
from. A patient's residuals are as the table has them: skewed, of unequal spread, and many of counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.common.report import Results
from benchmarks.coverage.analyses import exact_moments
from benchmarks.coverage.reaches import LEAST, LEAST_HARD, World
from dprelease.arrays import Floats
from dprelease.estimators.design import design
from dprelease.estimators.intervals.inference import infer
from dprelease.privacy.gaussian import mu_of
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import viewed

SETTINGS = tuple((name, n) for name in ("nhefs", "stays", "costs", "doctor contacts") for n in (2000, 20_000, 60_000))
OTHERS = 200
"""Patients that each release is asked about."""


@dataclass(frozen=True)
class Predicted:
    """Over all releases, models and points of a setting; NaN where nothing is told.

    Attributes:
        mean: share of the intervals with two ends that hold the mean.
        patient: share of those that hold the patient.
        told: share of models with intervals.
        uncertain: standard errors of the first two between releases.
        length: median length of a patient's interval, in standard deviations of the outcome.
    """

    mean: float
    patient: float
    told: float
    uncertain: tuple[float, float]
    length: float


def predicted(name: str, patients: int, releases: int, seed: int = 1) -> Predicted:
    """Intervals at other patients' features.

    Args:
        name: of a table.
        patients: n.
        releases: how many, each at epsilon = 1 and delta = 1e-6.
        seed: of everything.
    """
    world, random = World.of(name), np.random.default_rng([seed, patients, len(name)])
    whole = world.rows
    exact = viewed(world.layout.columns, exact_moments(world.layout.columns, whole))
    rows, told = [], []
    for _ in range(releases):
        order = world.choose(patients + OTHERS, random)
        others, sample = whole[order[patients:]], world.released(order[:patients], mu_of(1.0, 1e-6), random)
        release = viewed(world.layout.columns, sample.moments, sample.reaches)
        each = [_held(world, exact, release, model, whole, others) for model in world.models]
        told.append([one is not None for one in each])
        rows.append([one for one in each if one is not None])
    held = [np.array([one[:2] for one in each]).mean(axis=0) for each in rows if each]
    if not held:
        return Predicted(math.nan, math.nan, 0.0, (math.nan, math.nan), math.nan)
    mean, patient = np.mean(held, axis=0)
    spread = np.std(held, axis=0) / math.sqrt(len(held))
    return Predicted(
        mean=float(mean),
        patient=float(patient),
        told=float(np.mean(told)),
        uncertain=(float(spread[0]), float(spread[1])),
        length=float(np.median([one[2] for each in rows for one in each])),
    )


def _held(
    world: World, exact: Release, release: Release, model: tuple[int, tuple[int, ...]], whole: Floats, others: Floats
) -> tuple[float, float, float] | None:
    """Shares of others whose mean, and who themselves, are in their intervals, and the median length; None without intervals."""
    y, x = model[0], list(model[1])
    names = [each.name for each in world.layout.variables]
    asked = design(exact, [names[y]], [names[place] for place in x])
    middle, half = float(asked.target_midpoint[0]), float(asked.target_half_width[0])
    points = asked.feature_midpoint + asked.feature_half_width * others[:, x]
    found = infer(release, design(release, asked.targets, asked.features), intercept=True, points=points)
    if not found.identified.all():
        return None
    z = np.column_stack([np.ones(len(whole)), whole[:, x]])
    line = np.linalg.lstsq(z.T @ z, z.T @ whole[:, y], rcond=None)[0]
    truths = {"confidence": line[0] + others[:, x] @ line[1:], "prediction": others[:, y]}
    shares, length = [], math.nan
    for interval, truth in truths.items():
        _, lower, upper = (each[:, 0] for each in found.predicted(interval))  # type: ignore[arg-type]
        if not np.isfinite(upper - lower).all():
            return None
        shares.append(float(((lower <= middle + half * truth) & (middle + half * truth <= upper)).mean()))
        length = float(np.median(upper - lower) / (half * whole[:, y].std()))
    return shares[0], shares[1], length


def note(results: Results, setting: tuple[str, int], found: Predicted, *, gated: bool) -> None:
    """Figures of one setting."""
    title = f"predictions in ranges, {setting[0]}, n = {setting[1]:,}, epsilon = 1"
    results.details[title] = vars(found)
    least = (LEAST_HARD if setting[0] == "costs" else LEAST) if gated else None
    results.add(f"{title}: coverage of the mean", found.mean, least, ">=")
    results.add(f"{title}: coverage of a patient outside", found.patient, least, ">=")
    results.add(f"{title}: models with intervals", found.told, None, ">=")
    results.add(f"{title}: median length for a patient, in standard deviations", found.length)
