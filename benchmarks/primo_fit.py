"""Thousands of outcomes on the same features: how long a fit takes, and what moments in closed form are worth.

Times are those of the fit from arrays as released to models with their errors, in seconds and over what no fit can do without:
the features' Gram matrix, their products with all outcomes, and one solve, in plain numpy in the same run. Outcomes are linear
in the features with noise; what is in the rows does not change how long anything takes.

Above 64 variables joint moments are fitted in closed form (`spectral_ridge`). How good and how safe that
is shows on the tables of `moments_utility`: as they are, where draws do better (results/moments_utility.json), and with rows
drawn again and 60 columns added that have nothing to do with them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks.common.block_releases import DELTA
from benchmarks.common.moment_releases import noisy_moments
from benchmarks.common.report import Results, main
from benchmarks.moments_utility import demo_table, gram, least_squares, long_tailed_table, r_squared
from dprelease.arrays import Floats
from dprelease.data.columns import NumericColumn
from dprelease.estimators.baselines.inverted import inverted
from dprelease.estimators.moments.spectral_ridge import fit_spectral
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.gaussian import mu_of

FEATURES = 100
PATIENTS = 200_000
ANCHOR = 0.02
SECONDS = 10.0
"""What "in seconds" means here."""

HOSPITALS = 3
ADDED = 60
REPEATS = 3


def run(quick: bool) -> Results:
    """Time of fits of 10,000 outcomes on 100 features (1,000 when quick), and accuracy on wide moments."""
    results = Results()
    outcomes = 1_000 if quick else 10_000
    for rows in (1_000,) if quick else (1_000, 5_000):
        _time_rows(results, outcomes, rows)
    _time_moments(results, outcomes)
    _accuracy(results, 20 if quick else 200)
    return results


def _time_rows(results: Results, outcomes: int, count: int) -> None:
    rows = released_rows(outcomes, count)
    ends = np.full(FEATURES, -1.0), np.full(outcomes, -1.0)

    def plain() -> object:
        x, y = rows.x[:], rows.y[:]
        return np.linalg.solve(x.T @ x, x.T @ y)

    name = f"calibrated, {count:,} mixed rows, {outcomes:,} outcomes on {FEATURES} features"
    _report(results, name, plain, lambda: calibrated(rows, *ends, intercept=True))


def _time_moments(results: Results, outcomes: int) -> None:
    moments = released_moments(outcomes)
    x, y = list(range(1, FEATURES + 1)), list(range(FEATURES + 1, FEATURES + outcomes + 1))

    def plain() -> object:
        return np.linalg.solve(moments.gram[np.ix_(x, x)], moments.gram[np.ix_(x, y)])

    name = f"joint moments, {outcomes:,} outcomes on {FEATURES} features"
    _report(results, f"shrinkage, {name}", plain, lambda: fit_spectral(moments, x, y, intercept=True))
    _report(results, f"ols, {name}", plain, lambda: inverted(moments, x, y, intercept=True))


def _report(results: Results, name: str, plain: Callable[[], object], fit: Callable[[], object]) -> None:
    least, taken = _seconds(plain), _seconds(fit)
    results.add(f"{name}: seconds", taken, SECONDS)
    results.add(f"{name}: over one Gram matrix and one solve", taken / least)


def _seconds(work: Callable[[], object]) -> float:
    """The least of several runs: the others measure what else the machine was doing."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def released_rows(outcomes: int, count: int, seed: int = 0) -> RegressionRows:
    """An anchor and `count` mixing rows of patients with outcomes linear in their features."""
    random = np.random.default_rng(seed)
    spread = math.sqrt(PATIENTS * (1 - ANCHOR) / count)
    ones = np.append(math.sqrt(ANCHOR) * PATIENTS, spread * random.normal(size=count))
    x = spread / math.sqrt(3) * random.normal(size=(count + 1, FEATURES))
    x[0] = 0.0
    y = x @ random.uniform(-0.1, 0.1, (FEATURES, outcomes)) + spread * 0.1 * random.normal(size=(count + 1, outcomes))
    return RegressionRows(
        ones=ones,
        x=x + random.normal(size=x.shape),
        y=y + random.normal(size=y.shape),
        x_variance=np.ones(FEATURES),
        y_variance=np.ones(outcomes),
        patients=float(PATIENTS),
        anchor=True,
        mixed=True,
    )


