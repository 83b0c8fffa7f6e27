"""The estimator in the manner of scikit-learn, without depending on it.

Parameters go to ``__init__`` and stay as given; what a fit finds ends in an underscore.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal, Self, overload

import numpy as np

from dprelease.arrays import Floats
from dprelease.document.cells import LEVEL
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.design import Rows, in_order
from dprelease.estimators.fitting import fit
from dprelease.estimators.intervals.inference import Predicted
from dprelease.estimators.result import FitResult
from dprelease.release.release import Release


class NotFittedError(InvalidInput, ValueError, AttributeError):
    """A model is asked before it is fitted; its parents are those of the error of that name in scikit-learn."""


def _not_fitted() -> Exception:
    """The error of a model that is not fitted, which is scikit-learn's too where that is in use."""
    theirs = sys.modules.get("sklearn.exceptions")
    kind = type("NotFittedError", (NotFittedError, theirs.NotFittedError), {}) if theirs else NotFittedError
    error: Exception = kind("this regression is not fitted yet; call fit first")
    return error


class LinearRegression:
    """Regression of named columns of a release on others.

    Args:
        method: a name in `METHODS`; None for the default of the release.
        fit_intercept: whether to fit an intercept; None for the method's own default.
        within: the set that ``constrained`` keeps weights within, in scaled units (docs/methods.md).
    """

    def __init__(
        self, method: str | None = None, *, fit_intercept: bool | None = None, within: ConvexSet | None = None
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.within = within

    def fit(self, release: Release, targets: str | Sequence[str], features: Sequence[str] | None = None) -> Self:
        """Fit on a release; `dprelease.estimators.fit` says what targets and features may be.

        One target as text, without a list, is one number a row, as in scikit-learn: shapes are without l.

        Sets:
            result_: the whole `FitResult`.
            coef_: (l, d) in original units.
            intercept_: (l,) in original units.
            feature_names_in_: d released names.
            n_features_in_: d.

        Raises:
            InvalidInput: as `dprelease.estimators.fit` does.
        """
        self._single = isinstance(targets, str)
        asked = [targets] if isinstance(targets, str) else targets
        self.result_: FitResult = fit(release, asked, features, self.method, self.fit_intercept, self.within)
        self.coef_: Floats = self.result_.coef[0] if self._single else self.result_.coef
        self.intercept_: Floats = self.result_.intercept[0] if self._single else self.result_.intercept
        self.feature_names_in_ = np.array(self.result_.features, dtype=object)
        self.n_features_in_: int = len(self.result_.features)
        return self

    def predict(self, X: Rows, *, clip: bool = False) -> Floats:
        """Predictions, (rows, l); see `FitResult.predict`.

        Raises:
            NotFittedError: not fitted yet.
            InvalidInput: X does not have just one column for each feature, all of finite numbers.
        """
        if not hasattr(self, "result_"):
            raise _not_fitted()
        predicted = self.result_.predict(X, clip=clip)
        return predicted[:, 0] if self._single else predicted

    def predict_interval(
        self, X: Rows, interval: Predicted = "confidence", level: float = LEVEL
    ) -> tuple[Floats, Floats, Floats]:
        """(fit, lower, upper) of the estimated coefficients; see `FitResult.predict_interval`.

        Raises:
            NotFittedError: not fitted yet.
            InvalidInput: as `FitResult.predict_interval`.
        """
        if not hasattr(self, "result_"):
            raise _not_fitted()
        fit, lower, upper = (
            each[:, 0] if self._single else each for each in self.result_.predict_interval(X, interval, level)
        )
        return fit, lower, upper

    @overload
    def score(self, X: Rows, y: Rows, *, multioutput: Literal["uniform_average"] = "uniform_average") -> float: ...

    @overload
    def score(self, X: Rows, y: Rows, *, multioutput: Literal["raw_values"]) -> Floats: ...

    def score(self, X: Rows, y: Rows, *, multioutput: str = "uniform_average") -> float | Floats:
        """R^2 of the predictions on rows that the caller holds: not on the private rows, which nobody may see.

        `result_.quality` is what the release says of the private rows. A target that does not vary in `y` scores 1 where
        every prediction is right and 0 elsewhere, as in scikit-learn.

        Args:
            X: (rows, d) features in original units, as `predict` takes them.
            y: (rows, l) targets in original units, by name or in the order of the targets; or (rows,) of a single one.
            multioutput: ``uniform_average`` for the mean over targets, ``raw_values`` for (l,) one by one.

        Raises:
            NotFittedError: not fitted yet.
            InvalidInput: X and y are not at least two rows of finite numbers of these shapes.
        """
        predicted = self.predict(X).reshape(-1, len(self.result_.targets))
        true = in_order(y, self.result_.targets, "y")
        if true.ndim == 1 and predicted.shape[1] == 1:
            true = true[:, None]
        if true.shape != predicted.shape:
            raise InvalidInput(
                f"y must have {len(predicted)} rows and {predicted.shape[1]} columns, as X and the targets do"
            )
        if len(true) < 2 or not (np.isfinite(true).all() and np.isfinite(predicted).all()):
            raise InvalidInput("a score needs at least two rows, all of finite numbers")
        left, whole = ((true - predicted) ** 2).mean(axis=0), true.var(axis=0)
        each: Floats = np.where(
            left == 0, 1.0, 1 - np.divide(left, whole, out=np.ones_like(left), where=np.ptp(true, axis=0) > 0)
        )
        if multioutput not in ("uniform_average", "raw_values"):
            raise InvalidInput(f"multioutput is 'uniform_average' or 'raw_values', not {multioutput!r}")
        return each if multioutput == "raw_values" else float(each.mean())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of ``__init__``."""
        return {"method": self.method, "fit_intercept": self.fit_intercept, "within": self.within}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of ``__init__``; what was fitted stays until the next fit.

        Raises:
            InvalidInput: no such parameter.
        """
        unknown = sorted(set(params) - set(self.get_params()))
        if unknown:
            raise InvalidInput(
                f"a regression has no parameter {', '.join(unknown)}; it has {', '.join(self.get_params())}"
            )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """The answers that scikit-learn, which asks for them, wants of a regressor: y stays out of ``fit``."""
        utils = import_module("sklearn.utils")
        return utils.Tags(
            estimator_type="regressor",
            target_tags=utils.TargetTags(required=False, multi_output=True),
            regressor_tags=utils.RegressorTags(),
        )

    def __repr__(self) -> str:
        """Class and parameters that are not the default, as in scikit-learn."""
        given = (f"{name}={value!r}" for name, value in self.get_params().items() if value is not None)
        return f"LinearRegression({', '.join(given)})"
