"""Figures 3 to 8 of "Differentially private synthetic control" (Rho, Cummings and Misra 2023), as published and with tight noise.

Output perturbation as published is private with too much noise. Objective perturbation is NOT PRIVATE at any epsilon
(docs/guarantees.md 21) and stands here for comparison only. As published, both run on values far outside the [-1, 1] that
their noise is for, so nothing in that frame is private; in public bounds noise and values fit. Errors are root mean squares
against the signal, in original units.

Then the default of lambda against others, and three panels of states, regions and countries, with whole releases as the
product makes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction

import numpy as np

from benchmarks.common.report import RESULTS, Results, main
from benchmarks.paper_synthetic_control import claims, plots
from benchmarks.paper_synthetic_control.curves import Point, point, published_bound
from benchmarks.paper_synthetic_control.data import SETTINGS, Panel, panels, synthetic
from benchmarks.paper_synthetic_control.penalty import compare
from benchmarks.paper_synthetic_control.published import ridge
from dprelease.arrays import Floats
from dprelease.data.bounding import bound
from dprelease.data.columns import NumericColumn
from dprelease.estimators.counterfactual import Counterfactual, counterfactual
from dprelease.mechanisms.synthetic_control import released
from dprelease.mechanisms.synthetic_control.ridge import WEIGHT_BITS, ridge_weights
from dprelease.mechanisms.synthetic_control.terms import ControlProblem, SyntheticControlTerms, norm2_of
from dprelease.privacy.calibration import budget
from dprelease.spec_base import Target

PENALTIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
EPSILONS = (2, 4, 10, 20, 40, 100, 200)
AT_PENALTIES = 100.0
"""epsilon_1 + epsilon_2 of the curves against lambda."""
PANEL_EPSILONS = (1, 10, 100, 1000, 10_000)
PANEL_DELTA = 1e-3
"""Below 1/n."""
SHOWN = 1000
GRID_BITS = 16


def run(quick: bool) -> Results:
    """Errors of private synthetic control on the paper's four synthetic sets and three real panels."""
    results, found = Results(), []
    sets, runs = (1, 40) if quick else (5, 100)
    data = [
        [synthetic(before, donors, np.random.default_rng([before, donors, number])) for number in range(sets)]
        for before, donors in SETTINGS
    ]
    penalties = PENALTIES[3::3] if quick else PENALTIES
    curves: dict[str, list[list[Point]]] = {}
    for frame in ("raw", "bounds"):
        by_penalty = [
            [point(panel, frame, each, AT_PENALTIES, runs, at) for each in sorted({*penalties, panel[0].before})]
            for at, panel in enumerate(data)
        ]
        by_budget = [
            [point(panel, frame, panel[0].before, each, runs, 100 + at) for each in EPSILONS]
            for at, panel in enumerate(data)
        ]
        curves[f"{frame}, lambda"], curves[f"{frame}, epsilon"] = by_penalty, by_budget
        for name in (frame, "tight") if frame == "bounds" else (frame,):
            found += claims.of_penalties(by_penalty, name) + claims.of_budgets(by_budget, name)
        if frame == "raw":
            against_bounds = {method: _bounds(by_penalty[0], data[0][0], method) for method in ("out", "obj")}
            found += [claims.of_bounds(each, method) for method, each in against_bounds.items()]
    _reaches(results, curves["bounds, epsilon"])
    for name, words in claims.FRAMES.items():
        of_frame = [claim for claim in found if claim.frame == name]
        results.add(f"claims reproduced {words}, of {len(of_frame)}", sum(claim.holds for claim in of_frame))
    lines = claims.table(found)
    print("\n".join(["", *lines]), flush=True)
    compare(results, 1 if quick else 10)
    drawn = _panels(results, 5 if quick else 50)
    results.details = {
        "claims": lines,
        "claims, one by one": [asdict(claim) for claim in found],
        "points": {name: [each.plain() for points in rows for each in points] for name, rows in curves.items()},
    }
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        for along, key in (("penalty", "lambda"), ("epsilon", "epsilon")):
            both = curves[f"raw, {key}"] + curves[f"bounds, {key}"]
            plots.curves(both, along, RESULTS / f"paper_synthetic_control_{key}.png")
        plots.bounds(curves["raw, lambda"][0], against_bounds, RESULTS / "paper_synthetic_control_bounds.png")
        if drawn:
            plots.paths(drawn, RESULTS / "paper_synthetic_control_panels.png")
    return results


def _bounds(points: Sequence[Point], panel: Panel, method: str) -> list[tuple[float, float]]:
    """Error and what the theorem allows, for each lambda."""
    return [(each.rmse[method], published_bound(panel, each.penalty, AT_PENALTIES, method)) for each in points]


