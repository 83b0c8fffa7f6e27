"""Principal components and Cronbach's alpha: what several columns have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.analyses.draws import Draws, draws_of, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.result import Analysis
from dprelease.errors import InvalidInput
from dprelease.release.release import Release


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
    spread = np.sqrt(np.einsum("tii->ti", draws.covariance))
    correlation = draws.covariance / (spread[:, :, None] * spread[:, None, :])
    typical = np.linalg.eigh(correlation.mean(axis=0))[1][:, ::-1]
    values, vectors = (each[..., ::-1] for each in np.linalg.eigh(correlation))
    strongest = np.abs(typical).argmax(axis=0)
    typical = typical * np.sign(typical[strongest, np.arange(len(strongest))])
    vectors = vectors * np.where(np.einsum("tij,ij->tj", vectors, typical) < 0, -1.0, 1.0)[:, None]
    shares = Estimates(
        tuple(f"component {place}" for place in range(1, len(draws.names) + 1)), values / len(draws.names)
    )
    lower, upper = shares.interval()
    near = [place + 1 for place in range(min(count, len(lower) - 1)) if lower[place] < upper[place + 1]]
    caveats = ["Intervals hold privacy noise only: the error of having sampled these patients comes on top."]
    if near:
        told = ", ".join(f"{place} and {place + 1}" for place in near)
        caveats.insert(0, f"Noise does not tell the sizes of components {told} apart: do not believe their loadings.")
    loadings = {
        f"loadings of component {place + 1}": Estimates(draws.names, vectors[:, :, place]) for place in range(count)
    }
    return Analysis(
        "Principal components of correlations",
        release,
        draws.names,
        {"share of variance": shares, **loadings},
        caveats=tuple(caveats),
    )


def cronbach_alpha(release: Release, columns: Sequence[str]) -> Analysis:
    """Cronbach's alpha of a scale that is the sum of its items; table ``reliability``, noise only.

    Args:
        release: a verified release of joint moments.
        columns: two or more items, all scored in the same direction.

    Raises:
        InvalidInput: an unknown name, fewer than two columns, no moments, or noise hides how a column varies.
    """
    draws = _seen(release, columns)
    items, count = draws.covariance, len(draws.names)
    alpha = count / (count - 1) * (1 - np.einsum("tii->t", items) / items.sum(axis=(1, 2)))
    caveats = (
        "Items that are scored in opposite directions lower alpha: declare them turned.",
        "Intervals hold privacy noise only, and where noise hides correlations alpha falls towards 0.",
    )
    return Analysis(
        "Cronbach's alpha",
        release,
        draws.names,
        {"reliability": Estimates(("alpha",), alpha[:, None])},
        caveats=caveats,
    )


def _seen(release: Release, columns: Sequence[str]) -> Draws:
    names = tuple(number(release, name) for name in columns)
    if len(names) < 2:
        raise InvalidInput("name at least two columns")
    draws = draws_of(release, names)
    for name in names:
        draws.check_seen([name])
    return draws
