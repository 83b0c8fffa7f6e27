"""Ways to synthetic rows on one trusted machine that has all columns, written from their papers in a few lines.

Both protect a whole row under replace-one, as a Gaussian mechanism of the same mu would, with rho = mu^2 / 2.

    MST       a spanning tree of pairs chosen by the exponential mechanism, each measured once (McKenna, Miklau, Sheldon 2021).
              Values below three standard deviations are one. Tables of the tree are clipped at 0 and raked to margins.
    AIM loop  again and again measure the pair that the model gives worst, chosen by the exponential mechanism, with budgets that
              grow where a round changes little (McKenna et al. 2022); the model is our mixture and not a junction tree.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from benchmarks.tables.data import Coded, indicators
from dprelease.arrays import Floats, Integers
from dprelease.estimators.joint.coding import Attribute, Entries
from dprelease.estimators.joint.fit import SPREAD, Descent, descend, price_of
from dprelease.estimators.joint.model import Joint
from dprelease.privacy.public_stream import PublicNormals

ROUNDS = 4
"""Rounds of AIM's loop for each column."""
_FIRST, _AGAIN, _LAST = Descent(100, 0.1, 300), Descent(100, 0.1, 80), Descent(100, 0.1, 1000)
_L2 = np.sqrt(2)  # of a table when one row is replaced


def mst(table: Coded, codes: Integers, count: int, mu: float, random: np.random.Generator) -> Integers:
    """Rows by MST.

    Args:
        table: names and sizes.
        codes: (n, A) the people.
        count: rows.
        mu: budget.
        random: of noise, choice and rows.
    """
    rho, columns, n = mu**2 / 2, len(table.sizes), len(codes)
    sd = _L2 * np.sqrt(3 * columns / (2 * rho))
    noisy = [
        np.bincount(own, minlength=size) + sd * random.normal(size=size)
        for own, size in zip(codes.T, table.sizes, strict=True)
    ]
    kept = [np.flatnonzero(margin >= 3 * sd) for margin in noisy]
    maps = [_merged(size, own) for size, own in zip(table.sizes, kept, strict=True)]
    small = np.column_stack([mapping[own] for mapping, own in zip(maps, codes.T, strict=True)])
    sizes = [int(mapping.max()) + 1 for mapping in maps]
    margins = [
        _shares(np.bincount(mapping, own, size).astype(np.float64))
        for mapping, own, size in zip(maps, noisy, sizes, strict=True)
    ]
    tables = {(i, j): _counts(small, i, j, sizes) for i, j in itertools.combinations(range(columns), 2)}
    gain = {
        pair: np.abs(found - n * np.outer(margins[pair[0]], margins[pair[1]])).sum() for pair, found in tables.items()
    }
    each = np.sqrt(8 * (rho / 3) / (columns - 1))
    sd = _L2 * np.sqrt(3 * (columns - 1) / (2 * rho))
    group, edges = list(range(columns)), []
    for _ in range(columns - 1):
        open_ = [pair for pair in gain if group[pair[0]] != group[pair[1]]]
        first, second = _exponential(open_, np.array([gain[pair] for pair in open_]), each, 2.0, random)
        found = tables[first, second] + sd * random.normal(size=(sizes[first], sizes[second]))
        edges.append((first, second, _raked(found, margins[first], margins[second])))
        group = [group[first] if own == group[second] else own for own in group]
    rows = _down(margins, edges, count, random)
    return np.column_stack([_apart(own, mapping, random) for own, mapping in zip(rows.T, maps, strict=True)])


def _merged(size: int, kept: Integers) -> Integers:
    """(L,) the new value of each; all that are not kept are the last one."""
    found = np.full(size, len(kept))
    found[kept] = np.arange(len(kept))
    return found


def _apart(own: Integers, mapping: Integers, random: np.random.Generator) -> Integers:
    found = np.empty(len(own), np.int64)
    for value in range(int(mapping.max()) + 1):
        at = np.flatnonzero(own == value)
        found[at] = random.choice(np.flatnonzero(mapping == value), len(at))
    return found


def _shares(counts: Floats) -> Floats:
    positive = np.maximum(counts, 1e-3)
    found: Floats = positive / positive.sum()
    return found


def _counts(codes: Integers, first: int, second: int, sizes: Sequence[int]) -> Floats:
    flat = np.bincount(codes[:, first] * sizes[second] + codes[:, second], minlength=sizes[first] * sizes[second])
    return flat.reshape(sizes[first], sizes[second]).astype(np.float64)


def _raked(noisy: Floats, rows: Floats, columns: Floats) -> Floats:
    found = np.maximum(noisy, 1e-3)
    for _ in range(50):
        found = found * (rows / found.sum(axis=1))[:, None]
        found = found * (columns / found.sum(axis=0))
    return found


def _down(
    margins: list[Floats], edges: list[tuple[int, int, Floats]], count: int, random: np.random.Generator
) -> Integers:
    """Rows of a Markov tree, from its first column on."""
    found = np.full((count, len(margins)), -1, np.int64)
    found[:, 0] = random.choice(len(margins[0]), count, p=margins[0])
    left = list(edges)
    while left:
        at = next(place for place, (first, second, _) in enumerate(left) if (found[0, [first, second]] >= 0).any())
        first, second, cells = left.pop(at)
        if found[0, first] < 0:
            first, second, cells = second, first, cells.T
        cumulated = np.cumsum(cells, axis=1)[found[:, first]]
        found[:, second] = (random.uniform(size=count)[:, None] * cumulated[:, -1:] > cumulated[:, :-1]).sum(axis=1)
    return found


