"""Factorisations against published errors, against their definitions, and against least squares."""

import math
from fractions import Fraction
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_triangular

from dprelease.mechanisms.stream.factorization import (
    FACTORS,
    FRACTION_BITS,
    MOST_CHECKPOINTS,
    FactorName,
    coefficients,
    decoding,
)

NAMES: tuple[FactorName, ...] = get_args(FactorName)
HALF = Fraction(1, 2)


@cache
def matrix(name: FactorName, checkpoints: int, most: int | None = None) -> Any:
    """(R, T) all rows of C' up to a checkpoint."""
    rows = [FACTORS[name].rows(number, most or checkpoints) for number in range(1, checkpoints + 1)]
    return np.vstack([np.pad(each, ((0, 0), (0, checkpoints - each.shape[1]))) for each in rows])


@cache
def variances(name: FactorName, checkpoints: int, most: int | None = None) -> Any:
    """(T,) noise variances of all prefix sums of a square factor: squared rows of A C'^-1, times D'^2."""
    ones = np.tril(np.ones((checkpoints, checkpoints)))
    whole = matrix(name, checkpoints, most).astype(np.float64)
    back = solve_triangular(whole, ones.T, trans="T", lower=True)
    return (back**2).sum(axis=0) * FACTORS[name].norm2(most or checkpoints)


def plain_tree(checkpoints: int) -> Any:
    """(T,) the same of the tree where each prefix is the sum of the fewest nodes."""
    return checkpoints.bit_length() * np.bitwise_count(np.arange(1, checkpoints + 1))


# For sensitivity 1 and noise 1, in exact columns: plain tree, square root, square root with columns of one norm.
PUBLISHED = {
    12: (3.464, 2.708, 1.851, 1.709, 1.696, 1.625),
    52: (5.477, 4.062, 2.323, 2.164, 2.147, 2.064),
    100: (6.481, 4.725, 2.531, 2.371, 2.351, 2.265),
    365: (8.485, 6.063, 2.944, 2.782, 2.756, 2.668),
    1000: (9.487, 7.027, 3.265, 3.102, 3.073, 2.984),
}


@pytest.mark.parametrize("checkpoints", PUBLISHED)
def test_errors_of_prefix_sums(checkpoints: int) -> None:
    """Worst and root mean square: the plain tree, the square root without and with columns of equal norms."""
    squares = np.cumsum(coefficients(HALF, checkpoints) ** 2)
    kinds = plain_tree(checkpoints), squares * squares[-1], variances("square-root", checkpoints)
    found = [value for each in kinds for value in (math.sqrt(each.max()), math.sqrt(each.mean()))]
    np.testing.assert_allclose(found, PUBLISHED[checkpoints], atol=1e-3)


def test_the_default_has_a_third_of_the_trees_worst_error() -> None:
    default, tree = (math.sqrt(each.max()) for each in (variances("square-root", 1000), plain_tree(1000)))
    assert default <= 0.33 * tree


def test_levels_of_the_tree() -> None:
    levels = {1: 1, 2: 2, 3: 2, 4: 3, 7: 3, 8: 4, 1000: 10, 1023: 10, 1024: 11}
    assert {checkpoints: FACTORS["tree"].norm2(checkpoints) for checkpoints in levels} == levels
    sigma = 3.73063163482  # Delta = 1, (epsilon, delta) = (1, 1e-5)
    for checkpoints, scale in {1: 3.73063, 2: 5.2759099, 8: 7.4612633, 1024: 12.373105}.items():
        assert sigma * math.sqrt(FACTORS["tree"].norm2(checkpoints)) == pytest.approx(scale, abs=1e-5)


@pytest.mark.parametrize("checkpoints", [1, 2, 3, 7, 8, 33, 100])
@pytest.mark.parametrize("name", NAMES)
def test_the_norm_is_that_of_the_rounded_columns(name: FactorName, checkpoints: int) -> None:
    whole, factor = matrix(name, checkpoints), FACTORS[name]
    assert whole.dtype == np.int64
    assert factor.norm2(checkpoints) == int((whole**2).sum(axis=0).max())
    assert factor.largest == int(np.abs(whole).max())
    assert factor.norm2(checkpoints) >= 1
    counts = [len(factor.rows(number, checkpoints)) for number in range(1, checkpoints + 1)]
    assert counts == [factor.count(number) for number in range(1, checkpoints + 1)]


@pytest.mark.parametrize("name", ["square-root", "weighted"])
def test_entries_are_rounded_ones(name: FactorName) -> None:
    """By exact rational arithmetic, but where a number lies within 1e-9 of the middle of two."""
    fall, checkpoints = {"square-root": 0, "weighted": Fraction(9, 20)}[name], 40
    values, weights = [Fraction(1)], [Fraction(1)]
    for k in range(1, checkpoints + 1):
        values.append(values[-1] * (k - HALF) / k)
        weights.append(weights[-1] * (k - fall) / k)
    for t in range(1, checkpoints + 1):
        for s in range(1, t + 1):
            norm2 = sum((values[r - s] * weights[r]) ** 2 for r in range(s, checkpoints + 1))
            squared = (values[t - s] * weights[t]) ** 2 / norm2
            exact = math.sqrt(squared) * 2**FRACTION_BITS
            if abs(exact % 1 - 0.5) > 1e-9:
                assert FACTORS[name].rows(t, checkpoints)[0, s - 1] == round(exact)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_decoding_is_the_shortest_solution_whatever_fails(data: st.DataObject) -> None:
    checkpoints = data.draw(st.integers(1, 40))
    later = data.draw(st.sets(st.integers(2, max(checkpoints, 2)).filter(lambda t: t <= checkpoints)))
    used = (1, *sorted(later))
    for name in NAMES:
        rows = [FACTORS[name].rows(number, checkpoints) for number in used]
        padded = np.vstack([np.pad(each, ((0, 0), (0, checkpoints - each.shape[1]))) for each in rows])
        whole = padded[:, np.array(used) - 1].astype(float)
        weights = decoding(name, checkpoints, used)
        np.testing.assert_allclose(weights @ whole, 1, atol=1e-10)
        shortest = np.linalg.lstsq(whole.T, np.ones(len(used)), rcond=None)[0]
        np.testing.assert_allclose(weights, shortest, atol=1e-9)


def test_unknown_length_costs_half_the_variance_of_a_known_one_more() -> None:
    """For these T up to 512, over a stream that knew it."""
    found = np.maximum.accumulate(variances("weighted", 512, MOST_CHECKPOINTS))
    ratios = {
        T: found[T - 1] / variances("square-root", T).max() for T in (1, 2, 3, 4, 8, 12, 16, 32, 64, 100, 128, 365, 512)
    }
    assert max(ratios.values()) < 1.5
