"""How often intervals hold the truth: coverage of 95 % intervals over simulated populations, with fresh data for every draw.

Populations have ten features within [-1, 1], an outcome, and known coefficients:

    S0, S1   utility.md 3b's: features uniform; S0 has exact outcomes and weights uniform on +-0.1, S1 weights uniform on
             +-0.3 and residual variance 0.1; intercepts uniform on +-0.3;
    uneven   features correlated by one half and centred at 0.2, one of them of two values; weights uniform on +-0.05,
             intercepts near -0.4, residual variance 0.02;
    flat     S1 with a feature that is the same for all patients, about whose weight nobody can know anything.

Patients, mixing and noise are drawn anew each time. Mixed blocks have utility.md's six parties and per-block (epsilon,
delta), moments its whole-row one. A draw whose signal is below the threshold claims nothing and is counted apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks._block_releases import Blocks, mixed, squared_error
from benchmarks.moments_utility import noisy_moments
from benchmarks.report import RESULTS, Results, main
from dprelease.columns import Column, NumericColumn
from dprelease.estimators._calibrated import calibrated
from dprelease.estimators._design import Design
from dprelease.estimators._learned import Learned
from dprelease.estimators._moment_inference import learned_from_moments
from dprelease.estimators._row_inference import learned_from_rows
from dprelease.estimators._rows import Rows
from dprelease.estimators.inference import Inference, in_units
from dprelease.release import Floats

FEATURES, PARTIES = 10, 6
COLUMNS: dict[str, tuple[Column, ...]] = {
    f"party{number}": tuple(
        NumericColumn(name=f"x{column}", lower=-1, upper=1, fill=0)
        for column in range(2 * number, min(2 * number + 2, FEATURES + 1))
    )
    for number in range(PARTIES)
}
LEAST, MOST = 0.93, 0.97
Mechanism = Literal["mixed", "rows", "moments"]


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes:
        mechanism: of the release.
        data: population.
        patients: n.
        epsilon: of each block, or for moments of the whole row.
    """

    mechanism: Mechanism
    data: str
    patients: int
    epsilon: float

    def __str__(self) -> str:
        return f"{self.mechanism}, {self.data}, n = {self.patients:,}, epsilon = {self.epsilon:g}"


