"""The production noise source, unseeded: the stated law is accepted, too little and too much noise are both rejected."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.errors import InvalidInput
from dprelease.privacy.noise import SecureNoise
from tests.statistical.constants import DETECTABLE, P_THRESHOLD, SAMPLE
from tests.statistical.laws import Draws, p_of_scale

SMALL = [0.5, 1.0, 2.5, 6.0]  # scales where single integers can be counted
LARGE = [100.0, 13_233.5, float(2**30) + 0.1]  # scales that releases use: the variance says it all
POOLED = 200  # least expected count of a bin, so that chi-square holds far into its tail


def draw(scale: float) -> Draws:
    return SecureNoise().discrete_gaussian(scale, (SAMPLE // 10, 10)).ravel()


def law(scale: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Integers and their exact probabilities under N_Z(0, scale^2)."""
    reach = math.ceil(12 * scale) + 5
    support = np.arange(-reach, reach + 1)
    weight = np.exp(-(support.astype(float) ** 2) / (2 * scale**2))
    return support, weight / weight.sum()


def edges(scale: float) -> tuple[int, int]:
    """The integers at and beyond which the tails are pooled."""
    support, probability = law(scale)
    wide = support[np.cumsum(probability) * SAMPLE >= POOLED]
    return int(wide[0]), -int(wide[0])


def pooled(support: npt.NDArray[np.int64], weight: npt.NDArray[np.float64], scale: float) -> npt.NDArray[np.float64]:
    """Weights of the integers with the tails beyond `edges` pooled."""
    low, high = edges(scale)
    return np.bincount(np.clip(support, low, high) - low, weights=weight, minlength=high - low + 1).astype(np.float64)


def p_of_counts(draws: Draws, scale: float) -> float:
    """Chi-square test of the draws against N_Z(0, scale^2)."""
    observed = pooled(draws, np.ones(len(draws)), scale)
    expected = pooled(*law(scale), scale) * len(draws)
    return float(stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected) - 1))


@pytest.mark.parametrize("scale", SMALL)
@pytest.mark.parametrize("error", [-DETECTABLE, DETECTABLE])
def test_the_sample_is_large_enough_for_counts(scale: float, error: float) -> None:
    expected = pooled(*law(scale), scale)
    wrong = pooled(*law(scale * (1 + error)), scale)
    limit = stats.chi2.isf(P_THRESHOLD, len(expected) - 1)
    distance = SAMPLE * np.sum((wrong - expected) ** 2 / expected)
    assert stats.ncx2.cdf(limit, len(expected) - 1, distance) < P_THRESHOLD


def test_the_sample_is_large_enough_for_scales() -> None:
    low, high = stats.chi2.ppf(P_THRESHOLD / 2, SAMPLE), stats.chi2.isf(P_THRESHOLD / 2, SAMPLE)
    assert stats.chi2.sf(low / (1 - DETECTABLE) ** 2, SAMPLE) < P_THRESHOLD
    assert stats.chi2.cdf(high / (1 + DETECTABLE) ** 2, SAMPLE) < P_THRESHOLD


@pytest.mark.parametrize("scale", SMALL)
def test_small_noise_has_the_exact_law(scale: float) -> None:
    assert p_of_counts(draw(scale), scale) > P_THRESHOLD


@pytest.mark.parametrize("error", [-DETECTABLE, DETECTABLE])
@pytest.mark.parametrize("scale", SMALL)
def test_small_noise_of_another_scale_is_rejected(scale: float, error: float) -> None:
    assert p_of_counts(draw(scale * (1 + error)), scale) < P_THRESHOLD


@pytest.mark.parametrize("scale", LARGE)
def test_large_noise_has_the_stated_scale(scale: float) -> None:
    assert p_of_scale(draw(scale), scale) > P_THRESHOLD


@pytest.mark.parametrize("error", [-DETECTABLE, DETECTABLE])
@pytest.mark.parametrize("scale", LARGE)
def test_large_noise_of_another_scale_is_rejected(scale: float, error: float) -> None:
    assert p_of_scale(draw(scale * (1 + error)), scale) < P_THRESHOLD


@pytest.mark.parametrize("scale", LARGE)
def test_large_noise_is_normal_centred_and_independent(scale: float) -> None:
    draws = draw(scale) / scale
    limit = stats.norm.isf(P_THRESHOLD / 2)
    assert abs(draws.sum()) / math.sqrt(SAMPLE) < limit
    # Products of neighbours have mean 0 and variance 1; so have those of entries a row (of ten) apart.
    for lag in (1, 10):
        assert abs(np.sum(draws[lag:] * draws[:-lag])) / math.sqrt(SAMPLE - lag) < limit
    deciles = stats.norm.ppf(np.arange(1, 20) / 20)
    counts = np.bincount(np.searchsorted(deciles, draws), minlength=20)
    assert stats.chi2.sf(np.sum((counts - SAMPLE / 20) ** 2) / (SAMPLE / 20), 19) > P_THRESHOLD


@pytest.mark.parametrize("scale", LARGE)
def test_the_lowest_bits_of_large_noise_are_uniform(scale: float) -> None:
    # A floating-point sampler leaves holes here; 16 residues differ by less than exp(-2 pi^2 scale^2 / 256).
    counts = np.bincount(draw(scale) % 16, minlength=16)
    assert stats.chi2.sf(np.sum((counts - SAMPLE / 16) ** 2) / (SAMPLE / 16), 15) > P_THRESHOLD


@pytest.mark.parametrize("scale", SMALL)
def test_another_exact_sampler_draws_the_same_law(scale: float) -> None:
    """OpenDP's, after Canonne, Kamath and Steinke 2020: two samples, one table of counts."""
    import opendp.prelude as dp  # three seconds, of one worker alone

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    other = np.array(dp.m.make_gaussian(*space, scale=scale)([0] * SAMPLE))
    counts = np.array([pooled(draws, np.ones(SAMPLE), scale) for draws in (draw(scale), other)])
    assert stats.chi2_contingency(counts).pvalue > P_THRESHOLD
    counts = np.array([pooled(draws, np.ones(SAMPLE), scale) for draws in (draw(scale * (1 + 2 * DETECTABLE)), other)])
    assert stats.chi2_contingency(counts).pvalue < P_THRESHOLD


def test_noise_is_never_the_same_twice() -> None:
    one, two = (SecureNoise().discrete_gaussian(1e9, (4, 5)) for _ in range(2))
    assert one.shape == (4, 5)
    assert one.dtype == np.int64
    assert len(np.unique([*one.ravel(), *two.ravel()])) == 40  # a coincidence has probability below 1e-6


def test_no_rows_need_no_noise() -> None:
    assert SecureNoise().discrete_gaussian(10.0, (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**56])
def test_scales_that_cannot_be_drawn_are_refused(scale: float) -> None:
    with pytest.raises(InvalidInput, match="noise scale must be positive and below"):
        SecureNoise().discrete_gaussian(scale, (1, 1))


def test_the_source_takes_nothing_that_could_replace_its_entropy() -> None:
    with pytest.raises(TypeError):
        SecureNoise(7)  # type: ignore[call-arg]
    assert not vars(SecureNoise())
