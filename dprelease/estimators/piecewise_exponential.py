"""Piecewise exponential model of exits with losses, fitted to sums of patients that have privacy noise.

In interval k, w long, a patient of group g leaves at constant rates, one for each cause of an event and one for losses.
Leaving has the probability 1 - exp(-R w), R the sum of rates, and a rate's share r/R of it. So every cell of exit and
group has its probability p in closed form, and sums of cells A p are observed as

    y ~ N(n A p, n (A diag(p) A' - Ap (Ap)') + diag(s^2)):

sampling and privacy noise at once, negative counts included. Parameters are log rates of the first group, log ratios of the
others, and logits of the groups' shares. A priori log rates walk with a standard deviation of .7 an interval, and log ratios
of events and of losses are N(0, 3^2): a narrower law of losses draws ratios of events to 1 if groups lose at different rates.
Losses depart from their ratio by .5 in each interval, and events by .8 unless hazards are proportional: with less, bands fail
where hazards cross. The mode is found by damped Gauss-Newton steps; the law of the parameters is normal about it, with the
inverse of the last Hessian.

Sources: Friedman 1982; Holford 1980. Competing causes: Prentice et al. 1978.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dprelease.arrays import Floats

WALK, APART, LOST_APART = 0.7, 0.8, 0.5
VAGUE_SD = 3.0
"""Spread of log rates, of log ratios, and of logits of shares about those that the sums have by themselves."""
LATER_SD = 1.0
"""Spread of what groups differ by after the last cut, where each may be followed for another time."""
STEPS, LONGEST, CLOSE = 60, 2.0, 1e-4
LEAST_EVENTS = 5.0
"""A start has as many events of each kind."""
LEAST_SHARE = 0.005
CALM = 0.01
"""Patients: the least noise of a sum, which keeps the covariance invertible where there is none."""
DIFFERENCE = 1e-5


@dataclass(frozen=True)
class Exponential:
    """The cells of the model: rows of exits by groups.

    Rows are (c, k) for each cause and interval, (left, k), who was followed to the end, and the missing; the last two once without
    and once with an event after the last cut, or unseen, where `later`.

    Attributes:
        cuts: (K,) ends of the intervals, increasing.
        causes: C.
        groups: G; the first is the one that others are compared with.
        proportional: whether ratios of events are the same in all intervals.
        missing: whether there is a row for exits that are not known.
        later: whether events of the last rows are told apart.
    """

    cuts: tuple[float, ...]
    causes: int = 1
    groups: int = 1
    proportional: bool = True
    missing: bool = False
    later: bool = False

    @property
    def width(self) -> Floats:
        """(K,) lengths of the intervals."""
        return np.diff([0.0, *self.cuts])

    @property
    def _ends(self) -> int:
        return 1 + self.later

    @property
    def rows(self) -> int:
        """Rows of cells."""
        return (self.causes + 1) * len(self.cuts) + self._ends * (1 + self.missing)

    @cached_property
    def levels(self) -> Floats:
        """(levels of the exit, rows) which rows each level is made of."""
        gone = (self.causes + 1) * len(self.cuts)
        found = np.zeros((gone + 1 + self.missing, self.rows))
        found[:gone, :gone] = np.eye(gone)
        for place in range(1 + self.missing):
            found[gone + place, gone + place * self._ends : gone + (place + 1) * self._ends] = 1.0
        return found

    def signs(self, of_causes: Sequence[float]) -> Floats:
        """(rows,) the cells of a binary that is the event, +1 or -1, where `later`.

        Args:
            of_causes: (C,) its value for an event of each cause.
        """
        ends = [-1.0, 1.0] * (1 + self.missing)
        count = len(self.cuts)
        found: Floats = np.r_[np.repeat(np.asarray(of_causes, float), count), -np.ones(count), ends]
        return found

    @cached_property
    def rates(self) -> Floats:
        """(C + 1, G, K, q) log rates as a linear map of the first q parameters; losses come last."""
        count, kinds = len(self.cuts), self.causes + 1
        free = [count if kind == self.causes or not self.proportional else 1 for kind in range(kinds)]
        found = np.zeros((kinds, self.groups, count, kinds * count + sum(free) * (self.groups - 1)))
        at = kinds * count
        for kind in range(kinds):
            found[kind, :, :, kind * count : (kind + 1) * count] = np.eye(count)
            for group in range(1, self.groups):
                found[kind, group, :, at : at + free[kind]] = np.eye(count) if free[kind] == count else 1.0
                at += free[kind]
        return found

    @property
    def size(self) -> int:
        """Number of parameters."""
        return int(self.rates.shape[-1]) + self._shares + self._laters

    @property
    def _shares(self) -> int:
        return self.groups * (1 + self.missing) - 1

    @property
    def _laters(self) -> int:
        return self.later * (self.groups + self.missing)

    def log_rates(self, theta: Floats) -> Floats:
        """(B, C + 1, G, K) of (B, size) parameters."""
        found: Floats = np.einsum("cgkq,bq->bcgk", self.rates, theta[:, : self.rates.shape[-1]])
        return found

    def cells(self, theta: Floats) -> Floats:
        """(B, rows, G) probabilities of (B, size) parameters."""
        batch, q = len(theta), self.rates.shape[-1]
        rate = np.exp(np.clip(self.log_rates(theta), -40.0, 40.0))
        whole = rate.sum(axis=1)
        passed = np.cumsum(whole * self.width, axis=2)
        start = np.exp(-np.concatenate([np.zeros_like(passed[..., :1]), passed[..., :-1]], axis=2))
        gone = rate / whole[:, None] * (start * -np.expm1(-whole * self.width))[:, None]
        logits = np.concatenate([np.zeros((batch, 1)), theta[:, q : q + self._shares]], axis=1)
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share = (share / share.sum(axis=1, keepdims=True)).reshape(batch, 1 + self.missing, self.groups)
        ends = [np.exp(-passed[..., -1]) * share[:, 0], *([share[:, 1]] if self.missing else [])]
        rows = (gone * share[:, 0, None, :, None]).transpose(0, 1, 3, 2).reshape(batch, -1, self.groups)
        if self.later:
            part = 1 / (1 + np.exp(-theta[:, q + self._shares :]))
            parts = [part[:, : self.groups], part[:, self.groups :]]
            ends = [each * some for each, odds in zip(ends, parts, strict=False) for some in (1 - odds, odds)]
        return np.concatenate([rows, np.stack(ends, axis=1)], axis=1)

    def precision(self) -> Floats:
        """(size, size) of the prior."""
        count, q = len(self.cuts), self.rates.shape[-1]
        found = np.diag(np.full(self.size, VAGUE_SD**-2))
        steps = np.diff(np.eye(count), axis=0) / WALK
        walk = steps.T @ steps + np.full((count, count), (count * VAGUE_SD) ** -2)
        at = (self.causes + 1) * count
        found[:at, :at] = np.kron(np.eye(self.causes + 1), walk)
        for kind in range(self.causes + 1):
            free = 1 if self.proportional and kind < self.causes else count
            apart = LOST_APART if kind == self.causes else APART
            spread = np.full((free, free), VAGUE_SD**2) + (apart**2 * np.eye(free) if free > 1 else 0.0)
            for _ in range(self.groups - 1):
                found[at : at + free, at : at + free] = np.linalg.inv(spread)
                at += free
        if self.later and self.groups > 1:
            at = q + self._shares
            together = np.full((self.groups,) * 2, VAGUE_SD**2) + LATER_SD**2 * np.eye(self.groups)
            found[at : at + self.groups, at : at + self.groups] = np.linalg.inv(together)
        return found


@dataclass
class CellSums:
    """Observed sums of cells: u' N v, N the (rows, G) numbers of patients."""

    _rows: list[Floats] = field(default_factory=list)
    _values: list[tuple[float, float]] = field(default_factory=list)

    def add(self, of_rows: Floats, of_groups: Floats, value: float, noise: float) -> None:
        """Add one.

        Args:
            of_rows: (rows,) u.
            of_groups: (G,) v.
            value: the sum, patients.
            noise: the standard deviation of its noise.
        """
        self._rows.append(np.outer(of_rows, of_groups).ravel())
        self._values.append((value, max(noise, CALM)))

    @property
    def design(self) -> Floats:
        """(m, rows G) A."""
        return np.array(self._rows)

    @property
    def values(self) -> Floats:
        """(m,) y."""
        return np.array([value for value, _ in self._values])

    @property
    def noise(self) -> Floats:
        """(m,) s."""
        return np.array([noise for _, noise in self._values])


