"""Least squares with an intercept on every draw of the moments, with the classical errors of n patients.

Residuals are taken to spread equally everywhere: errors that allow for anything else need fourth moments (`beyond`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.analyses.draws import Draws
from dprelease.analyses.estimates import Estimates
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.one_line import listed


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A regression of one outcome on d features, on T draws.

    Attributes:
        features: (d,) names.
        coef: (T, d).
        inverse: (T, d, d) of the features' covariance.
        outcome_mean: (T,).
        feature_mean: (T, d).
        variance: (T,) of the outcome.
        explained: (T,) R^2.
        patients: n.
    """

    features: tuple[str, ...]
    coef: Floats
    inverse: Floats
    outcome_mean: Floats
    feature_mean: Floats
    variance: Floats
    explained: Floats
    patients: int

    @property
    def degrees(self) -> int:
        """n - d - 1."""
        return self.patients - len(self.features) - 1

    @property
    def residual(self) -> Floats:
        """(T,) variance of the residuals, divided by the degrees of freedom."""
        return self.variance * (1 - self.explained) * self.patients / self.degrees

    @property
    def intercept(self) -> Floats:
        """(T,)."""
        found: Floats = self.outcome_mean - (self.coef * self.feature_mean).sum(axis=1)
        return found

    def errors(self) -> Floats:
        """(T, d) sampling errors of the coefficients."""
        found: Floats = np.sqrt(self.residual[:, None] / self.patients * np.einsum("tii->ti", self.inverse))
        return found

    def slopes(self, names: Sequence[str] | None = None) -> Estimates:
        """Estimates of the coefficients, all or some."""
        wanted = self.features if names is None else tuple(names)
        at = [self.features.index(name) for name in wanted]
        return Estimates(wanted, self.coef[:, at], self.errors()[:, at], self.degrees, tested=True)

    def predictions(self, names: tuple[str, ...], points: Floats) -> Estimates:
        """Estimates of the outcome's mean at some values of the features.

        Args:
            names: (q,) what the points are called.
            points: (T, q, d).
        """
        away = points - self.feature_mean[:, None]
        spread = 1 + np.einsum("tqi,tij,tqj->tq", away, self.inverse, away)
        location = self.outcome_mean[:, None] + np.einsum("tqi,ti->tq", away, self.coef)
        return Estimates(names, location, np.sqrt(self.residual[:, None] / self.patients * spread), self.degrees)


def least_squares(draws: Draws, outcome: str, features: Sequence[str]) -> LeastSquares:
    """Regress one column on others.

    Raises:
        InvalidInput: a feature out of the outcome's own column, too few patients, or noise hides how the columns vary.
    """
    own = draws.release.column(outcome).name
    same = [name for name in features if draws.release.column(name).name == own]
    if same:
        raise InvalidInput(f"{outcome} cannot be explained by its own column; leave out {listed(same)}")
    draws.check_seen([outcome])
    draws.check_seen(features)
    if draws.patients < len(features) + 2:
        raise InvalidInput(f"{draws.patients} patients are too few for {len(features)} features")
    (y, *_), x = draws.places([outcome]), draws.places(features)
    return on_covariance(draws.mean, draws.covariance, y, x, tuple(features), draws.patients)


def on_covariance(
    mean: Floats, covariance: Floats, y: int, x: list[int], names: tuple[str, ...], n: int
) -> LeastSquares:
    """Regress one variable on others, given draws of means (T, k) and covariances (T, k, k)."""
    inverse = np.asarray(np.linalg.inv(covariance[:, x][:, :, x]), np.float64)
    across = covariance[:, x, y]
    coef: Floats = np.einsum("tij,tj->ti", inverse, across)
    variance = covariance[:, y, y]
    explained: Floats = np.clip((coef * across).sum(axis=1) / variance, 0.0, 1.0)
    return LeastSquares(names, coef, inverse, mean[:, y], mean[:, x], variance, explained, n)
