"""How far a model may go from the constant predictor."""

import numpy as np

from dprelease.estimators.moments.gain import (
    IN_PUBLIC_BOUNDS,
    STEP_LENGTHS,
    step_length_by_draws,
    step_length_by_signal,
)
from dprelease.estimators.moments.posterior_fit import _fit


def test_in_public_bounds_it_goes_no_further_than_rare_cases_allow():
    """In a few cases of 100 slopes help up to alpha = 0.21 and harm beyond, in all others they always help."""
    steps = STEP_LENGTHS[:, None, None]
    for few, expected in ((4, 1.0), (6, 0.2)):
        wrong = (np.arange(100) < few)[:, None]
        found = step_length_by_draws(np.where(wrong, 0.21 * steps - steps**2, 2 * steps - steps**2), IN_PUBLIC_BOUNDS)
        np.testing.assert_allclose(found, expected)
    assert step_length_by_draws(np.where(wrong, -steps, 2 * steps - steps**2), IN_PUBLIC_BOUNDS) == 0


def test_a_step_is_no_longer_than_the_unbiased_gain_warrants():
    """As far as .95 of what 2 a k - a^2 reaches: to k (1 + sqrt(.05)) on the lattice; nowhere without signal or curvature."""
    found = step_length_by_signal(np.array([3.5, 2.0, -1.0, 0.0, 9.0, 1.0]), np.array([4.0, 4.0, 4.0, 0.0, 4.0, -1.0]))
    np.testing.assert_allclose(found, [1.0, 0.6, 0.0, 0.0, 1.0, 0.0])


def test_a_model_is_shortened_by_the_part_of_its_signal_that_the_draws_leave_open():
    """One feature of variance 1/4, whose covariance has the other sign in 3 of 100 draws: too few for the quantiles to see."""
    seen = np.where(np.arange(100) < 3, -0.3, 0.1)
    draws = np.tile(np.diag([1.0, 0.25, 0.25]), (100, 1, 1))
    draws[:, 1, 2] = draws[:, 2, 1] = seen
    for intercept in (True, False):
        fit = _fit(draws, draws.mean(axis=0), [1], 2, IN_PUBLIC_BOUNDS, blind=False, intercept=intercept).fit
        far = (1 - seen.var() / seen.mean() ** 2) * (1 + np.sqrt(0.05))
        np.testing.assert_allclose(fit.weights, [[seen.mean() / 0.25 * np.floor(40 * far) / 40]])


def test_the_gain_that_bounds_a_step_is_unbiased_under_a_prior_that_shrinks():
    """g of 2 features is 0.3 N(0, 1), its noise 0.4 N(0, 1), M known: the mean over 20,000 releases, within 4 s.e.

    The posterior mean is 9/25 of what is released, and the exact linear part w^T g a quarter of what the rule for vague
    priors, w^T M w less what is open, would take off too much.
    """
    random = np.random.default_rng(8)
    truth = 0.3 * random.normal(size=(20_000, 2))
    released = truth + 0.4 * random.normal(size=truth.shape)
    kept = 0.3**2 / (0.3**2 + 0.4**2)
    w, left_open = kept * released, 2 * kept * 0.4**2
    off = (w * released).sum(axis=1) - left_open - (w * truth).sum(axis=1)
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off))
    vague = (w * w).sum(axis=1) - left_open - (w * truth).sum(axis=1)
    assert vague.mean() < -4 * vague.std() / np.sqrt(len(vague))
