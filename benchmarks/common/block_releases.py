"""Releases of rows, mixed or not, simulated from the second moments of a table, and what methods find in them.

Only the law of D^T D matters to a fit, so no table is noised row by row:

    mixed   rows of B D / sqrt(k) are drawn from the normal law with the covariance D^T D / k, which explicit +-1 matrices
            follow closely, also at k < d (docs/methods.md, "Simulating releases of rows");
    rows    D = Q R with orthonormal Q, and normal noise is the same in all directions, so (D + N)^T (D + N) is
            (R + N_1)^T (R + N_1) plus a Wishart matrix of n - p degrees of freedom: exact.

The last column of a table is the outcome. As published, a party's noise is 2 sqrt(d_max) sigma with the classic sigma, which
asks for |x| <= 1 and takes no notice of narrower ranges, and there is no intercept. The default is what
`coordinator release create` proposes for columns in [-1, 1] and the same (epsilon, delta) for every party's block; with
`Blocks.for_outcome`, for a request that also weighs the outcome as `coordinator plan` advises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dprelease.arrays import Floats
from dprelease.data.columns import Column, private_weights, squared_sensitivity, weights_of
from dprelease.estimators.normal_equations import NormalEquations, RegressionRows
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.mechanisms.assumptions import PlannedFit, Scenario, draft_of
from dprelease.mechanisms.noisy_rows.calibration import MixingPlan, plan_mixing
from dprelease.planning.comparison import outcome_weight
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target

DELTA = 1e-5


@dataclass(frozen=True)
class Blocks:
    """Releases of one shape under one target.

    Attributes:
        patients: n.
        parties: party to its columns; all of them are p numbers in [-1, 1], the outcome last.
        epsilon: of each party's block, at `DELTA`.
        weights: column to weight in the default, where it is not 1.
    """

    patients: int
    parties: Mapping[str, tuple[Column, ...]]
    epsilon: float
    weights: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def for_outcome(cls, patients: int, parties: Mapping[str, tuple[Column, ...]], epsilon: float) -> Blocks:
        """Blocks that weigh the outcome as recommended, from the same public numbers and guesses as for anybody."""
        *features, outcome = (column.name for columns in parties.values() for column in columns)
        target = Target(scope="per-party", epsilon=epsilon, delta=DELTA)
        draft = draft_of(parties, patients, 1, target)
        setting = Scenario(draft, "mixed", PlannedFit(draft.everything, outcome, tuple(features)))
        return cls(patients, parties, epsilon, {outcome: outcome_weight(setting).weight})

    @cached_property
    def plan(self) -> MixingPlan:
        """k and rho of the default."""
        target = Target(scope="per-party", epsilon=self.epsilon, delta=DELTA)
        return plan_mixing(self.patients, dict(self.parties), target, weights=self.weights)

    @cached_property
    def variance(self) -> Floats:
        """(p,) of the default's noise, by the analytic sigma and each party's own number of columns."""
        mu = mu_of(self.epsilon, DELTA)
        parts = [(columns, weights_of(columns, self.weights)) for columns in self.parties.values()]
        return np.concatenate([squared_sensitivity(*part) / (mu * private_weights(*part)) ** 2 for part in parts])

    @property
    def sigma(self) -> float:
        """The classic sigma, sqrt(2 ln(1.25/delta)) / epsilon."""
        return math.sqrt(2 * math.log(1.25 / DELTA)) / self.epsilon

    @cached_property
    def published_variance(self) -> Floats:
        """(p,) of the noise as published: 4 d_max sigma^2."""
        widths = [len(columns) for columns in self.parties.values()]
        return np.full(sum(widths), 4 * max(widths) * self.sigma**2)

    @property
    def published_outputs(self) -> int:
        """k of the paper's synthetic experiments, round(sqrt(n) / sigma)."""
        return max(1, round(math.sqrt(self.patients) / self.sigma))

    def default(self, moments: Floats, random: np.random.Generator) -> ScaledFit:
        """The default's model of one release.

        Args:
            moments: (1/n) [1 D]^T [1 D], columns in [-1, 1].
            random: the draw.
        """
        plan, lower = self.plan, np.full(len(moments) - 1, -1.0)
        rows = mixed(moments, self.patients, plan.outputs, float(plan.anchor_weight), self.variance, random)
        return calibrated(rows, lower[:-1], lower[-1:], intercept=True)

    def published_mix(self, moments: Floats, outputs: int, random: np.random.Generator) -> NormalEquations:
        """What RMGM sees of one release as published.

        Args:
            moments: (1/n) [1 D]^T [1 D], |D| <= 1.
            outputs: k.
            random: the draw.
        """
        covariance = moments[1:, 1:] * (self.patients / outputs) + np.diag(self.published_variance)
        return self._equations(wishart_root(outputs, root(covariance), random))

    def published_rows(self, moments: Floats, random: np.random.Generator) -> NormalEquations:
        """What BGM and DGM see of one release as published; arguments as of `published_mix`."""
        sd = np.sqrt(self.published_variance)
        seen = root(moments[1:, 1:] * self.patients).T + sd * random.normal(size=(len(sd), len(sd)))
        rest = wishart_root(self.patients - len(sd), np.diag(sd), random)
        return self._equations(np.vstack([seen, rest]))

    def _equations(self, rows: Floats) -> NormalEquations:
        gram = rows.T @ rows / self.patients
        return NormalEquations(xx=gram[:-1, :-1], xy=gram[:-1, -1:], noise=self.published_variance[:-1])


