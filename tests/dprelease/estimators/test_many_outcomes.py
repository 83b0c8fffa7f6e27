"""Thousands of outcomes share one Gram matrix and one factorisation."""

from collections.abc import Iterator

import numpy as np
import pytest

import dprelease.estimators.normal_equations as linear
from dprelease.estimators import METHODS, fit
from dprelease.estimators.baselines import plain
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


@pytest.fixture
def factorisations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the right-hand sides that `solve` saw; every decomposition numpy offers must come from there."""
    seen: list[tuple[int, ...]] = []
    decompositions: list[str] = []
    solve = linear.solve

    def counted(matrix, right, ridge=0.0):
        seen.append(right.shape)
        return solve(matrix, right, ridge)

    for name in ("eigh", "eigvalsh", "eig", "svd", "qr", "cholesky", "inv", "pinv", "solve", "lstsq"):
        original = getattr(np.linalg, name)

        def recorded(*args, _original=original, _name=name, **kwargs):
            decompositions.append(_name)
            return _original(*args, **kwargs)

        monkeypatch.setattr(np.linalg, name, recorded)
    monkeypatch.setattr(plain, "solve", counted)
    yield seen
    assert decompositions == ["eigh"] * len(seen)


@pytest.mark.parametrize(("method", "mechanism"), CASES)
def test_two_thousand_outcomes_are_one_factorisation(
    releases: dict[str, Release], method: str, mechanism: str, factorisations: list[tuple[int, ...]]
):
    result = fit(releases[mechanism], OUTCOMES, FEATURES, method)
    assert factorisations == [(D, L)]
    assert result.coef.shape == (L, D)
    assert result.quality.mse.shape == (L,)
