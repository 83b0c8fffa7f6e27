"""Thousands of outcomes share one Gram matrix and one factorisation."""

import numpy as np
import pytest

from dprelease.estimators import METHODS, fit
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import UNIT, released
from tests.support.noise import SeededNoise
from tests.support.specs import numeric

D, L, ROWS = 50, 2000, 150
PARTIES = {
    "north": tuple(numeric(f"x{index}", 0.0, 2.0) for index in range(D)),
    "south": tuple(numeric(f"y{index}", -10.0, 10.0) for index in range(L)),
}
OUTCOMES = [f"y{index}" for index in range(L)]
FEATURES = [f"x{index}" for index in range(D)]


CASES = [
    (method, mechanism)
    for method, row in METHODS.items()
    for mechanism, view in (("mixed", "mixtures"), ("rows", "rows"))
    if view in row.on and method != "calibrated"
]


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    """One release of each mechanism."""
    generator = np.random.default_rng(7)
    codes = {
        "north": generator.integers(-UNIT, UNIT + 1, (ROWS, D)),
        "south": generator.integers(-UNIT, UNIT + 1, (ROWS, L)),
    }
    return {
        mechanism: released(codes, PARTIES, mechanism=mechanism, outputs=120, noise=SeededNoise(8), noise_sd=0.3)
        for mechanism in ("mixed", "rows")
    }


@pytest.mark.parametrize(("method", "mechanism"), CASES)
def test_two_thousand_outcomes_are_one_factorisation(
    releases: dict[str, Release], method: str, mechanism: str, decompositions: list[tuple[str, tuple[int, ...]]]
):
    result = fit(releases[mechanism], OUTCOMES, FEATURES, method)
    assert decompositions == [("eigh", (D, D))]
    assert result.coef.shape == (L, D)
    assert result.quality.mse.shape == (L,)
