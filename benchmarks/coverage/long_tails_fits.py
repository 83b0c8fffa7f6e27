"""The default fit of joint moments on tables with long tails: what it explains, and what it says that it explains.

Every column is the outcome once, all columns but its own are its features, without the first level of a category and ``other``.
Tables, their factors' weights and the noise are drawn anew for each release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.common.block_releases import DELTA
from benchmarks.common.fits import fit_moments
from benchmarks.common.moment_releases import noisy_moments
from benchmarks.coverage.long_tails import TABLES
from benchmarks.moments_utility import r_squared
from dprelease.mechanisms.moments.entries import Layout
from dprelease.privacy.gaussian import mu_of

LEAST_EXPLAINED = -0.02
LEAST_COVERED = 0.95
WITHIN = 2.5
"""Standard errors that the fit's own R^2 may be off."""
PARTIES = 3


@dataclass(frozen=True)
class Explained:
    """Fits of one table.

    Attributes:
        least: of the outcomes' 5 % quantiles of R^2 on the rows.
        within: share of fits whose own R^2 is within its standard errors.
        outcomes: name of an outcome to the 5 % quantile and the median of R^2, and the 5 % quantile of the constant predictor's.
    """

    least: float
    within: float
    outcomes: dict[str, tuple[float, float, float]]


def explained(name: str, draws: int, seed: int = 1) -> Explained:
    """R^2 of every outcome beside that of the constant predictor."""
    table = TABLES[name]
    random = np.random.default_rng([seed, table.patients])
    layout = Layout(table.columns)
    used = [
        place
        for place, (variable, first) in enumerate(zip(layout.variables, layout.first_level, strict=True), 1)
        if not first and not variable.name.endswith("=other")
    ]
    found = []
    for _ in range(draws):
        gram = table.gram(random)
        moments = noisy_moments(gram, table.patients, mu_of(1.0, DELTA), PARTIES, random, table.columns)
        owner = [variable.column for variable in layout.variables]
        for target in used:
            features = [place for place in used if owner[place - 1] != owner[target - 1]]
            fitted = fit_moments(moments, features, [target], intercept=True)
            change = np.append(fitted.offsets, fitted.weights[:, 0])
            truth = gram / table.patients
            kept, flat = r_squared(truth, target, features, change), r_squared(truth, target, [], fitted.constant)
            off, sd = fitted.quality.explained[0] - (kept - flat) / (1 - flat), fitted.quality.explained_se[0]
            # both are 0 for a constant model
            found.append((kept, flat, abs(off) <= WITHIN * sd + 1e-9))
    r2, constant, within = np.array(found).reshape(draws, len(used), 3).transpose(2, 0, 1)
    low, median, safe = np.quantile(r2, 0.05, axis=0), np.median(r2, axis=0), np.quantile(constant, 0.05, axis=0)
    names = [layout.variables[place - 1].name for place in used]
    rows = zip(low.tolist(), median.tolist(), safe.tolist(), strict=True)
    return Explained(float(low.min()), float(within.mean()), dict(zip(names, rows, strict=True)))
