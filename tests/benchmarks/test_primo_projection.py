"""Projection of a noisy association onto what bounded rows can give: the nearest feasible point, at every scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import dprelease.estimators.moments.public_columns as projection
from benchmarks.paper_primo.projection import project, project_jointly
from dprelease.errors import InvalidInput
from dprelease.estimators.moments.public_columns import PublicSide
from tests.dprelease.estimators.test_projection import SHAPES, problem, public


def preimage(p: np.ndarray, projected: np.ndarray) -> np.ndarray:
    """The shortest Z with P^T Z = projected."""
    return np.linalg.lstsq(p.T, projected, rcond=None)[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [1e-3, 1.0, 1e3])
def test_the_result_satisfies_the_conditions_of_optimality(shape: tuple[int, int], noise: float):
    """P^T z with (P P^T + lambda) z = P c~, |z| <= radius, lambda >= 0, and lambda = 0 where |z| < radius."""
    p, noisy, radius = problem(shape, noise)
    side = PublicSide.of_rows(p)
    projected = project(side, noisy, radius)
    z, multiplier = preimage(p, projected), side.multipliers(side.right.T @ noisy, radius)
    assert (multiplier >= 0).all()
    gap = p @ (projected - noisy) + multiplier * z
    assert np.abs(gap).max() <= 1e-9 * np.abs(p @ noisy).max()
    lengths = np.linalg.norm(z, axis=0)
    assert (lengths <= radius * (1 + 1e-9)).all()
    np.testing.assert_allclose(lengths[multiplier > 0], radius[multiplier > 0], rtol=1e-9)
    assert noise < 1e3 or (multiplier > 0).any()


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("jointly", [False, True])
def test_it_is_what_a_general_solver_finds_on_the_kronecker_form(shape: tuple[int, int], jointly: bool):
    p, noisy, radius = problem(shape, 1.0, seed=3, columns=2)
    rows, columns = shape[0], 2
    whole = np.kron(np.eye(columns), p.T)  # column by column: vec(P^T Z) = whole vec(Z)
    target = noisy.T.ravel()
    blocks = [slice(None)] if jointly else [slice(rows * c, rows * (c + 1)) for c in range(columns)]
    bounds = [float(np.linalg.norm(radius) / 2)] if jointly else list(radius)
    found = minimize(
        lambda z: 0.5 * np.sum((whole @ z - target) ** 2),
        np.zeros(rows * columns),
        jac=lambda z: whole.T @ (whole @ z - target),
        constraints=[
            {"type": "ineq", "fun": lambda z, b=b, r=r: r * r - z[b] @ z[b]}
            for b, r in zip(blocks, bounds, strict=True)
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    side = PublicSide.of_rows(p)
    ours = project_jointly(side, noisy, bounds[0]) if jointly else project(side, noisy, radius)
    np.testing.assert_allclose(ours, (whole @ found.x).reshape(columns, -1).T, atol=1e-5)
    assert np.sum((ours - noisy) ** 2) <= 2 * found.fun * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SHAPES),
    st.integers(0, 2**32 - 1),
    st.floats(-12, 12),
    st.sampled_from([1.0, 1e4, 1e12]),
    st.floats(-6, 6),
)
def test_it_is_idempotent_feasible_and_never_moves_points_apart(shape, seed, log_noise, condition, log_radius):
    generator = np.random.default_rng(seed)
    side = PublicSide.of_rows(public(*shape, condition, seed))
    first, second = 10**log_noise * generator.normal(size=(2, shape[1], 9))
    radius = 10**log_radius * generator.uniform(size=9)
    a, b = project(side, first, radius), project(side, second, radius)
    size = np.abs(first).max()
    np.testing.assert_allclose(project(side, a, radius), a, rtol=0, atol=1e-13 * size)
    assert (np.linalg.norm(a - b, axis=0) <= np.linalg.norm(first - second, axis=0) * (1 + 1e-12)).all()
    along = side.right.T @ first
    t = along * side.shrinkage(side.multipliers(along, radius)) / side.singular[:, None]
    assert (np.linalg.norm(t, axis=0) <= radius * (1 + 1e-12)).all()
    joint = project_jointly(side, first, float(radius[0]))
    np.testing.assert_allclose(project_jointly(side, joint, float(radius[0])), joint, rtol=0, atol=1e-13 * size)


def test_what_is_feasible_stays_what_it_is_to_the_last_bit():
    p, exact, radius = problem((40, 5), 0.0)
    side = PublicSide.of_rows(p)
    np.testing.assert_array_equal(project(side, exact, radius * 1.001), exact)
    np.testing.assert_array_equal(project_jointly(side, exact, float(np.linalg.norm(radius))), exact)
    wide, inside, bound = problem((5, 40), 0.0)
    np.testing.assert_allclose(project(PublicSide.of_rows(wide), inside, bound * 1.001), inside, atol=1e-14)


def test_many_columns_at_once_are_columns_one_by_one(monkeypatch: pytest.MonkeyPatch):
    p, noisy, radius = problem((60, 8), 1.0)
    side = PublicSide.of_rows(p)
    alone = np.hstack([project(side, noisy[:, [c]], radius[[c]]) for c in range(30)])
    for cells in (1 << 17, 17):
        monkeypatch.setattr(projection, "_CELLS", cells)
        np.testing.assert_allclose(project(side, noisy, radius), alone, rtol=1e-12)
        again = PublicSide.of_rows(p)  # whose rows are read 32 at a time
        np.testing.assert_allclose(project(again, noisy, radius), alone, rtol=1e-10)


def test_extremes():
    p, noisy, _ = problem((40, 5), 1.0)
    side = PublicSide.of_rows(p)
    np.testing.assert_array_equal(project(side, noisy, 0.0), 0)
    np.testing.assert_array_equal(project_jointly(side, noisy, 0.0), 0)
    np.testing.assert_array_equal(project(side, np.zeros((5, 2)), 0.0), 0)
    np.testing.assert_array_equal(project(side, noisy, 1e300), noisy)
    assert np.isfinite(project(side, noisy * 1e250, 1.0)).all()
    tiny = project(side, noisy, 1e-200)
    assert 0 < np.abs(tiny).max() < 1e-199
    assert project(side, noisy[:, :0], 1.0).shape == (5, 0)
    empty = PublicSide.of_rows(np.zeros((4, 3)))
    np.testing.assert_array_equal(project(empty, np.ones((3, 2)), 1.0), 0)
    np.testing.assert_array_equal(project_jointly(empty, np.ones((3, 2)), 1.0), 0)


def test_a_column_that_follows_from_others_adds_nothing():
    p, noisy, radius = problem((40, 5), 1.0)
    repeated = np.column_stack([p, p[:, 0] - p[:, 1]])
    side = PublicSide.of_rows(repeated)
    assert (side.full_rank, len(side.singular)) == (False, 5)
    outside = np.array([1.0, -1.0, 0, 0, 0, -1.0])[:, None]  # orthogonal to every P^T z
    given_ = np.vstack([noisy, noisy[0] - noisy[1]])
    np.testing.assert_allclose(project(side, given_ + 7 * outside, radius), project(side, given_, radius), atol=1e-12)
    z = preimage(repeated, project(side, given_, radius))
    assert (np.linalg.norm(z, axis=0) <= radius * (1 + 1e-9)).all()


@pytest.mark.parametrize("condition", [10.0, 1e5])
def test_moments_serve_as_well_as_rows(condition: float):
    p, radius = public(50, 6, condition), np.full(20, 2.0)
    noisy = np.random.default_rng(1).normal(size=(6, 20))
    from_gram = PublicSide.of_gram(p.T @ p)
    np.testing.assert_allclose(
        project(from_gram, noisy, radius), project(PublicSide.of_rows(p), noisy, radius), atol=1e-9
    )
    assert len(PublicSide.of_gram(np.ones((4, 4))).singular) == 1
    assert len(PublicSide.of_gram(np.zeros((4, 4))).singular) == 0


def test_bad_input_is_refused():
    side = PublicSide.of_rows(public(9, 3))
    for noisy, radius in (
        (np.zeros((4, 2)), 1.0),
        (np.zeros(3), 1.0),
        (np.full((3, 2), np.nan), 1.0),
        (np.zeros((3, 2)), -1.0),
        (np.zeros((3, 2)), np.ones(3)),
        (np.zeros((3, 2)), np.nan),
    ):
        with pytest.raises(InvalidInput):
            project(side, noisy, radius)
