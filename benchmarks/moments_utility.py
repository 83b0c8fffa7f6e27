"""Prediction error of fits on joint moments, in the mean and in the bad case, over releases simulated from the Gram matrix.

S0 and S1 have ten features uniform on [-1, 1]; S0 has exact labels and weights uniform on +-1/10, S1 weights uniform on
+-0.3 and label noise of variance 0.1. Their references are `MPC_ROW`, times sqrt(m/(m - t)) for the collusion margin (m = 6,
t = 1).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

import numpy as np

from benchmarks.common.block_releases import DELTA
from benchmarks.common.fits import fit_moments
from benchmarks.common.moment_releases import CURIOUS, noisy_moments
from benchmarks.common.plots import subplots
from benchmarks.common.report import RESULTS, Results, main
from demo.redbook import BOUNDS, survey
from dprelease.arrays import Floats
from dprelease.estimators.baselines.inverted import inverted
from dprelease.privacy.gaussian import mu_of

HOSPITALS = 3
"""Of the demo and of the long-tailed table."""

SYNTHETIC_HOSPITALS = 6
FEATURES = 10
MPC_ROW = {
    ("S0", 10**4): 0.0383,
    ("S0", 10**5): 0.00394,
    ("S0", 10**6): 0.000395,
    ("S1", 10**4): 0.0445,
    ("S1", 10**5): 0.00429,
    ("S1", 10**6): 0.000439,
}
"""Mean errors at epsilon = 1 of a ridge on a Gram matrix that one machine noises for the whole row, over 150 draws."""


def run(quick: bool) -> Results:
    """Utility and safety of fits on joint moments."""
    results = Results()
    draws = 12 if quick else 200
    for (data, rows), reference in MPC_ROW.items():
        if quick and rows > 10**5:
            continue
        count = 6 if quick else {10**4: 100, 10**5: 100, 10**6: 40}[rows]
        error = statistics.fmean(synthetic_errors(data, rows, count))
        allowed = reference * math.sqrt(SYNTHETIC_HOSPITALS / (SYNTHETIC_HOSPITALS - CURIOUS))
        results.add(f"{data}, n = {rows:,}, epsilon 1: mean error of the weights over MPC-row's", error / allowed, 1.25)
        results.details[f"{data} {rows}"] = error
    for name, table in (("demo", demo_table()), ("long-tailed", long_tailed_table())):
        for epsilon, reach in ((1.0, -0.02), (0.1, -0.25)) if quick else ((1.0, -0.02), (0.3, None), (0.1, -0.25)):
            fits = repeated_fits(table, epsilon, draws)
            results.details[f"{name} {epsilon:g}"] = fits.plain()
            if name == "demo" and epsilon == 1:
                results.add("demo, epsilon 1: median over targets of R^2 lost", fits.median_loss(), 0.04)
                results.add("demo, epsilon 1: median over targets of the median R^2", fits.median(), None, ">=")
            title = f"{name}, epsilon {epsilon:g}: 5 % quantile of R^2, least of {len(fits.private)} targets"
            results.add(title, fits.worst("shrinkage"), reach, ">=")
            results.add(f"{title}, matrix inverted as it is", fits.worst("ols"), None, ">=")
    if not quick:
        _plot(results)
    return results


@dataclass(frozen=True)
class Fits:
    """R^2 on the private rows over many releases of one table.

    Attributes:
        private: (p,) R^2 of least squares on the private rows, each column on all others.
        r_squared: method, or ``constant`` for the constant predictor, to (draws, p).
    """

    private: Floats
    r_squared: dict[str, Floats] = field(default_factory=dict)

    def worst(self, method: str) -> float:
        """The least 5 % quantile over the targets."""
        return float(np.quantile(self.r_squared[method], 0.05, axis=0).min())

    def median(self) -> float:
        """Of the targets' medians."""
        return float(np.median(np.median(self.r_squared["shrinkage"], axis=0)))

    def median_loss(self) -> float:
        """Median over the targets of what their median fit loses against the non-private one."""
        return float(np.median(self.private - np.median(self.r_squared["shrinkage"], axis=0)))

    def plain(self) -> dict[str, list[list[float]] | list[float]]:
        """JSON-ready: for each method the 5, 50 and 95 % quantiles of every target."""
        quantiles = {name: np.quantile(value, [0.05, 0.5, 0.95], axis=0) for name, value in self.r_squared.items()}
        return {"private": self.private.tolist(), **{name: value.tolist() for name, value in quantiles.items()}}


def repeated_fits(table: Floats, epsilon: float, draws: int, seed: int = 0) -> Fits:
    """Regress every column on all others, over many releases.

    Args:
        table: (n, p) scaled rows, within [-1, 1].
        epsilon: of the whole row.
        draws: releases.
        seed: of the noise.
    """
    generator = np.random.default_rng(seed)
    exact, columns = gram(table), range(1, table.shape[1] + 1)
    others = {target: [column for column in columns if column != target] for target in columns}
    truth = exact / len(table)
    found: dict[str, list[list[float]]] = {"shrinkage": [], "ols": [], "constant": []}
    for _ in range(draws):
        moments = noisy_moments(exact, len(table), mu_of(epsilon, DELTA), HOSPITALS, generator)
        of = {name: [0.0] * len(columns) for name in found}
        for target, features in others.items():
            likely = fit_moments(moments, features, [target], intercept=True)
            plain = inverted(moments, features, [target], intercept=True)
            for name, fit in (("shrinkage", likely), ("ols", plain)):
                model = np.append(fit.offsets, fit.weights[:, 0])
                of[name][target - 1] = r_squared(truth, target, features, model)
            of["constant"][target - 1] = r_squared(truth, target, [], likely.constant)
        for name, values in of.items():
            found[name].append(values)
    private = [r_squared(truth, y, x, least_squares(truth, y, [0, *x])) for y, x in others.items()]
    return Fits(np.array(private), {name: np.array(values) for name, values in found.items()})


