"""Features of a model on combinations of levels, and estimates that are functionals of their law.

A release holds every pair of columns and no three of them together. `dprelease.estimators.log_linear` gives the law of largest
entropy that has the pairs of the columns that an analysis names, and how far a functional of it may err.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from dprelease.analyses.draws import LEAST
from dprelease.analyses.estimates import Estimates, Link
from dprelease.arrays import Floats, Mask
from dprelease.errors import InvalidInput
from dprelease.estimators.log_linear import THREE, Index, LogLinear
from dprelease.one_line import listed
from dprelease.release.release import Release

SEEN = 2.0
"""Patients of a level in units of the noise of their number, from which on it is a level of its own."""
FIRM = 5.0
"""The same of the patients of a reference level with and without the outcome, and of a treatment's with and without it."""
INFLATED = 10.0
"""Variance inflation above which features are refused; from 5 to 8, 93 to 96 % of intervals hold (`benchmarks.inflation`)."""
_LEAST = 1e-9
"""Variance of an indicator, and part of it, that is none."""
NO_THREE = (
    "No release shows how three columns depend on each other. Intervals allow for log odds of their combinations that differ "
    f"by a standard deviation of {THREE:g}."
)
"""Caveat of every estimate out of the law."""


def law_of(
    release: Release,
    outcomes: Sequence[str],
    features: Sequence[str],
    possible: Callable[[Index], Mask] | None = None,
    alike: Sequence[Sequence[int]] = (),
) -> LogLinear:
    """The law of the columns behind released names, the outcomes' first; `possible` and `alike` as of `LogLinear.of`.

    Raises:
        InvalidInput: a release without moments, a number, an outcome among the features, products that are not released, or too
            many combinations.
    """
    columns = tuple(dict.fromkeys(release.column(name) for name in (*outcomes, *features)))
    measured = [column.name for column in columns if not column.indicators]
    if measured:
        raise InvalidInput(
            f"{listed(measured)} is a number, and this model is of levels; have its hospital declare bands of it before the "
            "release"
        )
    first = {release.column(name).name for name in outcomes}
    twice = first & {release.column(name).name for name in features}
    if twice:
        raise InvalidInput(f"{listed(sorted(twice))} cannot explain itself; leave it out of the features")
    return LogLinear.of(release.products, columns, possible, alike, len(first))


def facts_of(law: LogLinear) -> Mapping[str, str]:
    """The law in words."""
    return {"model": f"largest entropy with the released pairs, {law.misfit:.2f} chi-square an entry"}


@dataclass(frozen=True, eq=False)
class LevelDesign:
    """Features of combinations: the constant, and an indicator for each level of each column but its reference.

    Attributes:
        names: (q,) "intercept" and released names.
        matrix: (C, q).
        terms: column to the places of its indicators.
        references: column to the levels that its indicators are compared with.
    """

    names: tuple[str, ...]
    matrix: Floats
    terms: dict[str, slice]
    references: dict[str, tuple[str, ...]]

    @property
    def facts(self) -> dict[str, str]:
        """References of the indicators, in words."""
        return {"reference": "; ".join(f"{name}: {' or '.join(levels)}" for name, levels in self.references.items())}

    def hidden(self, law: LogLinear, more: Floats, less: Floats) -> tuple[Floats, Floats]:
        """Counts that noise hides of coefficients, and of the intercept, as `hidden` gives them.

        Args:
            law: the law.
            more: (C,) of a patient, what makes a rate or odds larger: the outcome.
            less: (C,) the same of what makes it smaller.
        """
        level, both = self.matrix[:, 1:], (more[:, None], less[:, None])
        rest = np.column_stack([1 - self.matrix[:, term].sum(axis=1) for term in self.terms.values()])
        other = np.repeat(rest, [term.stop - term.start for term in self.terms.values()], axis=1)
        yes, no = ((level * each, other * each) for each in both)
        slopes = hidden(law, np.stack([np.stack([yes[0], no[1]], 1), np.stack([no[0], yes[1]], 1)], 1))
        return slopes, hidden(law, np.stack([rest * each for each in both], 1)[..., None])

    def inflation(self, share: Floats) -> dict[str, float]:
        """Largest variance inflation of a contrast between levels of each column.

        With r the largest canonical correlation of its indicators with those of all other columns it is 1/(1 - r^2). Generalised
        variance inflation is the product of that over all canonical correlations, and its root for one degree of freedom hides
        one direction among many levels.

        Source: Fox, Monette 1992, Generalized collinearity diagnostics, JASA 87(417).

        Args:
            share: (C,) probabilities.
        """
        x = self.matrix[:, 1:] - share @ self.matrix[:, 1:]
        covariance = x.T @ (share[:, None] * x)
        scale = np.sqrt(np.maximum(np.diag(covariance), _LEAST))
        correlation = covariance / np.outer(scale, scale)
        found = {}
        for name, term in self.terms.items():
            own = np.zeros(len(scale), bool)
            own[term.start - 1 : term.stop - 1] = True
            within, across, rest = (correlation[np.ix_(*at)] for at in ((own, own), (own, ~own), (~own, ~own)))
            left = within - across @ np.linalg.pinv(rest, rcond=_LEAST, hermitian=True) @ across.T
            # Part of the variance of each direction that the others leave.
            free = eigh(left, within + _LEAST * np.eye(len(within)), eigvals_only=True)
            found[name] = 1 / max(float(free[0]), _LEAST)
        return found

    def check_inflation(self, share: Floats) -> float:
        """The largest variance inflation of a column; `share` as of `inflation`.

        Raises:
            InvalidInput: features nearly follow from one another.
        """
        found = self.inflation(share)
        high = [f"{name} ({value:.1f})" for name, value in found.items() if value > INFLATED]
        if high:
            raise InvalidInput(
                f"features nearly follow from one another: the variance inflation of {listed(high)} is above {INFLATED:g}, and "
                "coefficients would be too small; leave one of them out"
            )
        return max(found.values(), default=1.0)


