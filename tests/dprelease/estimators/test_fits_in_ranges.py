"""Method `shrinkage` on numbers in ranges, which all fill about as much of what they are coded in."""

from dataclasses import fields, replace

import numpy as np
import pytest

from benchmarks import moments_utility as utility
from benchmarks.accuracy.problem import Problem
from benchmarks.accuracy.ranges import bounded_rows
from benchmarks.accuracy.tables import TABLES
from benchmarks.common.fits import fit_moments
from benchmarks.common.moment_releases import both_rounds
from dprelease.data.ranges import Range
from dprelease.estimators.evidence.evidence import posterior
from dprelease.estimators.moments.gain import IN_PUBLIC_BOUNDS, IN_RANGES
from dprelease.estimators.moments.posterior_fit import _needed
from dprelease.estimators.quality import Quality
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.gaussian import mu_of
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.support.specs import numeric

ROWS = mixed_rows(3000)
OUTCOME = 8


def in_ranges(moments: NoisyMoments) -> NoisyMoments:
    """The same moments as if the bounds of their numbers were ranges."""
    columns = moments.layout.columns
    whole = tuple(map(Range.whole, numbers_of(columns)))
    return replace(
        moments, clipping=Clipping(constant=1, weights=(1,) * len(columns), ranges=whole, square_weight="1/2")
    )


@pytest.mark.usefixtures("short_chains")
def test_in_ranges_the_prior_is_about_the_outcomes_own_regression():
    """Slopes are those of least squares on draws with the outcome last, of each of two targets as if it were alone."""
    noisy = noisy_moments(MIXED, ROWS, 0.01, np.random.default_rng(5))
    moments, x = in_ranges(noisy), [1, 3]
    both = fit_moments(moments, x, [OUTCOME, 2], intercept=True)
    for place, y in enumerate((OUTCOME, 2)):
        mean = posterior(moments, y).mean(axis=0)
        best = np.linalg.solve(mean[np.ix_([0, *x], [0, *x])], mean[[0, *x], y])[1:]
        alpha = both.weights[:, place] / best
        assert alpha[0] == pytest.approx(alpha[1], rel=1e-7)
        assert 0 <= alpha[0] <= 1 + 1e-12  # a quotient of sums
        alone = fit_moments(moments, x, [y], intercept=True)
        np.testing.assert_array_equal(both.weights[:, [place]], alone.weights)
    assert both.weights[:, 0].all()


@pytest.mark.usefixtures("half_chains")
def test_in_ranges_a_relation_is_followed_that_is_not_in_public_bounds():
    """An outcome of which four features explain a half, under declared noise of which none is added."""
    generator = np.random.default_rng(6)
    rows = generator.normal(0, 0.3, (800, 5))
    rows[:, 4] = (rows[:, 0] + generator.normal(0, 0.3, 800)) / 2
    noisy = noisy_moments(tuple(numeric(f"z{place}") for place in range(5)), np.clip(rows, -1, 1), 0.02)
    explained = []
    for moments in (noisy, in_ranges(noisy)):
        found = fit_moments(moments, [1, 2, 3, 4], [5], intercept=True)
        model = np.append(found.offsets, found.weights[:, 0])
        explained.append(utility.r_squared(noisy.gram / noisy.rows, 5, [1, 2, 3, 4], model))
    assert explained[0] < 0.01
    assert explained[1] > 0.3


def quality(gain: float, gain_se: float) -> Quality:
    names = (field.name for field in fields(Quality))
    return Quality(**{name: np.array([{"gain": gain, "gain_se": gain_se}.get(name, 1.0)]) for name in names})


def test_hidden_features_are_needed_for_a_twentieth_of_the_gain_in_ranges_and_for_a_quarter_of_a_cautious_guess_elsewhere():
    part = quality(1.0, 0.2)
    for care, least in ((IN_RANGES, 1.05), (IN_PUBLIC_BOUNDS, 0.3 + 1.25 * 0.8)):
        assert _needed(quality(least + 1e-6, 0.3), part, care)
        assert not _needed(quality(least - 1e-6, 0.3), part, care)


def test_draws_stay_within_norms_though_their_density_does_not_know_them():
    """Of one release of the demo's survey at (1, 1e-6), squares of every hospital's numbers are within what clipping allows."""
    problem = Problem.of(next(table for table in TABLES if table.path is None))
    moments, _ = both_rounds(bounded_rows(problem), mu_of(1.0, 1e-6), np.random.default_rng(7))
    assert moments.clipping is not None
    squares = np.diagonal(posterior(moments), axis1=1, axis2=2)
    filled = np.array([squares[:, ball.places] @ (np.array(ball.radii) ** -2.0) for ball in moments.balls])
    assert len(filled) == len(moments.clipping.norms) == 3
    assert np.all((filled.mean(axis=1) > 0.25) & (filled.mean(axis=1) < 0.75))
    assert np.mean(filled > 1) <= 0.001
