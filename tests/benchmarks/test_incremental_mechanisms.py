"""Mechanisms of private incremental regression: exact without noise, sensitivities by search, fits no more than are paid for.

Noise of private incremental regression: what the paper's keeps, and what a promise needs.

What the benchmark of private incremental regression says: its figures of noise, and claims that hold where numbers say so.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.common.report import Results
from benchmarks.paper_incremental import __main__ as paper_incremental
from benchmarks.paper_incremental import claims, curves
from benchmarks.paper_incremental.curves import Point, bound_of_regression, rows_of_projection
from benchmarks.paper_incremental.erm import (
    LOGISTIC,
    SQUARED,
    Loss,
    clipped,
    descent,
    descent_noise,
    ends_noise,
    every_for_descent,
    frank_wolfe,
    privincerm,
)
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
from benchmarks.paper_incremental.regression import belonging, lift, privincreg1, privincreg2, projected
from benchmarks.paper_incremental.stream import Stream, dense, labels, outside, sparse
from benchmarks.paper_primo.claims import NOISES, Claim, table
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.privacy.gaussian import epsilon_of, mu_of

QUIET = Scales(1e-9, 1e-9)


@pytest.fixture
def stream() -> Stream:
    return dense(300, 4, np.random.default_rng(1))


# Streams.


def test_a_stream_has_bounded_rows_and_its_moments_are_those_of_its_prefixes(stream: Stream) -> None:
    few = sparse(500, 30, 5, np.random.default_rng(2))
    for each in (stream, few, labels(100, 3, np.random.default_rng(3))):
        assert np.linalg.norm(each.x, axis=1).max() <= 1 + 1e-12
        assert np.abs(each.y).max() <= 1
        for time, xx, xy, yy in zip(each.times, *each.moments, strict=True):
            x, y = each.x[:time], each.y[:time]
            np.testing.assert_allclose(xx, x.T @ x, atol=1e-10)
            np.testing.assert_allclose(xy, x.T @ y, atol=1e-10)
            assert yy == pytest.approx(y @ y)
    assert ((few.x != 0).sum(axis=1) == 5).all()
    assert {255, 256, 300} < set(stream.times.tolist())


def test_excess_risk_is_the_loss_over_the_least_one(stream: Stream) -> None:
    weights = np.tile([0.3, 0.0, -0.2, 0.1], (len(stream.times), 1))
    excess = []
    for time in stream.times:
        x, y = stream.x[:time], stream.y[:time]
        bound = {"type": "ineq", "fun": lambda w: 1 - w @ w}
        best = minimize(lambda w, x=x, y=y: ((y - x @ w) ** 2).sum(), np.zeros(4), constraints=[bound], method="SLSQP")
        excess.append(((y - x @ weights[0]) ** 2).sum() - best.fun)
    assert stream.excess(weights) == pytest.approx(max(excess), rel=1e-4)


# Regression on noisy moments.


@pytest.mark.parametrize("made", [tree, normalised])
def test_without_noise_reg1_is_least_squares_in_the_set_after_every_step(made: type, stream: Stream) -> None:
    found = privincreg1(stream, made(300), QUIET, np.random.default_rng(0))
    assert stream.excess(found) < 1e-5
    few = sparse(300, 12, 3, np.random.default_rng(2))
    assert few.excess(privincreg1(few, made(300), QUIET, np.random.default_rng(0))) < 1e-5


def test_projected_rows_keep_their_length_and_are_never_longer_than_one() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(2000, 50))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[::2] *= random.random((1000, 1))
    phi = random.normal(size=(10, 50)) / math.sqrt(10)
    found = projected(x, phi)
    assert (found**2).sum(axis=1).max() <= 1
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(x, axis=1), atol=1e-5)
    assert (projected(np.zeros((1, 50)), phi) == 0).all()
    assert (projected(np.eye(50)[:1], np.where(np.arange(50) == 0, 0.0, phi)) == 0).all()
    assert (found / 2.0**-20 == np.round(found / 2.0**-20)).all()
    pairs = found[random.integers(2000, size=(5000, 2))]
    outer = pairs[:, :, :, None] * pairs[:, :, None]
    assert np.linalg.norm(outer[:, 0] - outer[:, 1], axis=(1, 2)).max() <= math.sqrt(2)


@pytest.mark.parametrize(("shape", "expected"), [((10, 100), 22.6), ((50, 1000), 41.0)])
def test_without_normalisation_a_projected_row_moves_by_far_more(shape: tuple[int, int], expected: float) -> None:
    """sqrt(2) |Phi|^2, attained by two right singular vectors only in the limit; its mean over 20 draws within 10 %."""
    found = []
    for seed in range(20):
        phi = np.random.default_rng(seed).normal(size=shape) / math.sqrt(shape[0])
        found.append(math.sqrt(2) * np.linalg.norm(phi, 2) ** 2)
    assert np.mean(found) == pytest.approx(expected, rel=0.1)
    assert min(found) > 10 * math.sqrt(2)


def test_lifting_gives_the_image_back_with_the_least_norm() -> None:
    random = np.random.default_rng(1)
    phi, truth = random.normal(size=(20, 60)), np.zeros(60)
    truth[[3, 40]] = 0.7, -0.3
    by_ends = lift(phi, phi @ truth, ConvexSet("l1", 1.0))
    np.testing.assert_allclose(by_ends, truth, atol=1e-8)
    by_length = lift(phi, phi @ truth, ConvexSet("l2", 1.0))
    np.testing.assert_allclose(phi @ by_length, phi @ truth, atol=1e-10)
    assert np.linalg.norm(by_length) < np.linalg.norm(truth)
    with pytest.raises(InvalidInput, match="no norm to lift by"):
        lift(phi, phi @ truth, ConvexSet("simplex", 1.0))


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_reg2_stays_in_the_set_and_nears_the_best_as_phi_grows(kind: str) -> None:
    few = sparse(2000, 30, 5, np.random.default_rng(2))
    few = replace(few, within=ConvexSet(kind, 1.0))  # type: ignore[arg-type]
    excess = []
    for rows in (10, 300):
        found = privincreg2(few, normalised(2000), QUIET, rows, np.random.default_rng(3))
        sizes = np.linalg.norm(found, 1 if kind == "l1" else 2, axis=1)
        assert sizes.max() <= 1 + 1e-6
        excess.append(few.excess(found))
    assert excess[1] < 0.3 * excess[0]


def test_rows_outside_count_as_nothing() -> None:
    few = sparse(400, 20, 3, np.random.default_rng(2))
    spoilt = outside(few, 0.25, np.random.default_rng(3))
    kept = belonging(spoilt, lambda x: (x != 0).sum(axis=1) <= 3)
    gone = (spoilt.x != few.x).any(axis=1)
    assert 60 < gone.sum() < 140
    assert (kept.x[gone] == 0).all()
    assert (kept.y[gone] == 0).all()
    np.testing.assert_array_equal(kept.x[~gone], few.x[~gone])
    np.testing.assert_array_equal(kept.y[~gone], few.y[~gone])


# Batch fits.


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_replacing_a_row_moves_a_gradient_by_no_more_than_is_noised(loss: Loss) -> None:
    """Rows and outcomes far outside their bounds, weights anywhere in the set; the bound is reached within a tenth."""
    random, radius, moved = np.random.default_rng(1), 1.5, 0.0
    x = random.normal(size=(4000, 3)) * 10
    y = random.choice([-9.0, 9.0], 4000)
    x, y = clipped(x, y)
    for _ in range(20):
        weights = random.normal(size=3)
        weights *= radius / np.linalg.norm(weights)
        each = x * loss.slope(x @ weights, y)[:, None]
        longest = float(np.linalg.norm(each, axis=1).max())
        moved = max(moved, longest)
        assert longest <= loss.steepest(radius) * (1 + 1e-12)
    assert moved > (0.9 if loss is SQUARED else 0.7) * loss.steepest(radius)


def test_with_little_noise_solvers_come_close_to_the_best(stream: Stream) -> None:
    random = np.random.default_rng(0)
    by_descent = privincerm(stream, descent(SQUARED, stream.within, 1e9), 1, random)
    least = stream.excess(np.zeros((len(stream.times), 4)))
    assert stream.excess(by_descent) < 0.1 * least
    few = sparse(300, 12, 3, np.random.default_rng(2))
    by_ends = privincerm(few, frank_wolfe(SQUARED, few.within, 1e12), 1, random)
    assert np.abs(by_ends).sum(axis=1).max() <= 1 + 1e-9
    assert few.excess(by_ends) < 0.1 * few.excess(np.zeros((len(few.times), 12)))


def test_a_row_is_in_no_more_fits_than_are_paid_for(stream: Stream) -> None:
    every, seen = every_for_descent(300, 4, 1.0), []

    def solver(x: np.ndarray, y: np.ndarray, random: np.random.Generator) -> np.ndarray:
        seen.append(len(x))
        return np.zeros(4)

    looked = replace(stream)
    object.__setattr__(looked, "times", np.arange(1, 301))
    found = privincerm(looked, solver, every, np.random.default_rng(0))
    assert every == math.ceil(1200 ** (1 / 3))
    assert seen == [every * count for count in range(1, 300 // every + 1)]
    assert found.shape == (300, 4)


class Recorded(np.random.Generator):
    """Draws as they are, and how many of each there were."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.normals: list[np.ndarray] = []
        self.gumbels = 0

    def normal(self, *args: Any, **kwargs: Any) -> Any:
        self.normals.append(super().normal(*args, **kwargs))
        return self.normals[-1]

    def gumbel(self, *args: Any, **kwargs: Any) -> Any:
        self.gumbels += 1
        return super().gumbel(*args, **kwargs)


