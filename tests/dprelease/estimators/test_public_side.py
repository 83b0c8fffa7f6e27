"""Fits beside public columns: exact where nothing is noisy, better for what is public, and never worse than the constant."""

import numpy as np
import pytest

from benchmarks.common.fits import fit_moments
from benchmarks.paper_primo.projection import project
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.inverted import inverted
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.estimators.moments.public_columns import PublicSide, Vectors, _Whitened, associated
from tests.dprelease.estimators.public import ROWS, declared, least_squares, moments_of, r_squared, table
from tests.support.specs import categorical

# Label privacy.


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_it_is_least_squares_on_the_rows(intercept: bool) -> None:
    rows = table(5, 3)
    found = fit_moments(moments_of(rows, declared(5, 3), 0.0), [1, 3, 5], [6, 7, 8], intercept=intercept)
    expected = least_squares(rows, [1, 3, 5], [6, 7, 8], intercept=intercept)
    np.testing.assert_allclose(found.weights, expected[-3:], atol=1e-8)
    np.testing.assert_allclose(found.offsets, expected[0] if intercept else 0.0, atol=1e-8)
    np.testing.assert_allclose(found.constant, rows[:, 5:].mean(axis=0), atol=1e-8)
    full = np.column_stack([np.ones(ROWS), rows])[:, [0, 1, 3, 5] if intercept else [1, 3, 5]]
    errors = ((rows[:, 5:] - full @ expected) ** 2).mean(axis=0)
    np.testing.assert_allclose(found.quality.mse, errors, rtol=1e-6)
    np.testing.assert_allclose(found.quality.constant_mse, rows[:, 5:].var(axis=0), rtol=1e-6)
    assert found.quality.gain_se.max() < 1e-8
    assert not found.diagnostics.warnings


def test_noise_never_makes_it_worse_than_the_constant_predictor_by_much() -> None:
    """240 outcomes at noise from little to far too much: never 4 % of the variance worse, and better while anything shows."""
    x, y = list(range(1, 9)), list(range(9, 49))
    for explained in (0.5, 0.05):
        rows = table(8, 40, explained)
        best = np.median(r_squared(rows, x, y, *np.split(least_squares(rows, x, y, intercept=True), [1])))
        for sd, part in ((0.002, 0.9), (0.02, 0.0), (0.3, 0.0)):
            noisy = moments_of(rows, declared(8, 40), sd, np.random.default_rng(3))
            found = fit_moments(noisy, x, y, intercept=True)
            model = r_squared(rows, x, y, found.offsets, found.weights)
            flat = r_squared(rows, [], y, found.constant, np.zeros((0, 40)))
            plain = inverted(noisy, x, y, intercept=True)
            inverse = r_squared(rows, x, y, plain.offsets, plain.weights)
            assert (model - flat).min() > -0.04
            assert np.median(model) > part * best * (explained > 0.1) - 0.01 * (sd < 0.1) - 3 * (sd > 0.1)
            assert np.median(model) >= np.median(inverse) - 1e-3


def test_where_noise_hides_everything_the_model_is_the_constant_predictor_and_says_so() -> None:
    noisy = moments_of(table(4, 6), declared(4, 6), 3.0, np.random.default_rng(4))
    found = fit_moments(noisy, [1, 2, 3, 4], list(range(5, 11)), intercept=True)
    assert not found.weights.any()
    np.testing.assert_array_equal(found.offsets, found.constant)
    assert found.diagnostics.warnings[0].startswith("For 6 of 6 targets noise hides")


def test_errors_and_gains_are_what_is_claimed() -> None:
    """Over 200 outcomes: true errors and gains lie about the stated ones as far as the standard errors say."""
    x, y = list(range(1, 7)), list(range(7, 207))
    rows = table(6, 200)
    noisy = moments_of(rows, declared(6, 200), 0.006, np.random.default_rng(5))
    found = fit_moments(noisy, x, y, intercept=True)
    variance = rows[:, 6:].var(axis=0)
    error = (1 - r_squared(rows, x, y, found.offsets, found.weights)) * variance
    gain = (1 - r_squared(rows, [], y, found.constant, np.zeros((0, 200)))) * variance - error
    for true, stated, deviation in (
        (error, found.quality.mse, found.quality.mse_se),
        (gain, found.quality.gain, found.quality.gain_se),
    ):
        ratios = (true - stated) / deviation
        assert np.abs(ratios).max() < 5
        assert abs(ratios.mean()) < 0.5
        assert 0.6 < np.sqrt(np.mean(ratios**2)) < 1.4


