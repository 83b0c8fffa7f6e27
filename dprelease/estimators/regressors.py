"""One estimator class for each method, in the manner of scikit-learn, without depending on it.

Parameters go to ``__init__`` and stay as given; what a fit finds ends in an underscore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.fitting import fit
from dprelease.estimators.methods import METHODS
from dprelease.estimators.result import FitResult, Rows, in_order
from dprelease.release.release import Release


class _Regressor:
    """Regression of named columns of a release on others.

    Args:
        fit_intercept: whether to fit an intercept; None for the method's own default: no for ``bgm``, ``dgm`` and ``rmgm``, yes for
            the others.
    """

    method: ClassVar[str]
    within: ConvexSet | None = None

    def __init_subclass__(cls, *, method: str) -> None:
        cls.method = method

    def __init__(self, *, fit_intercept: bool | None = None) -> None:
        self.fit_intercept = METHODS[self.method].intercept if fit_intercept is None else fit_intercept

    def fit(self, release: Release, targets: Sequence[str], features: Sequence[str] | None = None) -> Self:
        """Fit on a release; `dprelease.estimators.fit` says what targets and features may be.

        Sets:
            result_: the whole `FitResult`.
            coef_: (l, d) in original units.
            intercept_: (l,) in original units.
            feature_names_in_: d released names.
            n_features_in_: d.

        Raises:
            InvalidInput: as `dprelease.estimators.fit` does.
        """
        self.result_: FitResult = fit(release, targets, features, self.method, self.fit_intercept, self.within)
        self.coef_: Floats = self.result_.coef
        self.intercept_: Floats = self.result_.intercept
        self.feature_names_in_: tuple[str, ...] = self.result_.features
        self.n_features_in_: int = len(self.result_.features)
        return self

    def predict(self, X: Rows, *, clip: bool = False) -> Floats:
        """Predictions, (rows, l); see `FitResult.predict`.

        Raises:
            InvalidInput: not fitted yet, or X does not have just one column for each feature, all of finite numbers.
        """
        if not hasattr(self, "result_"):
            raise InvalidInput(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.result_.predict(X, clip=clip)

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
            InvalidInput: not fitted yet, or X and y are not at least two rows of finite numbers of these shapes.
        """
        predicted = self.predict(X)
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
        return {"fit_intercept": self.fit_intercept}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of ``__init__``; what was fitted stays until the next fit.

        Raises:
            InvalidInput: no such parameter.
        """
        unknown = sorted(set(params) - set(self.get_params()))
        if unknown:
            raise InvalidInput(
                f"{type(self).__name__} has no parameter {', '.join(unknown)}; it has {', '.join(self.get_params())}"
            )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(fit_intercept={self.fit_intercept})"


class Calibrated(_Regressor, method="calibrated"):
    """A Bayesian ridge on released rows whose attenuation by noise is undone first: the default for rows, mixed or not.

    With an intercept the model passes through the released means; where the rows show no relation it is the constant
    predictor. `dprelease.estimators.rows.calibrated` says how. Tends to least squares on the private rows as noise falls.
    """


class OLS(_Regressor, method="ols"):
    """Least squares on the released rows, or moments, as they are.

    On moments the noisy matrix is inverted, and may not even be positive definite: prefer `Shrinkage`. On rows the
    intercept is regressed on the public constant column `NoisyRows.ones`: G = [v P]^T [v P] (docs/methods.md), anchor row
    included, and noise in the features shrinks the coefficients.
    """


class BGM(_Regressor, method="bgm"):
    """BGM-OLS, the paper's biased baseline: least squares on the rows of a ``rows`` release (section 5.1).

    A feature of mean square lambda keeps about lambda / (lambda + s^2) of its coefficient. The paper has no intercept and
    attributes in [-1, 1]: as published, the model passes through the midpoints of the public ranges.
    """


class DGM(_Regressor, method="dgm"):
    """DGM-OLS: the noise taken off the Hessian of a ``rows`` release (Algorithm 1).

    H = (1/n) X^T X - diag(s_1^2, ..., s_d^2) + lambda I with lambda = 1e-5; s_i is the column's own noise where the paper
    has 2 sqrt(d_max) sigma for all. H is often indefinite: `result_.diagnostics` says so. As published, the model passes
    through the midpoints of the public ranges.
    """


class RMGM(_Regressor, method="rmgm"):
    """RMGM-OLS: least squares on the mixing rows of a ``mixed`` release (Algorithm 2).

    The anchor row, which the paper does not have, is left out, and its weight undone: rows of `NoisyRows` over sqrt(1 - rho)
    are the paper's B X / sqrt(k) + R. H = (1/n) X^T X + lambda I with lambda = 1e-5; without lambda the weight would
    cancel. As published, the model passes through the midpoints of the public ranges.
    """


class PRIMO(_Regressor, method="primo"):
    """A ridge on a ``moments`` release by PRIMO's rule: its strength follows from public numbers alone.

    One factorisation for all outcomes. The intercept is not shrunken. `Shrinkage` decides from the released matrices how far
    to shrink, and errs less.
    """


class Shrinkage(_Regressor, method="shrinkage"):
    """Least squares on a ``moments`` release with as much shrinkage as its noise calls for, the constant predictor at worst.

    The default for moments: the one of `Posterior`, `Spectral`, `Projected` and `PublicFeatures` that
    `dprelease.estimators.choice.choose` names; `result_.algorithm` and `result_.reason` say which. Tends to least squares on the
    private rows as the noise falls.
    """


class Posterior(_Regressor, method="posterior"):
    """Least squares on the posterior mean of the moments, by draws (Hamiltonian Monte Carlo); up to 64 variables.

    No further from the constant predictor than is likely to help; `dprelease.estimators.moments.posterior_fit` derives it.
    """


class Spectral(_Regressor, method="spectral"):
    """A rotation-invariant ridge on moments, averaged over its strengths, in closed form; any number of variables.

    `dprelease.estimators.moments.spectral_ridge` derives it.
    """


class Projected(_Regressor, method="projected"):
    """`Spectral` on moments whose noisy entries beside public outcomes were projected first: feature privacy.

    For private features and public targets; `dprelease.estimators.moments.public_columns` has the projection.
    """


class PublicFeatures(_Regressor, method="public_features"):
    """Least squares on exact moments of public features and shrunken ones of the outcomes: label privacy.

    `dprelease.estimators.moments.public_columns` derives it.
    """


class Constrained(_Regressor, method="constrained"):
    """Least squares on a ``moments`` release with the weights of each target within a convex set: Lasso, or non-negative weights.

    The set is in scaled units (docs/methods.md). `dprelease.estimators.baselines.constrained` derives it.

    Args:
        within: the set; None for the L2 ball of radius 1.
        fit_intercept: whether to fit an intercept.
    """

    def __init__(self, within: ConvexSet | None = None, *, fit_intercept: bool | None = None) -> None:
        super().__init__(fit_intercept=fit_intercept)
        self.within = within

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of ``__init__``."""
        return {"within": self.within, **super().get_params(deep)}
