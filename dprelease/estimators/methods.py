"""The methods: normal equations in, weights out, and the closed table that names them.

The paper is "Differentially Private Multi-Party Data Release for Linear Regression". It bounds every attribute by 1 in
absolute value (Assumption 2); so does `NoisyRows`, whose columns are measured from the midpoint of their public range in
units of its half-width (one-hot columns are 0 or 1). Its (1/n) X^T X is `NormalEquations.xx`, its noise variance
4 d_max sigma^2 is each column's own `noise_sd` squared, and its X^rmgm = B X / sqrt(k) + R is the mixing rows of `NoisyRows`
divided by sqrt(1 - rho).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from dprelease.errors import InvalidInput
from dprelease.estimators.normal_equations import NormalEquations, Solution, solve

RIDGE = 1e-5
"""lambda of the paper's experiments, added to the per-patient Hessian (section 5.1)."""


def least_squares(equations: NormalEquations) -> Solution:
    """xx^-1 xy: methods ``ols`` and ``bgm``. The noise in xx shrinks the weights (section 5.1, baseline BGM-OLS)."""
    return solve(equations.xx, equations.xy)


def debiased(equations: NormalEquations) -> Solution:
    """(xx - noise + lambda I)^-1 xy: method ``dgm``, Algorithm 1, lines 3 and 4 of the training algorithm.

    The Hessian need not be positive definite; it is solved as it is (section 4.1, "Problem of small eigenvalues").
    """
    return solve(equations.xx - np.diag(equations.noise), equations.xy, RIDGE)


def mixed_least_squares(equations: NormalEquations) -> Solution:
    """(xx + lambda I)^-1 xy: method ``rmgm``, Algorithm 2, line 3 of the training algorithm."""
    return solve(equations.xx, equations.xy, RIDGE)


ViewKind = Literal["mixtures", "rows", "moments"]
"""Kinds of view: noisy mixtures of all patients, a noisy row for each, or noisy moments."""


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes:
        weights: normal equations to weights; None for a method that needs more than these, and has a module of its own.
        views: what it reads of a release.
        intercept: whether an intercept is fitted unless the caller says otherwise.
        anchor: whether the anchor row takes part in the fit.
        definite: whether a singular Gram matrix is an error (else it is a diagnostic).
        ridge: whether a ridge by PRIMO's rule is added (`primo_ridge`).
        within: the convex set that weights are kept within unless the caller names one (`ConvexSet.parse`); None for no set.
    """

    weights: Callable[[NormalEquations], Solution] | None
    views: tuple[ViewKind, ...]
    intercept: bool
    anchor: bool
    definite: bool
    ridge: bool = False
    within: str | None = None


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "calibrated": Method(None, views=("mixtures", "rows"), intercept=True, anchor=True, definite=True),
        "shrinkage": Method(None, views=("moments",), intercept=True, anchor=False, definite=True),
        "ols": Method(least_squares, views=("mixtures", "rows", "moments"), intercept=True, anchor=True, definite=True),
        "primo": Method(least_squares, views=("moments",), intercept=True, anchor=False, definite=True, ridge=True),
        "rmgm": Method(mixed_least_squares, views=("mixtures",), intercept=False, anchor=False, definite=True),
        "bgm": Method(least_squares, views=("rows",), intercept=False, anchor=False, definite=True),
        "dgm": Method(debiased, views=("rows",), intercept=False, anchor=False, definite=False),
        "constrained": Method(None, views=("moments",), intercept=True, anchor=False, definite=True, within="l2:1"),
        "posterior": Method(None, views=("moments",), intercept=True, anchor=False, definite=True),
        "spectral": Method(None, views=("moments",), intercept=True, anchor=False, definite=True),
        "projected": Method(None, views=("moments",), intercept=True, anchor=False, definite=True),
        "public_features": Method(None, views=("moments",), intercept=True, anchor=False, definite=True),
    }
)
"""Every method by name, the defaults first. `shrinkage` is the one of the last four that `choice.choose` names."""
BASELINES = ("rmgm", "bgm", "dgm", "constrained")
"""Methods of papers, to compare with: none is ever the best choice."""
DEFAULTS: Mapping[ViewKind, str] = MappingProxyType(
    {"mixtures": "calibrated", "rows": "calibrated", "moments": "shrinkage"}
)
"""Kind of view to the default method."""


def method_for(name: str, view: ViewKind) -> Method:
    """The named method, for what there is to read of a release.

    Raises:
        InvalidInput: no such method, or it does not read that.
    """
    if name not in METHODS:
        raise InvalidInput(f"no method {name!r}; choose one of {', '.join(METHODS)}")
    method = METHODS[name]
    if view not in method.views:
        fitting = [other for other, row in METHODS.items() if view in row.views]
        raise InvalidInput(
            f"method {name!r} reads releases of {' or '.join(method.views)}, and this one has {view}; "
            f"choose one of {', '.join(fitting)}"
        )
    return method
