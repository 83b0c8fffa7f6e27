"""The paper's Table 1 (and Figure 3b): test losses of every method on its five tables.

BGM, DGM and RMGM are as published: attributes in [0, 1], noise for |x| <= 1, no intercept; the paper's k, the best of five by
the test loss, is an oracle's, outside the privacy guarantee. The default and moments take the same columns with their range
[0, 1] declared, and fit an intercept. The default's request gives the outcome the weight that `coordinator plan` advises, from
n, the parties' columns and (epsilon, delta) alone (`comparison.outcome_weight`). Blocks keep (epsilon, delta) for each party's
block, moments for the whole row. The constant predictor is the exact mean of the private outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from benchmarks.common import exact_releases as exact
from benchmarks.common.block_releases import Blocks, least_squares, squared_error
from benchmarks.common.paper_data import PaperTable
from benchmarks.paper_multiparty.synthetic import (
    described,
    joint_model,
    ratio,
    ridge,
    smallest_eigenvalue,
    standardised,
)
from dprelease.arrays import Floats
from dprelease.estimators.baselines.plain import debiased, mixed_least_squares
from dprelease.estimators.baselines.plain import least_squares as biased

OUTPUTS = (100, 300, 1000, 3000, 10_000)
"""k that the paper tries."""
MOST_DRAWN = 300_000
"""Cells of the largest table whose every cell gets noise of its own in an exact run: the sampler takes 10 us for each."""
MOST_MIXED = 4_000_000_000
"""k n p of the largest mix as published of an exact run: a few seconds."""
REFERENCES = ("ols", "constant", "zero")


@dataclass
class Losses:
    """Test losses on one table at one epsilon.

    Attributes:
        table: which.
        epsilon: of the releases.
        splits: of the table; each has as many releases as any other, one split after another.
        losses: method to the loss of each release, fewer for moments; ``rmgm k`` for each k.
        references: ``ols`` (with an intercept), ``constant`` and ``zero``: for each of `losses`, what the same split gives.
        hessians: ``dgm`` and ``rmgm k`` to (smallest |eigenvalue|, distance to least squares) of each release.
        exact: method to how far one release by the library itself is from simulated ones, in standard errors.
    """

    table: PaperTable
    epsilon: float
    splits: int
    losses: dict[str, list[float]] = field(default_factory=dict)
    references: dict[str, list[float]] = field(default_factory=dict)
    hessians: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    exact: dict[str, float] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> Blocks:
        """Shape and epsilon of the releases; of columns in [0, 1] the default's are brought to [-1, 1]."""
        return Blocks.for_outcome(self.table.rows, exact.declared(self.table.widths, -1.0), self.epsilon)

    @property
    def outputs(self) -> int:
        """k with the least mean test loss."""
        return min(OUTPUTS, key=lambda k: float(np.mean(self.losses[f"rmgm {k}"])))

    def of(self, method: str) -> Floats:
        """Losses of a method's releases; of ``rmgm`` with the best k."""
        known = self.references if method in REFERENCES else self.losses
        return np.array(known[f"rmgm {self.outputs}" if method == "rmgm" else method])

    def loss(self, method: str) -> float:
        """Mean test loss, for DGM the median."""
        return float(np.median(self.of(method)) if method == "dgm" else self.of(method).mean())

    def against_rmgm(self) -> tuple[float, float]:
        """The default's loss over RMGM's with the best k, and the standard error."""
        return ratio(self.of("default"), self.of("rmgm"))

    def against_rmgm_by_split(self) -> list[float]:
        """The same on each split alone, the oracle's k being that of all."""
        own, other = (np.split(self.of(name), self.splits) for name in ("default", "rmgm"))
        return [ratio(*pair)[0] for pair in zip(own, other, strict=True)]

    def against_each_rmgm(self) -> tuple[float, float]:
        """The same where the oracle chooses k for each release anew."""
        return ratio(self.of("default"), np.min([self.losses[f"rmgm {k}"] for k in OUTPUTS], axis=0))

    def against_constant(self, method: str) -> tuple[float, float]:
        """A method's loss over that of the constant predictor, on the same splits."""
        constant = np.array(self.references[f"constant of {method}"])
        return ratio(self.of(method), constant)

    def plain(self) -> dict[str, object]:
        """JSON-ready."""
        losses = {name: described(values) for name, values in self.losses.items()}
        shape = {"n": self.table.rows, "d": self.table.features, "m": self.table.parties}
        shape["weight of the outcome"] = max(self.blocks.weights.values())
        by_split = {"default over RMGM by split": self.against_rmgm_by_split()}
        found = {"oracle k": self.outputs, **by_split, "losses": losses, "exact run, standard errors off": self.exact}
        references = {name: self.loss(name) for name in REFERENCES}
        source = {"table": self.table.name, "source": self.table.source, "epsilon": self.epsilon}
        return {**source, **shape, **references, **found}


