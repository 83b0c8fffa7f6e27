"""Empirical audit of joint moments on the worst pairs of neighbours, and of broken mechanisms that it must catch.

Neighbours differ in all cells of one patient, in all three hospitals. A curious hospital subtracts its own share of the
noise from what is released, so to it the release is what it would be had that hospital added none.
"""

import math
import secrets
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.mechanisms.moments.calibration import share_scales
from dprelease.mechanisms.moments.entries import EntryKind
from dprelease.mechanisms.moments.released import add_up, limits
from dprelease.mechanisms.moments.sensitivity import Sensitivity, sensitivity
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc.modulus import FIELD
from dprelease.privacy.noise import NoiseSource, SecureNoise
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Audit, Outputs, audit, audit_alike
from tests.statistical.constants import CONTROL_RUNS, DETECTABLE, JOINT_RUNS, KNOWN_RUNS, TWICE_RUNS
from tests.support.blocks import exact_once
from tests.support.joint import entries, exact_gram, multiply, multiply_directly, seal
from tests.support.noise import ScaledNoise, SeededNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, with_terms

COLUMNS = {
    "north": (numeric("age"), categorical("smoker", "yes")),
    "south": (numeric("dose"), categorical("blood", "A", "B")),
    "west": (categorical("asthma", "yes"),),
}
SPEC = build_spec(COLUMNS, mechanism="moments", rows=3, epsilon=64.0)  # mu near 8: few runs measure it to 2 %
PARTIES = tuple(COLUMNS)
CURIOUS = PARTIES[1]
Tables = Mapping[str, BoundedRows]
Cells = Mapping[str, float | str]

FULL: Cells = {"age": 1.0, "smoker": "yes", "dose": 1.0, "blood": "A", "asthma": "yes"}
PAIRS: dict[str, tuple[Cells, Cells]] = {
    # All squares move, and the two rows (constant and groups included) are orthogonal.
    "squares": (FULL, FULL | {"age": 0.0, "smoker": "no", "dose": 0.0, "asthma": "no"}),
    # No square moves, only signs do.
    "products": (FULL, FULL | {"age": -1.0, "dose": -1.0, "asthma": "no"}),
}


def tables(cells: Cells, spec: ReleaseSpec = SPEC) -> Tables:
    """Everybody's rows where the second patient has these cells."""
    others: list[Cells] = [FULL | {"age": 0.25}, FULL | {"smoker": "no", "blood": "B", "dose": -0.5}]
    patients = [others[0], cells, others[1]]
    found = {}
    for part in spec.parties:
        raw: dict[str, RawColumn] = {}
        for column in part.columns:
            drawn = [patient[column.name] for patient in patients]
            raw[column.name] = np.array(drawn) if isinstance(drawn[0], float) else [str(each) for each in drawn]
        found[part.party] = BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
    return found


def nominal(spec: ReleaseSpec = SPEC) -> float:
    return math.sqrt(check_spec(spec).joint_mu2)


def variance(spec: ReleaseSpec) -> Outputs:
    """(E,) of one share of each entry."""
    terms = joint_moments(spec)
    return np.where(layout_of(spec).diagonal, terms.diagonal_scale, terms.scale) ** 2


def distance(pair: str, spec: ReleaseSpec, shares: int) -> float:
    """mu of a pair of neighbours when so many shares of noise are unknown: for a spec whose noise is not by the rule."""
    one, two = (entries(spec, exact_gram(spec, tables(cells, spec))) for cells in PAIRS[pair])
    return math.sqrt(float(np.sum(np.subtract(two, one).astype(float) ** 2 / (shares * variance(spec)))))


