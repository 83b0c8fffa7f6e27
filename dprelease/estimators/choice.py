"""The algorithms for least squares on noisy moments by name, and the one rule that chooses the default among them.

`dprelease.estimators.methods` lists them beside all other methods. Method `shrinkage` is whichever of them `choose` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet, fit_constrained
from dprelease.estimators.evidence.posterior import WIDEST
from dprelease.estimators.methods import DEFAULTS
from dprelease.estimators.moments.posterior_fit import fit_posterior
from dprelease.estimators.moments.public_columns import associated, fit_public_features, projected
from dprelease.estimators.moments.spectral_ridge import fit_spectral
from dprelease.estimators.quality import ScaledFit
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.mechanisms.moments.released_outcomes import OutcomeMoments
from dprelease.release.release import Regressable

ReleasedMoments = NoisyMoments | OutcomeMoments


class Choice(NamedTuple):
    """Algorithm that runs, and why.

    Attributes:
        algorithm: name in the table of methods.
        reason: a clause without a full stop.
    """

    algorithm: str
    reason: str


class _Problem(NamedTuple):
    """The moments to fit on with d features and l targets by their indices."""

    moments: ReleasedMoments
    features: list[int]
    targets: list[int]

    @classmethod
    def of(cls, moments: ReleasedMoments, features: Sequence[int], targets: Sequence[int]) -> _Problem:
        """Moments of the features alone where no target is an outcome: they are released as any joint moments are."""
        x, y = list(features), list(targets)
        if isinstance(moments, NoisyMoments) or moments.layout.outcome[y].any():
            return cls(moments, x, y)
        place = moments.layout.feature_place
        return cls(moments.features, place[x].tolist(), place[y].tolist())

    def private(self, chosen: list[int]) -> int:
        """How many of them are not public."""
        return int((~self.moments.layout.public[chosen]).sum())


def _public_features(problem: _Problem) -> tuple[bool, str]:
    private = problem.private(problem.features)
    return (
        not private,
        f"{private} of {len(problem.features)} features are private" if private else "all features are public",
    )


def _posterior(problem: _Problem) -> tuple[bool, str]:
    moments = problem.moments
    if not isinstance(moments, NoisyMoments):
        return False, "products of two outcomes are not released, so the moments cannot be drawn together"
    if not moments.noise_sd.any():
        return True, "the moments have no noise"
    count = len(moments.names)
    if count > WIDEST:
        return False, f"the release has {count} variables, and up to {WIDEST} can be drawn together"
    return True, f"the release has {count} of up to {WIDEST} variables that can be drawn together"


def _projected(problem: _Problem) -> tuple[bool, str]:
    if not problem.private(problem.features):
        return False, "all features are public"
    layout = problem.moments.layout
    if layout.outcome.any():
        shown = bool((layout.public & layout.outcome).any())
        return shown, "outcomes of the release are public" if shown else "no outcome of the release is public"
    private = problem.private(problem.targets)
    return (
        not private,
        f"{private} of {len(problem.targets)} targets are private" if private else "all targets are public",
    )


def _spectral(problem: _Problem) -> tuple[bool, str]:
    return True, _posterior(problem)[1]


_APPLIES: Mapping[str, Callable[[_Problem], tuple[bool, str]]] = MappingProxyType(
    {"public_features": _public_features, "posterior": _posterior, "projected": _projected, "spectral": _spectral}
)
"""Reasons why an algorithm applies or does not; in the order of `choose`."""


def choose(moments: ReleasedMoments, features: Sequence[int], targets: Sequence[int]) -> Choice:
    """The algorithm of method `shrinkage`: the first of these that applies.

        public_features    all features are public
        posterior          up to `WIDEST` variables, and no target is apart as an outcome
        projected          all targets are public; or, where a target is apart, any outcome of the release is
        spectral           everything else

    A fit whose targets are all features, of a release with outcomes apart, sees the features alone.

    Args:
        moments: as released.
        features: d indices of variables.
        targets: l indices of variables.
    """
    problem = _Problem.of(moments, features, targets)
    judged = ((name, *applies(problem)) for name, applies in _APPLIES.items())
    return next(Choice(name, why) for name, applicable, why in judged if applicable)


def resolve(method: str, view: Regressable, features: Sequence[int], targets: Sequence[int]) -> Choice:
    """The algorithm that a method stands for.

    Args:
        method: name in the table of methods, one that reads this view.
        view: of a release.
        features: d indices.
        targets: l indices.

    Raises:
        InvalidInput: the named algorithm does not apply to these features and targets.
    """
    if isinstance(view, ReleasedMoments):
        if method == "shrinkage":
            return choose(view, features, targets)
        if method in _APPLIES:
            applicable, why = _APPLIES[method](_Problem.of(view, features, targets))
            if not applicable:
                raise InvalidInput(
                    f"method {method!r} does not apply here: {why}; method 'shrinkage' takes one that does"
                )
    default = DEFAULTS[view.kind] == method
    return Choice(method, f"it is the default on {view.kind}" if default else "it was asked for by name")


def fit_moments(
    moments: ReleasedMoments,
    features: Sequence[int],
    targets: Sequence[int],
    public: Floats | None = None,
    *,
    intercept: bool,
    method: str = "shrinkage",
    within: ConvexSet | None = None,
) -> ScaledFit:
    """Fit all targets on the same features.

    Args:
        moments: as released.
        features: d indices, distinct, of variables that are no outcomes apart.
        targets: l indices.
        public: (n, a) the public variables, in scaled units, in their order; for `projected` where outcomes are apart.
        intercept: whether to fit one.
        method: name in the table of methods.
        within: where the weights of each target lie, for `constrained`.

    Raises:
        InvalidInput: the method does not apply; features that determine each other, as all levels of a category and an
            intercept do; or no public variables where they are needed.
    """
    used, x, y = _Problem.of(moments, features, targets)
    name = resolve(method, moments, features, targets).algorithm
    if name == "constrained" and within is not None:
        return fit_constrained(used, x, y, within, intercept=intercept)
    if name == "public_features":
        return fit_public_features(used, x, y, intercept=intercept)
    if name == "posterior" and isinstance(used, NoisyMoments):
        return fit_posterior(used, x, y, intercept=intercept)
    believed = _projection(used, public, intercept=intercept) if name == "projected" else used
    return fit_spectral(believed, x, y, used, intercept=intercept)


def _projection(moments: ReleasedMoments, public: Floats | None, *, intercept: bool) -> ReleasedMoments:
    if isinstance(moments, NoisyMoments):
        return associated(moments, intercept=intercept)
    if public is None:
        raise InvalidInput("a projection where outcomes are apart needs the public variables of all patients")
    return projected(moments, public)
