"""Empirical audit of ranges: both rounds on the worst neighbours, and broken mechanisms that the auditor must catch."""

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms.ranges import terms
from dprelease.mechanisms.ranges.privatize import histogram, noisy_ranges, second_round
from dprelease.mechanisms.ranges.rounds import Row, window
from dprelease.mechanisms.ranges.terms import CELLS, LARGEST_CODE, RangesTerms, Scales, factor
from dprelease.privacy.noise import Noise, NoiseSource, SecureNoise
from dprelease.release.accounting import check_spec
from tests.statistical.auditor import Audit, Sighting, audit, audit_known
from tests.statistical.constants import AUDIT_RUNS, SECURE_RUNS
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric

COLUMN = numeric("x")
ROWS, UNIT = 40, 1 << 16
SPEC = build_spec({"a": (COLUMN,)}, mechanism="ranges", rows=ROWS, grid_bits=16, epsilon=10.0)
TERMS = cast(RangesTerms, SPEC.terms)
MU = math.sqrt(check_spec(SPEC).joint_mu2)
FIRST, SECOND = MU * math.sqrt(terms.FIRST_SHARE), MU * math.sqrt(1 - terms.FIRST_SHARE)
WORST = (-UNIT, int(UNIT * 0.6445))
"""Codes in the first cell and in the 211th, which move counts most."""


def table(code: int) -> BoundedRows:
    codes = np.full((ROWS, 1), UNIT // 8, np.int32)
    codes[0] = code
    return BoundedRows(codes, (COLUMN,), 16)


TABLES = tuple(map(table, WORST))


def rounds(noise: NoiseSource, runs: int) -> Audit:
    """Whole releases, before an attacker who knows both tables, and so the range that each release's second round used."""
    seen = []
    for bounded in TABLES:
        rows = [Row.of(noisy_ranges(bounded, SPEC, TERMS, noise)[0]) for _ in range(runs)]
        seen.append([sighting(row) for row in rows])
    return audit_known(*seen)


def sighting(row: Row) -> Sighting:
    scales = TERMS.scales
    sd = np.array([scales.counts] * (CELLS - 1) + [scales.total, scales.squares])
    exact = []
    for bounded in TABLES:
        codes = bounded.codes[:, 0]
        sums = second_round(window(COLUMN, row.first).code(codes, 16, LARGEST_CODE))
        exact.append(np.array([*(factor(CELLS) @ histogram(codes, 16)), *sums], np.float64))
    noisy = np.array([*row.counts, row.total, row.squares], np.float64)
    return Sighting((noisy - exact[0]) / sd, (exact[1] - exact[0]) / sd)


def counts(noise: NoiseSource, runs: int, scale: float) -> Audit:
    """The first round alone, before an attacker who knows nothing of the mechanism."""
    exact = [factor(CELLS) @ histogram(bounded.codes[:, 0], 16) for bounded in TABLES]
    first, second = (each + noise.discrete_gaussian(scale, (runs, CELLS - 1)) for each in exact)
    return audit(first.astype(np.float64), second.astype(np.float64))


def test_these_are_the_worst_cells() -> None:
    one, other = (factor(CELLS) @ histogram(bounded.codes[:, 0], 16) for bounded in TABLES)
    assert int(((one - other) ** 2).sum()) == terms.squared_sensitivity(CELLS)


@pytest.mark.parametrize(("source", "runs"), [(lambda: SeededNoise(1), AUDIT_RUNS), (SecureNoise, SECURE_RUNS)])
def test_the_worst_cells_cost_what_the_first_round_declares(source: Callable[[], NoiseSource], runs: int) -> None:
    assert counts(source(), runs, TERMS.counts_scale).agrees(FIRST, errors=6)


def test_noise_for_neighbouring_cells_is_too_little() -> None:
    """D1 of the pair of neighbours that moves counts most: what one would take who thinks of histograms only."""
    columns = factor(CELLS).T
    near = max(int(((columns[at] - columns[at + 1]) ** 2).sum()) for at in range(CELLS - 1))
    scale = TERMS.counts_scale * math.sqrt(near / terms.squared_sensitivity(CELLS))
    measured = counts(SeededNoise(2), AUDIT_RUNS, scale)
    assert not measured.agrees(FIRST, errors=7)
    assert measured.mu > FIRST + 7 * measured.standard_error


def sums(noise: NoiseSource, runs: int, scales: Scales) -> Audit:
    """The second round alone, its range being known: one row at its end, or on the other side where sums move most."""
    worst = (LARGEST_CODE, round(LARGEST_CODE * ((2 + math.sqrt(2)) / 4 - 1)))
    outputs = []
    for code in worst:
        exact = second_round(np.array([code, *[LARGEST_CODE // 8] * (ROWS - 1)], np.int32))
        drawn = [noise.discrete_gaussian(scale, (runs, 1)) for scale in (scales.total, scales.squares)]
        outputs.append((np.array([exact]) + np.hstack(drawn)).astype(np.float64))
    return audit(*outputs)


def test_the_worst_codes_cost_what_the_second_round_declares() -> None:
    assert sums(SeededNoise(5), AUDIT_RUNS, TERMS.scales).agrees(SECOND, errors=5)


def test_noise_for_the_sum_alone_is_too_little() -> None:
    """(z - z')^2 <= 4 for D2^2: squares of the same cells forgotten."""
    factor = math.sqrt(4 / terms.SQUARED_SUMS)
    scales = Scales(TERMS.counts_scale, TERMS.sum_scale * factor, TERMS.square_scale * factor)
    measured = sums(SeededNoise(6), AUDIT_RUNS, scales)
    assert measured.mu > SECOND + 7 * measured.standard_error
    assert not measured.agrees(SECOND, errors=7)


RUNS = 60


def test_whole_releases_cost_at_most_what_is_declared() -> None:
    measured = rounds(SeededNoise(3), RUNS // 2)
    assert measured.mu <= MU + 5 * measured.standard_error
    assert measured.mu >= 0.8 * MU - 5 * measured.standard_error  # these neighbours are not the worst of round 2


class Halved:
    """Noise at half its scale."""

    def __init__(self) -> None:
        self.source = SeededNoise(4)

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return self.source.discrete_gaussian(scale / 2, shape)


def test_whole_releases_with_too_little_noise_are_caught() -> None:
    measured = rounds(Halved(), RUNS)
    assert measured.mu > MU + 5 * measured.standard_error