def mixed(
    moments: Floats, n: int, outputs: int, anchor: float, variance: Floats, random: np.random.Generator
) -> RegressionRows:
    """A release of mechanism ``mixed``, the last column being the outcome.

    Args:
        moments: (1/n) [1 D]^T [1 D].
        n: patients.
        outputs: k.
        anchor: rho, 0 for none.
        variance: (p,) of the noise of each column's entries.
        random: the draw.
    """
    scale = math.sqrt(n * (1 - anchor) / outputs)
    rows = scale * random.normal(size=(outputs, len(moments))) @ root(moments).T
    if anchor:
        rows = np.vstack([math.sqrt(anchor) * n * moments[0], rows])
    rows[:, 1:] += random.normal(size=(len(rows), len(variance))) * np.sqrt(variance)
    return RegressionRows(
        ones=rows[:, 0],
        x=rows[:, 1:-1],
        y=rows[:, -1:],
        x_variance=variance[:-1],
        y_variance=variance[-1:],
        patients=float(n),
        anchor=bool(anchor),
        mixed=True,
    )


def root(matrix: Floats) -> Floats:
    """R with R R^T the positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    found: Floats = vectors * np.sqrt(np.maximum(values, 0))
    return found


def wishart_root(degrees: int, factor: Floats, random: np.random.Generator) -> Floats:
    """Rows whose Gram matrix has the Wishart law of this many degrees of freedom and the covariance factor factor^T.

    As many rows as degrees of freedom, and at most as many as columns: Bartlett's decomposition gives the rest.
    """
    size = len(factor)
    if degrees < size:
        return random.normal(size=(degrees, size)) @ factor.T
    lower = np.tril(random.normal(size=(size, size)), -1)
    lower[np.diag_indices(size)] = np.sqrt(random.chisquare(degrees - np.arange(size)))
    found: Floats = lower.T @ factor.T
    return found


def least_squares(moments: Floats) -> tuple[float, Floats]:
    """(intercept, weights) of the last column on the others; the shortest where columns determine each other."""
    found = np.linalg.lstsq(moments[:-1, :-1], moments[:-1, -1])[0].astype(np.float64)
    return float(found[0]), found[1:]


def squared_error(moments: Floats, offset: float, weights: Floats) -> float:
    """Mean squared error of a model on the rows behind the moments."""
    model = np.concatenate([[-offset], -weights, [1.0]])
    return float(model @ moments @ model)
