"""Empirical audit of both rounds of mixtures together, of a number without bounds: its bounds, its range, mixtures in it.

The patient moves between the cells of the decade scale that counts move most at. Everybody else is in one cell, so that each range
lies around them: the mixtures move by all that noise is for. The broken control leaves numbers as they are beyond their range.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.arrays import Integers
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import NumericColumn
from dprelease.data.ranges import on_fine_grid
from dprelease.mechanisms import then
from dprelease.mechanisms.base import EarlierRounds
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import SpecBase
from tests.statistical.auditor import Audit, Sighting, audit_known
from tests.statistical.sightings import first_of, together, without_bounds
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.rounds import after, ranges_first_without_bounds
from tests.support.specs import build_spec, numeric

COLUMN = NumericColumn(name="x", bounds="unknown")
ROWS, BITS = 40, 16
RUNS, FEWER = 20, 15
WORST = (-60 << BITS, 39 << BITS)


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> ReleaseSpec:
    """One hospital with one number; half of mu^2 is for the first round, so that an audit of few releases sees both."""
    monkeypatch.setattr(then, "share", lambda rows, columns: Fraction(1, 2))
    plain = build_spec({"a": (numeric("x"),)}, mechanism="mixed", rows=ROWS, grid_bits=BITS, epsilon=40.0)
    return ranges_first_without_bounds(plain, ("x",), k=12)


TABLES = tuple(first_of(COLUMN, ROWS, BITS, code, 33 << BITS) for code in WORST)


def released(spec: ReleaseSpec, rows: BoundedRows, noise: NoiseSource) -> Sighting:
    """One release before an attacker who knows both tables, and so what both would be in the range that was published."""
    first = privatize(rows, spec, "a", noise)
    earlier, terms = after(spec, {"a": first}), spec.terms

    def last(rows: BoundedRows, noise: NoiseSource) -> Integers:
        (block,) = privatize(rows, spec, "a", noise, earlier=earlier)
        return block.values

    (scales,) = terms.noise
    sd = np.array([scales.anchor_scale] + [scales.scale] * 12)[:, None]
    exact = [last(each, ZeroNoise()) for each in TABLES]
    mixtures = Sighting(((last(rows, noise) - exact[0]) / sd).ravel(), ((exact[1] - exact[0]) / sd).ravel())
    before = spec.model_copy(update={"terms": terms.first})
    return together(without_bounds(before, [block.values for block in first], TABLES), mixtures)


def measured(spec: ReleaseSpec, seed: int, runs: int = RUNS) -> Audit:
    noise = SeededNoise(seed)
    return audit_known(*([released(spec, rows, noise) for _ in range(runs)] for rows in TABLES))


def test_both_rounds_together_cost_at_most_what_is_declared(spec: ReleaseSpec) -> None:
    nominal, found = math.sqrt(check_spec(spec).joint_mu2), measured(spec, 1)
    assert found.mu <= nominal + 5 * found.standard_error
    assert found.mu >= math.sqrt(2 / 3) * nominal  # half of mu^2 in mixtures and a sixth in decades are at their worst


def unclipped(rows: BoundedRows, earlier: EarlierRounds) -> tuple[BoundedRows, SpecBase]:
    """The rows in the published range, and as far beyond it as they are."""
    (known,), left = earlier.view.ranges, earlier.left
    assert left is not None
    moved = on_fine_grid(rows.codes, BITS, known.box).astype(np.int64) - known.centre
    return BoundedRows(((moved << BITS) // known.half_width).astype(np.int32), left.columns, BITS), left


def test_mixtures_of_numbers_beyond_their_ranges_are_caught(spec: ReleaseSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(then, "coded", unclipped)
    monkeypatch.setattr(BoundedRows, "__post_init__", lambda rows: None)
    nominal, found = math.sqrt(check_spec(spec).joint_mu2), measured(spec, 2, FEWER)
    assert found.mu > nominal + 5 * found.standard_error
