"""Factorisations of prefix sums: that they are some, what they err by, and what not knowing T costs."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.paper_incremental import unknown
from benchmarks.paper_incremental.factors import Factorization, fresh, normalised, square_root, tree, unbounded

KINDS: dict[str, Callable[[int], Factorization]] = {
    "fresh": fresh,
    "tree": tree,
    "square root": square_root,
    "normalised": normalised,
    "unbounded": unbounded,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 13, 100])
def test_it_is_a_factorisation_of_the_prefix_sums_with_the_sensitivity_that_it_says(kind: str, length: int) -> None:
    made = KINDS[kind](length)
    encode, decode = made.encode(), made.rows(np.arange(1, length + 1))
    np.testing.assert_allclose(decode @ encode, np.tril(np.ones((length, length))), atol=1e-12)
    assert (np.triu(encode, 1) == 0).all()
    largest = np.linalg.norm(encode, axis=0).max()
    if kind == "unbounded":  # for streams of any length
        assert largest < made.sensitivity
    else:
        assert largest == pytest.approx(made.sensitivity, rel=1e-12)
    np.testing.assert_allclose(made.deviations, made.sensitivity * np.linalg.norm(decode, axis=1), rtol=1e-12)


def test_noise_of_prefixes_has_the_covariance_of_the_rows() -> None:
    """Mean and covariance over 20,000 draws, within five standard errors of each entry."""
    made, times, draws = normalised(40), np.array([3, 4, 31, 40]), 20_000
    error = made.noise(times, draws, np.random.default_rng(1))
    rows = made.rows(times)
    expected = rows @ rows.T
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / draws)
    assert (np.abs(error @ error.T / draws - expected) < 5 * spread).all()
    assert (np.abs(error.mean(axis=1)) < 5 * np.sqrt(np.diag(expected) / draws)).all()


@pytest.mark.parametrize(
    ("length", "by_tree", "by_root", "by_normalised"),
    [
        (12, (3.464, 2.708), (1.851, 1.709), (1.696, 1.625)),
        (52, (5.477, 4.062), (2.323, 2.164), (2.147, 2.064)),
        (100, (6.481, 4.725), (2.531, 2.371), (2.351, 2.265)),
        (365, (8.485, 6.063), (2.944, 2.782), (2.756, 2.668)),
        (1000, (9.487, 7.027), (3.265, 3.102), (3.073, 2.984)),
    ],
)
def test_errors_are_those_of_the_public_references(
    length: int, by_tree: tuple[float, float], by_root: tuple[float, float], by_normalised: tuple[float, float]
) -> None:
    """Largest and root mean square error for sensitivity 1 and noise 1: the square root of the losses of jax_privacy."""
    for made, expected in ((tree, by_tree), (square_root, by_root), (normalised, by_normalised)):
        found = made(length)
        assert (found.worst, found.root_mean_square) == pytest.approx(expected, abs=1e-3)


def test_columns_of_the_unbounded_factor_have_norm_one_and_never_more() -> None:
    """Column 1 after T steps lacks the squares of c_k (1.6/(k + 1.6))^.43 from k = T on, about (1.6/T)^.86 / (.86 pi) of n_1^2."""
    sizes = [1 << k for k in range(4, 11)]
    first = np.array([(unbounded(size).encode()[:, 0] ** 2).sum() for size in sizes])
    assert (np.diff(first) > 0).all()
    assert first[-1] < 1
    norm = (1 / unbounded(4).encode()[0, 0]) ** 2
    np.testing.assert_allclose(
        (1 - first[3:]) * norm, (1.6 / np.array(sizes[3:])) ** 0.86 / (0.86 * math.pi), rtol=0.02
    )
    many = np.linalg.norm(unbounded(sizes[-1]).encode(), axis=0)
    assert (many < 1).all()
    assert (np.diff(many) < 0).all()


def segments_by_matrices(length: int, weight: float) -> np.ndarray:
    """Variances of the best linear estimates from all rows that were released by then, of independent noise 1."""
    encode, released = [], []
    for k in range(length.bit_length()):
        start, size = (1 << k) - 1, 1 << k
        inside = np.zeros((size, 2 * length))
        inside[:, start : start + size] = normalised(size).encode() * math.sqrt(1 - weight if k else 1)
        total = np.zeros((1, 2 * length))
        total[0, start : start + size] = math.sqrt(weight)
        encode.append(np.vstack([inside, total])[: size + (k > 0)])
        released += [*range(start, start + size), *([start + size - 1] * (k > 0))]
    rows, found = np.vstack(encode), []
    assert np.linalg.norm(rows, axis=0).max() == pytest.approx(1.0)
    for time in range(length):
        seen = rows[np.array(released) <= time][:, : time + 1]
        found.append(np.ones(time + 1) @ np.linalg.solve(seen.T @ seen, np.ones(time + 1)))
    return np.array(found)


@pytest.mark.parametrize("weight", [0.2, 0.35, 0.5])
def test_segments_err_by_what_their_matrices_say(weight: float) -> None:
    np.testing.assert_allclose(unknown.segments(100, weight), segments_by_matrices(100, weight), rtol=1e-9)


def test_what_not_knowing_the_length_costs() -> None:
    """Largest variance up to T over that of the normalised square root of length T, for T up to 512."""
    at = sorted({*range(1, 24), *unknown.lengths(512)})
    weight = unknown.best_weight(512)
    worst = unknown.beside_known(unknown.segments(512, weight), at).max()
    assert weight == pytest.approx(0.31, abs=0.02)
    assert worst == pytest.approx(3.05, abs=0.01)
    for other in (0.1, 0.2, 0.45, 0.6):
        assert unknown.beside_known(unknown.segments(512, other), at).max() > worst
    assert unknown.beside_known(unbounded(512).deviations ** 2, at).max() <= 1.5


def test_no_matrix_is_close_to_knowing_the_length_at_every_length() -> None:
    """The bound holds for the matrices at hand, and the best of them are near it."""
    assert 1.32 < unknown.least_possible(16) < 1.324
    at = list(range(1, 17))
    for variances in (unknown.segments(16, 0.3), unbounded(16).deviations ** 2):
        assert unknown.beside_known(variances, at).max() > unknown.least_possible(16)
