"""Fit linear models on a release: any columns on any others, by any method, in one shape of call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.baselines.inverted import inverted
from dprelease.estimators.choice import fit_moments, resolve
from dprelease.estimators.design import Design, design
from dprelease.estimators.fit_document import fit_document
from dprelease.estimators.intervals.inference import infer
from dprelease.estimators.methods import DEFAULTS, Method, method_for
from dprelease.estimators.normal_equations import Rows, Solution
from dprelease.estimators.quality import Diagnostics, ScaledFit
from dprelease.estimators.result import ALIKE, FitResult
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.estimators.rows.errors import estimate, spent_parameters
from dprelease.mechanisms.moments.released import with_constant
from dprelease.mechanisms.noisy_rows.released import NoisyRows
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
            of `dprelease.estimators.choice.choose`.
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
    intercept = chosen.intercept if fit_intercept is None else fit_intercept
    algorithm, reason = resolve(name, view, names.feature_index, names.target_index)
    kept = _set(name, chosen, within)
    reason = f"{reason}, weights within {kept}" if kept else reason
    find = _on_rows if isinstance(view, NoisyRows) else partial(_on_moments, algorithm=algorithm, within=kept)
    found = find(release, names, chosen, intercept=intercept)
    half_width = np.abs(names.target_half_width)
    coef, intercepts = names.original_model(found.weights, found.offsets)
    lower, upper = _within_bounds(release, names)
    return FitResult(
        method=name,
        algorithm=algorithm,
        reason=reason,
        fit_intercept=intercept,
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
        diagnostics=_of_patients(release, found.diagnostics),
        promise=release.promise,
        release=release.digest,
        patients=release.patients,
        mechanism=release.spec.mechanism,
        view=view.kind,
        units={name: release.column(name).unit for name in (*names.targets, *names.features)},
        scores=release.scores((*names.targets, *names.features)),
        infer=partial(infer, release, names, intercept=intercept),
        tell=fit_document,
        within=str(kept) if kept else None,
    )


def _of_patients(release: Release, found: Diagnostics) -> Diagnostics:
    """The diagnostics, with a warning where a patient may have several rows."""
    return replace(found, warnings=(ALIKE, *found.warnings)) if release.spec.rows_per_subject > 1 else found


def _set(name: str, method: Method, within: ConvexSet | None) -> ConvexSet | None:
    if method.within is None:
        if within is not None:
            raise InvalidInput(
                f"method {name!r} keeps weights within no set; leave it out, or take method 'constrained'"
            )
        return None
    return within or ConvexSet.parse(method.within)


def _within_bounds(release: Release, names: Design) -> tuple[Floats, Floats]:
    """(lower, upper) ends of the targets' ranges, (l,): a range of its own may reach beyond the public bounds."""
    lower, upper = names.range()
    for place, name in enumerate(names.targets):
        least, most = release.column(name).ends
        lower[place], upper[place] = max(lower[place], least), min(upper[place], most)
    return lower, upper


def _on_moments(
    release: Release, names: Design, method: Method, *, intercept: bool, algorithm: str, within: ConvexSet | None
) -> ScaledFit:
    if len(set(names.feature_index)) < len(names.feature_index):
        raise InvalidInput("two features are the two levels of one column, which repeat each other; leave one out")
    moments, x, y = release.products, names.feature_index, names.target_index
    _check_noise(release, names, moments.noise_between([0], [*x, *y])[0])
    if method.weights is None:
        public = _public_variables(release) if algorithm == "projected" else None
        return fit_moments(moments, x, y, public, intercept=intercept, method=algorithm, within=within)
    return inverted(moments, x, y, names.lower, intercept=intercept, ridge=method.ridge)


def _public_variables(release: Release) -> Floats:
    """(n, a) scaled."""
    codes = with_constant(release.public_codes, release.spec.public, release.spec.grid_bits)[:, 1:]
    return np.ldexp(codes.astype(np.float64), -release.spec.grid_bits)


def _on_rows(release: Release, names: Design, method: Method, *, intercept: bool) -> ScaledFit:
    scaled = release.scaled()
    _check_noise(release, names, scaled.noise_sd[[*names.feature_index, *names.target_index]])
    rows = Rows.of(scaled, names.feature_index, names.target_index, mixed=scaled.mixed)
    _check_shape(rows, names, method, intercept=intercept)
    if method.weights is None:
        return calibrated(rows, names.feature_lower, names.lower, intercept=intercept)
    mixing = rows.mixing_only()
    used = rows if method.anchor else mixing
    equations = used.normal_equations(intercept=intercept)
    solution = method.weights(equations)
    if method.definite and solution.singular:
        raise InvalidInput(
            f"the Gram matrix of {len(names.features)} features over {len(used.ones)} released rows is singular; "
            "fit fewer features, and none that repeats others"
        )
    offsets = used.offsets(solution.weights) if intercept else np.zeros(len(names.targets))
    constant, constant_noise_sd = _constant(scaled, names)
    spent = spent_parameters(equations, solution, used, mixing.residuals(solution.weights, offsets))
    # The anchor is one more row to fit on, and an intercept takes it up: the mixing rows lose nothing to either.
    spent = spent + (1 if intercept and not used.anchor else 0)
    return ScaledFit(
        weights=solution.weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=constant_noise_sd,
        quality=estimate(mixing, solution.weights, offsets, spent, constant, 0 if scaled.anchor else 1),
        diagnostics=Diagnostics.of(solution, _warnings(solution)),
    )


def _check_noise(release: Release, names: Design, noise_sd: Floats) -> None:
    """Refuse private columns without noise; `noise_sd` is (d + l,), features first."""
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


def _check_shape(rows: Rows, names: Design, method: Method, *, intercept: bool) -> None:
    anchored = method.anchor and (intercept or method.weights is not None)
    held = len(rows.ones) - (1 if rows.anchor and not anchored else 0)
    needed = len(names.features) + (1 if intercept else 0)
    if method.definite and held < needed:
        raise InvalidInput(
            f"{len(names.features)} features are too many for {held} released rows, so their Gram matrix is singular; "
            f"fit at most {max(held - needed + len(names.features), 0)}, or ask for a release with more mixing rows"
        )


def _constant(scaled: NoisyRows, names: Design) -> tuple[Floats, Floats]:
    means, noise_sd = scaled.means()
    return np.clip(means[names.target_index], names.lower, 1.0), noise_sd[names.target_index]


def _warnings(solution: Solution) -> tuple[str, ...]:
    if not solution.indefinite:
        return ()
    return (
        f"The de-biased Hessian is not positive definite (smallest eigenvalue {solution.smallest_eigenvalue:.3g}): "
        "the noise is too large for this method on this release, and the coefficients mean nothing.",
    )
