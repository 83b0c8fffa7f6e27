"""Content of a report and a model card about a fit and analyses, as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from types import MappingProxyType
from typing import Any

import numpy as np

from dprelease.analyses import Analysis
from dprelease.arrays import Floats
from dprelease.description.columns import Description, describe
from dprelease.description.described import UNFITTED, Unfitted
from dprelease.document.cells import figure
from dprelease.errors import InvalidInput
from dprelease.estimators import ConvexSet, FitResult, fit
from dprelease.estimators.design import design
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.quality import BETTER
from dprelease.mechanisms.moments.released import Moments
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.one_line import counted, listed
from dprelease.release.release import Regressable, Release

IN_NOISE = "eigenvalue, noise variance = 1"
IN_RANGE = "eigenvalue of the covariance, scaled units"


@dataclass(frozen=True, eq=False)
class FeatureSpectrum:
    """Eigenvalues of d features.

    Attributes:
        features: (d,) released names; those without noise are left out.
        values: (d,) descending.
        noise: ends of the interval in which noise alone would put them.
        unit: what the numbers are.
    """

    features: tuple[str, ...]
    values: Floats
    noise: tuple[float, float]
    unit: str

    @property
    def clear(self) -> int:
        """Directions that stand clear of the noise."""
        return int((self.values > self.noise[1]).sum())


def spectrum(release: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    """Eigenvalues of released columns against the noise; None where no feature has noise, or no rows are left.

    Rows: S^-1/2 X^T X S^-1/2 / r, X being r released rows of d features in scaled units with the public constant column regressed
    out, and S the diagonal matrix of their noise variances. The eigenvalues of noise alone lie about 1, nearly all within

        [(1 - sqrt(d/r))^2, (1 + sqrt(d/r))^2]   (Marchenko and Pastur).

    Joint moments: the released covariance matrix in scaled units. Noise alone is a symmetric matrix of independent entries with
    standard deviations s_ij, whose eigenvalues lie nearly all within

        +- 2 max_i sqrt(sum_j s_ij^2)   (Wigner; Bandeira and van Handel 2016 for unequal entries).

    With means m_i, clipped to their range, a centred entry has s_ij^2 = sd_ij^2 + m_j^2 sd_0i^2 + m_i^2 sd_0j^2, each noise being
    per patient.
    """
    return _spectrum(release.regressable, release, features)


@singledispatch
def _spectrum(view: Regressable, release: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    raise NotImplementedError(view)


@_spectrum.register
def _of_rows(scaled: NoisyRows, release: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    index = [place for place, *_ in map(scaled.lookup, features) if scaled.noise_sd[place] > 0]
    centred = bool(scaled.ones.any())
    degrees = len(scaled.ones) - int(centred)
    if not index or not degrees:
        return None
    rows = RegressionRows.of(scaled, index, [], mixed=scaled.mixed, engine=release.engine)
    gram = rows.products(intercept=centred).xx
    edge = np.sqrt(len(index) / degrees)
    sd = scaled.noise_sd[index]
    values = np.linalg.eigvalsh(gram / np.outer(sd, sd) / degrees)[::-1].astype(np.float64)
    noise = (max(1 - edge, 0.0) ** 2, (1 + edge) ** 2)
    return FeatureSpectrum(
        tuple(scaled.names[place] for place in index), values, (float(noise[0]), float(noise[1])), IN_NOISE
    )


@_spectrum.register
def _of_moments(moments: Moments, _: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    moments = moments.joint
    index = [moments.lookup(name)[0] for name in features]
    matrix, variance = moments.gram / moments.rows, (moments.noise_sd / moments.rows) ** 2
    mean, of_mean, pairs = np.clip(matrix[0, index], -1, 1), variance[0, index], np.ix_(index, index)
    spread = variance[pairs] + np.outer(of_mean, mean**2) + np.outer(mean**2, of_mean)
    edge = 2 * float(np.sqrt(spread.sum(axis=1).max()))
    if not edge:
        return None
    values = np.linalg.eigvalsh(matrix[pairs] - np.outer(mean, mean))[::-1].astype(np.float64)
    return FeatureSpectrum(tuple(features), values, (-edge, edge), IN_RANGE)


MOST_CHECKPOINTS = 12
"""Checkpoints of a stream that are fitted beside the last one, itself included; the default method takes seconds for each."""

CAVEATS = (
    "Associations are not effects: nothing here says what would happen if a feature were changed.",
    "Values outside the declared bounds were clipped to them and missing cells were filled with the declared value before "
    "anything was computed; a model describes the columns after that.",
    "The best of many models is in part luck; the intervals do not account for that.",
)

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "compare_groups": "means",
        "contingency_table": "table",
        "correlations": "correlate",
        "cronbach_alpha": "alpha",
        "missing_cells": "missing",
        "principal_components": "components",
        "two_stage_least_squares": "iv",
    }
)
"""Name of an analysis in Python to that of its command behind `learner analyze`, where they differ."""
PLAIN = frozenset(("columns", "events", "exit", "exposure", "indicators", "outcome", "rows", "treatment"))
"""Arguments of analyses that a command takes without the name of an option."""


def asked(found: Analysis) -> tuple[str, ...]:
    """The shell words behind `learner analyze` that make an analysis again."""
    name = found.asked["analysis"]
    words = [COMMANDS.get(name, name), found.release.digest]
    for argument, given in found.asked["arguments"].items():
        several: Sequence[Any] = given if isinstance(given, list | tuple) else [] if given is None else [given]
        words += [word for each in several for word in (*([] if argument in PLAIN else [f"--{argument}"]), str(each))]
    return tuple(words)


def _file(place: int) -> str:
    return f"analysis-{place}.json"


@dataclass(frozen=True, eq=False, kw_only=True)
class Report:
    """Analyses of a verified release, and what a fit adds to them (`FitReport`).

    Attributes:
        release: the release.
        analyses: the analyses.
    """

    release: Release
    analyses: tuple[Analysis, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """The shell words that fit the same again, after the name of a command."""
        return (self.release.digest,)

    @property
    def words(self) -> str:
        """Names of all that it has."""
        return listed(asked(each)[0] for each in self.analyses)

    def command(self, made: str, output: str) -> str:
        """A shell command that makes the report or the card again, where the files of `commands` are."""
        analyses = [word for place in range(1, len(self.analyses) + 1) for word in ("--analysis", _file(place))]
        return shlex.join(["learner", made, *self.asked, *analyses, "--output", output])

    def commands(self, made: str, output: str) -> tuple[str, ...]:
        """The shell commands that save the analyses, and then `command`."""
        analyses = (
            ["learner", "analyze", *asked(each), "--output", _file(at)] for at, each in enumerate(self.analyses, 1)
        )
        return (*map(shlex.join, analyses), self.command(made, output))

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Role to names of columns and released columns that have it."""
        named = (name for each in self.analyses for name in each.columns)
        return {"analysis": tuple(dict.fromkeys(named))}

    @property
    def caveats(self) -> tuple[str, ...]:
        """The caveats: first what is particular to it."""
        return CAVEATS


