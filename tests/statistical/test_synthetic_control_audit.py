"""Audits of whole releases of a synthetic control on the worst donors, and of broken ones that must be caught."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.paper_synthetic_control.published import Pool, published_objective, tight_output
from dprelease.mechanisms.synthetic_control.privatize import noisy_panel
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms
from dprelease.privacy.calibration import epsilon_within
from dprelease.privacy.noise import NoiseSource, SecureNoise
from dprelease.release.accounting import check_spec
from tests.statistical.auditor import Audit, audit, audit_delta
from tests.statistical.constants import SECURE_RUNS
from tests.support.noise import ScaledNoise, SeededNoise, ZeroNoise
from tests.support.panels import donors_of, panel_spec

SPEC = panel_spec([1.0] * 4 + [0.0] * 2, "t4", donors=2, epsilon=10.0)
MU = math.sqrt(check_spec(SPEC).joint_mu2)
FEW = SECURE_RUNS // 4
"""Standard error 3 % of mu."""
WORST = math.sqrt(1 / 2)
"""A donor at sqrt(lambda/(2 T0)), and its mirror image, move the weights most; afterwards they go from bound to bound."""


def donors(sign: int) -> np.ndarray:
    changed = [sign * WORST] * 4 + [sign] * 2
    return np.array([changed, [0.0] * 6])


def measured(noise: NoiseSource, runs: int) -> Audit:
    terms = SPEC.terms
    assert isinstance(terms, SyntheticControlTerms)
    found = []
    for sign in (1, -1):
        rows = donors_of(SPEC, donors(sign))
        blocks = [noisy_panel(rows, SPEC, terms, noise) for _ in range(runs)]
        weights, after = (np.array([each[at].ravel() for each in blocks], np.float64) for at in (0, 1))
        found.append(np.hstack([weights / terms.weights_scale, after / terms.donors_scale]))
    return audit(*found)


@pytest.mark.parametrize(("source", "runs"), [(lambda: SeededNoise(1), 2 * FEW), (SecureNoise, FEW)])
def test_the_worst_donors_cost_what_is_declared(source: Callable[[], NoiseSource], runs: int) -> None:
    found = measured(source(), runs)
    assert found.agrees(MU, errors=5)
    assert found.mu >= 0.95 * MU - 5 * found.standard_error


@pytest.mark.parametrize("factor", [0.75, 1.35])
def test_noise_of_another_scale_is_caught(factor: float) -> None:
    found = measured(ScaledNoise(SeededNoise(2), factor), FEW)
    assert not found.agrees(MU, errors=5)


PURE_RUNS = 600
PURE = panel_spec([1.0] * 4 + [0.0] * 2, "t4", donors=2, epsilon=60.0, law="laplace")


def test_laplace_noise_is_pure_epsilon_and_half_of_it_is_caught() -> None:
    """The log likelihood ratio of the worst donors never exceeds epsilon, and comes near it; with half the noise it does."""
    terms = PURE.terms
    assert isinstance(terms, SyntheticControlTerms)
    epsilon = float(terms.epsilon(terms.problem(PURE), 1, PURE.grid_bits))
    assert epsilon == pytest.approx(float(epsilon_within(Fraction(terms.mu2))), rel=1e-5)
    exact = [
        [each.ravel() for each in noisy_panel(donors_of(PURE, donors(sign)), PURE, terms, ZeroNoise())]
        for sign in (1, -1)
    ]
    moved = [float(np.abs(one - two).sum()) for one, two in zip(*exact, strict=True)]
    ratio = moved[0] / terms.weights_scale + moved[1] / terms.donors_scale
    assert ratio <= epsilon
    assert moved[1] / terms.donors_scale == pytest.approx(epsilon / 2, rel=1e-4)  # attained by the donors
    assert moved[0] / terms.weights_scale == pytest.approx(epsilon / 2 / math.sqrt(2), rel=1e-4)  # of sqrt(n), n = 2
    drawn = _donors(SecureNoise(), PURE_RUNS)
    found = audit_delta(drawn[0], drawn[1], epsilon / 2)
    assert found.delta <= 5 * found.standard_error + 1 / PURE_RUNS
    broken = _donors(ScaledNoise(SeededNoise(6), 0.5), PURE_RUNS)
    caught = audit_delta(broken[0], broken[1], epsilon / 2)
    assert caught.delta > 5 * caught.standard_error + 1 / PURE_RUNS


def _donors(noise: NoiseSource, runs: int) -> list[np.ndarray]:
    """The log likelihood ratio of the donors' values, their share of epsilon, on both tables."""
    terms = PURE.terms
    assert isinstance(terms, SyntheticControlTerms)
    ends = [donors_of(PURE, donors(sign)) for sign in (1, -1)]
    reach = 2**PURE.grid_bits / terms.donors_scale
    found = []
    for rows in ends:
        blocks = np.array([noisy_panel(rows, PURE, terms, noise)[1][0] for _ in range(runs)]) / terms.donors_scale
        found.append((np.abs(blocks + reach) - np.abs(blocks - reach)).sum(axis=1))
    return found


RUNS = 400_000
POOLS = [Pool(np.full((1, 10), x), np.ones(10), np.zeros((1, 1))) for x in (0.0, 1.0)]


def test_objective_perturbation_as_published_is_not_private() -> None:
    """One donor from 0 to 1 at T0 = lambda = 10, claimed (1, 1e-6): delta(1) is .0178."""
    rng = np.random.default_rng(3)
    one, two = (np.abs(published_objective(pool, 10.0, 1.0, 1e-6, RUNS, rng)[:, 0]) for pool in POOLS)
    found = audit_delta(one, two, 1.0)
    assert found.delta > 1e-6 + 20 * found.standard_error
    assert abs(found.delta - 0.017836) <= 5 * found.standard_error + 0.001


def test_the_same_audit_passes_output_perturbation() -> None:
    rng = np.random.default_rng(4)
    one, two = (tight_output(pool, 10.0, 1.0, 1e-6, RUNS, rng)[0][:, 0] for pool in POOLS)
    for first, second in ((one, two), (two, one), (np.abs(two), np.abs(one))):
        found = audit_delta(first, second, 1.0)
        assert found.delta <= 1e-6 + 5 * found.standard_error + 1 / RUNS