def _reaches(results: Results, points: list[list[Point]]) -> None:
    """Noise of weights against the paper's, and errors against both published variants at equal epsilon."""
    for donors in (1, 10, 100):
        results.add(
            f"noise of weights: published over tight, same law, lambda = T0, n = {donors}",
            4 * math.sqrt(8 + donors) / math.sqrt(2),
            8,
            ">=",
        )
    for setting in points:
        for method, words in (
            ("tight", "tight Gaussian"),
            ("posterior", "the same, posterior"),
            ("tight laplace", "tight Laplace"),
        ):
            rivals = ("out", "obj") if method == "tight laplace" else ("out", "obj", "obj gauss")
            worst = max(each.rmse[method] / min(each.rmse[rival] for rival in rivals) for each in setting)
            reach = 1.0 if method == "tight" else None
            results.add(
                f"{setting[0].data}: error of {words} over the better published variant, worst epsilon", worst, reach
            )
    for setting, epsilon in itertools.product(points, (10, 200)):
        each = next(each for each in setting if each.epsilon == epsilon)
        for method in ("ridge", "out", "obj", "obj gauss", "tight", "posterior"):
            results.add(f"{each.data}, epsilon = {epsilon}: RMSE of {method}", each.rmse[method])


def _panels(results: Results, runs: int) -> list[tuple[Panel, Floats, float, Floats, Floats]]:
    """Private against non-private paths of the real panels, and one of each to draw."""
    drawn = []
    for number, panel in enumerate(panels()):
        pool = panel.scaled()
        penalty = panel.before
        exact = panel.middle + panel.half * (pool.after.T @ ridge(pool, penalty))
        effect = float(np.mean(panel.target[panel.before :] - exact))
        results.add(f"{panel.name}: mean effect without privacy, lambda = T0", effect)
        weak = panel.middle + panel.half * (pool.after.T @ ridge(pool, penalty / 100))
        results.add(f"{panel.name}: the same, lambda = T0/100", float(np.mean(panel.target[panel.before :] - weak)))
        for epsilon in PANEL_EPSILONS:
            rng = np.random.default_rng([20230324, number, epsilon])
            made = [private_path(panel, epsilon, rng) for _ in range(runs)]
            off = np.array([each.path - exact for each in made])
            held = np.abs(off) <= 1.96 * np.array([each.path_sd for each in made])
            said = f"{panel.name}, epsilon = {epsilon:,}"
            results.add(f"{said}: RMSE of the path against that without privacy", float(np.sqrt(np.mean(off**2))))
            results.add(
                f"{said}: standard error of the mean effect", float(np.mean([each.mean_effect[1] for each in made]))
            )
            results.add(f"{said}: share of 95 % bands that hold the path without privacy", float(held.mean()))
            means = [abs(each.path.mean() - exact.mean()) <= 1.96 * each.mean_effect[1] for each in made]
            results.add(f"{said}: share of 95 % intervals of the mean effect that hold it", float(np.mean(means)))
            if epsilon == SHOWN:
                drawn.append((panel, exact, float(epsilon), made[0].path, made[0].path_sd))
    return drawn


def private_path(panel: Panel, epsilon: float, rng: np.random.Generator) -> Counterfactual:
    """What a learner reads of one release of a panel, with the product's codes, weights and noise scales."""
    names = [f"t{time}" for time in range(panel.donors.shape[1])]
    low, high = panel.bounds
    columns = tuple(NumericColumn.model_validate({"name": name, "lower": low, "upper": high}) for name in names)
    codes = bound(dict(zip(names, panel.donors.T, strict=True)), columns, GRID_BITS)
    problem = ControlProblem(
        columns, len(codes), tuple(panel.target.tolist()), names[panel.before], Fraction(panel.before)
    )
    target, mu2 = problem.codes(GRID_BITS), budget(Target(scope="joint", epsilon=epsilon, delta=PANEL_DELTA))
    terms = SyntheticControlTerms.least(problem, mu2, Fraction(1, 2), 1, GRID_BITS)
    weights = ridge_weights(codes[:, : panel.before], target, problem.penalty, GRID_BITS)
    after = codes[:, panel.before :]
    seen = released.Panel(
        columns=columns,
        before=panel.before,
        penalty=float(problem.penalty),
        target=panel.target,
        weights=(weights + terms.weights_scale * rng.standard_normal(weights.shape)) / 2**WEIGHT_BITS,
        weight_sd=terms.weights_scale / 2**WEIGHT_BITS,
        donors=(after + terms.donors_scale * rng.standard_normal(after.shape)) / 2**GRID_BITS,
        donor_sd=terms.donors_scale / 2**GRID_BITS,
        norm2_bound=float(norm2_of(target, GRID_BITS) / (2 * problem.penalty)),
    )
    return counterfactual([seen])


if __name__ == "__main__":
    main("paper_synthetic_control", run)
