"""Releases for estimator tests: exact integers on the grid in, a `Release` out, with the noise a test asks for."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, squared_sensitivity
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.privacy.gaussian import epsilon_of
from dprelease.privacy.noise import NoiseSource
from dprelease.release.accounting import guarantee
from dprelease.release.release import Release
from tests.support.blocks import privatize
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, one_block_each

GRID_BITS = 10
UNIT = 1 << GRID_BITS
DELTA = 1e-5

Codes = npt.NDArray[np.integer]

PARTIES: Mapping[str, tuple[Column, ...]] = {
    "north": (numeric("age", 0.0, 120.0), categorical("sex", "female", "male")),
    "south": (numeric("glucose", 2.0, 30.0), numeric("score", 0.0, 100.0), numeric("dose", -5.0, 3.0)),
}
"""Three features in two parties, two outcomes; `exact_codes` makes the outcomes linear in the features."""

FEATURES = ("age", "sex=male", "glucose")
SCORE_WEIGHTS, SCORE_OFFSET = np.array([0.5, 0.125, -0.25]), 0.125
DOSE_WEIGHTS = np.array([0.25, 0.0, 0.5])

MECHANISMS = {
    "calibrated": ("mixed", "rows"),
    "ols": ("mixed", "rows"),
    "bgm": ("rows",),
    "dgm": ("rows",),
    "rmgm": ("mixed",),
}
"""Method to the mechanisms with rows that it reads."""

CASES = [(method, mechanism) for method, mechanisms in MECHANISMS.items() for mechanism in mechanisms]
NOT_DGM = [case for case in CASES if case[0] != "dgm"]
"""It solves whatever Hessian it gets."""
LEAST_SQUARES = [case for case in NOT_DGM if case[0] != "calibrated"]
"""The other two take off noise that is not there when a test adds none."""

every_case = pytest.mark.parametrize(("method", "mechanism"), CASES)
every_case_but_dgm = pytest.mark.parametrize(("method", "mechanism"), NOT_DGM)
every_least_squares = pytest.mark.parametrize(("method", "mechanism"), LEAST_SQUARES)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [False, True])


def exact_codes(rows: int, seed: int = 0) -> dict[str, Codes]:
    """Codes of `PARTIES` with score = offset + weights . features and dose = weights . features, to the last bit."""
    generator = np.random.default_rng(seed)
    age, glucose = generator.integers(-UNIT // 8, UNIT // 8 + 1, (2, rows)) * 8
    sex = np.eye(3, dtype=int)[generator.choice(3, rows, p=[0.45, 0.45, 0.1])] * UNIT
    features = np.stack([age, sex[:, 1], glucose])
    score = np.rint(SCORE_OFFSET * UNIT + SCORE_WEIGHTS @ features)
    dose = np.rint(DOSE_WEIGHTS @ features)
    return {
        "north": np.column_stack([age, sex]).astype(np.int32),
        "south": np.column_stack([glucose, score, dose]).astype(np.int32),
    }


def released(
    codes: Mapping[str, Codes],
    parties: Mapping[str, tuple[Column, ...]] = PARTIES,
    *,
    noise: NoiseSource | None = None,
    noise_sd: float = 1.0,
    **declared: object,
) -> Release:
    """A release of exact codes.

    Args:
        codes: party to (n, d_j) grid codes.
        parties: party to columns.
        noise: none is added unless given; the spec declares it all the same.
        noise_sd: of every released column, scaled units; the target that calls for it is worked out from it.
        declared: passed on to `build_spec`.
    """
    whole = sum(squared_sensitivity(columns) for columns in parties.values())
    rows = len(next(iter(codes.values())))
    epsilon = epsilon_of(math.sqrt(whole) / noise_sd, DELTA)
    spec = build_spec(parties, rows=rows, epsilon=epsilon, delta=DELTA, grid_bits=GRID_BITS, **declared)  # type: ignore[arg-type]
    blocks = {
        party: privatize(
            BoundedRows(codes[party].astype(np.int32), columns, GRID_BITS), spec, party, noise or ZeroNoise()
        )
        for party, columns in parties.items()
    }
    return one_block_each(spec, blocks, guarantee(spec).words())


@pytest.fixture(scope="session")
def exact_mixed() -> Release:
    """`PARTIES` under mechanism ``mixed`` with an anchor, no noise in it."""
    return released(exact_codes(240), outputs=60)


@pytest.fixture(scope="session")
def exact_rows() -> Release:
    """`PARTIES` under mechanism ``rows``, no noise in it."""
    return released(exact_codes(240), mechanism="rows")


@pytest.fixture(scope="session")
def noisy_mixed() -> Release:
    """`PARTIES` under mechanism ``mixed`` with an anchor, noise included."""
    return released(exact_codes(600), outputs=80, noise=SeededNoise(1), noise_sd=0.5)


@pytest.fixture(scope="session")
def noisy_rows() -> Release:
    """`PARTIES` under mechanism ``rows``, noise included."""
    return released(exact_codes(600), mechanism="rows", noise=SeededNoise(2), noise_sd=0.2)


@pytest.fixture
def noisy(mechanism: str, noisy_mixed: Release, noisy_rows: Release) -> Release:
    return noisy_mixed if mechanism == "mixed" else noisy_rows


@pytest.fixture
def exact(mechanism: str, exact_mixed: Release, exact_rows: Release) -> Release:
    return exact_mixed if mechanism == "mixed" else exact_rows


@pytest.fixture(scope="module")
def clear() -> Release:
    """Enough signal for every coefficient."""
    return released(exact_codes(3000), outputs=400, noise=SeededNoise(21), noise_sd=0.3)


@pytest.fixture(scope="module")
def drowned() -> Release:
    """Noise of five half-ranges."""
    return released(exact_codes(600), outputs=80, noise=SeededNoise(1), noise_sd=5.0)


def places(rows: NoisyRows, *names: str) -> list[int]:
    """Where released columns stand among the rows."""
    return [rows.lookup(name)[0] for name in names]


@pytest.fixture
def decompositions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[int, ...]]]:
    """What numpy decomposes from now on: the name of each call and the shape of its matrix."""
    seen: list[tuple[str, tuple[int, ...]]] = []
    for name in ("eigh", "eigvalsh", "eig", "svd", "qr", "cholesky", "inv", "pinv", "solve", "lstsq"):
        original = getattr(np.linalg, name)

        def recorded(*args, _original=original, _name=name, **kwargs):
            seen.append((_name, args[0].shape))
            return _original(*args, **kwargs)

        monkeypatch.setattr(np.linalg, name, recorded)
    return seen
