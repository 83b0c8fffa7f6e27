"""Coverage of 95 % confidence intervals over simulated populations, with fresh data for every draw.

Populations are those of `populations`: ten features, an outcome, and known coefficients.
Patients, mixing and noise are drawn anew each time. Five parties have two features each, a sixth has the outcome. Mixed blocks
have (epsilon, delta) each, moments have it for the whole row. Clipped rows have populations of their own (`clipped`).

A draw whose signal is below the threshold claims nothing and is counted apart. A setting counts as above the threshold if at
least half of its draws claim to know; below, coverage is that of the draws that are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks.common.block_releases import DELTA, Blocks, mixed, squared_error
from benchmarks.common.moment_releases import noisy_moments
from benchmarks.common.plots import subplots
from benchmarks.common.report import RESULTS, Results, main
from benchmarks.coverage import analyses as coverage_analyses
from benchmarks.coverage import predictions as coverage_predictions
from benchmarks.coverage import reaches as coverage_reaches
from benchmarks.coverage.clipped import CLIPPED, held, note
from benchmarks.coverage.long_tails import TABLES
from benchmarks.coverage.long_tails_fits import LEAST_COVERED, LEAST_EXPLAINED, explained
from benchmarks.coverage.populations import (
    COLUMNS,
    FEATURES,
    PARTIES,
    SETTINGS,
    UNEQUAL,
    WEAK,
    Setting,
    narrow,
    population,
    weak_population,
)
from dprelease.arrays import Floats
from dprelease.estimators.design import Design
from dprelease.estimators.intervals.estimates import PopulationFit
from dprelease.estimators.intervals.inference import Inference, in_units
from dprelease.estimators.intervals.of_moments import learned_from_moments
from dprelease.estimators.intervals.of_rows import learned_from_rows
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.privacy.gaussian import mu_of

LEAST, MOST = 0.93, 0.97
MOST_NEAR = 0.974
"""Near the threshold: 1 - 0.025 / 0.975, as draws in which the signal looks smallest miss but are not claimed."""
LEAST_BELOW = 0.90
CLAIMED = 0.5
"""Share of draws claimed from which on a setting counts as above the threshold."""
CHANCE = 2.0
"""Standard errors of the simulation that a share may be beyond its limits."""


@dataclass(frozen=True)
class Coverage:
    """Over all draws of a setting; NaN where nothing is claimed.

    Attributes:
        known: share of the draws that claim to know.
        slopes: share of the claimed intervals of weights that hold the population's.
        first: the same of the first feature's.
        others: the same of all others'.
        intercepts: the same of intercepts.
        claimed: draws that claim to know.
        gain: share of draws in which the default's estimated gain over the constant predictor is within 1.96 standard errors;
            NaN where it is not looked at.
        standard_error: median of the claimed ones.
    """

    known: float
    slopes: float
    first: float
    others: float
    intercepts: float
    claimed: int
    gain: float
    standard_error: float

    @property
    def above(self) -> bool:
        """Whether the setting is above the threshold."""
        return self.known >= CLAIMED


def run(quick: bool) -> Results:
    """Coverage above the threshold, what is claimed below it, and coverage of the default's estimated gain."""
    results = Results()
    intercepts: list[tuple[float, float]] = []
    settings = [each for each in (*SETTINGS, *WEAK, UNEQUAL) if each.patients <= 100_000 or not quick]
    with ProcessPoolExecutor() as pool:
        measured = pool.map(measure, settings, [_draws(each, quick) for each in settings])
        tails = pool.map(explained, TABLES, [1 if quick else 200] * len(TABLES))
        clipped = pool.map(held, CLIPPED, [2 if quick else 200] * len(CLIPPED))
        shown = [each for each in coverage_reaches.SETTINGS if each[1] == coverage_reaches.FEW or not quick]
        reached = pool.map(coverage_reaches.held, *zip(*shown, strict=True), [1 if quick else 40] * len(shown))
        asked = [each for each in coverage_analyses.SETTINGS if each[1] == coverage_reaches.FEW or not quick]
        answered = pool.map(coverage_analyses.answered, *zip(*asked, strict=True), [1 if quick else 20] * len(asked))
        foretold = coverage_predictions.SETTINGS[:1] if quick else coverage_predictions.SETTINGS
        told = pool.map(
            coverage_predictions.predicted, *zip(*foretold, strict=True), [1 if quick else 40] * len(foretold)
        )
        for setting, found in zip(settings, measured, strict=True):
            _note(results, setting, found, quick)
            if found.above and setting != UNEQUAL:
                intercepts.append((found.intercepts, found.claimed))
        for name, tail in zip(TABLES, tails, strict=True):
            title = f"moments, {name}, {TABLES[name].patients:,} patients, epsilon = 1"
            least = None if quick else LEAST_EXPLAINED
            results.add(f"{title}: 5 % quantile of R^2, worst outcome", tail.least, least, ">=")
            behind = max(constant - low for low, _, constant in tail.outcomes.values())
            results.add(f"{title}: 5 % quantile of R^2 below the constant predictor's, worst outcome", behind)
            results.add(f"{title}: R^2 within 2.5 of its s.e.", tail.within, None if quick else LEAST_COVERED, ">=")
            results.details[title] = tail.outcomes
        for each, share in zip(CLIPPED, clipped, strict=True):
            note(results, each, share, gated=not quick)
        for each_reached, share_reached in zip(shown, reached, strict=True):
            coverage_reaches.note(results, each_reached, share_reached, gated=not quick)
        for each_asked, families in zip(asked, answered, strict=True):
            coverage_analyses.note(results, each_asked, families, gated=not quick)
        for each_foretold, share_told in zip(foretold, told, strict=True):
            coverage_predictions.note(results, each_foretold, share_told, gated=not quick)
    values, weights = np.array(intercepts).T
    pooled = float(np.average(values, weights=weights))
    results.add("coverage of intercepts, all settings above", pooled, LEAST, ">=")
    results.add("coverage of intercepts, all settings above", pooled, MOST, "<=")
    if not quick:
        _plot(results)
    return results