@pytest.mark.parametrize("mu", [0.01, 0.3, 50.0])
def test_all_steps_of_a_descent_keep_its_mu(mu: float, stream: Stream) -> None:
    """Each of r gradients moves by 2 K under noise sd; without rows a descent is a sum of its noise alone."""
    steps, sd = descent_noise(SQUARED, stream.within, mu, 300, 4)
    assert steps * (2 * SQUARED.steepest(1.0) / sd) ** 2 == pytest.approx(mu**2)
    random, wide = Recorded(1), ConvexSet("l2", 1.0)
    found = descent(SQUARED, wide, mu)(np.zeros((300, 4)), np.zeros(300), random)
    assert len(random.normals) == steps
    length = min(1 / 600, 1 / (sd * math.sqrt(4 * steps)))
    weights, total = np.zeros(4), np.zeros(4)
    for drawn in random.normals:
        weights = wide.project(weights - length * sd * drawn)
        total += weights
    np.testing.assert_allclose(found, total / steps, rtol=1e-12)


@pytest.mark.parametrize("rho", [1e-6, 1e-2, 10.0])
def test_all_steps_of_frank_wolfe_keep_its_rho(rho: float) -> None:
    steps, epsilon = ends_noise(SQUARED, ConvexSet("l1", 1.0), rho, 300, 4)
    assert steps * epsilon**2 / 8 == pytest.approx(rho)
    random = Recorded(1)
    frank_wolfe(SQUARED, ConvexSet("l1", 1.0), rho)(np.zeros((300, 4)), np.zeros(300), random)
    assert random.gumbels == steps