def design(release: Release, law: LogLinear, outcome: Floats, on: Sequence[str]) -> LevelDesign:
    """Indicators of features.

    A column's own name stands for its levels, and one of them is the reference: the first one, or the one of which most have the
    rarer of outcome and none, if noise hides how many of the first have either. A released name stands for one level, and all
    others are the reference.
    Levels whose patients noise does not tell from none are counted with the reference, which must be told from none itself.

    Args:
        release: the release.
        law: of the columns.
        outcome: (C,) 1 where a combination has the outcome; or (k, C), of k outcomes that exclude one another.
        on: names of columns, or released names.

    Raises:
        InvalidInput: a column of which noise hides all levels but one, all that are named, or all that are not.
    """
    names, parts, terms, references = ["intercept"], [np.ones((len(law.cells), 1))], {}, {}
    asked: dict[str, list[str]] = {}
    for name in on:
        for released in release.expand((name,), reference=False):
            asked.setdefault(release.column(released).name, []).append(released)
    for place, column in enumerate(law.columns):
        if column.name not in asked:
            continue
        within = [
            np.bincount(law.cells[:, place], law.shares * part, len(column.values)) * law.patients
            for part in np.vstack([outcome, 1 - np.atleast_2d(outcome).sum(axis=0)])
        ]
        count, fewer, least = np.sum(within, axis=0), np.min(within, axis=0), max(SEEN * law.noise, LEAST)
        named = [column.released.index(each) for each in asked[column.name]]
        whole = len(named) == len(column.values)
        seen = [at for at in named if count[at] >= least]
        if whole:
            firm = fewer[named[0]] >= max(FIRM * law.noise, LEAST)
            reference = named[0] if firm else int(np.argmax(fewer))
            seen = [at for at in seen if at != reference]
        if not seen:
            raise InvalidInput(
                f"noise does not tell how {column.name} varies: at most one of its levels has more than {SEEN:g} standard "
                "deviations of noise of patients; leave it out"
                if whole
                else f"noise does not tell the patients of {listed(asked[column.name])} from none; leave it out"
            )
        rest = [at for at in range(len(count)) if at not in seen]
        if count[rest].sum() < least:
            told = listed(column.released[at] for at in seen)
            raise InvalidInput(
                f"noise does not tell patients of {column.name} without {told} from none, and these are the reference; "
                + ("leave it out" if whole or len(count) == 2 else "name fewer of its levels")
            )
        terms[column.name] = slice(len(names), len(names) + len(seen))
        references[column.name] = tuple(value for at, value in enumerate(column.values) if at not in seen)
        names += [column.released[at] for at in seen]
        parts.append(np.equal(law.cells[:, place, None], seen).astype(float))
    return LevelDesign(tuple(names), np.hstack(parts), terms, references)


def hidden(law: LogLinear, counts: Floats) -> Floats:
    """Relative errors, as of `Estimates.counts`, of counts of which noise is more than a part in `FIRM`; 0 for others.

    Args:
        law: the law.
        counts: (C, 2, m, q) what a patient adds to each, in the order of `Estimates.counts`.
    """
    each = counts.reshape(len(counts), -1)
    whole, sampling = map(np.diag, law.spread(each / (law.shares @ each)))
    found: Floats = np.where(whole - sampling > 1 / FIRM**2, np.sqrt(whole), 0.0)
    return found.reshape(counts.shape[1:])


def estimated(
    law: LogLinear,
    names: Sequence[str],
    values: Floats,
    influence: Floats,
    link: Link = "identity",
    *,
    tested: bool = False,
    counts: Floats | None = None,
) -> Estimates:
    """Estimates that are functionals of a law.

    Args:
        law: the law.
        names: (q,).
        values: (q,) by `link`.
        influence: (C, q) their influence functions.
        link: as of `Estimates`.
        tested: as of `Estimates`.
        counts: as of `Estimates`.
    """
    return estimates_of(names, values, law.spread(influence), link, tested=tested, counts=counts)


def estimates_of(
    names: Sequence[str],
    values: Floats,
    spread: tuple[Floats, Floats],
    link: Link,
    *,
    tested: bool,
    counts: Floats | None = None,
) -> Estimates:
    """Estimates whose covariance, and the part of it that is sampling, are known; arguments as of `estimated`."""
    variance, sampling = map(np.diag, spread)
    noise = np.sqrt(np.maximum(variance - sampling, 0.0))
    counts = counts if counts is not None and counts.any() else None
    error = np.sqrt(variance)[None]
    return Estimates(tuple(names), values[None], error, link=link, tested=tested, noise=noise, counts=counts)


def without_ends(found: Estimates) -> list[str]:
    """A caveat that names estimates whose intervals lack an end; none if all have both."""
    names = listed(name for name, lacks in zip(found.names, found.unbounded, strict=True) if lacks)
    told = f"Noise hides whether a count behind {names} is 0: on one side nothing bounds the ratio, and its estimate says little."
    return [told] if names else []
