"""Method `spectral`: a rotation-invariant ridge on noisy moments, in closed form for thousands of outcomes at once.

A model that passes through the means, y = c + (x - m) w, is a vector (-m w, w) orthogonal to (1, m). In an orthonormal basis
of these vectors, in which w is W u with W = (I + m m^T)^(-1/2), the second moments S of the features, g of features and
outcome, and the noise in both are what they are of (1, x), projected: no error of a mean takes part, and the noise is of the
same known variance in every entry, s^2 in S and r^2 in g. Seen are

    S + N      which is brought back to S as far as a symmetric noise matrix of independent entries lets one. With
               eigenvalues lambda_i of what is seen, S takes the same eigenvectors and

                   xi_i = lambda_i - 2 s^2 sum_j (lambda_i - lambda_j) / ((lambda_i - lambda_j)^2 + (2 s)^2),   at least 0,

               in many dimensions the best that can be done with these eigenvectors (Bun, Allez, Bouchaud and Potters 2016,
               Rotational invariant estimator for general noisy matrices, for additive noise); 2 s is the width over which
               the noisy eigenvalues are smoothed. If noise hides every direction all xi are equal.

                   u ~ N(0, t I),   g_i + n_i - xi_i u_i ~ N(0, v),   v = r^2 + s^2 d t,   t = e / sum xi,

               e the variance of the outcome that its features explain, and s^2 d t the variance that the errors left in S
               add to a score. e is log-uniform on [1e-3, 1] times the outcome's variance, for which a low estimate is taken
               (`Marginals.harmonic_variance`). If outcome-only columns are named, their common law of e is estimated instead
               (`pooled`).

Means and variances of single variables are those of `marginals`, and so is the constant c. How far a model goes from it is
decided as in `gain`: the gain of alpha w is taken to be normal, of mean (2 alpha - alpha^2) u.S u and of a variance that
follows from those of g, given what is seen, and of N. Without an intercept m is 0, and gains are those on predicting 0.

The ratio t / r^2 alone decides what a ridge leaves of each coordinate, so outcomes share a lattice of it, one factorisation of
S, and products of matrices: O(d^3 + l d^2) for d features and l outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.marginals import Marginals, pooled
from dprelease.estimators.moments.gain import Judged, by_scores, cautious_step_length, unbiased_quality, warnings
from dprelease.estimators.normal_equations import Diagnostics
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.ridge import belief, chunks, ends_of_cells, lattice
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import Moments


class Slopes(NamedTuple):
    """Slopes of d features for l outcomes, in coordinates in which each follows its own score alone.

    Attributes:
        directions: (d, r) of the coordinates; with -centre' directions before them as a row they are orthonormal.
        turned: (r, l) the slopes.
        rate: (r, l) by how much each follows its score.
        bend: (l,) the part of tr K that belongs to the moments of the features.
        centre: (d,) means of the features; 0 without an intercept.
    """

    directions: Floats
    turned: Floats
    rate: Floats
    bend: Floats
    centre: Floats


def beside_constant(
    problem: Judged,
    outcomes: Marginals,
    slopes: Slopes,
    alpha: Floats,
    curvatures: tuple[float, float],
    *,
    intercept: bool,
) -> ScaledFit:
    """Result of a method, from slopes and how they follow the noise.

    Args:
        problem: what was fitted.
        outcomes: what is believed of the l targets by themselves.
        slopes: with the step.
        alpha: (l,) how far each model went from the constant predictor.
        curvatures: least and largest eigenvalue of the features' moments that were used.
        intercept: whether one was fitted.
    """
    directions = np.vstack([-slopes.centre @ slopes.directions, slopes.directions])
    weights = directions @ slopes.turned
    weights[0] += outcomes.constant if intercept else 0.0
    flat = outcomes.constant
    free = np.zeros(len(alpha)) if intercept else outcomes.mean_sd**2
    followed = by_scores(problem, -weights, directions, slopes.rate, slopes.bend, free)
    least, largest = map(float, curvatures)
    return ScaledFit(
        weights=weights[1:],
        offsets=weights[0],
        constant=flat,
        constant_noise_sd=outcomes.mean_sd,
        quality=unbiased_quality(problem, -weights, -flat, followed, (outcomes.error, outcomes.error_sd)),
        diagnostics=Diagnostics(
            smallest_eigenvalue=least,
            condition_number=largest / least if least > 0 else math.inf,
            indefinite=False,
            warnings=warnings(alpha, outcomes.relative_loss),
        ),
    )


EXPLAINED = 1e-3
"""Least part of an outcome's variance that its features may explain; the most is all of it."""
PARTS = 12
"""Even parts of the range of log e, the cases of `pooled`."""
_TINY = 1e-12
_SAME = 1e-9
"""Distance of eigenvalues, in the largest, that rounding makes."""


