"""What a fit says that it gains, on releases where there is nothing to gain and where the gain is known."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.common.fits import fit_moments
from benchmarks.moments_utility import noisy_moments
from dprelease.analyses.joint_test import by_entry, outer
from dprelease.estimators.moments.gain import Judged, by_draws, unbiased_quality
from dprelease.estimators.quality import BETTER, ScaledFit
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.dprelease.estimators.moments import MIXED
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.support.specs import numeric

CHANCE = 1e-4
"""Probability of a false alarm, of one number."""


@pytest.mark.usefixtures("half_chains")
def test_nothing_is_found_in_an_outcome_that_nothing_acts_on() -> None:
    """Nine independent normal columns at four standard deviations, 50,000 patients, epsilon 1.

    A one-sided error of two standard errors is made in 2.3 % of releases, so in more than 2 of 6 with a probability of `CHANCE`;
    an interval of two of them fails to hold the truth in 5 %, so in more than 4 of 6 with the same.
    """
    count, n, better, held = 6, 50_000, 0, 0
    for seed in range(count):
        random = np.random.default_rng(seed)
        rows = np.column_stack([np.ones(n), np.clip(random.normal(size=(n, 9)) / 4, -1, 1)])
        exact = rows.T @ rows
        found = fit_moments(noisy_moments(exact, n, 1.0, 2, random), range(1, 9), [9], intercept=True)
        better += found.quality.verdicts() == (BETTER,)
        held += explained_holds(found, exact, [*range(10)])
    assert better <= binom.isf(CHANCE, count, 0.023)
    assert held >= binom.ppf(CHANCE, count, 0.95)


@pytest.mark.parametrize("effect", [0.0, 0.3])
@pytest.mark.parametrize("public", ["", "x", "y"])
def test_outcomes_apart_are_judged_by_the_released_numbers(public: str, effect: float) -> None:
    """Thirty features, three outcomes that hang on the first of them or on nothing, 40,000 patients, epsilon .7; none, the
    features or the outcomes are public.

    Six releases make 18 verdicts. False alarms are bounded as above; all outcomes that hang on a feature are found.
    """
    count, n, better, held = 6, 40_000, 0, 0
    columns, outcomes = sides(30, 3, public)
    for seed in range(count):
        random = np.random.default_rng(seed)
        rows = random.uniform(-1, 1, (n, 33))
        rows[:, 30:] = (1 - effect) * rows[:, 30:] + effect * rows[:, :1]
        rows = np.ldexp(np.round(np.ldexp(rows, 12)), -12)
        whole = np.column_stack([np.ones(n), rows])
        exact, shown = whole.T @ whole, rows[:, 30:] if public == "y" else rows[:, :30]
        moments = outcome_only_of(rows, columns, outcomes, random, 0.7)
        found = fit_moments(moments, range(1, 31), range(31, 34), shown, intercept=True)
        better += found.quality.verdicts().count(BETTER)
        held += sum(explained_holds(found, exact, [*range(31), 31 + place], place) for place in range(3))
    assert held >= binom.ppf(CHANCE, 3 * count, 0.95)
    assert better == 3 * count if effect else better <= binom.isf(CHANCE, 3 * count, 0.023)


def explained_holds(found: ScaledFit, exact: np.ndarray, places: list[int], place: int = 0) -> bool:
    """Whether what a model explains lies within two standard errors of what is said of it."""
    model = np.concatenate([-found.offsets[[place]], -found.weights[:, place], [1.0]])
    flat = np.concatenate([-found.constant[[place]], np.zeros(len(found.weights)), [1.0]])
    error, constant = (u @ exact[np.ix_(places, places)] @ u for u in (model, flat))
    said, se = found.quality.explained[place], found.quality.explained_se[place]
    return bool(abs(said - (1 - error / constant)) <= 2 * se + 1e-12)


@pytest.mark.parametrize("prior", [0.3, 10.0])
def test_gain_and_its_error_are_unbiased_under_any_prior(prior: float) -> None:
    """Two features with known moments, g of variance .3^2, its noise of .4^2; the posterior is normal, the prior right or vague.

    Over 1,000 releases the mean error is within 4 of its standard errors of 0, and so is that of its square from the square that
    is said. Noise at fixed weights alone says too little.
    """
    random, columns = np.random.default_rng(5), (numeric("one"), numeric("other"), numeric("y"))
    layout = Layout(columns)
    kept = prior**2 / (prior**2 + 0.4**2)
    errors, said, fixed = [], [], []
    for _ in range(1000):
        truth = np.eye(4)
        truth[1:3, 3] = truth[3, 1:3] = 0.3 * random.normal(size=2)
        seen, sd = truth.copy(), np.zeros((4, 4))
        seen[1:3, 3] = seen[3, 1:3] = truth[1:3, 3] + 0.4 * random.normal(size=2)
        sd[1:3, 3] = sd[3, 1:3] = 0.4
        draws = np.tile(truth, (200, 1, 1))
        # as many as there are on either side of their mean, which is known
        apart = np.sqrt(kept) * 0.4 * random.normal(size=(100, 2))
        draws[:, 1:3, 3] = draws[:, 3, 1:3] = kept * seen[1:3, 3] + np.concatenate([apart, -apart])
        weights = kept * seen[1:3, [3]]
        moments, model = NoisyMoments(layout, seen, sd, 1), np.vstack([np.zeros(1), -weights])
        followed = by_draws(draws, model[:, 0], 0.0, 1.0, intercept=False)
        constant = np.ones(1), np.zeros(1)
        found = unbiased_quality(Judged(moments, moments, [1, 2], [3]), model, np.zeros(1), followed, constant)
        gain = float(2 * weights[:, 0] @ truth[1:3, 3] - (weights**2).sum())
        errors.append(found.gain[0] - gain)
        said.append(found.gain_se[0] ** 2)
        fixed.append(4 * 0.4**2 * (weights**2).sum())
    error, square, noise = np.array(errors), np.array(said), np.array(fixed)

    def ratio(values: np.ndarray) -> float:
        return float(values.mean() / values.std() * np.sqrt(len(values)))

    assert abs(ratio(error)) < 4
    assert abs(ratio(error**2 - square)) < 4
    assert prior < 1 or ratio(error**2 - noise) > 4


def test_linear_functions_follow_the_noise_entry_by_entry() -> None:
    """<N, F> of noise as a release has it, levels repeating their entries with the constant, has the variance that is said."""
    layout, random = Layout(MIXED), np.random.default_rng(2)
    sd = layout.matrix(random.uniform(1, 2, layout.entries), 0.0)
    level = layout.level
    places = np.arange(len(sd))[level]
    x, y = random.normal(size=(2, len(sd)))
    entries = by_entry(np.stack([outer(x, y), outer(y, y)]), sd, level)
    noise = sd[None] * random.normal(size=(40_000, *sd.shape))
    noise = np.triu(noise) + np.triu(noise, 1).swapaxes(1, 2)
    noise[:, places, places] = noise[:, 0, places]
    values = np.stack([np.einsum("i,tij,j->t", x, noise, y), np.einsum("i,tij,j->t", y, noise, y)])
    expected = np.einsum("aij,bij->ab", entries, entries)
    spread = np.sqrt(expected.diagonal())
    # Of a covariance of two normal numbers, in their spreads: at most sqrt(2 / 40,000).
    np.testing.assert_allclose(
        np.cov(values) / np.outer(spread, spread), expected / np.outer(spread, spread), atol=4 * np.sqrt(2 / 40_000)
    )
