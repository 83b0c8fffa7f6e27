"""The table of methods: what each reads, where it applies, and what runs.

Everything else about a method follows from its row. The default on joint moments, `shrinkage`, is whichever of the methods that
say where they apply comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple, cast

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet, fit_constrained
from dprelease.estimators.baselines.inverted import inverted
from dprelease.estimators.baselines.plain import PlainFit, debiased, least_squares, mixed_least_squares
from dprelease.estimators.evidence.evidence import WIDEST, Evidence
from dprelease.estimators.moments.posterior_fit import fit_posterior
from dprelease.estimators.moments.public_columns import associated, fit_public_features, projected
from dprelease.estimators.moments.spectral_ridge import fit_spectral
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.mechanisms.moments.released import Moments, OutcomeMoments
from dprelease.mechanisms.noisy_rows.released import Engine, NoisyRows
from dprelease.release.release import Regressable

ViewKind = Literal["mixtures", "rows", "moments"]
"""Kinds of view: noisy mixtures of all patients, a noisy row for each, or noisy moments."""


@dataclass(frozen=True, eq=False)
class Regression:
    """d features and l targets of a fit, by their places in a view.

    Attributes:
        view: of the release.
        features: d places.
        targets: l places.
        intercept: whether one is fitted.
        feature_lower: (d,) lower ends of the features' scaled ranges, -1 or 0; the upper ends are 1.
        lower: (l,) the same of the targets.
        public: makes (n, a) public variables in scaled units, in their order; None where they are not at hand.
        within: the set that weights are kept within, for `constrained`.
        engine: what takes sums of products over released rows.
    """

    view: Regressable
    features: list[int]
    targets: list[int]
    intercept: bool = True
    feature_lower: Floats = field(default_factory=lambda: np.zeros(0))
    lower: Floats = field(default_factory=lambda: np.zeros(0))
    public: Callable[[], Floats] | None = None
    within: ConvexSet | None = None
    engine: Engine = "local"

    @property
    def rows(self) -> RegressionRows:
        """The released rows of these columns; the table says which methods read rows."""
        view = cast(NoisyRows, self.view)
        return RegressionRows.of(view, self.features, self.targets, mixed=view.mixed, engine=self.engine)

    @property
    def moments(self) -> tuple[Moments, list[int], list[int]]:
        """Moments with places in them: those of the features alone where no target is an outcome, as they are joint moments."""
        found, x, y = cast(Moments, self.view), self.features, self.targets
        if found.layout.outcome[y].any():
            return found, x, y
        place = found.layout.feature_place
        return found.joint, place[x].tolist(), place[y].tolist()


class Choice(NamedTuple):
    """Algorithm that runs, and why.

    Attributes:
        algorithm: name in the table of methods.
        reason: a clause without a full stop.
    """

    algorithm: str
    reason: str


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes:
        words: what it is, for menus.
        on: what it reads of a release, to what fits all targets on the same features.
        applies: whether it applies to moments, and why or why not; None where it always does.
        intercept: whether an intercept is fitted unless the caller says otherwise.
        within: the convex set that weights are kept within unless the caller names one (`ConvexSet.parse`); None for no set.
        baseline: whether it is there to compare with, and out of the menu.
    """

    words: str
    on: Mapping[ViewKind, Callable[[Regression], ScaledFit]]
    applies: Callable[[Regression], tuple[bool, str]] | None = None
    intercept: bool = True
    within: str | None = None
    baseline: bool = False

    def fit(self, problem: Regression) -> ScaledFit:
        """Fit all targets on the same features.

        Raises:
            InvalidInput: features that determine each other, as all levels of a category and an intercept do; a singular Gram
                matrix; more features than rows; or no public variables where they are needed.
        """
        return self.on[problem.view.kind](problem)


def _all_public(problem: Regression, of: Literal["features", "targets"] = "features") -> tuple[bool, str]:
    moments, x, y = problem.moments
    places = x if of == "features" else y
    private = int((~moments.layout.public[places]).sum())
    return not private, f"{private} of {len(places)} {of} are private" if private else f"all {of} are public"


def _posterior_applies(problem: Regression) -> tuple[bool, str]:
    moments = problem.moments[0]
    if moments.layout.outcome.any():
        return False, "products of two outcomes are not released, so the moments cannot be drawn together"
    if not moments.joint.noise_sd.any():
        return True, "the moments have no noise"
    count = len(moments.names)
    if Evidence(moments).wide:
        return False, f"the release has {count} variables, and up to {WIDEST} can be drawn together"
    return True, f"the release has {count} of up to {WIDEST} variables that can be drawn together"


def _projected_applies(problem: Regression) -> tuple[bool, str]:
    public, why = _all_public(problem)
    if public:
        return False, why
    layout = problem.moments[0].layout
    if layout.outcome.any():
        shown = bool((layout.public & layout.outcome).any())
        return shown, "outcomes of the release are public" if shown else "no outcome of the release is public"
    return _all_public(problem, "targets")