def _draws(setting: Setting, quick: bool) -> int:
    if setting in WEAK:
        return 100 if quick else 800
    return 60 if quick else 400


def _note(results: Results, setting: Setting, found: Coverage, quick: bool) -> None:
    """What is covered, with the limits that the setting's place asks for."""
    results.details[str(setting)] = vars(found)
    results.add(f"{setting}: share of draws claimed known", found.known, None, ">=")
    near, gated = setting in WEAK, not quick and setting != UNEQUAL
    shares = {"weights": (found.slopes, FEATURES)}
    if near or setting == UNEQUAL:
        shares = {"the first weight": (found.first, 1), "the other weights": (found.others, FEATURES - 1)}
    for name, (share, each) in (shares | {"the intercept": (found.intercepts, 1)}).items():
        if not found.claimed:
            continue
        chance = CHANCE * math.sqrt(0.05 * 0.95 / (each * found.claimed))
        title = f"{setting}: coverage of {name}, {'above' if found.above else 'below'} the threshold"
        least = LEAST if found.above else LEAST_BELOW
        results.add(title, share, least - chance if gated and found.known >= CLAIMED / 2 else None, ">=")
        if found.above:
            results.add(title, share, (MOST_NEAR if near else MOST) + chance if gated else None, "<=")
    if near and not found.above:
        most = 0.05 + CHANCE * math.sqrt(0.05 * 0.95 / _draws(setting, quick))
        missed = found.known * (1 - found.first) if found.claimed else 0.0
        results.add(f"{setting}: share of draws that claim a wrong first weight", missed, most if gated else None)
    if not math.isnan(found.gain):
        results.add(f"{setting}: coverage of the default's gain", found.gain, LEAST if gated else None, ">=")


def measure(setting: Setting, draws: int, seed: int = 1) -> Coverage:
    """Draw a population, its patients and a release of them, and look whether the intervals hold the truth."""
    random = np.random.default_rng([seed, setting.patients, round(100 * setting.epsilon), len(setting.data)])
    blocks = Blocks(setting.patients, COLUMNS, setting.epsilon)
    narrowed = narrow(setting, blocks) if setting.signal else (0.0, 0.0)
    slopes, intercepts, errors, gains = [], [], [], []
    for _ in range(draws):
        if setting.signal:
            model, table = weak_population(setting.patients, *narrowed, random)
        else:
            model, table = population(setting.data, setting.patients, random)
        rows = None if setting.mechanism == "moments" else _rows(setting, blocks, table, random)
        found = _inference(setting, table, rows, random)
        if found.identified[0]:
            lower, upper = found.interval()
            slopes.append((lower[0] < model[1:]) & (model[1:] < upper[0]))
            lower, upper = found.intercepts.interval()
            intercepts.append(lower[0] < model[0] < upper[0])
            errors.append(np.median(found.standard_error))
        if rows is not None and not setting.signal:
            gains.append(_gain_is_covered(rows, table))
    held = np.array(slopes, dtype=float).reshape(-1, FEATURES)
    return Coverage(
        known=len(slopes) / draws,
        slopes=_mean(held),
        first=_mean(held[:, 0]),
        others=_mean(held[:, 1:]),
        intercepts=_mean(intercepts),
        claimed=len(slopes),
        gain=_mean(gains),
        standard_error=float(np.median(errors)) if errors else math.nan,
    )


