"""The estimator: its parts against definitions, and the whole against columns that are known.

How far columns reach: which tails are seen, what is chosen, what slopes keep, and what a reader refuses.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dprelease.arrays import Floats
from dprelease.data.ranges import REACH, REACHES, STEPS, GuessedNoise, Range, guess, radius2, reach_of
from dprelease.mechanisms.moments.clipping import Clipping, Norm, clip_rows
from dprelease.mechanisms.ranges import released
from dprelease.mechanisms.ranges.privatize import histogram, second_round
from dprelease.mechanisms.ranges.released import EDGES, Distribution, Margin, choose, follows, kept, public_rows
from dprelease.mechanisms.ranges.rounds import (
    PRIOR,
    Location,
    Placed,
    after_counts,
    after_sums,
    clipped,
    final,
    first,
    posterior,
)
from dprelease.mechanisms.ranges.terms import CELLS, LARGEST_CODE, Scales, factor
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import numeric


def pooled(values: list[float]) -> list[float]:
    """Isotonic regression by pooling neighbours that are out of order."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, m), (b, k) = blocks[-2:]
            blocks[-2:] = [((a * m + b * k) / (m + k), m + k)]
    return [mean for mean, size in blocks for _ in range(size)]


def test_isotonic_regression_pools_neighbours() -> None:
    random = np.random.default_rng(3)
    for size in (1, 2, 7, 31):
        for _ in range(20):
            values = random.normal(size=size) + np.linspace(0, random.choice([0, 1, 5]), size)
            np.testing.assert_allclose(released.isotonic(values), pooled(values.tolist()), atol=1e-12)


def test_a_quantile_that_may_be_in_an_outermost_cell_may_lie_beyond_the_bounds() -> None:
    monotone = np.concatenate([[0.0], np.linspace(0.2, 0.98, CELLS - 1), [1.0]])
    found = Distribution(monotone[1:-1], np.full(CELLS - 1, 0.01), 0.01, monotone)
    assert [found.beyond(share) for share in (0.05, 0.205, 0.25, 0.95, 0.975, 0.99)] == [-1, -1, 0, 0, 1, 1]


def test_a_quantile_that_may_be_in_either_outermost_cell_is_not_bounded() -> None:
    monotone = np.concatenate([[0.0], np.full(CELLS - 1, 0.6), [1.0]])
    found = Distribution(monotone[1:-1], np.full(CELLS - 1, 3.0), 3.0, monotone)
    assert {found.beyond(share) for share in (0.05, 0.5, 0.95)} == {None}
    ended = Distribution(monotone[1:-1], np.full(CELLS - 1, 3.0), 3.0, np.sign(monotone))
    assert ended.quantile(1.5) == EDGES[-1]


def test_a_quantile_is_at_most_what_noise_lets_it_be_at_most() -> None:
    """Of a constant column the point estimate itself is too small half the time: it is not what the quantile is at most."""
    random, sd, held = np.random.default_rng(5), 0.04, []
    truth = (EDGES[1:-1] > -0.4).astype(float)
    for _ in range(200):
        noisy = truth + random.normal(0, sd, CELLS - 1)
        monotone = np.concatenate([[0.0], np.clip(released.isotonic(noisy), 0, 1), [1.0]])
        found = Distribution(noisy, np.full(CELLS - 1, sd), sd, monotone)
        held += [found.ends(0.05)[1] >= -0.4] if found.beyond(0.05) == -1 else []
    assert len(held) > 100
    assert np.mean(held) > 0.95


@pytest.mark.parametrize(("m", "s"), [(0.0, 0.3), (0.9, 0.5), (-1.0, 2.0), (0.3, 0.02)])
def test_moments_of_a_clipped_normal_law(m: float, s: float) -> None:
    law = stats.norm(m, s)

    def moment(power: int) -> float:
        inside, _ = integrate.quad(lambda x: x**power * law.pdf(x), max(-1, m - 12 * s), min(1, m + 12 * s), limit=200)
        return float(inside + (-1) ** power * law.cdf(-1) + law.sf(1))

    mean, log_sd = clipped(np.array([[m]]), np.array([[math.log(s)]]))
    assert mean[0, 0] == pytest.approx(moment(1), abs=1e-8)
    assert math.exp(2 * log_sd[0, 0]) == pytest.approx(moment(2) - moment(1) ** 2, abs=1e-8)


