"""Moments before clipping, out of those of normal rows that were drawn, shifted, clipped in two blocks, and of others."""

import numpy as np
import pytest

from dprelease.data.ranges import Range
from dprelease.estimators.evidence.before_clipping import PublishedSpreads, before_clipping
from dprelease.mechanisms.moments.clipping import Ball, Clipping, Norm
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.support.specs import categorical, numeric

ROWS = 200_000
BALLS = (Ball((1, 2, 3), (0.55, 0.55, 0.4)), Ball((5,), (2 / 3,)), Ball((6, 7), (0.62, 0.62)))
"""Numbers 1 to 3 and 6 and 7 by norms (the third weighs more), 5 alone at two standard deviations; 4 is a binary."""
SPREADS = PublishedSpreads(np.full(7, 1 / 3), np.zeros(7))
TOGETHER, NUMBERS = [0, 1, 2, 5, 6], [0, 1, 2, 4, 5, 6]


def clipped(rows: np.ndarray, balls: tuple[Ball, ...] = BALLS) -> np.ndarray:
    found = rows.copy()
    for ball in balls:
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


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.8, 0.95])
def test_normal_rows_come_out_as_they_were(correlation: float) -> None:
    """To a percent of spreads and means, to .01 of correlations, but of strong ones with a binary, which is not normal."""
    rows = rows_of(correlation)
    truth, plain = parts(moments(rows)), parts(moments(clipped(rows)))
    found = parts(before_clipping(moments(clipped(rows))[None], BALLS, SPREADS).draws[0])
    assert np.abs(found[0] - truth[0]).max() < 0.01 / 3
    np.testing.assert_allclose(found[1], truth[1], rtol=0.012)
    assert (plain[1][TOGETHER] < 0.93 * truth[1][TOGETHER]).all()
    numbers = np.ix_(NUMBERS, NUMBERS)
    assert np.abs(found[2] - truth[2])[numbers].max() < 0.01
    assert np.abs(found[2] - truth[2]).max() < max(0.01, 0.08 * correlation)
    assert found[0][3] == plain[0][3]
    assert found[1][3] == pytest.approx(plain[1][3])


@pytest.mark.parametrize(("own", "others"), [(0.5, 0.5), (0.9, 0.5), (0.9, 0.8), (0.9, 0.9)])
def test_slopes_of_numbers_that_go_together_come_out_as_they_were(own: float, others: float) -> None:
    """Of two hospitals with three numbers each, to a sixth of what clipping at the mean squared norm moves them by."""
    law = np.full((6, 6), others) + np.eye(6) * (1 - own)
    law[:3, :3] += own - others
    law[3:, 3:] += own - others
    rows = np.random.default_rng(9).normal(size=(2 * ROWS, 6)) @ np.linalg.cholesky(law).T / 3
    balls = tuple(Ball(places, (3**0.5 / 3,) * 3) for places in ((1, 2, 3), (4, 5, 6)))
    layout = Layout(tuple(map(numeric, "abcdef")))
    gram = moments(clipped(rows, balls))
    clipping = Clipping(
        constant=1,
        weights=(3,) * 6,
        ranges=tuple(map(Range.whole, "abcdef")),
        norms=(Norm(columns=tuple("abc"), squared=3), Norm(columns=tuple("def"), squared=3)),
        square_weight="1/2",
    )
    released = NoisyMoments(layout, 1000 * gram, np.zeros_like(gram), 1000, clipping)
    assert [each.places for each in released.balls] == [each.places for each in balls]
    found = before_clipping(gram[None], released.balls, PublishedSpreads.of(released, {})).draws[0]
    for target in (1, 5):
        truth, moved, corrected = (slopes(each, target) for each in (moments(rows), gram, found))
        assert np.abs(corrected - truth).max() < np.abs(moved - truth).max() / 6


def slopes(matrix: np.ndarray, target: int) -> np.ndarray:
    """Of a number on three of its own hospital's and the other's."""
    features = [0, *(place for place in (1, 2, 4, 5) if place != target)]
    found: np.ndarray = np.linalg.solve(matrix[np.ix_(features, features)], matrix[features, target])[1:]
    return found


def test_published_spreads_are_what_the_ends_of_ranges_are_made_of() -> None:
    columns = (*map(numeric, "ab"), categorical("s", "yes"))
    clipping = Clipping(
        constant=1,
        weights=(3, 3, 1),
        ranges=(Range(name="a", centre=0, half_width=300, reach=4), Range.whole("b")),
        square_weight="1/2",
    )
    released = NoisyMoments(Layout(columns), np.eye(4), np.ones((4, 4)), 1000, clipping)
    found = PublishedSpreads.of(released, {})
    np.testing.assert_allclose(found.deviation[:2], [1 / (3 * 1.25**4), 1 / 3])
    assert not found.error.any()


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