@pytest.mark.parametrize("pair", PAIRS)
def test_no_neighbours_are_further_apart(pair: str) -> None:
    one, two = (entries(SPEC, exact_gram(SPEC, tables(cells))) for cells in PAIRS[pair])
    value = sensitivity(layout_of(SPEC).variables)
    weights = [value.diagonal_weight if square else Fraction(1) for square in layout_of(SPEC).diagonal]
    moved = sum(weight * (after - before) ** 2 for weight, before, after in zip(weights, one, two, strict=True))
    assert moved == value.on_grid(SPEC.grid_bits, 1)[EntryKind.PRODUCT]
    assert distance(pair, SPEC, shares=2) == pytest.approx(nominal(), rel=1e-6)


def honest(seed: int) -> dict[str, NoiseSource]:
    return {party: SeededNoise(seed + place) for place, party in enumerate(PARTIES)}


def joined(spec: ReleaseSpec, blocks: Mapping[str, object]) -> Outputs:
    largest = limits(layout_of(spec), spec.rows, spec.grid_bits, joint_moments(spec).scales, len(PARTIES))
    return add_up([blocks[party].values for party in PARTIES], largest, FIELD).astype(np.float64)


def releases(spec: ReleaseSpec, cells: Cells, noises: Iterable[Mapping[str, NoiseSource]]) -> Outputs:
    """Released integers of many releases, (runs, E): one computation, other masks and noise for each."""
    rows = tables(cells, spec)
    session = multiply(spec, rows)
    found = []
    with exact_once():
        for noise in noises:
            masks = {frozenset(two): secrets.token_bytes(32) for two in combinations(PARTIES, 2)}
            found.append(joined(spec, seal(spec, rows, session, noise, masks)))
    return np.array(found)


def exact(spec: ReleaseSpec, pair: str) -> list[Outputs]:
    """(E,) released integers of both tables, without noise."""
    return [np.array(entries(spec, exact_gram(spec, tables(cells, spec))), np.float64) for cells in PAIRS[pair]]


def audited(spec: ReleaseSpec, pair: str, noise: Mapping[str, NoiseSource], runs: int = KNOWN_RUNS) -> Audit:
    """By an attacker who knows both tables; whoever knows none is in `test_a_curious_hospital_learns_what_is_stated`."""
    found = (releases(spec, cells, [noise] * runs) for cells in PAIRS[pair])
    return audit_alike(exact(spec, pair), np.sqrt(variance(spec)), *found)


