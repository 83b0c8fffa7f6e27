"""Moments before clipping, out of those of normal rows that were drawn, shifted, clipped in two blocks, and of others."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.estimators.moments.before_clipping import PublishedSpreads, _kept, before_clipping
from dprelease.mechanisms.moments.clipping_bias import Ball, across, within

ROWS = 200_000
BALLS = (Ball((1, 2, 3), (0.55, 0.55, 0.4)), Ball((5,), (2 / 3,)), Ball((6, 7), (0.62, 0.62)))
"""Numbers 1 to 3 and 6 and 7 by norms (the third weighs more), 5 alone at two standard deviations; 4 is a binary."""
SPREADS = PublishedSpreads(np.full(7, 1 / 3), np.zeros(7))
TOGETHER = [0, 1, 2, 5, 6]


def clipped(rows: np.ndarray) -> np.ndarray:
    found = rows.copy()
    for ball in BALLS:
        places = np.array(ball.places) - 1
        lengths = np.sqrt(((rows[:, places] / np.array(ball.radii)) ** 2).sum(axis=1))
        found[:, places] /= np.maximum(lengths, 1)[:, None]
    return found


def rows_of(correlation: float) -> np.ndarray:
    """Normal numbers of standard deviation 1/3, not far from their centres, and a binary that goes with them."""
    generator = np.random.default_rng(7)
    law = (1 - correlation) * np.eye(7) + correlation
    rows = generator.normal(size=(ROWS, 7)) @ np.linalg.cholesky(law).T / 3
    rows += np.array([0.03, -0.03, 0.01, 0, 0.03, 0, -0.02])
    rows[:, 3] = np.sign(rows[:, 3] + 0.2)
    return rows


def moments(rows: np.ndarray) -> np.ndarray:
    x = np.column_stack([np.ones(len(rows)), rows])
    found: np.ndarray = x.T @ x / len(rows)
    return found


def parts(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean = matrix[0, 1:]
    covariance = matrix[1:, 1:] - np.outer(mean, mean)
    spread = np.sqrt(np.diag(covariance))
    return mean, spread, covariance / np.outer(spread, spread)


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.8])
def test_normal_rows_come_out_as_they_were(correlation: float) -> None:
    """To a percent of spreads and means; to .01 of correlations, and .05 of strong ones between blocks."""
    rows = rows_of(correlation)
    truth, plain = parts(moments(rows)), parts(moments(clipped(rows)))
    found = parts(before_clipping(moments(clipped(rows))[None], BALLS, SPREADS).draws[0])
    assert np.abs(found[0] - truth[0]).max() < 0.01 / 3
    np.testing.assert_allclose(found[1], truth[1], rtol=0.012)
    assert (plain[1][TOGETHER] < 0.93 * truth[1][TOGETHER]).all()
    together = np.ix_([0, 1, 2], [0, 1, 2])
    assert np.abs(found[2] - truth[2])[together].max() < 0.01
    assert np.abs(found[2] - truth[2]).max() < max(0.01, 0.06 * correlation)
    assert found[0][3] == plain[0][3]
    assert found[1][3] == pytest.approx(plain[1][3])


def test_known_parts() -> None:
    equal = np.full((1, 4), 1 / 5.0)
    np.testing.assert_allclose(_kept(equal, 1.0), within(4, 5.0), rtol=1e-6)
    np.testing.assert_allclose(_kept(equal, 0.5), across(4, 5.0), rtol=1e-6)
    np.testing.assert_allclose(_kept(np.array([[1 / 4, 0.0]]), 1.0)[0, 0], within(1, 4.0), rtol=1e-6)


def test_what_is_not_clipped_stays_and_a_column_without_spread_is_no_error() -> None:
    rows = rows_of(0.3)
    rows[:, 5] = 0.0
    wide = (Ball((1, 2, 3), (9.0, 9.0, 9.0)), Ball((5,), (9.0,)), Ball((6, 7), (9.0, 9.0)))
    matrix = moments(rows)
    np.testing.assert_allclose(before_clipping(matrix[None], wide, SPREADS).draws[0], matrix, atol=1e-6)


def test_matrices_stay_positive_semidefinite_where_no_rows_can_have_them() -> None:
    """Numbers of two blocks that are the same after clipping, which shortens the one by rows of the other alone."""
    generator = np.random.default_rng(8)
    values = generator.normal(size=(5, 9, 7)) / 6
    values[:, :, 5] = values[:, :, 0]
    draws = np.stack([moments(each) for each in values])
    found = before_clipping(draws, BALLS, SPREADS).draws
    assert np.linalg.eigvalsh(found).min() > -1e-9
    mean = found[:, 0, 1:]
    assert np.isfinite(mean).all()


def test_an_error_of_a_published_spread_is_an_error_of_what_comes_out() -> None:
    """A part of it, for clipped rows say the rest themselves."""
    matrix = moments(clipped(rows_of(0.4)))
    errors = PublishedSpreads(SPREADS.deviation, SPREADS.deviation * np.array([0.05, 0.05, 0.05, 0, 0, 0, 0]))
    found = before_clipping(np.repeat(matrix[None], 400, axis=0), BALLS, errors).draws
    spreads = np.array([parts(each)[1] for each in found])
    error = spreads.std(axis=0) / spreads.mean(axis=0)
    one = before_clipping(matrix[None], BALLS, SPREADS._replace(deviation=SPREADS.deviation * 1.05)).draws[0]
    moved = np.abs(parts(one)[1] / parts(before_clipping(matrix[None], BALLS, SPREADS).draws[0])[1] - 1)
    assert (moved[:3] > 0.005).all()
    assert (moved[:3] < 0.04).all()
    assert (error[3:] < 1e-9).all()
    # Three errors of like weight are together an error of 1/sqrt(3); the third number weighs more.
    np.testing.assert_allclose(error[:3], moved[:3] / np.sqrt(3), rtol=0.25)
