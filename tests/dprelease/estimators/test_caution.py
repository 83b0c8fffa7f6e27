"""How far a model may go from the constant predictor."""

from __future__ import annotations

import numpy as np

from dprelease.estimators.moments.risk import ALPHAS, furthest, furthest_of_draws, warnings


def test_a_model_goes_as_far_as_nearly_all_of_the_best_cautious_gain_allows():
    steps = ALPHAS[:, None]
    slopes = np.array([1.0, 0.6, 0.0, -0.5])
    gain = 2 * steps * slopes - steps**2
    # 2 a s - a^2 >= .95 s^2 up to a = s (1 + sqrt(.05)); the lattice has steps of 1/40.
    np.testing.assert_allclose(furthest(gain), [1.0, np.floor(0.6 * 40 * (1 + np.sqrt(0.05))) / 40, 0.0, 0.0])


def test_it_stays_where_every_step_is_expected_to_harm():
    assert furthest(-ALPHAS) == 0
    assert furthest(np.where(ALPHAS > 0.5, -1.0, ALPHAS)) == 0.5


def test_it_goes_no_further_than_rare_cases_allow():
    """In a few cases of 100 slopes help up to alpha = 0.21 and harm beyond, in all others they always help."""
    steps = ALPHAS[:, None, None]
    for few, expected in ((4, 1.0), (6, 0.2)):
        wrong = (np.arange(100) < few)[:, None]
        found = furthest_of_draws(np.where(wrong, 0.21 * steps - steps**2, 2 * steps - steps**2))
        np.testing.assert_allclose(found, expected)
    assert furthest_of_draws(np.where(wrong, -steps, 2 * steps - steps**2)) == 0


def test_targets_that_were_given_up_and_means_that_are_unsure_are_counted():
    assert warnings(np.array([1.0, 0.2]), np.array([0.1, 0.25])) == ()
    given_up, unsure = warnings(np.array([0.0, 0.0, 1.0]), np.array([0.3, 0.0, 0.0]))
    assert given_up.startswith("For 2 of 3 targets noise hides any relation")
    assert unsure.startswith("For 1 of 3 targets the noise in the mean")