ABOVE = (
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
)
BELOW = (
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


@dataclass(frozen=True)
class Coverage:
    """Over all draws of a setting.

    Attributes:
        known: share of the draws that claim to know.
        slopes: share of the claimed intervals of weights that hold the population's.
        intercepts: the same of intercepts.
        intervals: claimed intervals of weights.
        gain: share of draws in which the default's estimated gain over the constant predictor is within 1.96 standard errors;
            NaN for moments.
        standard_error: median of the claimed ones.
    """

    known: float
    slopes: float
    intercepts: float
    intervals: int
    gain: float
    standard_error: float


def run(quick: bool) -> Results:
    """Coverage above the threshold, what is claimed below it, and coverage of the default's estimated gain."""
    results = Results()
    draws = 60 if quick else 400
    intercepts: list[tuple[float, float]] = []
    for above, settings in ((True, ABOVE), (False, BELOW)):
        for setting in settings:
            if quick and setting.patients > 100_000:
                continue
            found = measure(setting, draws)
            results.details[str(setting)] = vars(found)
            reach = (LEAST, MOST) if above and not quick else (None, None)
            if above:
                results.add(f"{setting}: coverage of weights", found.slopes, reach[0], ">=")
                results.add(f"{setting}: coverage of weights", found.slopes, reach[1], "<=")
                intercepts.append((found.intercepts, found.known))
            results.add(f"{setting}: share of draws claimed known", found.known, None, ">=")
            if not above and found.intervals:
                results.add(f"{setting}: coverage of what is claimed", found.slopes, None, ">=")
            if setting.mechanism != "moments":
                results.add(f"{setting}: coverage of the default's gain", found.gain, None if quick else LEAST, ">=")
    values, weights = np.array(intercepts).T
    pooled = float(np.average(values, weights=weights))
    results.add("coverage of intercepts, all settings above", pooled, LEAST, ">=")
    results.add("coverage of intercepts, all settings above", pooled, MOST, "<=")
    if not quick:
        _plot(results, draws)
    return results


def measure(setting: Setting, draws: int, seed: int = 1) -> Coverage:
    """Draw a population, its patients and a release of them, and look whether the intervals hold the truth.

    Args:
        setting: what to simulate.
        draws: how often.
        seed: of everything.
    """
    random = np.random.default_rng([seed, setting.patients, round(100 * setting.epsilon), len(setting.data)])
    blocks = Blocks(setting.patients, COLUMNS, setting.epsilon)
    slopes, intercepts, errors, gains = [], [], [], []
    for _ in range(draws):
        model, table = population(setting.data, setting.patients, random)
        rows = None if setting.mechanism == "moments" else _rows(setting.mechanism, blocks, table, random)
        found = _inference(setting, table, rows, random)
        if found.known[0]:
            lower, upper = found.interval()
            slopes.append(np.mean((lower[0] < model[1:]) & (model[1:] < upper[0])))
            lower, upper = found.intercept_interval()
            intercepts.append(lower[0] < model[0] < upper[0])
            errors.append(np.median(found.standard_error))
        if rows is not None:
            gains.append(_gain_is_covered(rows, table))
    return Coverage(
        known=len(slopes) / draws,
        slopes=float(np.mean(slopes)) if slopes else math.nan,
        intercepts=float(np.mean(intercepts)) if slopes else math.nan,
        intervals=FEATURES * len(slopes),
        gain=float(np.mean(gains)) if gains else math.nan,
        standard_error=float(np.median(errors)) if errors else math.nan,
    )


def population(data: str, patients: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """((1 + d,) intercept and weights, (n, d + 2) patients with a constant first and the outcome last)."""
    x = random.uniform(-1, 1, (patients, FEATURES))
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
    y = model[0] + x @ model[1:] + residual * random.normal(size=patients)
    return model, np.column_stack([np.ones(patients), x, y])


def _rows(mechanism: Mechanism, blocks: Blocks, table: Floats, random: np.random.Generator) -> Rows:
    variance, patients = blocks.variance, len(table)
    if mechanism == "mixed":
        plan = blocks.plan
        moments = table.T @ table / patients
        return mixed(moments, patients, plan.outputs, float(plan.anchor_weight), variance, random)
    noisy = table[:, 1:] + np.sqrt(variance) * random.normal(size=(patients, FEATURES + 1))
    return Rows(
        ones=table[:, 0],
        x=noisy[:, :-1],
        y=noisy[:, -1:],
        x_variance=variance[:-1],
        y_variance=variance[-1:],
        patients=float(patients),
        anchor=False,
        mixed=False,
    )


def _inference(setting: Setting, table: Floats, rows: Rows | None, random: np.random.Generator) -> Inference:
    origin = np.zeros(FEATURES)
    if rows is not None:
        return _in_scaled_units(learned_from_rows(rows, setting.patients, origin, intercept=True))
    released = noisy_moments(table.T @ table, setting.patients, setting.epsilon, PARTIES, random)
    x, y = range(1, FEATURES + 1), [FEATURES + 1]
    return _in_scaled_units(learned_from_moments(released, x, y, origin, intercept=True))


def _in_scaled_units(learned: Learned) -> Inference:
    features = tuple(f"x{column}" for column in range(FEATURES))
    zeros, ones = np.zeros(FEATURES), np.ones(FEATURES)
    design = Design(
        targets=("y",),
        features=features,
        target_index=[FEATURES],
        feature_index=list(range(FEATURES)),
        target_midpoint=zeros[:1],
        target_half_width=ones[:1],
        feature_midpoint=zeros,
        feature_half_width=ones,
        lower=-ones[:1],
        feature_lower=-ones,
    )
    return in_units(learned, design)


def _gain_is_covered(rows: Rows, table: Floats) -> bool:
    """Whether the default's error on the patients is as far below the constant predictor's as estimated."""
    found = calibrated(rows, np.full(FEATURES, -1.0), np.full(1, -1.0), intercept=True)
    moments = table.T @ table / len(table)
    weights = found.weights[:, 0]
    flat = squared_error(moments, float(found.constant[0]), 0 * weights)
    truth = flat - squared_error(moments, float(found.offsets[0]), weights)
    return bool(abs(found.quality.gain[0] - truth) < 1.96 * found.quality.gain_se[0])


def _plot(results: Results, draws: int) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 6), sharey=True, layout="constrained")
    names = [str(setting) for setting in reversed((*ABOVE, *BELOW))]
    for place, name in enumerate(names):
        found = results.details[name]
        if found["intervals"]:
            spread = 1.96 * math.sqrt(found["slopes"] * (1 - found["slopes"]) / found["intervals"])
            axes[0].errorbar(found["slopes"], place, xerr=spread, fmt="o", color="tab:blue", ms=4)
        axes[1].barh(place, found["known"], color="tab:blue")
    axes[0].axvspan(LEAST, MOST, color="tab:green", alpha=0.15)
    axes[0].axvline(0.95, color="grey", lw=0.7)
    axes[0].set(xlim=(0.9, 1.0), title="coverage of claimed 95 % intervals of weights", yticks=range(len(names)))
    axes[0].set_yticklabels(names)
    axes[1].set(xlim=(0, 1), title=f"share of {draws} draws that are claimed known")
    for axis in axes:
        axis.axhline(len(BELOW) - 0.5, color="black", lw=0.7)
    figure.savefig(RESULTS / "coverage.png", dpi=110)


if __name__ == "__main__":
    main("coverage", run)