@pytest.mark.parametrize("width", [1.0, 1e-2, 1e-4])
def test_the_grid_closes_in_on_a_density(width: float) -> None:
    def log_density(m: Floats, log_s: Floats) -> Floats:
        found: Floats = -0.5 * (((m - 0.123) / (0.1 * width)) ** 2 + ((log_s + 1.7) / (0.2 * width)) ** 2)
        return found

    (centre, log_scale), (sd, log_sd) = PRIOR
    found = posterior(log_density, Location(centre, log_scale, sd, log_sd), lambda m, log_s: (m, log_s))
    assert found.centre == pytest.approx(0.123, abs=1e-3 * width)
    assert found.log_scale == pytest.approx(-1.7, abs=1e-3 * width)
    assert found.centre_sd == pytest.approx(0.1 * width, rel=1e-3)
    assert found.log_scale_sd == pytest.approx(0.2 * width, rel=1e-3)


def located(cells: Floats, scales: Scales, noise: ZeroNoise | SeededNoise) -> tuple[Placed, Location]:
    """Both rounds of a column in [-1, 1]."""
    codes, n = np.rint(np.clip(cells, -1, 1) * STEPS).astype(np.int32), len(cells)
    counts = factor(CELLS) @ histogram(codes, 24) + noise.discrete_gaussian(scales.counts, (1, CELLS - 1))[0]
    counted = after_counts(counts, n, scales)
    used = first(counted)
    window = Range(name="x", centre=used.centre, half_width=4 * used.scale)
    total, squares = second_round(window.code(codes, 24, LARGEST_CODE))
    total += int(noise.discrete_gaussian(scales.total, (1, 1))[0, 0])
    squares += int(noise.discrete_gaussian(scales.squares, (1, 1))[0, 0])
    found = after_sums(counted, used, total, squares, n, scales)
    return final(found), found


