"""Empirical audit of counts on the decade scale, and of whole releases of a column without bounds; broken ones must be caught."""

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from dprelease.data.columns import NumericColumn
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.mechanisms.ranges.privatize import decade_histogram, noisy_blocks
from dprelease.mechanisms.ranges.terms import RangesTerms, factor, squared_sensitivity
from dprelease.privacy.noise import Noise, NoiseSource, SecureNoise
from dprelease.release.accounting import check_spec
from tests.statistical.auditor import Audit, audit, audit_known
from tests.statistical.constants import AUDIT_RUNS, SECURE_RUNS
from tests.statistical.sightings import first_of, without_bounds
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec

COLUMN = NumericColumn(name="x", bounds="unknown")
ROWS, BITS = 40, 16
SPEC = build_spec({"a": (COLUMN,)}, mechanism="ranges", rows=ROWS, grid_bits=BITS, epsilon=10.0)
TERMS = cast(RangesTerms, SPEC.terms)
MU = math.sqrt(check_spec(SPEC).joint_mu2)
FIRST = MU / math.sqrt(3)
"""A third of mu^2."""
WORST = (-60 << BITS, 39 << BITS)
"""Codes in the first cell and in the 100th, which move counts most."""


TABLES = tuple(first_of(COLUMN, ROWS, BITS, code, 33 << BITS) for code in WORST)


FEWER = 32


def decades(noise: NoiseSource, runs: int, scale: float) -> Audit:
    """The counts alone, before an attacker who knows nothing of the mechanism."""
    exact = [factor(DECADE_CELLS) @ decade_histogram(bounded.codes[:, 0], BITS) for bounded in TABLES]
    first, second = (each + noise.discrete_gaussian(scale, (runs, DECADE_CELLS - 1)) for each in exact)
    return audit(first.astype(np.float64), second.astype(np.float64))


def test_these_are_the_worst_cells() -> None:
    exact = [factor(DECADE_CELLS) @ decade_histogram(bounded.codes[:, 0], BITS) for bounded in TABLES]
    assert int(((exact[0] - exact[1]) ** 2).sum()) == squared_sensitivity(DECADE_CELLS)


@pytest.mark.parametrize(("source", "runs"), [(lambda: SeededNoise(21), AUDIT_RUNS), (SecureNoise, SECURE_RUNS)])
def test_the_worst_cells_cost_a_third(source: Callable[[], NoiseSource], runs: int) -> None:
    assert decades(source(), runs, TERMS.scales.decades).agrees(FIRST, errors=6)


def test_the_sensitivity_of_fewer_cells_is_too_little() -> None:
    scale = TERMS.scales.decades * math.sqrt(squared_sensitivity(FEWER) / squared_sensitivity(DECADE_CELLS))
    measured = decades(SeededNoise(22), AUDIT_RUNS, scale)
    assert not measured.agrees(FIRST, errors=5)
    assert measured.mu > FIRST + 5 * measured.standard_error


def releases(noise: NoiseSource, runs: int) -> Audit:
    """Whole releases, before an attacker who knows both tables, and so the box and the range that each release used."""
    seen = []
    for bounded in TABLES:
        found = [noisy_blocks(bounded, SPEC, TERMS, noise) for _ in range(runs)]
        seen.append([without_bounds(SPEC, blocks, TABLES) for blocks in found])
    return audit_known(*seen)


RUNS = 60


def test_whole_releases_cost_at_most_what_is_declared() -> None:
    measured = releases(SeededNoise(23), RUNS // 2)
    assert measured.mu <= MU + 5 * measured.standard_error
    assert measured.mu >= FIRST - 5 * measured.standard_error


class Halved:
    """Noise at half its scale."""

    def __init__(self) -> None:
        self.source = SeededNoise(24)

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return self.source.discrete_gaussian(scale / 2, shape)


def test_whole_releases_with_too_little_noise_are_caught() -> None:
    measured = releases(Halved(), RUNS)
    assert measured.mu > MU + 5 * measured.standard_error
