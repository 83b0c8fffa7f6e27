"""Shares of rare levels: what is known of them follows from their own noisy sums, and intervals of counts hold."""

import numpy as np
import pytest
from scipy.stats import binom

from dprelease.estimators.evidence.density import SHARE
from dprelease.estimators.evidence.evidence import posterior
from tests.dprelease.estimators.moments import noisy_moments
from tests.support.specs import categorical, numeric

ROWS = 3400
SHARES = (0.005, 0.012, 0.03, 0.05, 0.903)
WARD = categorical("ward", "a", "b", "c", "d")  # and others
CHANCE = 1e-4


def coded(generator: np.random.Generator, numbers: int = 0) -> np.ndarray:
    """Rows of a category of these shares, and of numbers of which one depends on it."""
    levels = np.repeat(np.arange(5), np.rint(ROWS * np.array(SHARES)).astype(int))
    values = generator.normal(0, 0.35, (ROWS, numbers))
    values[:, :1] += 0.2 * (levels == 2)[:, None]
    return np.column_stack([np.eye(5)[levels], np.clip(values, -1, 1)])


def test_shares_of_a_group_are_known_as_their_noisy_sums_say() -> None:
    """Against a weighted sample: Jeffreys' prior and the noise of five sums."""
    sd = 0.012
    moments = noisy_moments((WARD,), coded(np.random.default_rng(0)), sd, np.random.default_rng(3))
    seen = moments.gram[0, 1:] / ROWS
    top = (np.maximum(seen[:4], 0) + 5 * sd) ** SHARE
    share = np.random.default_rng(1).uniform(0, top, (400_000, 4)) ** (1 / SHARE)
    log = -(((share - seen[:4]) ** 2).sum(axis=1) + (1 - share.sum(axis=1) - seen[4]) ** 2) / (2 * sd**2)
    weight = np.exp(log - log.max()) / np.sqrt(1 - share).prod(axis=1)
    weight /= weight.sum()
    centre = weight @ share
    spread = np.sqrt(weight @ (share - centre) ** 2)
    draws = posterior(moments)[:, 0, 1:5]
    assert (np.abs(draws.mean(axis=0) - centre) < 0.4 * spread).all()
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_intervals_of_counts_hold() -> None:
    """Of 80 intervals at 95 %, of counts of four rare levels, too few hold with a probability of `CHANCE` at most."""
    columns, held = (WARD, *(numeric(f"z{place}") for place in range(6))), 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        draws = posterior(noisy_moments(columns, coded(generator, 6), 0.012, generator))[:, 0, 1:5]
        lower, upper = np.quantile(draws, (0.025, 0.975), axis=0)
        held += int(((lower <= SHARES[:4]) & (SHARES[:4] <= upper)).sum())
    assert held >= binom.ppf(CHANCE, 80, 0.95)
