"""Published synthetic control: its noise by the laws as printed, and exact figures of what objective perturbation fails at."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.paper_synthetic_control import __main__ as paper_synthetic_control
from benchmarks.paper_synthetic_control.claims import of_budgets, of_penalties
from benchmarks.paper_synthetic_control.curves import METHODS, Point, point
from benchmarks.paper_synthetic_control.data import Panel, synthetic
from benchmarks.paper_synthetic_control.published import (
    Objective,
    Pool,
    high_dimensional_laplace,
    published_output,
    ridge,
    tight_output,
    tight_sds,
)
from dprelease.privacy.gaussian import mu_of


def test_the_radius_is_gamma_and_the_direction_uniform() -> None:
    noise = high_dimensional_laplace(2.0, (200_000, 10), np.random.default_rng(1))
    radius = np.linalg.norm(noise, axis=1)
    assert radius.mean() == pytest.approx(20, abs=5 * math.sqrt(40 / 200_000))
    assert radius.var() == pytest.approx(40, rel=0.05)
    direction = (noise / radius[:, None]).mean(axis=0)
    assert np.abs(direction).max() < 5 / math.sqrt(10 * 200_000)
    whole = high_dimensional_laplace(1.0, (20_000, 4, 3), np.random.default_rng(2))
    assert np.sqrt((whole**2).sum(axis=(1, 2))).mean() == pytest.approx(12, abs=5 * math.sqrt(12 / 20_000))


def test_published_noise_at_lambda_t0() -> None:
    pool = Pool(np.zeros((10, 10)), np.zeros(10), np.zeros((10, 3)))
    assert np.linalg.norm(
        published_output(pool, 10.0, 1.0, 40_000, np.random.default_rng(3)), axis=1
    ).mean() == pytest.approx(169.7, abs=1.5)
    assert ridge(pool, 10.0).tolist() == [0.0] * 10


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [(1.0, 0.0, 0.003194), (5.0, 0.0, 0.03510), (1.0, 1e-6, 0.017836), (5.0, 1e-6, 0.18565)],
)
def test_objective_perturbation_by_quadrature(epsilon: float, delta: float, expected: float) -> None:
    """One donor at T0 = lambda = 10 from 0 to 1: the exact delta(epsilon) of what is claimed (epsilon, delta)."""
    how = Objective.of(1, 10, 10.0, epsilon, delta)
    law = stats.norm(0, how.scale) if delta else stats.laplace(0, how.scale)
    half = (10 + how.extra) / 2

    reach = 40 * how.scale / half
    f = np.linspace(-reach, reach, 2_000_001)

    def density(x: float) -> np.ndarray:
        curvature = 10 * x * x + half  # b = 2 (10 x - curvature f)
        return np.asarray(law.pdf(2 * (10 * x - curvature * f)) * 2 * curvature)

    one, two = density(0.0), density(1.0)
    gains = [np.maximum(a - math.exp(epsilon) * b, 0.0) for a, b in ((one, two), (two, one))]
    found = max(integrate.trapezoid(gain, f) for gain in gains)
    assert found == pytest.approx(expected, rel=2e-3)


def test_tight_noise_is_that_of_the_product() -> None:
    pool = Pool(np.zeros((10, 10)), np.ones(10), np.zeros((10, 3)))
    assert tight_sds(pool, 10.0, 1.0, 1e-6) == (pytest.approx(8.44936, abs=1e-5), pytest.approx(20.6966, abs=1e-4))
    for delta in (0.0, 1e-6):
        weights, after = tight_output(pool, 10.0, 1.0, delta, 20_000, np.random.default_rng(4))
        sds = tight_sds(pool, 10.0, 1.0, 1e-6)
        # A radius of Gamma(d, a) has the mean square d (d + 1) a^2.
        laplace = (math.sqrt(11) * math.sqrt(2) * 2, math.sqrt(31) * 2 * math.sqrt(3) * 2)
        for found, gauss, other in zip((weights, after), sds, laplace, strict=True):
            assert math.sqrt(float(np.mean(found**2))) == pytest.approx(gauss if delta else other, rel=0.03)


def test_scaled_panels_lie_within_their_bounds_and_raw_ones_do_not() -> None:
    panel = synthetic(10, 10, np.random.default_rng(5))
    scaled, raw = panel.scaled(), panel.raw()
    assert max(np.abs(each).max() for each in (scaled.donors, scaled.target, scaled.after)) <= 1
    assert np.abs(raw.after).max() > 30
    assert scaled.donors.shape == (10, 10)
    assert scaled.after.shape == (10, 3)


@pytest.mark.parametrize("donors", [10, 100])
def test_tight_noise_beats_both_published_variants_at_equal_epsilon(donors: int) -> None:
    sets = [synthetic(10, donors, np.random.default_rng(6))]
    for epsilon in (4.0, 100.0):
        found = point(sets, "bounds", 10.0, epsilon, 60, 7)
        assert set(found.rmse) == set(METHODS)
        assert all(found.ahead("tight", rival) for rival in ("out", "obj", "obj gauss"))
    assert set(point(sets, "raw", 10.0, 4.0, 20, 7).rmse) == {"ridge", "out", "obj", "obj gauss"}


def test_claims_hold_of_errors_made_to_have_them() -> None:
    def made(before: int, donors: int, penalty: float, epsilon: float) -> Point:
        away = 1 + abs(math.log(penalty / before)) * (penalty < before)
        obj, out = 3 * away / epsilon + 1e-3 * donors / epsilon, donors * away * (10 / epsilon if epsilon > 3 else 0.1)
        rmse = {"ridge": 0.1, "obj": obj, "out": out, "obj gauss": obj / before, "tight": out, "posterior": out}
        if penalty > 1000:
            rmse = dict.fromkeys(rmse, 0.1)
        return Point("made up", before, donors, "raw", penalty, epsilon, rmse, dict.fromkeys(rmse, 0.0))

    settings = [(10, 10), (10, 100), (100, 10), (100, 100)]
    by_penalty = [[made(*each, penalty, 100.0) for penalty in (1, 10, 100, 5000)] for each in settings]
    by_budget = [[made(*each, each[0], epsilon) for epsilon in (2, 4, 20, 100, 200)] for each in settings]
    found = of_penalties(by_penalty, "raw") + of_budgets(by_budget, "raw")
    verdicts = {claim.words: claim.holds for claim in found}
    assert verdicts["methods converge as lambda grows"]
    assert verdicts["objective depends less on n than output"]
    assert verdicts["Gaussian noise better at most epsilon"]
    assert verdicts["with Gaussian noise T0 = 100 ahead of T0 = 10"]
    assert verdicts["smaller n is better at epsilon < 100, out"]
    assert not verdicts["error falls with epsilon, out"]


def test_a_private_path_of_a_panel_is_the_plain_one_where_noise_is_small() -> None:
    panel = synthetic(10, 10, np.random.default_rng(8))
    named = Panel(panel.name, panel.donors, panel.target, 10, panel.bounds, panel.truth, tuple(range(13)))
    pool = panel.scaled()
    exact = panel.middle + panel.half * (pool.after.T @ ridge(pool, 10.0))
    found = paper_synthetic_control.private_path(named, 1e5, np.random.default_rng(9))
    assert np.abs(found.path - exact).max() < 5 * found.path_sd.max() < 2.0
    assert mu_of(1e5, paper_synthetic_control.PANEL_DELTA) > 100