def synthetic_errors(data: str, rows: int, draws: int, seed: int = 1) -> list[float]:
    """|w_hat - w| of S0 or S1 at epsilon 1, against the non-private fit, over many tables and releases."""
    generator = np.random.default_rng(seed)
    features, target = list(range(1, FEATURES + 1)), FEATURES + 1
    errors = []
    for _ in range(draws):
        exact = _synthetic_gram(data, rows, generator)
        moments = noisy_moments(exact, rows, mu_of(1.0, DELTA), SYNTHETIC_HOSPITALS, generator)
        fit = fit_moments(moments, features, [target], intercept=True)
        errors.append(float(np.linalg.norm(fit.weights[:, 0] - least_squares(exact, target, features))))
    return errors


def _synthetic_gram(data: str, rows: int, generator: np.random.Generator) -> Floats:
    weights = generator.uniform(-1, 1, FEATURES) * (0.1 if data == "S0" else 0.3)
    total = np.zeros((FEATURES + 2, FEATURES + 2))
    for start in range(0, rows, 10**5):
        x = generator.uniform(-1, 1, (min(10**5, rows - start), FEATURES))
        noise = generator.normal(0, math.sqrt(0.1), len(x)) if data == "S1" else 0.0
        total += gram(np.column_stack([x, x @ weights + noise]))
    return total


def demo_table() -> Floats:
    """The demo's survey in scaled units."""
    table = survey()
    return np.column_stack(
        [(table[name] - (low + high) / 2) * (2 / (high - low)) for name, (low, high, _) in BOUNDS.items()]
    )


def long_tailed_table(rows: int = 6366, seed: int = 7) -> Floats:
    """Seven long-tailed counts (coefficient of variation about 2) and a total of three of them and a fourth count.

    Bounds are so wide that the standard deviations are 1 to 5 % of the declared ranges, evenly in the logarithm.
    """
    generator = np.random.default_rng(seed)
    illness = generator.gamma(1.0, 1.0, rows)
    mean = generator.uniform(0.5, 4.0, 7)[:, None] * np.sqrt(illness)
    counts = generator.poisson(mean * generator.gamma(0.3, 1 / 0.3, (7, rows))).astype(float)
    total = 10 * counts[4:].sum(axis=0) + generator.poisson(20 * illness)
    share = np.geomspace(0.01, 0.05, 8)
    columns = [2 * values * part / values.std() - 1 for values, part in zip([*counts, total], share, strict=True)]
    table: Floats = np.clip(np.column_stack(columns), -1, 1)
    return table


def gram(table: Floats) -> Floats:
    """(p+1, p+1) sums of x x^T, x = (1, z)."""
    x = np.column_stack([np.ones(len(table)), table])
    sums: Floats = x.T @ x
    return sums


def least_squares(moments: Floats, target: int, features: list[int]) -> Floats:
    """Weights on `features`, which may contain the constant, 0."""
    return np.asarray(np.linalg.solve(moments[np.ix_(features, features)], moments[features, target]), np.float64)


def r_squared(truth: Floats, target: int, features: list[int], model: Floats) -> float:
    """R^2 on the private rows of a model (offset, weights), relative to the true mean."""
    used = [0, *features]
    error = truth[target, target] - 2 * model @ truth[used, target] + model @ truth[np.ix_(used, used)] @ model
    return float(1 - error / (truth[target, target] - truth[0, target] ** 2))


def _plot(results: Results) -> None:
    figure, axes = subplots(1, 3, (14, 4))
    for data, colour in (("S0", "tab:blue"), ("S1", "tab:orange")):
        sizes = [rows for name, rows in MPC_ROW if name == data]
        axes[0].loglog(sizes, [results.details[f"{data} {rows}"] for rows in sizes], "o-", color=colour, label=data)
        reference = [MPC_ROW[data, rows] * math.sqrt(1.2) for rows in sizes]
        axes[0].loglog(sizes, reference, "--", color=colour, label=f"{data}, curator with ridge")
    axes[0].set(xlabel="patients", ylabel="mean error of the weights", title="epsilon = 1")
    axes[0].legend()
    names = {"demo": list(BOUNDS), "long-tailed": [*(f"count {index}" for index in range(1, 8)), "total"]}
    for axis, (table, targets) in zip(axes[1:], names.items(), strict=True):
        places = np.arange(len(targets))
        for shift, epsilon in enumerate((1.0, 0.3, 0.1)):
            low, median, high = results.details[f"{table} {epsilon:g}"]["shrinkage"]
            spread = [np.subtract(median, low), np.subtract(high, median)]
            axis.errorbar(places + 0.2 * (shift - 1), median, spread, fmt="o", ms=4, label=f"epsilon {epsilon:g}")
        axis.plot(places, results.details[f"{table} 1"]["private"], "k_", ms=20, label="not private")
        axis.set_xticks(places, targets, rotation=60, ha="right")
        axis.set(title=f"{table}: R^2, median and 5 to 95 %")
        axis.axhline(0, color="grey", lw=0.5)
        axis.legend()
    figure.savefig(RESULTS / "moments_utility.png", dpi=110)


if __name__ == "__main__":
    main("moments_utility", run)