@dataclass(frozen=True, eq=False)
class ExponentialFit:
    """The normal law of the parameters.

    Attributes:
        model: what was fitted.
        theta: (size,) the mode.
        covariance: (size, size).
        noise: (size, size) the part of it that the noise of the sums makes.
        count: (rows, G) the expected numbers of these patients, given the sums.
        count_covariance: (rows G, rows G) what noise leaves open of them.
    """

    model: Exponential
    theta: Floats
    covariance: Floats
    noise: Floats
    count: Floats
    count_covariance: Floats

    def ratios(self, cause: int) -> tuple[Floats, Floats, Floats]:
        """((G - 1,), (G - 1, G - 1), (G - 1, G - 1)) log ratios to the first group, covariance, and the noise's part of it."""
        first = (self.model.causes + 1) * len(self.model.cuts) + cause * (self.model.groups - 1)
        at = slice(first, first + self.model.groups - 1)
        return self.theta[at], self.covariance[at, at], self.noise[at, at]

    def parameters(self, normals: Floats) -> Floats:
        """(B, size) parameters of their law, from standard normals (B, size)."""
        values, vectors = np.linalg.eigh(self.covariance)
        found: Floats = self.theta + normals * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        return found


def fit_exponential(
    model: Exponential, sums: CellSums, patients: int, margin: Floats, shares: Floats, later: float = LEAST_SHARE
) -> ExponentialFit:
    """Mode of the parameters and their law.

    Args:
        model: the cells.
        sums: what was released of them.
        patients: n.
        margin: (levels,) numbers of patients at each level of the exit, to start from; may be negative.
        shares: (G,) of the groups, to start from.
        later: share with an event among those who were followed to the end, to start from.
    """
    design, observed, noise = sums.design, sums.values, sums.noise
    centre, precision = _start(model, margin, shares, later), model.precision()

    def expected(theta: Floats) -> Floats:
        return patients * model.cells(theta).reshape(len(theta), -1) @ design.T

    def cost(theta: Floats) -> float:
        away, apart = observed - expected(theta[None])[0], theta - centre
        return float(away @ weight @ away + apart @ precision @ apart)

    theta, damping, hessian = centre.copy(), 1e-3, precision
    for _ in range(STEPS):
        weight = np.asarray(np.linalg.inv(_spread(model, theta, design, noise, patients)), np.float64)
        ahead, behind = np.split(expected(_around(theta)), 2)
        slope = (ahead - behind).T / (2 * DIFFERENCE)
        gradient = slope.T @ weight @ (observed - expected(theta[None])[0]) - precision @ (theta - centre)
        hessian = slope.T @ weight @ slope + precision
        before, largest = cost(theta), 0.0
        for _ in range(12):
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            step *= min(1.0, LONGEST / np.abs(step).max())
            if cost(theta + step) <= before + 1e-9:
                theta, damping, largest = theta + step, max(damping / 5, 1e-9), float(np.abs(step).max())
                break
            damping *= 6
        if largest < CLOSE:
            break
    covariance = np.asarray(np.linalg.inv(hessian), np.float64)
    moved = covariance @ slope.T @ weight * noise  # by one standard deviation of each sum's noise, to first order
    share = model.cells(theta[None])[0].ravel()
    spread = patients * (np.diag(share) - np.outer(share, share))
    gain = spread @ design.T @ np.linalg.inv(_spread(model, theta, design, noise, patients))
    count: Floats = patients * share + gain @ (observed - patients * design @ share)
    # What noise leaves open where the parameters are known, and what these leave open.
    ahead, behind = np.split(model.cells(_around(theta)).reshape(2 * model.size, -1), 2)
    moves = patients * (ahead - behind).T / (2 * DIFFERENCE)
    moves = moves - gain @ design @ moves
    left: Floats = spread - gain @ design @ spread + moves @ covariance @ moves.T
    return ExponentialFit(model, theta, covariance, moved @ moved.T, count.reshape(model.rows, model.groups), left)


