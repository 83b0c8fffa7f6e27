"""Fits of linear models on a release: one call, or one class in the manner of scikit-learn."""

from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.fitting import fit
from dprelease.estimators.methods import METHODS
from dprelease.estimators.regressors import LinearRegression
from dprelease.estimators.result import FitResult

__all__ = ["METHODS", "ConvexSet", "FitResult", "LinearRegression", "fit"]