def _exponential(
    candidates: Sequence[tuple[int, int]], quality: Floats, epsilon: float, moved: float, random: np.random.Generator
) -> tuple[int, int]:
    weights = 0.5 * epsilon / moved * (quality - quality.max())
    chance = np.exp(weights)
    return candidates[random.choice(len(candidates), p=chance / chance.sum())]


class _Measured:
    """All that AIM's loop has measured, with the precision of each entry."""

    def __init__(self, table: Coded, codes: Integers) -> None:
        self.places = np.concatenate([[1], 1 + np.cumsum(table.sizes)])
        x = np.hstack(
            [np.ones((len(codes), 1)), *(indicators(own, size) for own, size in zip(codes.T, table.sizes, strict=True))]
        )
        self.exact, self.rows = x.T @ x, len(codes)
        self.sums, self.noise = np.zeros_like(self.exact), np.full(self.exact.shape, np.inf)
        self.table = table

    def of(self, column: int) -> Integers:
        """Places of a column's values; of the constant for -1."""
        return np.array([0]) if column < 0 else np.arange(self.places[column], self.places[column + 1])

    def add(self, first: int, second: int, sd: float, random: np.random.Generator) -> None:
        """Measure a table, and put it together with what was known of it."""
        at = np.ix_(self.of(first), self.of(second))
        seen = self.exact[at] + sd * random.normal(size=self.exact[at].shape)
        before, new = self.noise[at] ** -2.0, sd**-2.0
        self.sums[at] = (self.sums[at] * before + seen * new) / (before + new)
        self.noise[at] = (before + new) ** -0.5
        self.sums.T[at], self.noise.T[at] = self.sums[at], self.noise[at]

    def entries(self, typical: float) -> Entries:
        """The entries for a fit."""
        margins = [
            np.maximum(self.sums[0, self.of(at)] / self.rows, 0.3 * typical / self.rows + 1e-4)
            for at in range(len(self.table.sizes))
        ]
        attributes = tuple(
            Attribute(column, column.values, margin / margin.sum(), np.eye(len(margin)), tuple(self.of(at).tolist()))
            for at, (column, margin) in enumerate(zip(self.table.columns, margins, strict=True))
        )
        share = float(np.isfinite(self.noise[np.triu_indices(len(self.noise), 1)]).mean())
        return Entries(
            attributes, self.rows, self.sums.copy(), self.noise.copy(), typical, max(share, 1 / len(attributes))
        )


def aim_loop(table: Coded, codes: Integers, mu: float, random: np.random.Generator) -> Joint:
    """The model that AIM's loop ends with. Arguments as of `mst`."""
    rho, columns = mu**2 / 2, len(table.sizes)
    measured, rounds = _Measured(table, codes), ROUNDS * columns
    sigma, epsilon = np.sqrt(rounds / (2 * 0.9 * rho)), np.sqrt(8 * 0.1 * rho / rounds)
    used = columns * 0.5 / sigma**2
    for column in range(columns):
        measured.add(-1, column, _L2 * sigma, random)
    start = _fitted(measured, sigma, None, _FIRST)
    model, done = start, False
    pairs = list(itertools.combinations(range(columns), 2))
    while not done:
        if rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            left = max(rho - used, 1e-9)
            sigma, epsilon, done = np.sqrt(1 / (2 * 0.9 * left)), np.sqrt(8 * 0.1 * left), True
        used += epsilon**2 / 8 + 0.5 / sigma**2
        guess, by_noise = measured.rows * model.moments(), np.sqrt(2 / np.pi) * _L2 * sigma
        at = {pair: np.ix_(measured.of(pair[0]), measured.of(pair[1])) for pair in pairs}
        quality = np.array(
            [np.abs(measured.exact[at[p]] - guess[at[p]]).sum() - by_noise * guess[at[p]].size for p in pairs]
        )
        chosen = _exponential(pairs, quality, epsilon, 2.0, random)
        measured.add(*chosen, _L2 * sigma, random)
        model = _fitted(measured, sigma, model, _AGAIN)
        moved = np.abs(measured.rows * model.moments() - guess)[at[chosen]]
        if moved.sum() <= by_noise * moved.size:
            sigma, epsilon = sigma / 2, 2 * epsilon
    return _fitted(measured, sigma, None, _LAST)


def _fitted(measured: _Measured, sigma: float, before: Joint | None, plan: Descent) -> Joint:
    entries = measured.entries(_L2 * sigma)
    if before is None:
        logits = np.log(entries.start) + SPREAD * PublicNormals(bytes(32)).normal(plan.components, len(entries.start))
        weights = np.zeros(plan.components)
    else:
        logits, weights = np.log(before.shares + 1e-300), np.log(before.weights + 1e-300)
    return descend(entries, entries.sums, logits, weights, price_of(entries, "rows"), plan)