def _spectral_applies(problem: Regression) -> tuple[bool, str]:
    return True, _posterior_applies(problem)[1]


def _on(fit: Callable[..., ScaledFit]) -> Callable[[Regression], ScaledFit]:
    return lambda problem: fit(*problem.moments, intercept=problem.intercept)


def _projected(problem: Regression) -> ScaledFit:
    moments, x, y = problem.moments
    if not isinstance(moments, OutcomeMoments):
        believed: Moments = associated(moments.joint, intercept=problem.intercept)
    elif problem.public is None:
        raise InvalidInput("a projection with outcome-only columns needs the public variables of all patients")
    else:
        believed = projected(moments, problem.public())
    return fit_spectral(believed, x, y, moments, intercept=problem.intercept)


def _constrained(problem: Regression) -> ScaledFit:
    assert problem.within is not None, problem  # noqa: S101 - the table names a set
    moments, x, y = problem.moments
    return fit_constrained(moments, x, y, problem.within, intercept=problem.intercept)


def _calibrated(problem: Regression) -> ScaledFit:
    rows = problem.rows
    rows.check_enough(anchored=problem.intercept, intercept=problem.intercept)
    return calibrated(rows, problem.feature_lower, problem.lower, intercept=problem.intercept)


def _plain(formula: PlainFit) -> Callable[[Regression], ScaledFit]:
    def fit(problem: Regression) -> ScaledFit:
        means, noise_sd = (each[problem.targets] for each in cast(NoisyRows, problem.view).means())
        return formula.fit(problem.rows, np.clip(means, problem.lower, 1.0), noise_sd, intercept=problem.intercept)

    return fit


def _first(problem: Regression) -> ScaledFit:
    return METHODS[choose(problem).algorithm].fit(problem)


_least_squares = _plain(PlainFit(least_squares))

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "calibrated": Method("a Bayesian ridge on rows; their default", {"mixtures": _calibrated, "rows": _calibrated}),
        "shrinkage": Method("the first of the next four that applies; the default on moments", {"moments": _first}),
        "public_features": Method(
            "exact moments of public features", {"moments": _on(fit_public_features)}, _all_public
        ),
        "posterior": Method(
            f"the posterior mean of up to {WIDEST} variables", {"moments": _on(fit_posterior)}, _posterior_applies
        ),
        "projected": Method(
            "spectral, for private features of public targets", {"moments": _projected}, _projected_applies
        ),
        "spectral": Method(
            "a ridge in closed form, for any number of variables", {"moments": _on(fit_spectral)}, _spectral_applies
        ),
        "ols": Method(
            "least squares on released numbers as they are",
            {"mixtures": _least_squares, "rows": _least_squares, "moments": _on(inverted)},
            baseline=True,
        ),
        "primo": Method("a ridge by PRIMO's rule", {"moments": _on(partial(inverted, ridge=True))}, baseline=True),
        "constrained": Method(
            "weights within the set of --within", {"moments": _constrained}, within="l2:1", baseline=True
        ),
        "rmgm": Method(
            "least squares on mixed rows",
            {"mixtures": _plain(PlainFit(mixed_least_squares, anchor=False))},
            intercept=False,
            baseline=True,
        ),
        "bgm": Method(
            "least squares on rows",
            {"rows": _plain(PlainFit(least_squares, anchor=False))},
            intercept=False,
            baseline=True,
        ),
        "dgm": Method(
            "rows, their noise taken off",
            {"rows": _plain(PlainFit(debiased, anchor=False, definite=False))},
            intercept=False,
            baseline=True,
        ),
    }
)
"""Every method by name. `shrinkage` runs the first of those that say where they apply."""

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
    if view not in method.on:
        fitting = [other for other, row in METHODS.items() if view in row.on]
        raise InvalidInput(
            f"method {name!r} reads releases of {' or '.join(method.on)}, and this one has {view}; "
            f"choose one of {', '.join(fitting)}"
        )
    return method


def choose(problem: Regression) -> Choice:
    """The algorithm of method `shrinkage`: the first that applies.

    A fit whose targets are all features, of a release with outcome-only columns, sees the features alone.
    """
    judged = ((name, *method.applies(problem)) for name, method in METHODS.items() if method.applies)
    return next(Choice(name, why) for name, applicable, why in judged if applicable)


def resolve(name: str, problem: Regression) -> Choice:
    """The algorithm that a method stands for.

    Args:
        name: of a method that reads the problem's view.
        problem: what is to be fitted.

    Raises:
        InvalidInput: the named algorithm does not apply to these features and targets.
    """
    method, default = METHODS[name], DEFAULTS[problem.view.kind] == name
    if method.on.get("moments") is _first:
        return choose(problem)
    applicable, why = method.applies(problem) if method.applies else (True, "")
    if not applicable:
        raise InvalidInput(f"method {name!r} does not apply here: {why}; method 'shrinkage' takes one that does")
    return Choice(name, f"it is the default on {problem.view.kind}" if default else "it was asked for by name")
