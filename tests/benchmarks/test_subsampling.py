"""Amplification by a secret random part of the patients: the true formula, its published numbers, and who may use it.

The simulated releases of the benchmarks have the law of releases of rows: means and variances, with derived errors.

Coverage of slopes of the true rows in ranges: made-up tables, and the rows that the truth is of.

The figures of the benchmark of streams: a hiccup counts against the reach, growth shows in every one of them.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from benchmarks import blocks_utility
from benchmarks.common.block_releases import Blocks, wishart_root
from benchmarks.common.exact_releases import declared, default_model, moments_model, published_models
from benchmarks.common.report import Figure, Results
from benchmarks.common.subsampling import (
    amplified,
    base_epsilon,
    delta_of_part,
    mu_of_part,
    sampled_moments,
    secret_part,
)
from benchmarks.coverage.reaches import World, held
from benchmarks.streams import Cost, add_figures
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.privacy.gaussian import delta_of, epsilon_of, mu_of
from tests.support.noise import RecordingNoise, ZeroNoise

parts = st.floats(1e-6, 1.0)
epsilons = st.floats(1e-6, 50.0)


def test_published_numbers() -> None:
    """Balle, Barthe and Gaboardi (2018): ln(1 + gamma (e^eps - 1)) and its inverse, worked out apart from the code."""
    assert base_epsilon(0.5, 0.1) == pytest.approx(2.013196593, abs=1e-8)
    assert base_epsilon(1.0, 0.1) == pytest.approx(2.900477098, abs=1e-8)
    assert mu_of_part(1.0, 1e-5, 0.1, expert=True) == pytest.approx(0.794336617, abs=1e-8)
    assert amplified(5.0, 1e-5, 0.1)[0] == pytest.approx(2.75629, abs=1e-5)
    assert amplified(10.0, 1e-5, 0.1)[0] == pytest.approx(7.698, abs=5e-4)


@pytest.mark.parametrize(
    ("part", "epsilon", "real"),
    [(0.1, 0.5, 17.1), (0.1, 1.0, 49.6), (0.1, 2.0, 153.0), (0.5, 0.5, 0.280), (0.5, 1.0, 0.667), (0.5, 2.0, 1.698)],
)
def test_the_papers_noise_does_not_give_what_it_claims(part: float, epsilon: float, real: float) -> None:
    """sigma = (1/n) 2 sqrt(2 ln(2.5/delta)) R^2 / eps_1, eps_1 = (n/s) eps / 2, where the statistic moves by sqrt 2 R^2 / s."""
    delta = 1e-5
    sigma = 2 * math.sqrt(2 * math.log(2.5 / delta)) / (epsilon / 2 / part) * part  # in units of R^2 / s
    mu = math.sqrt(2) / sigma
    base = epsilon_of(mu, delta / 2 / part)
    assert amplified(base, delta / 2 / part, part)[0] == pytest.approx(real, rel=0.01)


@given(epsilons, parts)
def test_there_and_back_is_the_same_and_rounded_to_the_safe_side(epsilon: float, part: float) -> None:
    base = base_epsilon(epsilon, part)
    again, delta = amplified(base, 1e-6, part)
    assert again == pytest.approx(epsilon, rel=1e-12)
    assert delta >= part * 1e-6
    assert amplified(base_epsilon(epsilon, 1.0), 1e-6, 1.0)[0] == pytest.approx(epsilon, rel=1e-12)
    assert base * (1 - 1e-15) <= math.log1p(math.expm1(epsilon) / part)


@given(epsilons, st.floats(1e-12, 1e-7), parts)
def test_mu_of_a_part_gives_delta_and_no_more(epsilon: float, delta: float, part: float) -> None:
    mu = mu_of_part(epsilon, delta, part, expert=True)
    assert delta_of_part(epsilon, mu, part) <= delta * (1 + 1e-12)
    assert delta_of_part(epsilon, mu * (1 + 1e-6), part) > delta
    assert mu >= mu_of(epsilon, delta) * (1 - 1e-9)


@pytest.mark.parametrize(("part", "mu"), [(0.1, 1.0), (0.5, 0.5), (0.01, 3.0)])
def test_the_bound_is_the_hockey_stick_of_the_mixtures(part: float, mu: float) -> None:
    """By quadrature, for one patient out of n: drawn with chance gamma, else the same law on both sides."""
    grid = np.linspace(-30, 30, 600_001)
    one, other = (norm.pdf(grid, shift) for shift in (mu / 2, -mu / 2))
    for shared in (one, other):  # the law without the patient: anything; its worst is at one of the two
        first, second = part * one + (1 - part) * shared, part * other + (1 - part) * shared
        for epsilon in (0.1, 0.5, 1.0):
            found = np.maximum(first - math.exp(epsilon) * second, 0).sum() * (grid[1] - grid[0])
            assert found <= delta_of_part(epsilon, mu, part) * (1 + 1e-6) + 1e-15
            if shared is other:
                assert found == pytest.approx(delta_of_part(epsilon, mu, part), rel=1e-4, abs=1e-15)
    assert delta_of_part(1.0, mu, 1.0) == pytest.approx(delta_of(1.0, mu), rel=1e-9)


def test_it_is_for_experts_and_says_so() -> None:
    with pytest.raises(InvalidInput, match="for experts"):
        mu_of_part(1.0, 1e-5, 0.1)


@pytest.mark.parametrize("part", [0.0, -0.1, 1.1, math.nan])
def test_a_part_that_is_none_is_refused(part: float) -> None:
    with pytest.raises(InvalidInput, match="part of the patients"):
        base_epsilon(1.0, part)
    with pytest.raises(InvalidInput, match="part of the patients"):
        amplified(1.0, 1e-5, part)


def test_targets_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="epsilon lies between"):
        base_epsilon(1000.0, 0.1)
    with pytest.raises(InvalidInput, match="must be below"):
        mu_of_part(1.0, 0.1, 0.1, expert=True)


BITS, N, DRAWN = 10, 200, 50
GENERATOR = np.random.default_rng(3)
FEATURES = GENERATOR.integers(-1024, 1025, (N, 3)).astype(np.int32)
OUTCOMES = GENERATOR.integers(-1024, 1025, (N, 2)).astype(np.int32)
FIRST = np.arange(DRAWN)


def first_rows(count: int, size: int) -> np.ndarray:
    assert (count, size) == (N, DRAWN)
    return FIRST


def test_without_noise_it_is_the_parts_covariance_and_everybodys_association() -> None:
    found = sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise(), expert=True, draw=first_rows)
    rows = np.column_stack([np.full(N, 1 << BITS, np.int64), FEATURES])
    np.testing.assert_array_equal(found.covariance, rows[:DRAWN].T @ rows[:DRAWN])
    np.testing.assert_array_equal(found.association, rows.T @ OUTCOMES.astype(np.int64))


def test_its_noise_is_calibrated_to_the_part_and_to_half_of_the_target_each() -> None:
    noise = RecordingNoise()
    found = sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, noise, expert=True, draw=first_rows)
    bare = sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise(), expert=True, draw=first_rows)
    covariance, association = noise.draws
    unit2 = 2.0 ** (2 * BITS)
    mu_part = 4 * unit2 / math.sqrt(covariance.scale**2 - 4)  # moves by 1 + d = 4
    assert delta_of_part(0.5, mu_part, DRAWN / N) <= 0.5e-5 * (1 + 1e-9)
    assert delta_of_part(0.5, mu_part * 1.001, DRAWN / N) > 0.5e-5
    mu_all = 2 * math.sqrt(4 * 2) * unit2 / math.sqrt(association.scale**2 - 4)  # 2 R S
    assert delta_of(0.5, mu_all) <= 0.5e-5 * (1 + 1e-9)
    assert delta_of(0.5, mu_all * 1.001) > 0.5e-5
    assert (found.covariance_scale, found.association_scale) == (covariance.scale, association.scale)
    moved = found.covariance - bare.covariance
    np.testing.assert_array_equal(np.triu(moved)[0, 1:], covariance.values[0, 1:])
    np.testing.assert_array_equal(moved, moved.T)
    assert moved[0, 0] == 0  # s is public
    np.testing.assert_array_equal(found.association - bare.association, association.values)


def test_only_experts_and_only_possible_draws() -> None:
    with pytest.raises(InvalidInput, match="for experts"):
        sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise())
    with pytest.raises(InvalidInput, match="201 of 200"):
        sampled_moments(FEATURES, OUTCOMES, 201, 1.0, 1e-5, BITS, ZeroNoise(), expert=True)
    with pytest.raises(InvalidInput, match="within their bounds"):
        sampled_moments(2 * FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise(), expert=True)


def test_the_secret_part_is_without_replacement_and_every_row_is_as_likely() -> None:
    drawn = np.array([secret_part(20, 5) for _ in range(4000)])
    assert all(len(set(each.tolist())) == 5 for each in drawn)
    counts = np.bincount(drawn.ravel(), minlength=20)
    # Each of 20 counts has mean 1000 and variance 4000 (1/4)(3/4); eight standard deviations fail once in 1e14.
    assert np.abs(counts - 1000).max() < 8 * math.sqrt(750)
    with pytest.raises(InvalidInput):
        secret_part(5, 6)


DRAWS = 2000


def within(found: Floats, expected: Floats | float, error: Floats | float) -> None:
    assert np.all(np.abs(found - expected) <= 5 * np.asarray(error))


@pytest.mark.parametrize("degrees", [2, 3, 40])
def test_a_wishart_root_has_the_mean_and_the_variances_of_the_law(degrees: int) -> None:
    random = np.random.default_rng(1)
    factor = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.5, -1.0, 0.3]])
    covariance = factor @ factor.T
    grams = []
    for _ in range(DRAWS):
        rows = wishart_root(degrees, factor, random)
        assert len(rows) == min(degrees, 3)
        grams.append(rows.T @ rows)
    diagonal = np.diag(covariance)
    variance = degrees * (covariance**2 + np.outer(diagonal, diagonal))
    within(np.mean(grams, axis=0), degrees * covariance, np.sqrt(variance / DRAWS))
    # The fourth central moment of a chi-square of k degrees of freedom is 12 k (k + 4); no entry's is relatively larger.
    kurtosis = 3 + 12 / degrees
    within(np.var(grams, axis=0), variance, variance * math.sqrt((kurtosis - 1) / DRAWS))


def test_rows_and_mixes_as_published_have_the_moments_of_noisy_rows() -> None:
    random = np.random.default_rng(2)
    n, outputs, parties = 400, 50, declared([2, 1], -1.0)
    blocks = Blocks(n, parties, 1.0)
    table = random.uniform(-1, 1, (n, 3))
    one = np.column_stack([np.ones(n), table])
    moments, noise = one.T @ one / n, blocks.published_variance
    exact = moments[1:3, 1:3]
    rows = np.array([blocks.published_rows(moments, random).xx for _ in range(DRAWS)])
    mixes = np.array([blocks.published_mix(moments, outputs, random).xx for _ in range(DRAWS)])
    assert noise[0] == pytest.approx(8 * blocks.sigma**2)
    # Var of (x + e)^T (z + f), x and z fixed, is s^2 (|x|^2 + |z|^2) + n s^4, on the diagonal twice that.
    twice = 1 + np.eye(2)
    size = np.diag(exact)[:, None] + np.diag(exact)
    variance = twice * (noise[0] * size + noise[0] ** 2) / n
    within(rows.mean(axis=0), exact + np.diag(noise[:2]), np.sqrt(variance / DRAWS))
    within(rows.var(axis=0), variance, variance * math.sqrt(2.5 / DRAWS))
    entry = n / outputs * exact + np.diag(noise[:2])
    spread = outputs * (entry**2 + np.outer(np.diag(entry), np.diag(entry))) / n**2
    within(mixes.mean(axis=0), outputs * entry / n, np.sqrt(spread / DRAWS))
    within(mixes.var(axis=0), spread, spread * math.sqrt((2 + 12 / outputs) / DRAWS))


def test_moments_of_tables_too_large_to_draw_have_the_variances_of_drawn_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    upper = np.triu_indices(blocks_utility.FEATURES + 2)
    drawn = np.array([blocks_utility.raw_moments(300, random)[upper] for _ in range(DRAWS)])
    monkeypatch.setattr(blocks_utility, "MOST_DRAWN", 299)
    limits = np.array([blocks_utility.raw_moments(300, random)[upper] for _ in range(DRAWS)])
    variance = limits.var(axis=0)
    within(drawn.mean(axis=0), limits.mean(axis=0), np.sqrt((variance + drawn.var(axis=0)) / DRAWS))
    within(drawn.var(axis=0), variance, variance * math.sqrt(2 * 2.5 / DRAWS))


def test_a_library_release_with_hardly_any_noise_finds_the_models_of_the_table() -> None:
    random = np.random.default_rng(4)
    weights = np.array([0.4, -0.3])
    table = random.uniform(-1, 1, (300, 3))
    table[:, 2] = table[:, :2] @ weights
    parties = declared([1, 1, 1], -1.0)
    models = (
        default_model(table, parties, 300.0),
        default_model(table, parties, 300.0, {"x2": 5}),
        moments_model(table, parties, 300.0),
    )
    for found in models:
        np.testing.assert_allclose(found[1], weights, atol=0.05)
        assert abs(found[0]) < 0.05


def test_an_outcome_that_is_weighed_gets_the_recommended_weight_and_less_noise_than_its_neighbours() -> None:
    parties = declared([3, 3, 3, 3, 3], -1.0)
    plain, weighed = Blocks(200_000, parties, 1.0), Blocks.for_outcome(200_000, parties, 1.0)
    assert weighed.weights == {"x14": 2}
    grown = (4 + 4 + 4 * 4) / 12
    np.testing.assert_allclose(weighed.variance[:12], plain.variance[:12])
    np.testing.assert_allclose(weighed.variance[12:], plain.variance[12:] * grown / np.array([1, 1, 4]))


def test_noise_as_published_that_breaks_the_target_is_refused() -> None:
    # The classic sigma is proved for epsilon <= 1 only.
    with pytest.raises(SpecRefused, match="target"):
        published_models(np.zeros((50, 3)), declared([1, 1, 1], -1.0), 300.0, ["bgm"])


def test_rows_are_scaled_variables_and_models_leave_out_their_own_column() -> None:
    world = World.of("costs")
    assert world.rows.shape == (40_000, len(world.layout.variables))
    assert np.abs(world.rows).max() <= 1
    names = [each.name for each in world.layout.variables]
    assert world.rows[:, names.index("transplant")].mean() < -0.99
    for y, x in world.models:
        assert y not in x
        assert len(x) == 2 or world.layout.variables[y].name in world.outcomes
    full = {names[i] for i in world.models[-1][1]}
    assert {"age", "region=region2"} <= full
    assert not {"region=region1", "region=other", "visits"} & full


def test_intervals_hold_slopes_of_the_true_rows_of_long_tails() -> None:
    found = held("stays", 20_000, 1.0, 1)
    assert found.held > 0.9
    assert found.known > 0.9
    assert found.length < 0.2


def figures(seconds: list[float]) -> dict[str, Figure]:
    results = Results()
    costs = [Cost(number, each, each / 2, 0.5, 4000 * number) for number, each in enumerate(seconds, 1)]
    add_figures(results, "a stream", costs)
    return {figure.figure.removeprefix("a stream: "): figure for figure in results.figures}


def test_the_reach_is_judged_on_the_worst_checkpoint() -> None:
    found = figures([2.0] * 15 + [8.0] + [2.0] * 14)
    assert (found["slowest over the first"].value, found["slowest over the first"].holds) == (4.0, False)
    assert found["slowest median of 5 neighbours over the first"].value == 1.0
    assert found["mean of the last 10 over the first 10"].value == 1.0
    assert found["kB of the last block of each hospital"].value == 120.0


def test_growth_shows() -> None:
    found = figures([2.0 + 0.1 * number for number in range(40)])
    assert found["slowest over the first"].value == pytest.approx(2.95)
    assert found["slowest over the first"].holds
    assert found["slowest median of 5 neighbours over the first"].value == pytest.approx(2.85)
    assert found["mean of the last 10 over the first 10"].value == pytest.approx(5.45 / 2.45)


def test_three_checkpoints_are_enough() -> None:
    found = figures([2.0, 3.0, 4.0])
    assert found["mean of the last 1 over the first 1"].value == 2.0
