"""Pooling of the outcomes of one release: none need be judged by its own noisy numbers alone.

If thousands of outcomes share a budget, the noise in one outcome's mean can exceed all that the outcome varies, and no
single one shows how far its features go. Together they show both. For outcome j the others suggest

    a number, such as a mean   m_j ~ N(M_-j, T^2 + var M_-j),   seen x_k = m_k + noise of known variance s_k^2,            (1)

with M flat and M_-j the weighted mean of all x_k but x_j; T, uniform on [1e-3, 1], is the same for all and told by all, and its
posterior mean square is used; and

    one of B cases             share_-j = (COUNT / B + sum over k != j of how likely each case is for k) / (COUNT + l - 1),  (2)

iterated until shares and cases agree: a law of cases with a Dirichlet prior that is integrated out, each outcome seen in the
mean of the others (collapsed variational Bayes of order 0). An outcome by itself is told nothing: its numbers stay vague
and its cases equally likely. All outcomes of a release are pooled, whichever of them a fit is for, so that outcomes together are
fitted as they are one by one.

Most outcomes gain, and an odd one pays: hidden by noise it is taken for one like the others. UNLIKE limits that.

Source: Efron and Morris 1973 (Stein's estimation rule and its competitors) for (1); Asuncion, Welling, Smyth and Teh 2009 (On
smoothing and inference for topic models) for the iteration of (2).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats

COUNT = 3.0
"""Outcomes that the vague law of cases counts for."""
UNLIKE = 0.1
"""Chance that an outcome is unlike the others, its numbers anywhere in their ranges."""

_SPREADS = np.geomspace(1e-3, 1.0, 61)
"""T."""
_TURNS = 1000
"""Most that are made; a law of vaguely seen cases settles slowly."""
_SETTLED = 1e-5


def of_others(seen: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of (1) for each outcome, (l,); of one alone nothing is known: (0, inf).

    Args:
        seen: (l,) x, in units of the range.
        noise: (l,) s, positive and of one order of magnitude.
    """
    if len(seen) < 2:
        return np.zeros_like(seen), np.full_like(seen, np.inf)
    weight = 1 / (_SPREADS[:, None] ** 2 + noise**2)
    total = weight.sum(axis=1)
    centre = weight @ seen / total
    log = 0.5 * (np.log(weight).sum(axis=1) - np.log(total) - (weight * (seen - centre[:, None]) ** 2).sum(axis=1))
    likely = _SPREADS * np.exp(log - log.max())  # uniform in T on a grid that is even in its logarithm
    square = float(likely @ _SPREADS**2 / likely.sum())
    own = 1 / (square + noise**2)
    left = own.sum() - own
    return (own @ seen - own * seen) / left, np.sqrt(square + 1 / left)


def shares(evidence: Floats) -> Floats:
    """(B, l) of (2).

    Args:
        evidence: (B, l) logarithms of how likely each case makes what was seen of an outcome, up to a constant for each.
    """
    cases, outcomes = evidence.shape
    law = np.full_like(evidence, 1 / cases)
    likelihood = np.exp(evidence - evidence.max(axis=0))
    for _ in range(_TURNS if outcomes > 1 else 0):
        likely = likelihood * law
        likely /= likely.sum(axis=0)
        before, law = law, (COUNT / cases + likely.sum(axis=1, keepdims=True) - likely) / (COUNT + outcomes - 1)
        if np.abs(law - before).max() < _SETTLED:
            break
    return law


class Seen(Protocol):
    """Noisy numbers of l outcomes, each of which is one of B cases."""

    def take(self, places: npt.NDArray[np.int64]) -> Seen:
        """The same of some of them."""

    def explained(self) -> Floats:
        """(B, l) evidence of `shares`."""


def pooled(seen: Seen, cases: int, alike: npt.NDArray[np.bool_]) -> Floats:
    """(B, l) `shares` of those that are pooled; for the others all cases are equally likely, and nothing is worked out.

    Args:
        seen: of all l outcomes.
        cases: B.
        alike: (l,) which are pooled.
    """
    law = np.full((cases, len(alike)), 1 / cases)
    if alike.any():
        law[:, alike] = shares(seen.take(np.flatnonzero(alike)).explained())
    return law