def computed(rows: Mapping[str, BoundedRows], noise: Mapping[str, NoiseSource], runs: int) -> Outputs:
    """The same after the whole computation, which is made anew for an eighth of them."""
    found, sessions = [], [multiply_directly(SPEC, rows) for _ in range(runs // 8)]
    for run in range(runs):
        masks = {frozenset(two): secrets.token_bytes(32) for two in combinations(PARTIES, 2)}
        found.append(joined(SPEC, seal(SPEC, rows, sessions[run % len(sessions)], noise, masks)))
    return np.array(found)


# What is stated.


@pytest.mark.parametrize(
    ("runs", "within"), [(TWICE_RUNS, 0.12), pytest.param(JOINT_RUNS, 0.05, marks=pytest.mark.slow)]
)
def test_a_curious_hospital_learns_what_is_stated(runs: int, within: float) -> None:
    """With the whole computation: deals, masked columns, products, noise and masks."""
    noise = honest(10) | {CURIOUS: ZeroNoise()}
    measured = audit(*(computed(rows, noise, runs) for rows in map(tables, PAIRS["squares"])))
    assert measured.standard_error < within / 3 * 1.05 * nominal()
    assert measured.agrees(nominal(), errors=3)
    assert abs(measured.mu / nominal() - 1) < within


@pytest.mark.parametrize("curious", PARTIES)
def test_whoever_is_curious_or_adds_no_noise(curious: str) -> None:
    """One hospital that adds none takes a stranger as far as the statement allows, and no further."""
    measured = audited(SPEC, "products", honest(20) | {curious: ZeroNoise()})
    assert measured.agrees(nominal(), errors=3)


def test_a_stranger_learns_less() -> None:
    measured = audited(SPEC, "squares", honest(30))
    assert measured.agrees(nominal() * math.sqrt(2 / 3), errors=3)
    assert not measured.agrees(nominal(), errors=3)


def test_production_noise_against_a_curious_hospital() -> None:
    noise = dict.fromkeys(PARTIES, SecureNoise()) | {CURIOUS: ZeroNoise()}
    measured = audited(SPEC, "squares", noise)
    assert measured.agrees(nominal(), errors=7)


# What would break it, and is caught.


def calibrated(value: Sensitivity, curious: int = 1) -> ReleaseSpec:
    """The same release with noise by another rule, which no party would approve."""
    mu2 = Fraction(joint_moments(SPEC).mu2)
    scales = share_scales(value, mu2, len(PARTIES), curious, SPEC.grid_bits, 1)
    return with_terms(SPEC, scale=scales[EntryKind.PRODUCT], diagonal_scale=scales[EntryKind.SQUARE])


VALUE = sensitivity(layout_of(SPEC).variables)
WITHOUT_A_COLUMN = sensitivity(tuple(each for each in layout_of(SPEC).variables if each.name != "age"))
BROKEN = {
    "shares for m hospitals, not for m - t": calibrated(VALUE, curious=0),
    "squares with less than their noise": calibrated(Sensitivity(VALUE.squared, 2 * VALUE.diagonal_weight)),
    "a column forgotten": calibrated(WITHOUT_A_COLUMN),
}


@pytest.mark.parametrize("name", BROKEN)
def test_noise_by_another_rule_is_caught(name: str) -> None:
    spec = BROKEN[name]
    measured = audited(spec, "squares", honest(50) | {CURIOUS: ZeroNoise()})
    expected = distance("squares", spec, shares=2)
    assert expected > 1.1 * nominal()
    assert measured.agrees(expected, errors=5)
    assert not measured.agrees(nominal(), errors=4)


def test_two_curious_hospitals_are_more_than_was_declared() -> None:
    measured = audited(SPEC, "squares", honest(60) | {"north": ZeroNoise(), "west": ZeroNoise()})
    assert measured.agrees(nominal() * math.sqrt(2), errors=3)
    assert not measured.agrees(nominal(), errors=5)


@pytest.mark.parametrize("error", [-DETECTABLE, DETECTABLE])
def test_a_tenth_too_little_or_too_much_is_caught(error: float) -> None:
    noise = {party: ScaledNoise(source, 1 + error) for party, source in honest(70).items()}
    measured = audited(SPEC, "squares", noise | {CURIOUS: ZeroNoise()}, 3 * KNOWN_RUNS)
    assert measured.agrees(nominal() / (1 + error), errors=3)
    assert not measured.agrees(nominal(), errors=4 if error < 0 else 3)


# Two releases of the same patients. In the second one the hospitals stand in another order, hence the entries too.

AGAIN = build_spec(dict(reversed(COLUMNS.items())), mechanism="moments", rows=3, epsilon=64.0, title="once more")


def test_two_releases_add_up() -> None:
    noise = honest(80) | {CURIOUS: ZeroNoise()}
    both, found = (SPEC, AGAIN), []
    for cells in PAIRS["squares"]:
        found.append(np.hstack([releases(spec, cells, [noise] * KNOWN_RUNS) for spec in both]))
    known = [np.hstack(each) for each in zip(*(exact(spec, "squares") for spec in both), strict=True)]
    measured = audit_alike(known, np.sqrt(np.hstack([variance(spec) for spec in both])), *found)
    assert measured.agrees(nominal() * math.sqrt(2), errors=3)
    assert not measured.agrees(nominal(), errors=5)


def test_two_releases_with_the_same_noise_have_no_privacy() -> None:
    """Their difference has no noise at all."""
    first, second = (
        np.hstack(
            [releases(spec, cells, map(honest, range(0, 100 * CONTROL_RUNS // 8, 100))) for spec in (SPEC, AGAIN)]
        )
        for cells in PAIRS["squares"]
    )
    assert audit(first, second).mu > 1000 * nominal()