def released_moments(outcomes: int, sd: float = 0.002, seed: int = 0) -> NoisyMoments:
    """Noisy moments of 2,000 patients, per patient as noisy as `sd`."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (2_000, FEATURES))
    y = x @ random.uniform(-0.05, 0.05, (FEATURES, outcomes)) + 0.1 * random.normal(size=(2_000, outcomes))
    matrix = gram(np.column_stack([x, y]))
    names = [*(f"x{index}" for index in range(FEATURES)), *(f"y{index}" for index in range(outcomes))]
    layout = Layout(tuple(NumericColumn(name=name, lower=-1.0, upper=1.0, fill=0.0) for name in names))
    noise_sd = np.full(matrix.shape, sd * len(x))
    noise_sd[0, 0] = 0.0
    noise = noise_sd * random.normal(size=matrix.shape)
    return NoisyMoments(layout, matrix + (noise + noise.T) / math.sqrt(2), noise_sd, len(x))


def _accuracy(results: Results, draws: int) -> None:
    tables = {"demo": demo_table(), "long-tailed": long_tailed_table()}
    for name, table in tables.items():
        for epsilon in (1.0, 0.1):
            found = fits(table, epsilon, draws)
            title = f"closed form, {name}, epsilon {epsilon:g}"
            results.add(f"{title}: 5 % quantile of R^2, least of {len(found[0])} targets", _low(found), None, ">=")
            results.details[title] = _plain(found)
        for rows, reach in ((10_000, -0.25), (60_000, -0.02)):
            found = fits(widened(table, rows), 1.0, draws, table.shape[1])
            title = f"closed form, {name}, {rows:,} rows beside {ADDED} other columns, epsilon 1"
            results.add(f"{title}: 5 % quantile of R^2, least of {len(found[0])} targets", _low(found), reach, ">=")
            results.details[title] = _plain(found)


def widened(table: Floats, rows: int, seed: int = 3) -> Floats:
    """Rows drawn again, with `ADDED` columns that are uniform on their ranges."""
    random = np.random.default_rng(seed)
    return np.hstack([table[random.integers(0, len(table), rows)], random.uniform(-1, 1, (rows, ADDED))])


def fits(table: Floats, epsilon: float, draws: int, own: int | None = None, seed: int = 0) -> tuple[Floats, Floats]:
    """(R^2 of least squares on the private rows (p,), R^2 of fits in closed form (draws, p)).

    Args:
        table: (n, columns) scaled rows.
        epsilon: of the whole row.
        draws: releases.
        own: p, columns that are regressed on one another; all unless given.
        seed: of the noise.
    """
    random = np.random.default_rng(seed)
    exact, columns = gram(table), range(1, (own or table.shape[1]) + 1)
    truth = exact / len(table)
    others = {target: [column for column in columns if column != target] for target in columns}
    found = np.empty((draws, len(columns)))
    for draw in range(draws):
        moments = noisy_moments(exact, len(table), mu_of(epsilon, DELTA), HOSPITALS, random)
        for target, x in others.items():
            fit = fit_spectral(moments, x, [target], intercept=True)
            found[draw, target - 1] = r_squared(truth, target, x, np.append(fit.offsets, fit.weights[:, 0]))
    private = [r_squared(truth, y, x, least_squares(truth, y, [0, *x])) for y, x in others.items()]
    return np.array(private), found


def _low(found: tuple[Floats, Floats]) -> float:
    return float(np.quantile(found[1], 0.05, axis=0).min())


def _plain(found: tuple[Floats, Floats]) -> dict[str, list[float] | list[list[float]]]:
    """JSON-ready: the private R^2, and the 5, 50 and 95 % quantiles of every target."""
    return {"private": found[0].tolist(), "closed form": np.quantile(found[1], [0.05, 0.5, 0.95], axis=0).tolist()}


if __name__ == "__main__":
    main("primo_fit", run)
