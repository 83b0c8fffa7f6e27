"""Facts that several columns have in common: correlations, also given others, principal components, and Cronbach's alpha."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import stdtr

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.before_clipping import standardised
from dprelease.release.release import Release


@dataclass(frozen=True, eq=False)
class Correlations(Estimates):
    """Correlations on Fisher's scale; p-values by Student's law of r sqrt(f / (1 - r^2)), exact for normal columns.

    Attributes:
        residual: f, degrees of freedom of that.
    """

    residual: int = 0

    def _tail(self, location: Floats, scale: Floats) -> Floats:
        del scale
        # r / sqrt(1 - r^2), which far ends of Fisher's scale do not overflow.
        found: Floats = stdtr(self.residual, np.sqrt(self.residual) * np.sinh(np.clip(location, -_FAR, _FAR)))
        return found


@repeatable
def correlations(release: Release, columns: Sequence[str], given: Sequence[str] = ()) -> Analysis:
    """Correlations of every two of some columns, given others.

    Table: ``correlations``; noise, and sampling by Fisher's z.

    Args:
        release: a verified release of joint moments.
        columns: two or more numbers or indicators.
        given: what is held fixed: correlations are those of residuals on these.

    Raises:
        InvalidInput: an unknown name, fewer than two columns, no moments, or noise hides how they vary.
    """
    names = tuple(number(release, name) for name in columns)
    fixed = features(release, given) if given else ()
    if len(names) < 2:
        raise InvalidInput("a correlation needs at least two columns")
    draws = draws_of(release, (*names, *fixed))
    fixed = draws.present(fixed)
    for name in names:
        draws.check_seen([name])
    if fixed:
        draws.check_seen(fixed)
    return Analysis(
        "Partial correlations" if fixed else "Correlations",
        release,
        draws.names,
        tables_of(draws, lambda draws: {"correlations": _between(draws, names, fixed)}),
        caveats=(
            *draws.caveats,
            "Fisher's law is for normal columns: of skewed ones, and of indicators, intervals may be too short.",
            "If noise hides a correlation, it falls towards 0: a small one with a wide interval is not a proof of none.",
        ),
        facts={"given": ", ".join(fixed)} if fixed else {},
    )


def _between(draws: Draws, names: Sequence[str], fixed: Sequence[str]) -> Correlations:
    inner, outer = draws.places(names), draws.places(fixed)
    covariance = draws.covariance[:, inner][:, :, inner]
    if fixed:
        across = draws.covariance[:, inner][:, :, outer]
        within = draws.covariance[:, outer][:, :, outer]
        covariance = covariance - across @ np.linalg.solve(within, across.transpose(0, 2, 1))
    matrix = np.clip(standardised(covariance)[0], -_CLOSE, _CLOSE)
    pairs = list(combinations(range(len(names)), 2))
    location = np.arctanh(np.column_stack([matrix[:, i, j] for i, j in pairs]))
    scale = np.full_like(location, 1 / np.sqrt(draws.patients - len(fixed) - 3))
    shown = tuple(f"{names[i]}, {names[j]}" for i, j in pairs)
    return Correlations(shown, location, scale, link="fisher", tested=True, residual=draws.patients - len(fixed) - 2)


_CLOSE = 1 - 1e-12
_FAR = 700.0


@repeatable
def principal_components(release: Release, columns: Sequence[str], count: int = 2) -> Analysis:
    """Eigenvectors of the correlation matrix, those with the largest eigenvalues.

    Tables, noise only: ``share of variance``, and ``loadings of component K``, of length 1 with the largest one positive. The
    components are those of the draws' mean; each draw's are matched with them by sign, in the order of their eigenvalues.

    Args:
        release: a verified release of joint moments.
        columns: two or more numbers or indicators.
        count: of components.

    Raises:
        InvalidInput: an unknown name, fewer than two columns, no moments, more components than columns, or noise hides how a
            column varies.
    """
    draws = _seen(release, columns)
    if not 1 <= count <= len(draws.names):
        raise InvalidInput(f"{len(draws.names)} columns have 1 to {len(draws.names)} components, not {count}")
    typical = np.linalg.eigh(standardised(draws.covariance)[0].mean(axis=0))[1][:, ::-1]
    strongest = np.abs(typical).argmax(axis=0)
    typical = typical * np.sign(typical[strongest, np.arange(len(strongest))])
    tables = tables_of(draws, lambda draws: _components(draws, typical, count))
    lower, upper = tables["share of variance"].interval()
    near = [place + 1 for place in range(min(count, len(lower) - 1)) if lower[place] < upper[place + 1]]
    caveats = ["The error of having sampled these patients comes on top of intervals.", *_of_clipping(tables)]
    if near:
        told = ", ".join(f"{place} and {place + 1}" for place in near)
        caveats.insert(0, f"The sizes of components {told} cannot be told apart: do not believe their loadings.")
    return Analysis("Principal components of correlations", release, draws.names, tables, caveats=tuple(caveats))


def _components(draws: Draws, typical: Floats, count: int) -> dict[str, Estimates]:
    values, vectors = (each[..., ::-1] for each in np.linalg.eigh(standardised(draws.covariance)[0]))
    vectors = vectors * np.where(np.einsum("tij,ij->tj", vectors, typical) < 0, -1.0, 1.0)[:, None]
    names = tuple(f"component {place}" for place in range(1, len(draws.names) + 1))
    loadings = {
        f"loadings of component {place + 1}": Estimates(draws.names, vectors[:, :, place], limits=(-1.0, 1.0))
        for place in range(count)
    }
    return {"share of variance": Estimates(names, values / len(draws.names), limits=(0.0, 1.0)), **loadings}


@repeatable
def cronbach_alpha(release: Release, columns: Sequence[str]) -> Analysis:
    """Cronbach's alpha of a scale that is the sum of its items; table ``reliability``, noise only.

    Args:
        release: a verified release of joint moments.
        columns: two or more items, all scored in the same direction.

    Raises:
        InvalidInput: an unknown name, fewer than two columns, no moments, or noise hides how a column varies.
    """
    draws = _seen(release, columns)
    tables = tables_of(
        draws, lambda draws: {"reliability": Estimates(("alpha",), _alpha(draws.covariance), limits=(-np.inf, 1.0))}
    )
    caveats = (
        "Items that are scored in opposite directions lower alpha: declare them turned.",
        "The error of having sampled these patients comes on top of intervals.",
        "If noise hides correlations, alpha falls towards 0.",
        *_of_clipping(tables),
    )
    return Analysis("Cronbach's alpha", release, draws.names, tables, caveats=caveats)


def _of_clipping(tables: Mapping[str, Estimates]) -> tuple[str, ...]:
    """A sentence on what w leaves out, where clipping took something."""
    if all(each.taken is None for each in tables.values()):
        return ()
    return (
        "The width for clipping may be too short if clipping changes variances and covariances by different shares.",
    )


def _alpha(items: Floats) -> Floats:
    """(T, 1)."""
    count = items.shape[1]
    found: Floats = count / (count - 1) * (1 - np.einsum("tii->t", items) / items.sum(axis=(1, 2)))[:, None]
    return found


def _seen(release: Release, columns: Sequence[str]) -> Draws:
    names = tuple(number(release, name) for name in columns)
    if len(names) < 2:
        raise InvalidInput("name at least two columns")
    draws = draws_of(release, names)
    for name in names:
        draws.check_seen([name])
    return draws