def test_what_rounding_leaves_of_a_constant_feature_is_refused() -> None:
    rows = table(2, 1)
    for constant in (0.1, -0.7, 0.3):
        rows[:, :2] = constant
        noisy = moments_of(rows, declared(2, 1), 0.01, np.random.default_rng(18))
        with pytest.raises(InvalidInput, match="determine each other"):
            fit_moments(noisy, [1], [3], intercept=True)


def test_levels_of_public_and_private_categories() -> None:
    """A private category as outcomes, a public one as features: exact without noise, sums of levels kept in noise."""
    generator = np.random.default_rng(7)
    ward = np.eye(3)[generator.choice(3, ROWS, p=[0.5, 0.3, 0.2])]
    drug = np.eye(3)[(generator.uniform(size=ROWS) * 1.5 + ward[:, 1]).astype(int).clip(0, 2)]
    smoker = np.where(generator.uniform(size=ROWS) < 0.3 + 0.3 * ward[:, 2], 1.0, -1.0)
    columns = (categorical("ward", "a", "b", public=True), categorical("drug", "c", "d"), categorical("smoker", "yes"))
    rows = np.column_stack([ward, drug, smoker])
    exact = fit_moments(moments_of(rows, columns, 0.0), [2, 3], [4, 5, 6, 7], intercept=True)
    np.testing.assert_allclose(exact.weights, least_squares(rows, [2, 3], [4, 5, 6, 7], intercept=True)[1:], atol=1e-8)
    noisy = fit_moments(moments_of(rows, columns, 0.005, generator), [2, 3], [4, 5, 6, 7], intercept=True)
    np.testing.assert_allclose(noisy.weights, exact.weights, atol=0.1)
    with pytest.raises(InvalidInput, match="determine each other"):
        fit_moments(moments_of(rows, columns, 0.005, generator), [1, 2, 3], [7], intercept=True)


def test_noise_is_white_where_it_is_judged() -> None:
    """Features with a mean near an end of their range: taking the constant off them makes the noise of their sums alike."""
    generator = np.random.default_rng(14)
    rows = np.hstack([0.85 + 0.1 * table(3, 0), np.zeros((ROWS, 400))])
    columns = declared(3, 400)
    x, y = [1, 2, 3], list(range(4, 404))
    exact, noisy = moments_of(rows, columns, 0.01), moments_of(rows, columns, 0.01, generator)
    noise = (_Whitened.of(each, x, y, intercept=True).seen for each in (noisy, exact))
    covariance = np.cov(np.subtract(*noise)) / (0.01 * ROWS) ** 2
    assert np.abs(covariance - np.eye(3)).max() < 5 * np.sqrt(2 / 400)


@pytest.mark.parametrize("intercept", [True, False])
def test_whatever_is_believed_the_model_stays_feasible(monkeypatch: pytest.MonkeyPatch, intercept: bool) -> None:
    """Were all that is seen believed, predictions would lie where no column within its bounds can be explained by them."""

    def credulous(evidence: Vectors, law: object = None) -> tuple[np.ndarray, np.ndarray]:
        return evidence.seen / evidence.singular[:, None], np.zeros_like(evidence.seen)

    monkeypatch.setattr(Vectors, "posterior", credulous)
    rows = table(4, 30)
    x, y = [1, 2, 3, 4], list(range(5, 35))
    noisy = moments_of(rows, declared(4, 30), 0.3, np.random.default_rng(15))
    found = fit_moments(noisy, x, y, intercept=intercept)
    slopes = (rows[:, :4] - intercept * rows[:, :4].mean(axis=0)) @ found.weights
    assert (np.linalg.norm(slopes, axis=0) <= np.sqrt(ROWS) * (1 + 1e-9)).all()
    back = moments_of(np.roll(rows, -4, axis=1), declared(30, 4), 0.3, np.random.default_rng(16))
    helped = associated(back, intercept=True).gram[1:31, 31:]
    means = Marginals.of(back, np.arange(31, 35)).mean
    side = PublicSide.of_gram(np.cov(rows[:, 4:].T, bias=True) * ROWS)
    helped -= ROWS * np.outer(rows[:, 4:].mean(axis=0), means)
    np.testing.assert_allclose(project(side, helped, np.sqrt(ROWS) * 1.0001), helped, rtol=1e-6)
