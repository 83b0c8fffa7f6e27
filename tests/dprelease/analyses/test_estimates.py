"""Laws over draws: mixtures of Student's, regions of several quantities, and their classical limits."""

import numpy as np
import pytest
from scipy.stats import chi2, f, multivariate_t, norm, t

from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import joint_test
from dprelease.errors import InvalidInput


def test_one_draw_is_students_law() -> None:
    one = Estimates(("a",), np.array([[2.0]]), np.array([[0.7]]), 9, tested=True)
    assert np.ravel(one.interval(0.9)) == pytest.approx(t(9, 2, 0.7).interval(0.9))
    assert one.p_value[0] == pytest.approx(2 * t(9).sf(2 / 0.7))
    assert (one.noise_sd[0], one.standard_error[0], one.resolution) == (0, pytest.approx(0.7), 0)


def test_a_mixture_of_normal_draws_is_normal_with_both_variances() -> None:
    draws = norm(1, 0.3).ppf((np.arange(4000) + 0.5) / 4000)[:, None]
    both = Estimates(("a",), draws, np.full_like(draws, 0.4), tested=True)
    assert np.ravel(both.interval()) == pytest.approx(norm(1, 0.5).interval(0.95), abs=1e-3)
    assert both.p_value[0] == pytest.approx(2 * norm.sf(2), rel=1e-2)
    only = Estimates(("a",), draws)
    assert np.ravel(only.interval()) == pytest.approx(norm(1, 0.3).interval(0.95), abs=1e-2)
    assert np.isnan(only.p_value[0])


@pytest.mark.parametrize(("link", "turned"), [("log", np.exp), ("fisher", np.tanh)])
def test_links_turn_estimates_and_ends(link: str, turned: object) -> None:
    plain = Estimates(("a", "b"), np.array([[0.2, -1.0], [0.4, -0.8]]), np.full((2, 2), 0.1))
    other = Estimates(plain.names, plain.location, plain.scale, link=link)  # type: ignore[arg-type]
    assert other.estimate == pytest.approx(turned(plain.estimate))  # type: ignore[operator]
    for end, same in zip(other.interval(), plain.interval(), strict=True):
        assert end == pytest.approx(turned(same))  # type: ignore[operator]
    assert other["b"].estimate == other.estimate[1]


def test_draws_tell_no_p_value_below_their_number() -> None:
    sure = Estimates(("a",), np.full((50, 1), 9.0), np.ones((50, 1)), tested=True)
    assert sure.p_value[0] == sure.resolution == 1 / 50
    both = Estimates(("a", "b"), np.full((50, 2), 9.0))
    assert joint_test(both, np.tile(np.eye(2), (50, 1, 1))).p_value == 1 / 50


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_levels_are_checked(level: float) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        Estimates(("a",), np.zeros((1, 1))).interval(level)


@pytest.mark.parametrize("degrees", [7.0, np.inf])
def test_a_joint_test_of_one_draw_is_the_classical_one(degrees: float) -> None:
    location, covariance = np.array([[0.5, -1.0, 0.2]]), np.diag([0.1, 0.4, 0.2])[None] + 0.05
    square = float(location[0] @ np.linalg.solve(covariance[0], location[0]))
    found = joint_test(Estimates(("a", "b", "c"), location, degrees=degrees), covariance)
    known = f(3, degrees).sf(square / 3) if np.isfinite(degrees) else chi2(3).sf(square)
    assert found.p_value == pytest.approx(known)


@pytest.mark.parametrize(("degrees", "centre"), [(np.inf, 0.8), (12.0, 0.8), (np.inf, 0.3)])
def test_noise_counts_as_error_in_a_joint_test(degrees: float, centre: float) -> None:
    """Of normal draws the law is normal again, to 4 standard errors of 1,000 draws; with Student's errors it is simulated."""
    generator = np.random.default_rng(1)
    noise, sampling = np.array([[0.09, 0.02], [0.02, 0.04]]), np.array([[0.02, 0.0], [0.0, 0.05]])
    draws = generator.multivariate_normal([centre, -centre / 2], noise, 1000)
    estimates = Estimates(("a", "b"), draws, degrees=degrees)
    found = joint_test(estimates, np.tile(sampling, (1000, 1, 1)))
    whole = np.cov(draws.T, bias=True) + sampling
    away = draws.mean(axis=0)
    square = away @ np.linalg.solve(whole, away)
    errors = multivariate_t(shape=sampling, df=degrees, seed=2).rvs(200_000) if np.isfinite(degrees) else None
    known = chi2(2).sf(square)
    if errors is not None:
        summed = errors + generator.multivariate_normal([0, 0], np.cov(draws.T, bias=True), 200_000)
        known = (np.einsum("si,ij,sj->s", summed, np.linalg.inv(whole), summed) >= square).mean()
    # Samples of one draw share it, so the draws' number decides.
    assert found.p_value == pytest.approx(known, abs=4 * np.sqrt(known / 1000))
    assert found.p_value == joint_test(estimates, np.tile(sampling, (1000, 1, 1))).p_value