def fit_spectral(
    moments: Moments,
    features: Sequence[int],
    targets: Sequence[int],
    released: Moments | None = None,
    *,
    intercept: bool,
) -> ScaledFit:
    """Fit all targets on the same features; each is fitted as it is by itself.

    Args:
        moments: as released, or with associations as they are believed.
        features: d indices.
        targets: l indices.
        released: what judges the fit where `moments` are not as released.
        intercept: whether to fit one.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    if intercept:
        _check_levels(moments.layout, features)
    others, d = np.flatnonzero(moments.layout.outcome), len(features)
    outcomes, chosen = np.unique([*targets, *others], return_inverse=True)
    chosen = chosen[: len(targets)]
    used, places = np.unique([*features, *outcomes], return_inverse=True)
    marginals = Marginals.of(moments, used)
    x, every = marginals.take(places[:d]), marginals.take(places[d:])
    centre = x.mean if intercept else np.zeros(d)
    whiten = _whitener(centre)
    rows = moments.rows
    seen = moments.between(features, features) / rows - np.outer(centre, centre)
    np.fill_diagonal(seen, x.variance if intercept else x.square)
    seen = whiten @ seen @ whiten
    s2 = max(float((moments.noise_between(features, features) ** 2).mean()) / rows**2, _TINY**2)
    xi, vectors = _denoised(seen, s2)
    values = ((seen @ vectors) * vectors).sum(axis=0)

    across = whiten @ (moments.between(features, outcomes) - np.outer(centre, moments.between([0], outcomes))) / rows
    r2 = np.maximum((moments.noise_between(features, outcomes) ** 2).mean(axis=0) / rows**2, _TINY**2)
    ridges = _Ridges(xi, vectors.T @ across, s2, r2, every.harmonic_variance if intercept else every.square)
    law = pooled(ridges, PARTS, moments.layout.outcome[outcomes])
    asked = ridges.take(chosen)
    kept, posterior_variance, rate = asked.posterior(law[:, chosen])
    turned = kept * asked.scores
    y = every.take(chosen)
    square = xi @ turned**2
    of_square = 2 * s2 * (turned**2).sum(axis=0) ** 2
    alpha = cautious_step_length(square, square, posterior_variance, of_square)
    bend = -2 * s2 * alpha**2 * (asked.scores * turned * _bends(values, kept)).sum(axis=0)
    slopes = Slopes(whiten @ vectors, alpha * turned, alpha * rate, bend, centre)
    problem = Judged(released or moments, moments, list(features), list(targets))
    return beside_constant(problem, y, slopes, alpha, (xi.min(), xi.max()), intercept=intercept)


def _whitener(centre: Floats) -> Floats:
    """(I + m m^T)^(-1/2), (d, d)."""
    square = float(centre @ centre)
    along = np.outer(centre, centre) / square if square else np.zeros((len(centre), len(centre)))
    return np.eye(len(centre)) - (1 - 1 / math.sqrt(1 + square)) * along


def _denoised(matrix: Floats, s2: float) -> tuple[Floats, Floats]:
    """(d,) xi and (d, d) eigenvectors.

    Args:
        matrix: (d, d) what is seen.
        s2: noise variance of an entry.
    """
    values, vectors = np.linalg.eigh(matrix)
    apart = values[:, None] - values
    return np.maximum(values - 2 * s2 * (apart / (apart**2 + 4 * s2)).sum(axis=1), 0), vectors


def _bends(values: Floats, kept: Floats) -> Floats:
    """(d, l) sums over m != i of (kept_i - kept_m) / (lambda_i - lambda_m): how u follows the noise of the features' matrix.

    Source: Daleckii and Krein (1965), derivatives of functions of symmetric matrices.
    """
    apart = values[:, None] - values
    inverse = np.divide(1.0, apart, out=np.zeros_like(apart), where=np.abs(apart) > _SAME * np.abs(values).max())
    found: Floats = kept * inverse.sum(axis=1, keepdims=True) - inverse @ kept
    return found


@dataclass(frozen=True, eq=False)
class _Ridges:
    """Ridges for l outcomes along the eigenvectors, on one lattice of their strengths.

    Attributes:
        xi: (d,).
        scores: (d, l) g + n along the eigenvectors.
        s2: noise variance of an entry of the features' matrix.
        r2: (l,) of a score.
        whole: (l,) most that the features may explain.
    """

    xi: Floats
    scores: Floats
    s2: float
    r2: Floats
    whole: Floats

    def take(self, places: npt.NDArray[np.int64]) -> _Ridges:
        """The ridges for some of the outcomes."""
        return replace(self, scores=self.scores[:, places], r2=self.r2[places], whole=self.whole[places])

    def explained(self) -> Floats:
        """(PARTS, l) logarithm of how likely an e in each part of its range makes the scores, up to a constant for each outcome."""
        found = np.zeros((PARTS, len(self.r2)))
        if not self.xi.any():
            return found
        points = self._lattice()
        for chunk in chunks(len(self.r2), len(points)):
            inside, likelihood = self._inside(points, chunk), self._likelihood(points, chunk)
            for part in range(PARTS):
                mass = np.diff(np.clip(inside - part, 0, 1), axis=1)
                found[part, chunk] = logsumexp(likelihood, axis=1, b=mass)
        return found

    def posterior(self, law: Floats) -> tuple[Floats, Floats, Floats]:
        """Three of l outcomes, averaged over t.

        Returns:
            (d, l) what is kept of each score, which makes u; (l,) the variance of u.g, given what is seen; (d, l) by how much u
            follows g.

        Args:
            law: (PARTS, l) how likely each part of the range of log e is before anything is seen.
        """
        share, variance, rate = np.zeros_like(self.scores), np.zeros_like(self.r2), np.zeros_like(self.scores)
        if not self.xi.any():
            return share, variance, rate
        points = self._lattice()
        ratio = np.exp(points)[:, None]
        of_score = 1 + self.s2 * len(self.xi) * ratio
        total = self.xi**2 * ratio + of_score
        kept = self.xi * ratio / total
        for chunk in chunks(len(self.r2), len(points)):
            inside, scores, r2 = self._inside(points, chunk), self.scores.T[chunk], self.r2[chunk, None]
            parts = (law[part, chunk, None] * np.diff(np.clip(inside - part, 0, 1), axis=1) for part in range(PARTS))
            prior = sum(parts, np.zeros(1))
            probabilities = belief(prior, self._likelihood(points, chunk))
            averaged = probabilities @ kept
            found = averaged * scores
            # What is believed of t follows g as well: kept and 1/total go opposite ways over t.
            stronger = averaged * (probabilities @ (1 / total)) - probabilities @ (kept / total)
            rate[:, chunk] = (averaged + stronger * scores**2 / r2).T
            within = probabilities @ (ratio * of_score / total) * r2
            sums = (found * self.xi * scores) @ kept.T  # u.g as each t has it
            between = (probabilities * (sums - (probabilities * sums).sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
            share[:, chunk] = averaged.T
            variance[chunk] = (found**2 * self.xi**2 * within).sum(axis=1) + between
        return share, variance, rate

    def _most(self) -> Floats:
        """(l,) largest log(t / r^2)."""
        found: Floats = np.log(self.whole / (self.r2 * self.xi.sum()))
        return found

    def _lattice(self) -> Floats:
        most = self._most()
        least = most + math.log(EXPLAINED)
        return lattice(least.min(), most.max())

    def _inside(self, points: Floats, chunk: slice) -> Floats:
        """(l, m + 1) ends of the lattice's cells, from 0 to PARTS over the range of log e."""
        least = self._most()[chunk, None] + math.log(EXPLAINED)
        return ends_of_cells((points - least) * (PARTS / -math.log(EXPLAINED)), 0.0, float(PARTS))

    def _likelihood(self, points: Floats, chunk: slice) -> Floats:
        """(l, lattice) logarithm of how likely each t makes the scores."""
        ratio = np.exp(points)[:, None]
        total = self.xi**2 * ratio + 1 + self.s2 * len(self.xi) * ratio
        energy = self.scores.T[chunk] ** 2 / self.r2[chunk, None]
        found: Floats = -0.5 * (energy @ (1 / total).T + np.log(total).sum(axis=1))
        return found


def _check_levels(layout: Layout, features: Sequence[int]) -> None:
    levels: dict[int, set[int]] = {}
    for index, variable in enumerate(layout.variables, 1):
        if variable.level:
            levels.setdefault(variable.column, set()).add(index)
    if any(group <= set(features) for group in levels.values()):
        raise determined(len(features))


def determined(count: int) -> InvalidInput:
    """The refusal of features that determine each other."""
    return InvalidInput(f"the {count} features determine each other; fit fewer features, and none that repeats others")