SHAPES = {
    "normal": lambda random, n: random.normal(0.2, 0.2, n),
    "even": lambda random, n: random.uniform(-1, 1, n),
    "two values": lambda random, n: random.choice([-1.0, 0.5], n),
    "costs": lambda random, n: -1 + 0.05 * random.lognormal(0, 0.8, n),
    "narrow": lambda random, n: random.normal(-0.7, 0.01, n),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_with_little_noise_centre_and_scale_are_those_of_the_column(shape: str) -> None:
    cells = np.clip(SHAPES[shape](np.random.default_rng(4), 100_000), -1, 1)
    placed, found = located(cells, Scales.least(Fraction(1, 10), 1), ZeroNoise())
    sd = float(cells.std())
    assert placed.centre / STEPS == pytest.approx(cells.mean(), abs=0.03 * sd)
    assert placed.scale / STEPS == pytest.approx(sd, rel=0.1)
    assert found.centre_sd < 0.03 * sd


def test_stated_errors_are_those_of_a_normal_column() -> None:
    """60 draws of noise: squared errors in stated standard deviations add up to about 60, within 5 s.e. sqrt(120)."""
    random, noise = np.random.default_rng(5), SeededNoise(6)
    cells = np.clip(random.normal(0.1, 0.25, 3000), -1, 1)
    mean, log_sd = float(cells.mean()), math.log(cells.std())
    found = [located(cells, Scales.least(Fraction(1, 1500), 1), noise)[1] for _ in range(60)]
    for errors in (
        [(each.centre - mean) / each.centre_sd for each in found],
        [(each.log_scale - log_sd) / each.log_scale_sd for each in found],
    ):
        assert abs(np.sum(np.square(errors)) - 60) < 5 * math.sqrt(120)


@pytest.mark.parametrize("centre", [0.0, -0.95])
def test_bounds_fifty_times_too_wide_cost_little(centre: float) -> None:
    """At the mu^2 that one of nine columns of 6,000 patients has in a tenth of (1, 1e-6)."""
    random, noise, scales = np.random.default_rng(8), SeededNoise(9), Scales.least(Fraction(1, 1600), 1)
    errors = {times: [] for times in (1, 50)}
    for times, found in errors.items():
        sd = 0.3 / times
        for _ in range(15):
            cells = (centre + random.normal(0, sd, 6000)).clip(-1, 1)
            placed, _ = located(cells, scales, noise)
            mean, spread = float(cells.mean()), float(cells.std())
            found.append([(placed.centre / STEPS - mean) / spread, math.log(placed.scale / STEPS / spread)])
    declared, wide = (np.sqrt(np.mean(np.square(found), axis=0)) for found in errors.values())
    assert np.all(wide < 0.3)
    assert np.all(declared < 0.2)


def test_with_nothing_but_noise_the_prior_is_left() -> None:
    counts = np.zeros(CELLS - 1, np.int64)
    found = after_counts(counts, 100, Scales.least(Fraction(1, 10**8), 1)).found
    assert abs(found.centre) < 0.05
    assert 0.1 < math.exp(found.log_scale) < 0.6


def test_quantiles_of_a_known_column() -> None:
    cells = np.random.default_rng(7).normal(0.0, 0.3, 200_000).clip(-1, 1)
    codes = np.rint(cells * STEPS).astype(np.int32)
    scales = Scales.least(Fraction(1, 100), 1)
    found = Distribution.of(factor(CELLS) @ histogram(codes, 24), len(cells), scales.counts)
    width = EDGES[1] - EDGES[0]
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert found.quantile(share) == pytest.approx(np.quantile(cells, share), abs=width / 4)
        assert width / 4 < found.quantile_error(share) < width
    assert (found.quantile(0.0), found.quantile(1.0)) == (-1.0, 1.0)
    assert np.all(np.diff(found.monotone) >= 0)


NOISE = 2.0**12 * 20
"""Of a count, in its unit: 80 patients once the counts are prefix counts."""


def counted(cells: Floats, random: np.random.Generator, noise: float) -> Distribution:
    """Of (n,) cells in half-widths of their bounds."""
    histogram = np.histogram(np.clip(cells, -1, 1), CELLS, (-1, 1))[0]
    counts = factor(CELLS) @ histogram + np.rint(random.normal(0, noise, CELLS - 1)).astype(np.int64)
    return Distribution.of(counts, len(cells), noise)


def margin(cells: Floats, seed: int = 1, noise: float = NOISE) -> Margin:
    """Of (n,) cells in half-widths of their bounds, with the mean and deviation that they have."""
    return Margin.of(counted(cells, np.random.default_rng(seed), noise), float(cells.mean()), float(cells.std()))


@pytest.mark.parametrize("centre", [-0.98, 0.3])
def test_counts_bound_how_far_rows_lie_from_a_point_whatever_the_noise(centre: float) -> None:
    """Fifty of 2,000 rows lie at the far bound; either end misses them in 8 of 100 draws at most, where 2.3 % are expected."""
    cells = np.clip(np.random.default_rng(3).normal(centre, 0.01, 2000), -1, 1)
    cells[:50] = -1.0 if centre > 0 else 1.0
    truth, random = float(np.mean((cells - centre) ** 2)), np.random.default_rng(4)
    found = np.array([counted(cells, random, NOISE).mean_square(centre) for _ in range(100)])
    assert np.sum(found[:, 0] > truth) <= 8
    assert np.sum(found[:, 1] < truth) <= 8
    assert found.min() >= 0
    assert found.max() <= (1 + abs(centre)) ** 2
    least, most = counted(cells, random, 0.0).mean_square(centre)
    assert truth - 0.01 < least <= truth <= most < truth + 0.01


def guessed(rows: int, numbers: Sequence[int] = (3, 4), mu: float = 0.23) -> GuessedNoise:
    return guess(numbers, 3, math.sqrt(3 / 2) / (mu * rows))


def test_more_patients_reach_further() -> None:
    found = [guessed(rows) for rows in (500, 5000, 50_000, 500_000)]
    assert found[0].reach == 1
    assert [each.reach for each in found] == sorted({each.reach for each in found})
    judged = {}
    for step in range(REACHES):
        # By its definition: exponential columns, on a fine grid of their quantiles.
        t, x = reach_of(step), -np.log(1 - (np.arange(200_000) + 0.5) / 200_000) - 1
        lost = np.mean(np.maximum(x - t * max(1.5, 1.0), 0) * x)
        noise = math.sqrt(3 / 2) / (0.23 * 5000) * (3 / t + 7) * t**2
        judged[t] = (0.3 * lost) ** 2 + noise**2
    assert found[1].reach == min(judged, key=lambda each: judged[each])


@pytest.mark.parametrize("spread", [0.2, 0.02])
def test_a_normal_column_reaches_little_further_in_wide_bounds(spread: float) -> None:
    cells = spread * np.random.default_rng(3).normal(size=20_000)
    found = choose([margin(cells)], guessed(20_000, (1, 3)))
    assert reach_of(found[0]) <= 2.5


def test_a_long_tail_reaches_further_and_its_slopes_keep_more_for_it() -> None:
    random = np.random.default_rng(4)
    normal, tail = 0.2 * random.normal(size=20_000), np.exp(1.2 * random.normal(size=20_000)) / 40 - 1
    margins = [margin(normal), margin(np.minimum(tail, 1))]
    found = choose(margins, guessed(20_000, (2,)))
    assert found[1] > found[0] + 1
    rows, ones = public_rows(margins), np.ones(2)
    far, near = (kept(rows, np.array([reach_of(j) for j in each]), ones, 2.0) for each in (found, [found[0]] * 2))
    assert far[1] > near[1] + 0.1


def test_a_tail_that_noise_hides_is_not_seen() -> None:
    rare = np.where(np.arange(5000) < 20, 1.0, -1.0)
    often = np.where(np.arange(5000) < 2000, 1.0, -1.0)
    assert [margin(cells).seen for cells in (rare, often)] == [False, True]
    assert margin(rare, noise=1.0).seen  # hardly any noise shows it
    assert margin(np.full(5000, 0.3) + 1e-4 * np.random.default_rng(1).normal(size=5000)).seen is False


def test_a_margin_follows_the_counts_and_a_heavy_tail_beyond_them() -> None:
    cells = np.minimum(np.random.default_rng(5).exponential(0.05, 20_000) - 1, 1)
    found = margin(cells)
    places = found.quantiles * cells.std() + cells.mean()
    assert np.all(np.diff(places) >= 0)
    assert -1 <= places[0] <= places[-1] <= 1
    for share in (0.3, 0.6, 0.9):
        assert places[int(share * released.POINTS)] == pytest.approx(np.quantile(cells, share), abs=0.02)
    assert places[-1] > np.quantile(cells, 0.999)


def test_the_gamma_law_has_the_published_mean_and_deviation() -> None:
    for centre, scale in ((-0.8, 0.1), (0.9, 0.05), (0.0, 0.1)):
        found = Margin.guessed(centre, scale).quantiles
        assert found.mean() == pytest.approx(0, abs=0.02)
        assert found.std() == pytest.approx(1, abs=0.03)


def test_kept_parts_are_those_of_rows_clipped_by_hospitals() -> None:
    names, random = ("x", "y", "z"), np.random.default_rng(6)
    margins = [margin(np.minimum(random.exponential(0.1, 9000) - 1, 1)) for _ in names]
    rows, reaches = public_rows(margins), [reach_of(j) for j in (0, 3, 5)]
    half = [round(REACH * t * each.scale * STEPS) for t, each in zip(reaches, margins, strict=True)]
    unit = 1 << 16
    clipping = Clipping(
        constant=unit,
        weights=(unit, unit, unit // 2),
        ranges=tuple(Range(name=name, centre=0, half_width=width) for name, width in zip(names, half, strict=True)),
        norms=(Norm(columns=names, squared=unit**2 // 3),),
        square_weight="1/2",
    )
    columns = tuple(numeric(name, -1.0, 1.0) for name in names)
    cells = np.rint(rows * [each.scale for each in margins] * STEPS).astype(np.int32)
    coded = clip_rows(np.clip(cells, -STEPS, STEPS), columns, clipping.weights, clipping, 24)
    clipped = coded / np.array(clipping.weights) * REACH * reaches
    found = kept(rows, np.array(reaches), np.array([unit, unit, unit // 2]) / REACH, unit**2 // 3)
    np.testing.assert_allclose(found, (clipped * rows).sum(axis=0) / (rows**2).sum(axis=0), rtol=1e-3)


def test_no_single_change_of_what_is_chosen_gains_and_a_reader_sees_others() -> None:
    random = np.random.default_rng(7)
    margins = [margin(np.minimum(np.exp(s * random.normal(size=8000)) / 30 - 1, 1)) for s in (0.3, 0.8, 1.3)]
    about = guessed(8000, (3, 2))
    found = choose(margins, about)
    assert follows(found, margins, about) is None
    for place in range(3):
        for step in range(REACHES):
            others = [*found[:place], step, *found[place + 1 :]]
            assert (follows(others, margins, about) is None) == (others == found)


def test_last_digits_decide_nothing_that_a_reader_refuses() -> None:
    """Counts that another machine reads a little differently, over many columns."""
    random = np.random.default_rng(8)
    for draw in range(20):
        margins = [margin(np.minimum(random.exponential(0.1, 3000) - 1, 1), draw) for _ in range(3)]
        about = guessed(3000 + 100 * draw, (3, 2))
        moved = [Margin(each.quantiles * (1 + 1e-12), each.scale * (1 - 1e-12)) for each in margins]
        assert follows(choose(margins, about), moved, about) is None


def test_nobody_reaches_beyond_the_bounds_or_for_nothing() -> None:
    even = 2 * np.random.default_rng(9).random(50_000) - 1
    (step,) = choose([margin(even)], GuessedNoise(10.0, 1e-9))
    assert reach_of(step) * even.std() * math.sqrt(radius2(1)) < 2 * 1.25
    assert choose([], guessed(500, (1,))) == []
