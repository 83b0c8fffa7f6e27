"""The default of lambda against others, by the error of what a reader predicts where the truth is known.

On the paper's synthetic sets the truth is the signal. On real panels every second donor is a target in turn, without an
intervention, and the truth is what was observed. Errors are root mean squares over times, targets and draws of noise, in
half-widths of the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from benchmarks.common.report import Results
from benchmarks.paper_synthetic_control.curves import posterior_path
from benchmarks.paper_synthetic_control.data import Panel, panels, synthetic
from benchmarks.paper_synthetic_control.published import Pool, tight_output
from dprelease.arrays import Floats
from dprelease.mechanisms.synthetic_control.ridge import default_penalty
from dprelease.privacy.gaussian import mu_of

Case = tuple[Pool, Floats]
DELTA = 1e-3
EPSILONS = (10, 100, 1000)
FACTORS = (1 / 30, 1 / 10, 1 / 3, 1, 3, 10, 30)
"""Of the default, beside lambda = T0."""
SETS = 4


def compare(results: Results, runs: int) -> None:
    """Add the default's error, over that of lambda = T0 and over the least of all."""
    for name, cases in _cases().items():
        pool = cases[0][0]
        (n, before), after = pool.donors.shape, pool.after.shape[1]
        for epsilon in EPSILONS:
            mu2 = Fraction(mu_of(epsilon, DELTA)) ** 2
            default = float(default_penalty(n, before, after, mu2))
            errors = {each: _error(cases, each * default, epsilon, runs) for each in FACTORS}
            said, plain = f"{name}, epsilon = {epsilon:,}", _error(cases, before, epsilon, runs)
            results.add(f"{said}: default lambda over T0", default / before)
            results.add(f"{said}: error with it, half-widths", errors[1])
            results.add(f"{said}: the same over that of lambda = T0", errors[1] / plain)
            results.add(f"{said}: the same over the least of {len(FACTORS)}", errors[1] / min(errors.values()))


def _cases() -> Mapping[str, Sequence[Case]]:
    found: dict[str, list[Case]] = {}
    for donors in (10, 100, 1000):
        sets = [synthetic(10, donors, np.random.default_rng([10, donors, number])) for number in range(SETS)]
        found[f"paper's data, T0 = 10, n = {donors}"] = [
            (each.scaled(), (each.truth - each.middle) / each.half) for each in sets
        ]
    for panel in panels():
        found[f"placebos of {panel.name}"] = _placebos(panel)
    return found


def _placebos(panel: Panel) -> list[Case]:
    pool = panel.scaled()
    found = []
    for place in range(0, len(pool.donors), 2):
        before, after = (np.delete(each, place, axis=0) for each in (pool.donors, pool.after))
        found.append((Pool(before, pool.donors[place], after), pool.after[place]))
    return found


def _error(cases: Sequence[Case], penalty: float, epsilon: float, runs: int) -> float:
    squares = []
    for number, (pool, truth) in enumerate(cases):
        noisy = tight_output(pool, penalty, epsilon, DELTA, runs, np.random.default_rng([20230324, number]))
        paths = [posterior_path(pool, penalty, epsilon, DELTA, *each) for each in zip(*noisy, strict=True)]
        squares.append(np.mean((np.array(paths) - truth) ** 2))
    return math.sqrt(float(np.mean(squares)))
