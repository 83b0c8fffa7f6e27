"""Weights within convex sets: projections by their optimality conditions, minima by another solver, errors by simulation."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.common.fits import problem_of
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators import ConvexSet, LinearRegression, fit
from dprelease.estimators.baselines.constrained import Kind, fit_constrained, minimum, positive_part
from dprelease.estimators.baselines.inverted import inverted
from dprelease.estimators.methods import choose
from dprelease.estimators.quality import Quality
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.release.release import Release
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.dprelease.estimators.test_moments_fit import release as release  # the fixture

ROWS = mixed_rows(2000)
X, Y = [1, 3, 5], 8
KINDS: tuple[Kind, ...] = ("l2", "l1", "simplex")
every_kind = pytest.mark.parametrize("kind", KINDS)


def support(within: ConvexSet, direction: Floats) -> float:
    """Largest product of a direction with a point of the set."""
    largest = {"l2": np.linalg.norm(direction), "l1": np.abs(direction).max(), "simplex": direction.max()}
    return float(within.radius * largest[within.kind])


def inside(within: ConvexSet, point: Floats) -> bool:
    if within.kind == "simplex":
        return bool((point >= 0).all()) and math.isclose(point.sum(), within.radius, rel_tol=1e-12)
    return float(np.linalg.norm(point, 2 if within.kind == "l2" else 1)) <= within.radius * (1 + 1e-12)


# Projections.


@every_kind
@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_a_projection_is_the_nearest_point(kind: Kind, size: int) -> None:
    """p is nearest to v exactly if it lies in C and <v - p, c - p> <= 0 for every c in C."""
    generator = np.random.default_rng(size)
    for radius, spread in ((0.3, 1.0), (1.0, 0.1), (2.0, 5.0)):
        within = ConvexSet(kind, radius)
        point = generator.normal(size=size) * spread
        nearest = within.project(point)
        assert inside(within, nearest)
        away = point - nearest
        assert support(within, away) - away @ nearest <= 1e-12 * radius * max(1.0, float(np.linalg.norm(away)))


@every_kind
def test_a_face_has_the_directions_that_stay_on_it(kind: Kind) -> None:
    within, step = ConvexSet(kind, 2.0), 1e-6
    point = within.project(np.array([3.0, -2.5, 0.01, 2.8]))
    face = within.face(point)
    assert face.shape[1] == (3 if kind == "l2" else int((point != 0).sum()) - 1)
    np.testing.assert_allclose(face.T @ face, np.eye(face.shape[1]), atol=1e-12)
    for direction in face.T:
        moved = point + step * direction
        assert np.linalg.norm(within.project(moved) - moved) <= step**2
    if kind != "simplex":
        assert within.face(point / 3).shape == (4, 4)


@pytest.mark.parametrize("text", ["l3:1", "l1", "l1:", "l1:0", "l1:-1", "l1:nan", "l2:inf", "", "simplex:x"])
def test_what_names_no_set_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"convex set|radius|KIND:RADIUS"):
        ConvexSet.parse(text)
    assert ConvexSet.parse(str(ConvexSet("l1", 0.1))) == ConvexSet("l1", 0.1)


# Minima.


def by_another_solver(matrix: Floats, across: Floats, within: ConvexSet) -> Floats:
    """Sequential quadratic programming on w = u - v with u, v >= 0, or on w itself."""
    d = len(across)
    if within.kind == "l2":
        bound = {"type": "ineq", "fun": lambda w: within.radius**2 - w @ w, "jac": lambda w: -2 * w}
        found = minimize(
            lambda w: (w @ matrix @ w / 2 - across @ w, matrix @ w - across),
            np.zeros(d),
            jac=True,
            method="SLSQP",
            constraints=[bound],
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        return np.asarray(found.x)
    signs = np.hstack([np.eye(d), -np.eye(d)]) if within.kind == "l1" else np.eye(d)
    kind = "ineq" if within.kind == "l1" else "eq"
    total = {"type": kind, "fun": lambda u: within.radius - u.sum(), "jac": lambda u: -np.ones_like(u)}
    found = minimize(
        lambda u: ((w := signs @ u) @ matrix @ w / 2 - across @ w, signs.T @ (matrix @ w - across)),
        np.full(signs.shape[1], within.radius / 2 / signs.shape[1]),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * signs.shape[1],
        constraints=[total],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    weights: Floats = signs @ np.asarray(found.x)
    return weights


@every_kind
@pytest.mark.parametrize("rank", [2, 6])
def test_the_minimum_is_that_of_another_solver_and_meets_the_optimality_conditions(kind: Kind, rank: int) -> None:
    generator = np.random.default_rng(rank)
    for _ in range(10):
        root = generator.normal(size=(6, rank)) * np.geomspace(1, 0.1, rank)
        matrix, across = root @ root.T, generator.normal(size=6)
        within = ConvexSet(kind, 0.7)
        found = minimum(matrix, across, within)
        assert inside(within, found)
        downhill = across - matrix @ found
        assert support(within, downhill) - downhill @ found <= 1e-9
        other = by_another_solver(matrix, across, within)
        loss = [w @ matrix @ w / 2 - across @ w for w in (found, other)]
        assert loss[0] <= loss[1] + 1e-9
        assert loss[1] <= loss[0] + 1e-5


@every_kind
def test_a_matrix_of_nothing_leads_to_an_end_of_the_set(kind: Kind) -> None:
    within, across = ConvexSet(kind, 0.5), np.array([0.1, 0.3, 0.2])
    assert minimum(np.zeros((3, 3)), across, within) @ across == pytest.approx(support(within, across))


def test_the_positive_part_is_the_nearest_positive_semidefinite_matrix() -> None:
    generator = np.random.default_rng(3)
    matrix = generator.normal(size=(5, 5))
    matrix = matrix + matrix.T
    found = positive_part(matrix)
    assert np.linalg.eigvalsh(found).min() >= -1e-12
    assert np.linalg.eigvalsh(found - matrix).min() >= -1e-12
    assert np.trace(found @ (found - matrix)) == pytest.approx(0, abs=1e-12)
    definite = matrix @ matrix + np.eye(5)
    assert positive_part(definite) is definite


# Fits.


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["l2", "l1"])
def test_without_noise_it_is_least_squares_where_the_set_holds_it(intercept: bool, kind: Kind) -> None:
    moments = noisy_moments(MIXED, ROWS, 0.0)
    free = inverted(moments, X, [Y, 2], intercept=intercept)
    found = fit_constrained(moments, X, [Y, 2], ConvexSet(kind, 50.0), intercept=intercept)
    np.testing.assert_array_equal(found.weights, free.weights)
    for name, value in vars(found.quality).items():
        np.testing.assert_allclose(value, vars(free.quality)[name], rtol=1e-9, atol=1e-12)
    assert found.diagnostics.warnings == ()


@every_kind
@pytest.mark.parametrize("intercept", [True, False])
def test_optimism_is_what_a_constrained_fit_gains_from_the_noise_that_it_saw(kind: Kind, intercept: bool) -> None:
    """The same difference for the weights without noise has mean 0 and most of the noise in it; it is taken off.

    So 40 releases tell the optimism from none, by four standard errors.
    """
    generator, within, gaps, optimism = np.random.default_rng(4), ConvexSet(kind, 0.25), [], []
    exact = noisy_moments(MIXED, ROWS, 0.0)
    truth, still = exact.gram / len(ROWS), model_of(exact, within, intercept=intercept)[0]
    for _ in range(40):
        moments = noisy_moments(MIXED, ROWS, 0.01, generator)
        u, quality = model_of(moments, within, intercept=intercept)
        gaps.append(u @ truth @ u - quality.mse[0] - still @ (truth - moments.gram / len(ROWS)) @ still)
        optimism.append(quality.optimism[0])
    error = np.std(gaps, ddof=1) / np.sqrt(40)
    assert abs(np.mean(gaps) - np.mean(optimism)) < 4 * error < np.mean(optimism)


def model_of(moments: NoisyMoments, within: ConvexSet, *, intercept: bool) -> tuple[np.ndarray, Quality]:
    """The residual of a fit as a function of x, (p+1,), and what the fit says of itself."""
    found, u = fit_constrained(moments, X, [Y], within, intercept=intercept), np.zeros(len(moments.gram))
    u[[0, *X, Y]] = [found.offsets[0], *found.weights[:, 0], -1.0]
    return u, found.quality


@every_kind
def test_noise_that_hides_the_features_leaves_what_the_set_bounds(kind: Kind) -> None:
    within = ConvexSet(kind, 0.5)
    moments = noisy_moments(MIXED, ROWS, 3.0, np.random.default_rng(1))
    found = fit_constrained(moments, list(range(1, 8)), [Y], within, intercept=True)
    assert inside(within, found.weights[:, 0])
    assert found.diagnostics.indefinite
    assert "not positive definite" in found.diagnostics.warnings[0]
    assert "1 of 1 targets the weights lie on the boundary of the set" in found.diagnostics.warnings[1]


def test_features_that_repeat_each_other_are_refused() -> None:
    moments: NoisyMoments = noisy_moments(MIXED, ROWS, 0.0)
    with pytest.raises(InvalidInput, match="singular"):
        fit_constrained(moments, [1, 1], [Y], ConvexSet("l2", 1.0), intercept=True)


# On a whole release.


@pytest.mark.usefixtures("short_chains")
def test_a_fit_says_its_set_and_is_never_the_default(release: Release) -> None:
    within = ConvexSet("l1", 0.2)
    result = fit(release, ["score", "ill=yes"], ["age", "smoker=yes", "glucose"], "constrained", within=within)
    assert (result.algorithm, result.within, result.document().to_json()["within"]) == (
        "constrained",
        "l1:0.2",
        "l1:0.2",
    )
    assert "weights within l1:0.2" in result.summary()
    weights = result.coef * [60, 0.5, 14] / np.array([[50], [0.5]])
    np.testing.assert_allclose(np.abs(weights).sum(axis=1), [0.2, np.abs(weights[1]).sum()])
    assert fit(release, ["score"], ["age"], "constrained").within == "l2:1.0"
    assert fit(release, ["score"], ["age"]).document().to_json()["within"] is None
    moments = release.moments()
    assert choose(problem_of(moments, [1], [2])).algorithm != "constrained"
    made = LinearRegression("constrained", within=within).fit(
        release, ["score", "ill=yes"], ["age", "smoker=yes", "glucose"]
    )
    np.testing.assert_array_equal(made.coef_, result.coef)
    assert made.get_params()["within"] == within


def test_a_set_for_another_method_is_refused(release: Release) -> None:
    with pytest.raises(InvalidInput, match="'ols' keeps weights within no set"):
        fit(release, ["score"], ["age"], "ols", within=ConvexSet("l2", 1.0))
