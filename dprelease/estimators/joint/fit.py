"""The mixture of products nearest to released moments, with their own noise: Adam on logits.

    loss = sum over released entries (n M - G)^2 / (2 s^2)  +  price sum_k w_k sum_a KL(theta_ka | mean of theta_a over k)

M are the model's moments, G the released sums, s their noise. The penalty is what components know about columns, and draws
towards independence. For rows the price is 0.36 A (n / s)^0.7, A the number of columns and s that of a typical entry: it gave the
least error of tables. For coefficients and intervals it is 0.05 (n / s)^0.7, and the fit goes on until chi^2 no longer changes: a
fit that stops early draws coefficients towards 0. The price falls by the part of entries that are not released. For rows, sums
of two columns are first drawn to those of unrelated ones as far as noise alone would have them apart (`_calmed`).

Randomness is public and expanded from a seed. The same seed and numbers give the same bits on one machine whatever threads
it has, for the fit runs on one.

The error that privacy noise leaves in a quantity comes from refits to the model's own moments with fresh noise. With q the quantity
of the model, u its textbook error as of n rows and q_i those of m refits, the variance of q is

    u^2 + (1 + 1/m) mean (q_i - q)^2,

around q itself, so that what a fit draws towards 0 widens the interval too. One set of rows analysed as if it were data held the
truth in 13 to 80 of 100 intervals instead of 95.

Source: Kingma and Ba (2015) for Adam; prices were measured on real tables (docs/benchmarks.md). For refits Raghunathan, Reiter and
Rubin (2003) have the form, and Raisa et al. (2023) inference that knows the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from dprelease.arrays import Floats
from dprelease.canonical import sha256
from dprelease.estimators.joint.coding import NO_ENDS, Ends, Entries
from dprelease.estimators.joint.model import Joint
from dprelease.mechanisms.moments.released import Moments
from dprelease.privacy.public_stream import PublicNormals
from dprelease.release.release import Release
from dprelease.threads import one_thread

Purpose = Literal["rows", "intervals"]
"""The use of a model: rows that look like patients, or the coefficients of later fits and their intervals."""

SPREAD = 0.5
"""Standard deviation of logits about those of the margins at the start."""
CALM = 0.4
"""Part of what noise makes of a pair's chi^2 that counts as nothing; with 1, tables of related columns are worse."""
_FIRST, _SECOND, _TINY = 0.9, 0.99, 1e-12


class Descent(NamedTuple):
    """How a fit runs.

    Attributes:
        components: K.
        step: of Adam at the start; it falls by a cosine to almost 0.
        steps: how many.
        settled: change of chi^2 an entry in `EVERY` steps below which the second half ends early; 0 to go on.
    """

    components: int
    step: float
    steps: int
    settled: float = 0.0


DESCENTS: dict[Purpose, Descent] = {"rows": Descent(100, 0.1, 1000), "intervals": Descent(80, 0.3, 3000, 1e-4)}
EVERY = 100


def price_of(entries: Entries, purpose: Purpose) -> float:
    """The penalty's price by the rule."""
    each = 0.36 * len(entries.attributes) if purpose == "rows" else 0.05
    return each * math.pow(entries.rows / entries.typical, 0.7) * entries.share


def fit_joint(
    moments: Moments, purpose: Purpose, seed: bytes, *, components: int | None = None, ends: Ends = NO_ENDS
) -> Joint:
    """The joint distribution of all columns of a release of moments.

    Args:
        moments: of a release, or of a stream's checkpoint.
        purpose: what it is for.
        seed: 32 public bytes.
        components: K; the purpose's own unless given.
        ends: as of `Entries.of`.

    Raises:
        InvalidInput: too many values, or too few patients beside the noise.
    """
    entries, plan = Entries.of(moments, ends), DESCENTS[purpose]
    count = plan.components if components is None else components
    logits = np.log(entries.start) + SPREAD * PublicNormals(seed).normal(count, len(entries.start))
    sums = _calmed(entries) if purpose == "rows" else entries.sums
    return descend(entries, sums, logits, np.zeros(count), price_of(entries, purpose), plan)


def _calmed(entries: Entries) -> Floats:
    """(q, q) sums whose distance from unrelated columns shrinks by what noise makes of it.

    With v the chi^2 of a pair that noise makes, the factor is 1 - CALM v / chi^2, or 0. Noise of margins stays: pairs tell them.

    Source: James, Stein 1961, Estimation with quadratic loss, for the factor.
    """
    sums, n = entries.sums.copy(), entries.rows
    for pair in combinations(entries.attributes, 2):
        places = [list(each.places[:1] if each.scored else each.places) for each in pair]
        at, noise = np.ix_(*places), [entries.noise[0, place] for place in places]
        means = [entries.sums[0, place] / n for place in places]
        free = sums[at] - n * np.outer(*means)
        chance = n * np.outer(*(np.clip(mean, 0.0, 1.0) if len(mean) > 1 else np.ones(1) for mean in means))
        variance = entries.noise[at] ** 2 + chance
        for mean, sd in zip(means, noise[::-1], strict=True):
            if len(mean) > 1:
                free = free - np.outer(mean, mean @ free) / (mean @ mean)
            else:
                variance = variance + np.outer(mean**2, sd**2)
            free, variance = free.T, variance.T
        by_noise = math.prod(max(len(mean) - 1, 1) for mean in means) * (1 - chance / variance).mean()
        sums[at] -= min(1.0, CALM * by_noise / max((free**2 / variance).sum(), CALM)) * free
        sums[at[::-1]] = sums[at]
    return sums


