"""Lasso path by coordinate descent on a correlation matrix, on every draw.

For features and outcome at variance 1, with correlations C and c, and a penalty p,

    minimise  (1/2) b' C b - c' b + p |b|_1

so nothing else of the rows enters. Cross-validation needs rows; the penalty is the one of the least BIC, m log(1 - R^2) + (features
chosen) log m, on the mean of the draws. There m is the number of patients at which sampling alone would move the correlations with
the outcome as far as noise and sampling do: 1/m = 1/n + their mean variance over the draws. With n, noise would pass for signal.

Source: Friedman, Hastie and Tibshirani 2010, J. Statistical Software 33(1), section 2.2, "covariance updates".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.estimators.evidence.before_clipping import standardised
from dprelease.one_line import counted
from dprelease.release.release import Release

PENALTIES = tuple(float(part) for part in np.geomspace(1.0, 0.001, 25))
"""Penalties of the path, in units of the least one that chooses nothing."""
_SWEEPS, _STILL, _LEAST_LEFT = 10_000, 1e-10, 1e-12


@repeatable
def lasso(release: Release, outcome: str, on: Sequence[str]) -> Analysis:
    """Lasso of one column on others, at the penalty of the least BIC.

    Tables, all noise only: ``coefficients`` (original units), ``chosen, share of draws`` (in which a feature
    has a coefficient) and ``explained`` (R^2 along the path, by the number of features that the mean of the draws has there).

    Args:
        release: a verified release of joint moments.
        outcome: a number, or an indicator.
        on: features.

    Raises:
        InvalidInput: an unknown name, no moments, or noise hides how a column varies.
    """
    y, x = number(release, outcome), features(release, on)
    draws = draws_of(release, (y, *x))
    x = draws.present(x)
    for name in (y, *x):
        draws.check_seen([name])
    correlation = _correlation(draws, (y, *x))[0]
    typical = correlation.mean(axis=0, keepdims=True)
    largest = float(np.abs(typical[0, 0, 1:]).max())
    penalties = [largest * part for part in PENALTIES]
    path = [found[0] for found in lasso_path(typical, penalties)]
    left = [1 - _explained(typical[0], coef) for coef in path]
    size = [int((coef != 0).sum()) for coef in path]
    worth = 1 / (1 / draws.patients + correlation[:, 0, 1:].var(axis=0).mean())
    best = int(np.argmin(worth * np.log(np.maximum(left, _LEAST_LEFT)) + np.log(worth) * np.array(size)))
    steps = tuple(f"{penalty:.3g}: {counted(count, 'feature')}" for penalty, count in zip(penalties, size, strict=True))
    tables = tables_of(draws, lambda draws: _tables(draws, (y, *x), penalties[: best + 1], steps[: best + 1]))
    chosen, clipped = tables["coefficients"].location != 0, tables["coefficients"].taken is not None
    return Analysis(
        f"Lasso of {y}",
        release,
        draws.names,
        {
            "coefficients": tables["coefficients"],
            "chosen, share of draws": Estimates(x, np.round(chosen.mean(axis=0, keepdims=True), 2)),
            "explained": tables["explained"],
        },
        caveats=(
            *draws.caveats,
            "Coefficients are shrunken, so none has a standard error or a p-value.",
            "If features resemble one another, the lasso takes one, and noise decides which: see how often each is chosen.",
            *(["A feature that is not chosen gets no width for clipping."] if clipped else []),
        ),
        facts={"penalty": f"{penalties[best]:.4g}, of the least BIC for {worth:.0f} patients without noise"},
    )


def _correlation(draws: Draws, names: Sequence[str]) -> tuple[Floats, Floats]:
    """(T, k, k) correlations, and (T, k) standard deviations."""
    used = draws.places(names)
    return standardised(draws.covariance[:, used][:, :, used])


def _tables(
    draws: Draws, names: Sequence[str], penalties: Sequence[float], steps: tuple[str, ...]
) -> dict[str, Estimates]:
    correlation, spread = _correlation(draws, names)
    drawn = lasso_path(correlation, penalties)
    explained = np.column_stack([[_explained(*pair) for pair in zip(correlation, coef, strict=True)] for coef in drawn])
    chosen, x = drawn[-1], tuple(names[1:])
    return {
        "coefficients": Estimates(x, chosen * spread[:, :1] / spread[:, 1:]),
        "explained": Estimates(steps, explained, limits=(0.0, 1.0)),
    }


def lasso_path(correlation: Floats, penalties: Sequence[float]) -> list[Floats]:
    """(T, d) coefficients at each penalty, for features and outcome at variance 1.

    Args:
        correlation: (T, d + 1, d + 1), the outcome first.
        penalties: from large to small; each starts where the one before ended.
    """
    within, across = correlation[:, 1:, 1:], correlation[:, 1:, 0]
    coef, found = np.zeros_like(across), []
    for penalty in penalties:
        for _ in range(_SWEEPS):
            before = coef.copy()
            for place in range(coef.shape[1]):
                rest = across[:, place] - (within[:, place] * coef).sum(axis=1) + coef[:, place]
                coef[:, place] = np.sign(rest) * np.maximum(np.abs(rest) - penalty, 0.0)
            if np.abs(coef - before).max() < _STILL:
                break
        found.append(coef.copy())
    return found


def _explained(correlation: Floats, coef: Floats) -> float:
    return float(2 * correlation[0, 1:] @ coef - coef @ correlation[1:, 1:] @ coef)
