"""Draws of the true moments: their law against quadrature, their mixing at any noise, their repeatability."""

import numpy as np
import pytest

from dprelease.estimators.evidence import evidence as _posterior
from dprelease.estimators.evidence.density import EDGE, SPREAD, Density
from dprelease.estimators.evidence.evidence import posterior, seeding
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.public_stream import PublicNormals
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.support.chains import chains
from tests.support.specs import categorical, numeric


def chains_of(moments: NoisyMoments, count: int = 24) -> np.ndarray:
    """Moments of every chain and kept turn, (turns, chains, p+1, p+1)."""
    density = Density(moments)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        turns = _posterior.Turns(_posterior.WARM_UP, _posterior.REFIT, _posterior.KEPT)
        points, _ = _posterior._chains(density, density.start(count), 0.1, turns, PublicNormals(bytes(32)))
    return density.matrices(np.concatenate(points)).reshape(_posterior.KEPT, count, *moments.gram.shape)


@pytest.mark.parametrize(("mean", "square", "sd"), [(-0.9, 0.85, 0.1), (0.2, 0.1, 0.05), (-0.98, 0.9, 0.03)])
def test_draws_of_one_variable_have_the_means_that_quadrature_gives(mean: float, square: float, sd: float):
    gram, noise = np.array([[1.0, mean], [mean, square]]), np.array([[0.0, sd], [sd, sd / 2]])
    moments = NoisyMoments(noisy_moments((numeric("z"),), np.zeros((1, 1)), sd).layout, gram * 50, noise * 50, 50)
    a, b = np.meshgrid(np.linspace(-25, 25, 801), np.linspace(-45, 25, 1001), indexing="ij")
    inner, part = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
    m = 2 * inner - 1
    s = m**2 + 4 * inner * (1 - inner) * part
    log = EDGE * np.log(inner * (1 / (1 + np.exp(a)))) + SPREAD * np.log(part) - np.log1p(np.exp(b))
    log -= ((m - mean) / sd) ** 2 / 2 + ((s - square) / (sd / 2)) ** 2 / 2
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    draws = chains_of(moments, 200)
    for found, expected in ((draws[..., 0, 1], m), (draws[..., 1, 1], s)):
        centre = (weight * expected).sum()
        error = found.mean(axis=0).std(ddof=1) / np.sqrt(200)  # chains are independent
        assert abs(found.mean() - centre) < 5 * error
        assert error < 0.15 * np.sqrt((weight * (expected - centre) ** 2).sum())


@pytest.mark.parametrize("sd", [0.1, 1e-5])
def test_chains_mix_whatever_the_noise(sd: float):
    """Means of chains differ by little beside what one chain covers; draws lie as far from the data as noise puts them."""
    moments = noisy_moments(MIXED, mixed_rows(4000), sd, np.random.default_rng(5))
    kept = _posterior.KEPT
    with chains(_posterior.WARM_UP, 100):
        draws = chains_of(moments)
    upper = moments.layout.rows, moments.layout.cols
    entries = draws[:, :, *upper]
    ratios = [part.mean(axis=0).var(axis=0) / part.var(axis=0).mean(axis=0) for part in (entries, entries[:kept])]
    assert np.median(ratios[0]) < 0.1
    # The mean over all chains is off by less than a quarter of a posterior standard deviation, whatever the entry.
    assert max(each.max() for each in ratios) / draws.shape[1] < 1 / 16
    if sd < 0.01:  # sharp data: squared distances follow chi^2 of as many degrees as there are free entries
        deviation = (entries - (moments.gram / 4000)[upper]) / (moments.noise_sd / 4000)[upper]
        mean = (deviation**2).sum(axis=2).mean()
        assert 0.6 * moments.layout.entries < mean < 1.4 * moments.layout.entries


def test_without_noise_the_moments_are_known():
    moments = noisy_moments(MIXED, mixed_rows(50), 0.0)
    np.testing.assert_array_equal(posterior(moments), [moments.gram / 50])


@pytest.mark.usefixtures("short_chains")
def test_draws_are_repeatable_and_follow_the_released_bytes():
    first = noisy_moments(MIXED, mixed_rows(300), 0.05, np.random.default_rng(1))
    again = noisy_moments(MIXED, mixed_rows(300), 0.05, np.random.default_rng(1))
    other = noisy_moments(MIXED, mixed_rows(300), 0.05, np.random.default_rng(2))
    kept = posterior(first)
    assert posterior(again) is kept
    _posterior._draw.cache_clear()
    np.testing.assert_array_equal(posterior(again), kept)
    assert not np.allclose(posterior(other)[0], kept[0])
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0, 0] = 2.0


@pytest.mark.usefixtures("half_chains")
def test_the_mean_draw_is_nearer_to_the_truth_than_what_was_released():
    """Over tables of every kind of column; a column that is tight at an end of its range gains the most."""
    rows = mixed_rows(3000)
    truth = np.column_stack([np.ones(3000), rows])
    truth = truth.T @ truth / 3000
    errors, noise = [], []
    for seed in range(2):
        moments = noisy_moments(MIXED, rows, 0.05, np.random.default_rng(seed))
        errors.append(posterior(moments).mean(axis=0) - truth)
        noise.append(moments.gram / 3000 - truth)
    squared, raw = (np.square(each).mean(axis=0) for each in (errors, noise))
    upper = np.triu_indices(9, 1)
    assert squared[upper].mean() < 0.7 * raw[upper].mean()
    assert squared[0, 2] < 0.15 * 0.05**2


def test_draws_of_a_release_follow_from_the_same_text_for_ever() -> None:
    """Another text would move every fit that was published within its Monte Carlo error."""
    columns = (numeric("age", public=True), categorical("smoker", "yes"), categorical("ward", "a", "b"))
    assert [seeding(each) for each in Layout(columns).variables][:3] == [
        "Variable(name='age', kind='numeric', column=0, public=True)",
        "Variable(name='smoker=yes', kind='binary', column=1, public=False)",
        "Variable(name='ward=a', kind='level', column=2, public=False)",
    ]
