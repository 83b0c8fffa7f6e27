"""Fits on a whole release of joint moments: names, units, methods, refusals."""

import numpy as np
import pytest

from benchmarks.common.fits import fit_moments
from dprelease.data.bounding import BoundedRows
from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.release.accounting import guarantee
from dprelease.release.release import Release
from tests.support.joint import compute
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, categorical, numeric, one_block_each

BITS = 10
UNIT = 1 << BITS
PARTIES = {
    "north": (numeric("age", 0.0, 120.0), categorical("smoker", "yes")),
    "south": (numeric("glucose", 2.0, 30.0), categorical("ward", "east", "west")),
    "west": (numeric("score", 0.0, 100.0), categorical("ill", "yes")),
}


@pytest.fixture(scope="module")
def release() -> Release:
    """2,000 patients at epsilon 8."""
    generator = np.random.default_rng(0)
    age, glucose = generator.integers(-UNIT, UNIT + 1, (2, 2000))
    smoker, ill = np.eye(2, dtype=int)[generator.choice(2, (2, 2000))] * UNIT
    ward = np.eye(3, dtype=int)[generator.choice(3, 2000, p=[0.5, 0.3, 0.2])] * UNIT
    score = (age // 2 + (smoker[:, 0] - smoker[:, 1]) // 4 + ward[:, 1] // 4).clip(-UNIT, UNIT)
    codes = {
        "north": np.column_stack([age, smoker]),
        "south": np.column_stack([glucose, ward]),
        "west": np.column_stack([score, ill]),
    }
    spec = build_spec(PARTIES, mechanism="moments", rows=2000, epsilon=8.0, grid_bits=BITS)
    rows = {name: BoundedRows(codes[name].astype(np.int32), columns, BITS) for name, columns in PARTIES.items()}
    blocks = compute(spec, rows, {name: SeededNoise(index) for index, name in enumerate(PARTIES)}).blocks
    return one_block_each(spec, blocks, guarantee(spec).words())


@pytest.mark.parametrize("method", ["shrinkage", "ols", "constrained"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_are_those_of_the_scaled_model(release: Release, method: str, fit_intercept: bool):
    result = fit(release, ["score", "ill=other"], ["age", "smoker=other"], method, fit_intercept)
    scaled = np.array([[0.5, 1.0], [-0.25, -1.0]])  # smoker=other is 0 where z is 1
    original = np.array([[60 + 60 * 0.5, 0.0], [60 - 60 * 0.25, 1.0]])
    moments = release.moments()
    index = [moments.lookup(name)[0] for name in ("age", "smoker=other", "score", "ill=other")]
    if method == "shrinkage":
        found = fit_moments(moments, index[:2], index[2:], intercept=fit_intercept)
        expected = np.array([50, 0.5]) + np.array([50, -0.5]) * (found.offsets + scaled @ found.weights)
        np.testing.assert_allclose(result.predict(original), expected, rtol=1e-10)
    else:
        design = [0, *index[:2]] if fit_intercept else index[:2]
        gram = moments.gram
        weights = np.linalg.solve(gram[np.ix_(design, design)], gram[np.ix_(design, index[2:])])
        full = np.column_stack([np.ones(2), scaled]) if fit_intercept else scaled
        expected = np.array([50, 0.5]) + np.array([50, -0.5]) * (full @ weights)
        np.testing.assert_allclose(result.predict(original), expected, rtol=1e-8)
    np.testing.assert_array_equal((result.lower, result.upper), ([0, 0], [100, 1]))
    assert (result.constant_noise_sd > 0).all()


@pytest.mark.parametrize("method", ["shrinkage", "ols", "constrained"])
def test_the_levels_of_a_binary_are_one_variable(release: Release, method: str):
    assert fit(release, ["ill"], ["age"], method).targets == ("ill=yes",)
    result = fit(release, ["ill=yes", "ill=other"], ["age"], method)
    assert result.targets == ("ill=yes", "ill=other")
    np.testing.assert_allclose(result.coef[0], -result.coef[1], rtol=1e-9)
    np.testing.assert_allclose(result.intercept.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(result.constant.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(result.quality.mse[0], result.quality.mse[1], rtol=1e-9)
    with pytest.raises(InvalidInput, match="two levels of one column"):
        fit(release, ["score"], ["smoker=yes", "smoker=other"], method)
