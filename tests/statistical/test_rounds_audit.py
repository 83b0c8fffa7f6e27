"""Empirical audit of both rounds of a release together: ranges, then moments in the ranges that each release published.

The broken control is a hospital that draws its first round anew whenever it starts again, and so shows it several times.
"""

import math
from fractions import Fraction

import pytest

from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms import then
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Audit, Sighting, audit_known
from tests.statistical.sightings import first_of, of_moments, of_ranges, together
from tests.support.joint import summed
from tests.support.noise import SeededNoise
from tests.support.rounds import after, in_published_ranges, ranges_first
from tests.support.specs import build_spec, numeric

COLUMN = numeric("x")
ROWS, BITS, UNIT = 40, 16, 1 << 16
RUNS, FEWER = 30, 17
STARTS = 4
WORST = (-UNIT, int(UNIT * 0.6445))
"""Codes in the first cell and in the 211th, which move the counts of the first round most."""


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> ReleaseSpec:
    """One hospital with one number; half of mu^2 is for the first round, so that an audit of few releases sees both."""
    monkeypatch.setattr(then, "share", lambda rows, columns: Fraction(1, 2))
    plain = build_spec({"a": (COLUMN,)}, mechanism="moments", rows=ROWS, grid_bits=BITS, epsilon=40.0)
    return ranges_first(plain, clip="none")


TABLES = tuple({"a": first_of(COLUMN, ROWS, BITS, code, UNIT // 8)} for code in WORST)


def released(spec: ReleaseSpec, rows: BoundedRows, noise: NoiseSource, starts: int) -> Sighting:
    """One release before an attacker who knows both tables; of all first rounds that were drawn the last one counts."""
    shown = [privatize(rows, spec, "a", noise)[0] for _ in range(starts)]
    first = {"a": (shown[-1],)}
    (last,) = privatize(rows, spec, "a", noise, earlier=after(spec, first))
    moments = of_moments(in_published_ranges(spec, first), [summed(spec, [last.values])[0]], TABLES)
    return together(*(of_ranges(spec, {"a": block}, TABLES) for block in shown), *moments)


def measured(spec: ReleaseSpec, starts: int, seed: int, runs: int = RUNS) -> Audit:
    noise = SeededNoise(seed)
    first, second = ([released(spec, rows["a"], noise, starts) for _ in range(runs)] for rows in TABLES)
    return audit_known(first, second)


def test_both_rounds_together_cost_at_most_what_is_declared(spec: ReleaseSpec) -> None:
    nominal, found = math.sqrt(check_spec(spec).joint_mu2), measured(spec, 1, 1)
    assert found.mu <= nominal + 5 * found.standard_error
    assert found.mu >= 0.6 * nominal  # the worst of one round are not the worst of the other


def test_a_first_round_drawn_anew_at_every_start_is_caught(spec: ReleaseSpec) -> None:
    """It is 40 % above, which 17 releases of each table tell with a standard error of 6 %."""
    nominal, found = math.sqrt(check_spec(spec).joint_mu2), measured(spec, STARTS, 2, FEWER)
    assert found.mu > nominal + 5 * found.standard_error