def test_the_exponential_mechanism_takes_ends_as_often_as_it_should() -> None:
    """One step on one row x = (1, 0), y = 1: scores of the ends are R x_j slope; frequencies within five standard errors."""
    within, rho, draws = ConvexSet("l1", 1.0), 1e-3, 4000
    steps, epsilon = ends_noise(SQUARED, within, rho, 1, 2)
    assert steps == 1
    x, y, random = np.array([[1.0, 0.0]]), np.array([1.0]), np.random.default_rng(2)
    solve = frank_wolfe(SQUARED, within, rho)
    found = np.array([solve(x, y, random) for _ in range(draws)])
    weights = np.exp(epsilon * np.array([2.0, 0.0, -2.0, 0.0]) / (2 * 8))
    expected = weights / weights.sum()
    seen = [(found[:, end % 2] == (1 if end < 2 else -1)).mean() for end in range(4)]
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / draws)).all()


# Curves.


def test_a_point_has_every_method_and_says_who_is_ahead(stream: Stream) -> None:
    found = curves.point(stream, curves.regression(stream) | curves.batch(stream), 2, 0)
    assert set(found.excess) == {"trivial", "reg1 p", "reg1 tree", "reg1", "erm p", "erm", "every p", "every"}
    assert found.mean("trivial") > 0
    assert all(value >= -1e-6 for values in found.excess.values() for value in values)
    sure = curves.Point("", 1, 1, {"a": [1.0, 1.1], "b": [2.0, 2.1], "c": [0.0, 9.0]})
    assert sure.ahead("a", "b")
    assert not sure.ahead("b", "a")
    assert not sure.ahead("a", "c")


def test_logistic_excess_risk_is_that_of_the_rows() -> None:
    labelled = labels(500, 3, np.random.default_rng(4))
    found = curves.logistic(labelled, 2, 0)

    def total(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -labelled.y * (labelled.x @ w)).sum())

    bound = {"type": "ineq", "fun": lambda w: 16 - w @ w}
    least = minimize(total, np.zeros(3), constraints=[bound], method="SLSQP").fun
    assert found.mean("trivial") == pytest.approx(500 * math.log(2) - least, rel=1e-3)
    assert min(found.excess["erm"]) >= 0


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


def test_advanced_composition_wastes_a_factor_of_ten() -> None:
    assert epsilon_of(math.sqrt(10) * fit_mu(10, EPSILON, DELTA, paper=True), DELTA) == pytest.approx(0.087, abs=5e-4)
    assert published_fit(10, EPSILON, DELTA)[1] == DELTA / 20
    assert math.sqrt(10) * fit_mu(10, EPSILON, DELTA, paper=False) == pytest.approx(MU)


