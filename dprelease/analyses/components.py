"""Principal components and Cronbach's alpha: what several columns have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.before_clipping import standardised
from dprelease.release.release import Release


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