@dataclass(frozen=True, eq=False, kw_only=True)
class FitReport(Report):
    """A fit on a verified release.

    Attributes:
        fit: the models, l targets on d features.
        described: means, and what else is known, of targets and features.
        spectrum: eigenvalues of the features; None where they say nothing.
        checkpoints: of a stream, checkpoint to the fit of everybody up to it, at most `MOST_CHECKPOINTS`; empty for others.
    """

    fit: FitResult
    described: Description
    spectrum: FeatureSpectrum | None
    checkpoints: Mapping[int, FitResult] = field(default_factory=dict)

    @property
    def asked(self) -> tuple[str, ...]:
        """As of `Report`."""
        fit = self.fit
        all_outcomes = fit.targets == self.release.expand(self.release.spec.outcomes, reference=False)
        targets = () if all_outcomes else _named(self.release, fit.targets, reference=False)
        words = [*super().asked, *(word for name in targets for word in ("--target", name))]
        others = design(self.release, fit.targets, None).features
        features = () if fit.features == others else _named(self.release, fit.features, reference=True)
        words += [word for name in features for word in ("--features", name)]
        words += ["--method", fit.method, "--intercept" if fit.fit_intercept else "--no-intercept"]
        words += ["--within", fit.within] if fit.within else []
        return tuple(words)

    @property
    def words(self) -> str:
        """As of `Report`."""
        targets, features = counted(len(self.fit.targets), "target"), counted(len(self.fit.features), "feature")
        fitted = f"{self.fit.method} of {targets} on {features}"
        return listed([fitted, super().words]) if self.analyses else fitted

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """As of `Report`."""
        return {"target": self.fit.targets, "feature": self.fit.features, **super().roles}

    def better(self, target: int) -> bool:
        """True if a model can be told from the constant predictor, and is better."""
        return self._verdicts[target] == BETTER

    def identified(self, target: int) -> bool:
        """True if anything is known about a target's coefficients."""
        return bool(self.fit.inference.identified[target])

    @cached_property
    def _verdicts(self) -> tuple[str, ...]:
        return self.fit.verdicts

    def step(self, feature: str) -> float:
        """The difference in a feature that effects are drawn for: its standard deviation, or else its public range."""
        found, width = self.described, self.release.width(feature)
        place = found.names.index(feature)
        known = (
            self.spreads
            and not found.release.column(feature).indicators
            and "standard_deviation" not in found.hidden[place]
        )
        return float(found.deviation[place]) if known else width

    @property
    def spreads(self) -> bool:
        """True if the release has standard deviations."""
        return self.described.correlation is not None

    def finding(self, target: int) -> str:
        """The finding of a fit about a target, in a sentence or two."""
        name, quality = self.fit.targets[target], self.fit.quality
        value, se = float(quality.explained[target]), float(quality.explained_se[target])
        hidden = self.fit.unresolved[target]
        predicted = figure(float(self.fit.constant[target]), float(self.fit.constant_noise_sd[target]))
        constant = f"the constant {predicted} {self.fit.units[name]}".strip()
        if "constant" in hidden:
            constant = "a constant that noise hides as well"
        if self.better(target) and "explained" in hidden:
            return (
                f"The model of {name} is better than {constant}; how much of the variance it explains "
                f"{hidden['explained']}."
            )
        if self.better(target):
            share, low, high = (
                figure(100 * each, 100 * se) for each in (value, value - 2 * se, min(value + 2 * se, 1.0))
            )
            return (
                f"The model explains an estimated {share} % of the variance of {name} on the private rows "
                f"({low} to {high} %, two standard errors either side), and is better than {constant}."
            )
        if self.identified(target):
            return (
                f"No prediction of {name} was learned: the model is not distinguishable from {constant}. The intervals "
                "of its coefficients say how far they may be from zero all the same."
            )
        if "constant" in hidden:
            return f"Nothing was learned about {name}: noise hides even its mean."
        return f"Nothing was learned about {name}: the best guess from this release is {constant}."

    @property
    def caveats(self) -> tuple[str, ...]:
        """The caveats: first what is particular to the fit."""
        no_better = [name for row, name in enumerate(self.fit.targets) if not self.better(row)]
        particular = [
            *([f"Not distinguishable from a constant: the models of {', '.join(no_better)}."] if no_better else []),
            *([self.fit.inference.statement] if self.fit.inference.statement else []),
            *self.fit.inference.caveats,
        ]
        return (*particular, *self.fit.diagnostics.warnings, *super().caveats)