def test_concentrated_privacy_of_a_promise() -> None:
    assert concentrated(1.0, 1e-5) == pytest.approx(0.0305565952, abs=1e-10)
    assert concentrated(1.0, 1e-6) == pytest.approx(0.02435597036, abs=1e-10)
    assert concentrated(1.9142388, 1e-5) == pytest.approx(0.1, abs=1e-7)
    assert concentrated(4.728387, 1e-5) == pytest.approx(0.5, abs=1e-6)


def made(length: int, width: int, scale: float, *, reg: float = 1.0, erm: float = 2.0) -> Point:
    """Two releases of every method; weights 0 err by 10 times the scale."""
    means = {"trivial": 10.0, "reg1": reg, "reg1 p": 20.0, "erm": erm, "erm p": 15.0, "every": 5.0, "every p": 30.0}
    means |= {"reg2": 3.0, "reg2 p": 25.0, "fw": 9.0, "fw p": 12.0}
    spread = {name: [scale * value * 0.99, scale * value * 1.01] for name, value in means.items()}
    return Point("data", length, width, spread)


def held(found: list[Claim], words: str) -> dict[str, list[bool]]:
    """Verdicts of claims that start with these words, by noise."""
    return {
        noise: [claim.holds for claim in found if claim.noise == noise and claim.words.startswith(words)]
        for noise in NOISES
    }


def test_figures_of_noise_reach_what_they_are_to_reach() -> None:
    results = Results()
    paper_incremental._known(results)
    assert [figure.holds for figure in results.figures if figure.reach is not None] == [True, True, True]
    rows = {row["T"]: row for row in map(paper_incremental._errors, (12, 1000))}
    assert round(rows[1000]["normalised, worst"], 3) == 3.073
    assert round(rows[12]["tree, root mean square"], 3) == 2.708


def test_claims_of_privacy_are_computed() -> None:
    found = claims.of_privacy(((10, 100), 4.0))
    assert held(found, "TreeMech")["paper's"] == [False, False, True]
    assert held(found, "TreeMech")["corrected"] == [True, True, True]
    assert held(found, "Reg1 keeps")["paper's"] == [False, True, True]
    assert held(found, "PrivIncERM keeps") == {"paper's": [True], "corrected": [True]}
    assert held(found, "Reg2 need not") == {"paper's": [False], "corrected": [False]}


def test_claims_of_excess_risk_follow_the_numbers() -> None:
    points = [made(1 << k, 10, 1.1 ** (k - 8)) for k in (8, 10, 12)]
    found = claims.of_lengths(points)
    assert held(found, "Reg1 errs less than PrivIncERM") == {"paper's": [False] * 3, "corrected": [True] * 3}
    assert held(found, "Reg1 errs less than weights 0") == {"paper's": [False], "corrected": [True]}
    assert held(found, "PrivIncERM errs less than a fit") == {"paper's": [True] * 3, "corrected": [True] * 3}
    assert held(found, "Reg1's excess risk grows like a power of log") == {"paper's": [True], "corrected": [True]}
    steep = claims.of_lengths([made(1 << k, 10, 2.0 ** (k - 8)) for k in (8, 10, 12)])
    assert held(steep, "Reg1's excess risk grows like a power of log") == {"paper's": [False], "corrected": [False]}
    idle = [claim.idle for claim in found if claim.words.startswith("PrivIncERM errs less than a fit")]
    assert idle == [True] * 3 + [False] * 3
    grown = claims.of_widths([made(4096, width, width**0.5) for width in (2, 8, 32)])
    assert held(grown, "Reg1") == {"paper's": [True], "corrected": [True]}
    assert held(grown, "PrivIncERM") == {"paper's": [False], "corrected": [False]}
    projected = claims.of_projections([made(4096, 25, 1.0), made(4096, 200, 1.0)], made(4096, 40, 1.0), 5)
    assert held(projected, "Reg2 errs less than Reg1")["corrected"] == [False, False]
    assert held(projected, "Reg2 errs more than Reg1")["corrected"] == [True]
    assert held(projected, "the m of algorithm 3") == {"paper's": [False], "corrected": [False]}
    lines = table([*found, *projected])
    assert len(lines) == 2 + len({(claim.words, claim.data) for claim in (*found, *projected)})


def test_bounds_of_the_theorems() -> None:
    logarithm = math.log(1000) ** 1.5 * math.sqrt(math.log(1e5))
    assert math.isclose(bound_of_regression(1000, 4, 2.0), 4 * logarithm * (2 + math.sqrt(math.log(20_000))))
    assert rows_of_projection(4096, 200, 5) > 5000 > 200
