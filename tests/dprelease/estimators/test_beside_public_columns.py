"""Fits on mixed rows of which some columns are public: exact columns beside noisy ones, for every method."""

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.estimators import fit
from dprelease.release.accounting import guarantee
from dprelease.release.release import Release
from tests.support.blocks import privatize
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric, one_block_each

N, K = 2000, 800
PARTIES = {
    "north": (numeric("a", public=True), numeric("b", public=True)),
    "south": (numeric("y"), numeric("z", public=True)),
}
METHODS = ("calibrated", "ols", "rmgm")


@pytest.fixture(scope="module")
def release() -> Release:
    """y = 0.5 a - 0.3 b + noise, z = 0.8 a exactly but for the grid."""
    random = np.random.default_rng(5)
    a, b = random.uniform(-1, 1, (2, N))
    raw = {"a": a, "b": b, "y": 0.5 * a - 0.3 * b + random.uniform(-0.1, 0.1, N), "z": 0.8 * a}
    spec = build_spec(PARTIES, rows=N, outputs=K, epsilon=20.0, grid_bits=14, guarantee="label-DP")
    blocks = {}
    for party, columns in PARTIES.items():
        rows = BoundedRows(bound({each.name: raw[each.name] for each in columns}, columns, 14), columns, 14)
        blocks[party] = privatize(rows, spec, party, SeededNoise(6))
    return one_block_each(spec, blocks, guarantee(spec).words())


@pytest.mark.parametrize("method", METHODS)
def test_a_private_outcome_on_public_features(release: Release, method: str) -> None:
    """The noise of y, 0.58 in an entry, moves a weight by 0.58 / sqrt(n/3) = 0.022; nearly seven of them."""
    found = fit(release, ["y"], ["a", "b"], method=method)
    np.testing.assert_allclose(found.coef, [[0.5, -0.3]], atol=0.15)
    assert any("label-DP" in sentence for sentence in found.promise.guarantee)


@pytest.mark.parametrize("method", METHODS)
def test_between_public_columns_a_relation_is_seen_exactly(release: Release, method: str) -> None:
    found = fit(release, ["z"], ["a"], method=method)
    assert found.coef[0, 0] == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_public_outcome_on_private_and_public_features(release: Release, method: str) -> None:
    found = fit(release, ["b"], ["a", "y"], method=method)
    assert np.isfinite(found.coef).all()
    assert found.coef[0, 0] > 0 > found.coef[0, 1]


def test_the_mean_of_a_public_column_is_exact(release: Release) -> None:
    found = fit(release, ["a"], ["b"], method="ols")
    assert found.constant_noise_sd[0] == 0
    assert found.constant[0] == pytest.approx(release.public().values[:, 0].mean(), rel=1e-9)