def reported(release: Release, results: Sequence[FitResult | Analysis]) -> Report | Unfitted:
    """All that a page says of results; of no results, a fit of the outcomes that the release names, or its description.

    Args:
        release: verified.
        results: of it, one fit at most.

    Raises:
        InvalidInput: a result is of another release, or of another checkpoint; there are two fits; or as `fit`.
    """
    fits = [each for each in results if isinstance(each, FitResult)]
    analyses = tuple(each for each in results if isinstance(each, Analysis))
    if len(fits) > 1 or len(fits) + len(analyses) < len(results):
        raise InvalidInput("a report takes one fit, which may have many targets, and analyses")
    sources = {(each.release, each.patients) for each in fits}
    sources |= {(each.release.digest, each.release.patients) for each in analyses}
    if sources - {(release.digest, release.patients)}:
        raise InvalidInput(
            f"a result is of another release or checkpoint than {release.digest[:12]}; make it of this one"
        )
    if not results and release.view.kind in UNFITTED:
        return UNFITTED[release.view.kind](release, ())
    if analyses and not fits:
        return Report(release=release, analyses=analyses)
    result = fits[0] if fits else fit(release, release.spec.outcomes)
    return FitReport(
        release=release,
        analyses=analyses,
        fit=result,
        described=describe(release, (*result.targets, *result.features)),
        spectrum=spectrum(release, result.features),
        checkpoints=_checkpoints(release, result),
    )


def _checkpoints(release: Release, last: FitResult) -> dict[int, FitResult]:
    """The same fit at earlier checkpoints, evenly spaced up to the last one."""
    numbered = list(release.checkpoints().items())
    if len(numbered) < 2:
        return {}
    within = ConvexSet.parse(last.within) if last.within else None
    again = (last.targets, last.features, last.method, last.fit_intercept, within)
    chosen = np.unique(np.linspace(0, len(numbered) - 1, min(len(numbered), MOST_CHECKPOINTS)).round().astype(int))
    earlier = {numbered[place][0]: fit(numbered[place][1], *again) for place in chosen[:-1]}
    return {**earlier, numbered[-1][0]: last}


def _named(release: Release, released: Sequence[str], *, reference: bool) -> list[str]:
    """Names that stand for released columns, as short as they come; `reference` as of `Release.expand`."""
    found: list[str] = []
    left = tuple(released)
    while left:
        column = release.column(left[0]).name
        whole = release.expand((column,), reference=reference)
        found.append(column if left[: len(whole)] == whole else left[0])
        left = left[len(whole) if found[-1] == column else 1 :]
    return found