def _mean(values: Sequence[float] | Floats) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _rows(setting: Setting, blocks: Blocks, table: Floats, random: np.random.Generator) -> RegressionRows:
    variance, patients = blocks.variance, setting.patients
    if setting.mechanism == "mixed":
        plan = blocks.plan
        moments = table.T @ table / patients
        return mixed(moments, patients, plan.outputs, float(plan.anchor_weight), variance, random)
    noisy = table[:, 1:] + np.sqrt(variance) * random.normal(size=(patients, FEATURES + 1))
    return RegressionRows(
        ones=table[:, 0],
        x=noisy[:, :-1],
        y=noisy[:, -1:],
        x_variance=variance[:-1],
        y_variance=variance[-1:],
        patients=float(patients),
        anchor=False,
        mixed=False,
    )


def _inference(setting: Setting, table: Floats, rows: RegressionRows | None, random: np.random.Generator) -> Inference:
    origin = np.zeros(FEATURES)
    if rows is not None:
        return _in_scaled_units(learned_from_rows(rows, setting.patients, origin, intercept=True))
    released = noisy_moments(table.T @ table, setting.patients, mu_of(setting.epsilon, DELTA), PARTIES, random)
    x, y = range(1, FEATURES + 1), [FEATURES + 1]
    return _in_scaled_units(learned_from_moments(released, x, y, origin, intercept=True))


def _in_scaled_units(learned: PopulationFit) -> Inference:
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
        feature_ends=np.array([-ones, ones]),
        target_ends=np.array([-ones[:1], ones[:1]]),
    )
    return in_units(learned, design)


def _gain_is_covered(rows: RegressionRows, table: Floats) -> bool:
    """Whether the default's error on the patients is as far below the constant predictor's as estimated."""
    found = calibrated(rows, np.full(FEATURES, -1.0), np.full(1, -1.0), intercept=True)
    moments = table.T @ table / table[:, 0].sum()
    weights = found.weights[:, 0]
    flat = squared_error(moments, float(found.constant[0]), 0 * weights)
    truth = flat - squared_error(moments, float(found.offsets[0]), weights)
    return bool(abs(found.quality.gain[0] - truth) < 1.96 * found.quality.gain_se[0])


def _plot(results: Results) -> None:
    figure, axes = subplots(1, 2, (13, 10), sharey=True)
    names = [str(setting) for setting in reversed((*SETTINGS, *WEAK)) if str(setting) in results.details]
    for place, name in enumerate(names):
        found = results.details[name]
        parts = {"first": 1, "others": FEATURES - 1} if ", weak," in name else {"slopes": FEATURES}
        for (part, each), colour in zip(parts.items(), ("tab:orange", "tab:blue")[-len(parts) :], strict=True):
            if found["claimed"]:
                spread = 1.96 * math.sqrt(found[part] * (1 - found[part]) / (each * found["claimed"]))
                axes[0].errorbar(found[part], place, xerr=spread, fmt="o", color=colour, ms=4)
        axes[1].barh(place, found["known"], color="tab:blue" if found["known"] >= CLAIMED else "lightgrey")
    axes[0].axvspan(LEAST, MOST, color="tab:green", alpha=0.15)
    axes[0].axvline(0.95, color="grey", lw=0.7)
    title = "coverage of claimed 95 % intervals of weights (orange: of the weakly seen feature)"
    axes[0].set(xlim=(0.85, 1.0), title=title, yticks=range(len(names)))
    axes[0].set_yticklabels(names)
    axes[1].set(xlim=(0, 1), title="share of draws that are claimed known")
    figure.savefig(RESULTS / "coverage.png", dpi=110)


if __name__ == "__main__":
    main("coverage", run)
