"""Fit linear models on a release: any columns on any others, by any method, in one shape of call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.design import Design, design
from dprelease.estimators.intervals.inference import infer
from dprelease.estimators.methods import DEFAULTS, METHODS, Method, Regression, method_for, resolve
from dprelease.estimators.result import ALIKE, FitResult
from dprelease.mechanisms.moments.released import with_constant
from dprelease.one_line import listed
from dprelease.release.release import Release


def fit(
    release: Release,
    targets: Sequence[str],
    features: Sequence[str] | None = None,
    method: str | None = None,
    fit_intercept: bool | None = None,
    within: ConvexSet | None = None,
) -> FitResult:
    """Regress targets on features.

    All targets share one Gram matrix of the features and one factorisation of it (PRIMO, Algorithm 1):
    O(r d^2 + d^3 + l d (d + r)) for r released rows, d features and l targets. For ``posterior`` the time goes into the
    draws of the moments, which all fits of a release share. Everything is post-processing of the
    release, so no fit costs any privacy.

    Args:
        release: a verified release.
        targets: names of columns or released columns; a categorical column stands for all its levels.
        features: the same; a categorical column stands for its levels but the first. None: every other column.
        method: a name in `dprelease.estimators.methods.METHODS`. None for ``calibrated`` on rows, mixed or not, and on moments
            ``shrinkage``, which stands for one of ``posterior``, ``spectral``, ``projected`` and ``public_features`` by the rule
            of `dprelease.estimators.methods.choose`.
        fit_intercept: None for the method's own default: no for the paper's methods, yes for the others.
        within: the set that ``constrained`` keeps the weights of each target within; None for the L2 ball of radius 1.

    Raises:
        InvalidInput: an unknown name or method, no feature, a feature out of a target's own column, a method that does
            not read this mechanism or does not apply to these columns, a set for a method that takes none, (but for ``dgm``)
            more features than released rows or a singular Gram matrix of theirs, or a private column for which the release
            declares no noise.
    """
    view = release.regressable
    name = method or DEFAULTS[view.kind]
    chosen = method_for(name, view.kind)
    names = design(release, targets, features)
    problem = Regression(
        view,
        names.feature_index,
        names.target_index,
        chosen.intercept if fit_intercept is None else fit_intercept,
        names.feature_lower,
        names.lower,
        partial(_public_variables, release),
        _set(name, chosen, within),
        release.engine,
    )
    _check(release, names)
    algorithm, reason = resolve(name, problem)
    if problem.within:
        reason += f", weights within {problem.within}"
    found = METHODS[algorithm].fit(problem)
    repeated = (ALIKE,) if release.spec.rows_per_subject > 1 else ()
    half_width = np.abs(names.target_half_width)
    coef, intercepts = names.original_model(found.weights, found.offsets)
    lower, upper = names.range()
    return FitResult(
        method=name,
        algorithm=algorithm,
        reason=reason,
        fit_intercept=problem.intercept,
        targets=names.targets,
        features=names.features,
        coef=coef,
        intercept=intercepts,
        lower=lower,
        upper=upper,
        feature_ends=names.feature_ends,
        constant=names.original(found.constant),
        constant_noise_sd=half_width * found.constant_noise_sd,
        quality=found.quality.in_units(half_width),
        diagnostics=replace(found.diagnostics, warnings=(*repeated, *found.diagnostics.warnings)),
        promise=release.promise,
        release=release.digest,
        patients=release.patients,
        mechanism=release.spec.mechanism,
        view=view.kind,
        units={name: release.column(name).unit for name in (*names.targets, *names.features)},
        scores=release.scores((*names.targets, *names.features)),
        fills=release.fills((*names.targets, *names.features)),
        infer=partial(infer, release, names, intercept=problem.intercept),
        within=str(problem.within) if problem.within else None,
    )


def _set(name: str, method: Method, within: ConvexSet | None) -> ConvexSet | None:
    if method.within is None:
        if within is not None:
            raise InvalidInput(
                f"method {name!r} keeps weights within no set; leave it out, or take method 'constrained'"
            )
        return None
    return within or ConvexSet.parse(method.within)


def _public_variables(release: Release) -> Floats:
    """(n, a) scaled."""
    codes = with_constant(release.public_codes, release.spec.public, release.spec.grid_bits)[:, 1:]
    return np.ldexp(codes.astype(np.float64), -release.spec.grid_bits)


def _check(release: Release, names: Design) -> None:
    """Refuse features that repeat each other, and private columns without noise."""
    if len(set(names.feature_index)) < len(names.feature_index):
        raise InvalidInput("two features are the two levels of one column, which repeat each other; leave one out")
    noise_sd = release.regressable.noise_in([*names.feature_index, *names.target_index])
    silent = [
        name
        for name, sd in zip((*names.features, *names.targets), noise_sd, strict=True)
        if not sd > 0 and not release.column(name).public
    ]
    if silent:
        raise InvalidInput(
            f"the release declares no noise for {listed(silent)}, so it is not what hospitals approve; "
            "fetch it again and verify it"
        )
