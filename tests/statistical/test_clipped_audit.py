"""Empirical audit of moments of clipped rows, at a pair of neighbours that the sensitivity is attained at.

Each hospital's numbers are longer than its norm allows, so that every row is clipped onto it. A hospital that forgets to clip is
the broken control: the noise is for rows that are shorter than its own.
"""

import math
import secrets
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dprelease.arrays import Codes
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.ranges import Range
from dprelease.errors import SpecRefused
from dprelease.mechanisms.moments.clipping import Clipping, Norm
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.privatize import coded, schedule_of
from dprelease.mechanisms.moments.released import add_up, limits
from dprelease.mechanisms.moments.sensitivity import RowBounds
from dprelease.mechanisms.moments.terms import joint_moments, layout_of, least_noise
from dprelease.mpc.modulus import FIELD
from dprelease.privacy.calibration import budget
from dprelease.privacy.noise import NoiseSource
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Audit, Outputs, audit
from tests.statistical.constants import CONTROL_RUNS
from tests.support.blocks import exact_once
from tests.support.joint import Session, entries, exact_gram, seal
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import build_spec, numeric, with_terms

COLUMNS = {"north": (numeric("a"), numeric("b")), "south": (numeric("c"), numeric("d"))}
NAMES = {party: tuple(column.name for column in own) for party, own in COLUMNS.items()}
BITS = 16
UNIT = 1 << BITS
CURIOUS = "south"
Coding = Callable[[BoundedRows], Codes]


def clipped_spec() -> ReleaseSpec:
    """Two hospitals of two numbers each, every row of theirs clipped to norm 1; the constant is 1 too."""
    plain = build_spec(COLUMNS, mechanism="moments", rows=3, epsilon=64.0, grid_bits=BITS)
    clipping = Clipping(
        constant=UNIT,
        weights=(UNIT,) * 4,
        ranges=tuple(map(Range.whole, "abcd")),
        norms=tuple(Norm(columns=names, squared=UNIT**2) for names in NAMES.values()),
        square_weight="1/2",
    )
    terms = least_noise(layout_of(plain), budget(plain.target), 2, 1, "coordinator", BITS, 1, clipping=clipping)
    return with_terms(plain, **{name: getattr(terms, name) for name in ("scale", "diagonal_scale", "clipping", "mu2")})


SPEC = clipped_spec()
# Rows whose inner product, the constant's 1 included, is 0: north turns round, south turns by a right angle.
PAIR = ({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}, {"a": -1.0, "b": -1.0, "c": 1.0, "d": -1.0})


def tables(cells: Mapping[str, float]) -> dict[str, BoundedRows]:
    others = {"a": 0.25, "b": -0.5, "c": 0.1, "d": 0.9}
    found = {}
    for party, own in COLUMNS.items():
        raw = {column.name: np.array([others[column.name], cells[column.name], 0.3]) for column in own}
        found[party] = BoundedRows(bound(raw, own, BITS), own, BITS)
    return found


def honest_rows(rows: BoundedRows) -> Codes:
    return coded(rows, SPEC)


def forgotten(rows: BoundedRows) -> Codes:
    """A hospital that forgets to clip."""
    return code(rows.codes, rows.columns)


def released(
    cells: Mapping[str, float], noise: Mapping[str, NoiseSource], runs: int, north: Coding = honest_rows
) -> Outputs:
    """Released integers of many releases, (runs, E): masks and noise drawn anew for each."""
    rows = tables(cells)
    matrices = {"north": north(rows["north"]), "south": honest_rows(rows["south"])}
    whole = (matrices["north"].astype(np.int64).T @ matrices["south"].astype(np.int64)).view(np.uint64)
    (pair,) = schedule_of(SPEC).pairs
    session = Session({"north": {pair: whole}, "south": {pair: 0 * whole}}, matrices)
    largest = limits(layout_of(SPEC), SPEC.rows, BITS, joint_moments(SPEC).scales, 2)
    found = []
    with exact_once():
        for _ in range(runs):
            seed = {frozenset(two): secrets.token_bytes(32) for two in combinations(COLUMNS, 2)}
            sent = seal(SPEC, rows, session, noise, seed)
            found.append(add_up([sent[party].values for party in COLUMNS], largest, FIELD).astype(np.float64))
    return np.array(found)


def measured(north: Coding = honest_rows) -> Audit:
    noise: dict[str, NoiseSource] = {"north": SeededNoise(3), CURIOUS: ZeroNoise()}
    first, second = (released(cells, noise, CONTROL_RUNS, north) for cells in PAIR)
    return audit(first, second)


def nominal() -> float:
    return math.sqrt(check_spec(SPEC).joint_mu2)


def test_the_pair_is_one_that_attains_the_sensitivity() -> None:
    one, two = (entries(SPEC, exact_gram(SPEC, tables(cells))) for cells in PAIR)
    layout, clipping = layout_of(SPEC), joint_moments(SPEC).clipping
    assert clipping is not None
    weights = [Fraction(clipping.square_weight) if square else Fraction(1) for square in layout.diagonal]
    moved = sum(weight * (after - before) ** 2 for weight, before, after in zip(weights, one, two, strict=True))
    exact = RowBounds.of(layout, clipping).squared_sensitivity(Fraction(clipping.square_weight))
    assert 0.9999 < moved / exact <= 1


def test_a_curious_hospital_learns_what_is_stated() -> None:
    found = measured()
    assert found.agrees(nominal(), errors=3)
    assert abs(found.mu / nominal() - 1) < 0.05


def test_a_hospital_that_forgets_to_clip_is_caught() -> None:
    found = measured(forgotten)
    assert found.mu > 1.2 * nominal()
    assert not found.agrees(nominal(), errors=5)


@pytest.mark.parametrize("squared", [UNIT**2 // 2, UNIT**2 * 2 - 1])
def test_a_spec_whose_noise_is_for_another_norm_is_refused(squared: int) -> None:
    terms = joint_moments(SPEC)
    assert terms.clipping is not None
    norms = (terms.clipping.norms[0].model_copy(update={"squared": squared}), terms.clipping.norms[1])
    lie = with_terms(SPEC, clipping=terms.clipping.model_copy(update={"norms": norms}))
    with pytest.raises(SpecRefused, match="noise scales are not those"):
        check_spec(lie)
