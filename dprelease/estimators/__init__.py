"""Fits of learners on a release: one call for every method, or one class for each in the manner of scikit-learn."""

from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.fitting import fit
from dprelease.estimators.methods import METHODS
from dprelease.estimators.regressors import (
    BGM,
    DGM,
    OLS,
    PRIMO,
    RMGM,
    Calibrated,
    Constrained,
    Posterior,
    Projected,
    PublicFeatures,
    Shrinkage,
    Spectral,
)
from dprelease.estimators.result import FitResult

__all__ = [
    "BGM",
    "DGM",
    "METHODS",
    "OLS",
    "PRIMO",
    "RMGM",
    "Calibrated",
    "Constrained",
    "ConvexSet",
    "FitResult",
    "Posterior",
    "Projected",
    "PublicFeatures",
    "Shrinkage",
    "Spectral",
    "fit",
]