@dataclass(frozen=True)
class Split:
    """Second moments of one split of a table, per row, of (1, columns).

    Attributes:
        train: of the private rows.
        test: of the others.
        scaled: of the private rows brought to [-1, 1].
    """

    train: Floats
    test: Floats
    scaled: Floats

    @classmethod
    def of(cls, train: Floats, test: Floats) -> Split:
        """From rows in [0, 1]."""
        private = _moments(train)
        turn = 2 * np.eye(len(private))
        turn[0] = -1
        turn[0, 0] = 1
        return cls(private, _moments(test), turn.T @ private @ turn)

    def loss(self, offset: float, weights: Floats) -> float:
        """Test loss of a model in the units of the table."""
        return squared_error(self.test, offset, weights)

    def scaled_loss(self, offset: float, weights: Floats) -> float:
        """Test loss of a model of columns in [-1, 1]."""
        return self.loss((1 + offset - float(weights.sum())) / 2, weights)


def measure(
    table: PaperTable, epsilons: tuple[float, ...], splits: int, releases: int, joint: dict[float, int]
) -> list[Losses]:
    """Losses for every epsilon, and an exact run at the first one.

    Args:
        table: which.
        epsilons: of the releases.
        splits: of the table into rows to train and to test on, or generated tables.
        releases: of each.
        joint: epsilon to releases of moments of each.
    """
    found = [Losses(table, epsilon, splits) for epsilon in epsilons]
    for seed in range(splits):
        train, test = table.draw(seed)
        split, random = Split.of(train, test), np.random.default_rng([20260203, table.rows, seed])
        for losses in found:
            for release in range(releases):
                _add(losses, split, random, joint=release < joint[losses.epsilon])
        if not seed:
            found[0].exact = _exact(found[0], train, split)
    return found


def _add(losses: Losses, split: Split, random: np.random.Generator, *, joint: bool) -> None:
    table, published = losses.table, losses.blocks

    def note(name: str, loss: float) -> None:
        losses.losses.setdefault(name, []).append(loss)

    rows, best = published.published_rows(split.train, random), ridge(split.train)
    solutions = {"bgm": biased(rows), "dgm": debiased(rows)}
    for outputs in OUTPUTS:
        solutions[f"rmgm {outputs}"] = mixed_least_squares(published.published_mix(split.train, outputs, random))
    for name, solution in solutions.items():
        weights = solution.weights[:, 0]
        note(name, split.loss(0.0, weights))
        distance = float(np.linalg.norm(weights - best))
        losses.hessians.setdefault(name, []).append((smallest_eigenvalue(solution), distance))
    own = published.default(split.scaled, random)
    note("default", split.scaled_loss(float(own.offsets[0]), own.weights[:, 0]))
    none = np.zeros(table.features)
    constant = split.loss(float(split.train[0, -1]), none)
    known = {"ols": split.loss(*least_squares(split.train)), "constant": constant, "zero": split.loss(0.0, none)}
    known["constant of default"] = constant
    if joint:
        offset, weights, mean = joint_model(split.scaled, table.rows, table.parties, losses.epsilon, random)
        note("moments", split.scaled_loss(offset, weights))
        note("constant from moments", split.scaled_loss(mean, none))
        known["constant of moments"] = constant
    for name, loss in known.items():
        losses.references.setdefault(name, []).append(loss)


def _exact(losses: Losses, train: Floats, split: Split) -> dict[str, float]:
    table, epsilon = losses.table, losses.epsilon
    plain, ranged = (exact.declared(table.widths, lower) for lower in (-1.0, 0.0))
    outputs = max(k for k in OUTPUTS if k <= min(table.rows, 1000) and k * train.size <= MOST_MIXED)
    models = {f"rmgm {outputs}": exact.published_models(train, plain, epsilon, ["rmgm"], outputs)[0]}
    if train.size <= MOST_DRAWN:
        models["bgm"], models["dgm"] = exact.published_models(train, plain, epsilon, ["bgm", "dgm"])
    models["default"] = exact.default_model(train, ranged, epsilon, losses.blocks.weights)
    models["moments"] = exact.moments_model(train, ranged, epsilon)
    return {
        name: standardised(split.loss(*model), losses.losses[name])
        for name, model in models.items()
        if len(losses.losses[name]) > 2
    }


def _moments(rows: Floats) -> Floats:
    """(1/n) [1 D]^T [1 D], without a copy of the rows."""
    mean = rows.mean(axis=0)
    found = np.empty((rows.shape[1] + 1,) * 2)
    found[0, 0], found[0, 1:], found[1:, 0], found[1:, 1:] = 1.0, mean, mean, rows.T @ rows / len(rows)
    return found