def seed_of(release: Release, label: str) -> bytes:
    """32 public bytes that belong to a release, to its checkpoint and to a use."""
    at = f"{release.digest} {release.upto} {label}"
    return bytes.fromhex(sha256(b"dprelease joint 1 " + at.encode()))


def joint_of(release: Release, purpose: Purpose) -> Joint:
    """The joint distribution of all columns of a release, the same whenever it is asked for.

    Args:
        release: a verified release of joint moments, or a checkpoint of a stream of them.
        purpose: what it is for.

    Raises:
        InvalidInput: a release without moments, too many values, or too few patients beside the noise.
    """
    ends = {each.name: (each.lower, each.upper) for each in release.reaches}
    return fit_joint(release.products, purpose, seed_of(release, purpose), ends=ends)


def descend(entries: Entries, sums: Floats, logits: Floats, weights: Floats, price: float, plan: Descent) -> Joint:
    """The model that Adam reaches from a start.

    Args:
        entries: places, codes and noise.
        sums: (q, q) what to come near to, in patients.
        logits: (K, P) of theta at the start.
        weights: (K,) logits of w.
        price: of the penalty.
        plan: how the fit runs.
    """
    work = _Work(entries, sums, price)
    state = [_Moving(logits.copy()), _Moving(weights.copy())]
    before, done = math.inf, 0
    with one_thread():
        for done in range(1, plan.steps + 1):
            chi2, *slopes = work.slopes(state[1].at, state[0].at)
            rate = plan.step * 0.5 * (1 + math.cos(math.pi * (done - 1) / plan.steps)) + 1e-4
            for each, slope in zip(state, slopes, strict=True):
                each.move(slope, rate, done)
            if done % EVERY == 0 and done > plan.steps / 2:
                if abs(before - chi2) < plan.settled:
                    break
                before = chi2
        w, theta = work.probabilities(state[1].at, state[0].at)
    return Joint(entries, w, theta, price, done)


class _Moving:
    """One array under Adam."""

    def __init__(self, at: Floats) -> None:
        self.at = at
        self._mean, self._square = np.zeros_like(at), np.zeros_like(at)

    def move(self, slope: Floats, rate: float, step: int) -> None:
        self._mean += (1 - _FIRST) * (slope - self._mean)
        self._square += (1 - _SECOND) * (slope * slope - self._square)
        scale = np.sqrt(self._square / (1 - _SECOND**step)) + _TINY
        self.at -= rate / (1 - _FIRST**step) * self._mean / scale


@dataclass(eq=False)
class _Work:
    """The loss of one fit."""

    entries: Entries
    sums: Floats
    price: float

    def __post_init__(self) -> None:
        entries = self.entries
        self.codes, self.offsets, self.owners = entries.codes, entries.offsets[:-1], entries.owners
        self.sizes = np.diff(entries.offsets)
        weight = np.where(np.isfinite(entries.noise), (entries.rows / entries.noise) ** 2, 0.0)
        np.fill_diagonal(weight, 0.0)
        self.weight, self.target = weight, self.sums / entries.rows
        self.count = max(1, entries.released.shape[1])

    def probabilities(self, weights: Floats, logits: Floats) -> tuple[Floats, Floats]:
        """w and theta."""
        w = np.exp(weights - weights.max())
        top = np.repeat(np.maximum.reduceat(logits, self.offsets, axis=1), self.sizes, axis=1)
        e = np.exp(logits - top)
        return w / w.sum(), e / np.repeat(e @ self.owners, self.sizes, axis=1)

    def slopes(self, weights: Floats, logits: Floats) -> tuple[float, Floats, Floats]:
        """Chi^2 an entry, and the slopes of the loss in the logits of theta and of w."""
        w, theta = self.probabilities(weights, logits)
        coded = theta @ self.codes.T
        off = (coded * w[:, None]).T @ coded - self.target
        pull = self.weight * off
        pulled = coded @ pull
        slope = (w[:, None] * pulled) @ self.codes
        own = 0.5 * (pulled * coded).sum(axis=1)
        if self.price:
            known = np.log((theta + 1e-9) / (w @ theta + 1e-9))
            slope += self.price * w[:, None] * known
            own += self.price * (theta * known).sum(axis=1)
        slope *= theta
        slope -= theta * np.repeat(slope @ self.owners, self.sizes, axis=1)
        return float((pull * off).sum()) / (2 * self.count), slope, w * (own - w @ own)


STEPS, STEP = 500, 0.15


def refits(joint: Joint, count: int, seed: bytes) -> list[Joint]:
    """Models of the same release as it would have come out with other noise, were the model the truth.

    Args:
        joint: fitted for intervals.
        count: m.
        seed: 32 public bytes, other than those of the fit.
    """
    entries, stream = joint.entries, PublicNormals(seed)
    rows, columns = entries.released
    own = entries.rows * joint.moments()
    logits, weights = np.log(joint.shares + 1e-300), np.log(joint.weights + 1e-300)
    found = []
    for _ in range(count):
        sums = own.copy()
        sums[rows, columns] += entries.noise[rows, columns] * stream.normal(len(rows))
        sums[columns, rows] = sums[rows, columns]
        found.append(descend(entries, sums, logits, weights, joint.price, Descent(len(weights), STEP, STEPS)))
    return found
