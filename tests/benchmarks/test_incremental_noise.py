"""Noise of private incremental regression: what the paper's keeps, and what a promise needs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.paper_incremental.factors import levels, normalised, tree
from benchmarks.paper_incremental.noise import (
    LEAF,
    Scales,
    concentrated,
    corrected,
    fit_mu,
    kept_by_tree,
    published,
    published_fit,
    published_node,
)
from dprelease.privacy.gaussian import epsilon_of, mu_of

EPSILON, DELTA = 1.0, 1e-5
MU = mu_of(EPSILON, DELTA)


@pytest.mark.parametrize(("length", "node"), [(1, 3.73063), (2, 5.2759099), (8, 7.4612633), (1024, 12.373105)])
def test_a_node_needs_the_root_of_its_levels(length: int, node: float) -> None:
    assert tree(length).sensitivity / MU == pytest.approx(node, rel=2e-6)
    assert kept_by_tree(length, 1.0, node, DELTA) == pytest.approx(EPSILON, rel=1e-5)


def test_the_papers_tree_has_no_noise_at_one_step_and_too_little_at_few() -> None:
    assert published_node(1, 1.0, EPSILON, DELTA) == 0.0
    assert math.isinf(kept_by_tree(1, 1.0, 0.0, DELTA))
    assert math.isinf(published(1, EPSILON, DELTA).mu(1.0))
    two = [kept_by_tree(2, 1.0, published_node(2, 1.0, EPSILON, DELTA, log), DELTA) for log in (math.log, math.log2)]
    assert two == pytest.approx([1.611, 1.075], abs=1e-3)
    few = [kept_by_tree(length, 1.0, published_node(length, 1.0, 5.0, DELTA), DELTA) for length in (2, 3, 4)]
    assert few == pytest.approx([10.40, 5.96, 5.76], abs=5e-3)
    short = [math.log(length) < math.sqrt(levels(length)) for length in range(1, 9)]
    assert short == [True] * 5 + [False] * 3


def test_the_papers_noise_is_far_too_large_for_many_steps() -> None:
    nodes = [published_node(1024, 1.0, EPSILON, DELTA, log) for log in (math.log, math.log2)]
    assert nodes == pytest.approx([34.2, 49.4], abs=0.05)
    assert published(1024, EPSILON, DELTA).matrix == pytest.approx(140.8, abs=0.05)
    assert published_node(1024, 2.0, EPSILON / 2, DELTA / 2, math.log2) == pytest.approx(203.2, abs=0.05)
    by_tree = corrected(tree(1024).sensitivity, MU).matrix
    assert by_tree == pytest.approx(26.247, abs=5e-4)
    assert 5 < published(1024, EPSILON, DELTA).matrix / by_tree < 8
    worst = published(1024, EPSILON, DELTA).matrix * tree(1024).worst / tree(1024).sensitivity
    assert worst >= 5 * corrected(1.0, MU).matrix * normalised(1024).worst


def test_one_row_moves_matrix_and_vector_together_by_the_root_of_four_and_a_half() -> None:
    """No random pair of rows moves further than the worst one, two rows at 60 degrees with opposite outcomes."""
    assert Scales(1.0, 1.0).mu(1.0) == pytest.approx(LEAF) == pytest.approx(2.12132034)
    random, worst = np.random.default_rng(1), 0.0
    for width in (2, 3):
        ends = random.normal(size=(20_000, 2, width))
        ends /= np.maximum(np.linalg.norm(ends, axis=2, keepdims=True), 1.0)
        y = random.choice([-1.0, 1.0], (20_000, 2, 1))
        matrix = ends[:, 0, :, None] * ends[:, 0, None] - ends[:, 1, :, None] * ends[:, 1, None]
        vector = ends[:, 0] * y[:, 0] - ends[:, 1] * y[:, 1]
        worst = max(worst, float(((matrix**2).sum(axis=(1, 2)) + (vector**2).sum(axis=1)).max()))
    assert 0.98 * LEAF**2 < worst <= LEAF**2 * (1 + 1e-12)
    first, second = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    moved = ((np.outer(first, first) - np.outer(second, second)) ** 2).sum() + ((first + second) ** 2).sum()
    assert moved == pytest.approx(LEAF**2)


@pytest.mark.parametrize("made", [tree, normalised])
def test_a_corrected_stream_keeps_what_it_promises(made: type) -> None:
    used = made(365)
    assert corrected(used.sensitivity, MU).mu(used.sensitivity) == pytest.approx(MU)


def test_advanced_composition_wastes_a_factor_of_ten() -> None:
    assert epsilon_of(math.sqrt(10) * fit_mu(10, EPSILON, DELTA, paper=True), DELTA) == pytest.approx(0.087, abs=5e-4)
    assert published_fit(10, EPSILON, DELTA)[1] == DELTA / 20
    assert math.sqrt(10) * fit_mu(10, EPSILON, DELTA, paper=False) == pytest.approx(MU)


def test_concentrated_privacy_of_a_promise() -> None:
    assert concentrated(1.0, 1e-5) == pytest.approx(0.0305565952, abs=1e-10)
    assert concentrated(1.0, 1e-6) == pytest.approx(0.02435597036, abs=1e-10)
    assert concentrated(1.9142388, 1e-5) == pytest.approx(0.1, abs=1e-7)
    assert concentrated(4.728387, 1e-5) == pytest.approx(0.5, abs=1e-6)