def _around(theta: Floats) -> Floats:
    """(2 size, size) parameters a step ahead, and a step behind."""
    step = DIFFERENCE * np.eye(len(theta))
    return theta + np.vstack([step, -step])


def _spread(model: Exponential, theta: Floats, design: Floats, noise: Floats, patients: int) -> Floats:
    """Covariance of the observed sums."""
    share = np.maximum(model.cells(theta[None])[0].ravel(), 1e-9)
    mean = design @ share
    found: Floats = patients * (design * share @ design.T - np.outer(mean, mean)) + np.diag(noise**2)
    return found


def _start(model: Exponential, margin: Floats, shares: Floats, later: float) -> Floats:
    count, kinds = len(model.cuts), model.causes + 1
    theta = np.zeros(model.size)
    gone = np.maximum(margin[: kinds * count].reshape(kinds, count), 1.0)
    leaving, end = gone.sum(axis=0), max(margin[kinds * count], 1.0)
    risk = np.cumsum(leaving[::-1])[::-1] + end
    time = float(((risk - leaving / 2) * model.width).sum())
    total = np.maximum(margin[: kinds * count].reshape(kinds, count).sum(axis=1), LEAST_EVENTS)
    theta[: kinds * count] = np.repeat(np.log(total / time), count)
    known = np.clip(shares, LEAST_SHARE, 1.0)
    if model.missing:
        part = np.clip(margin[-1] / margin.sum(), LEAST_SHARE, 1 - LEAST_SHARE)
        known = np.r_[known * (1 - part), known * part]
    at = model.rates.shape[-1]
    theta[at : at + len(known) - 1] = np.log(known[1:] / known[0])
    odds = np.clip(later, LEAST_SHARE, 1 - LEAST_SHARE)
    theta[at + len(known) - 1 :] = np.log(odds / (1 - odds))
    return theta
