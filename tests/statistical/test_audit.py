"""Empirical audit of `privatize` on the worst pair of neighbours, and of broken mechanisms that it must catch."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.privacy.noise import Noise, NoiseSource, SecureNoise
from dprelease.privacy.public_stream import PublicStream
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Audit, Outputs, Sighting, audit, audit_alike, audit_known
from tests.statistical.constants import AUDIT_RUNS, CONTROL_RUNS, DETECTABLE, P_THRESHOLD, ROWS_RUNS, SECURE_ROWS_RUNS
from tests.support.blocks import exact_once, privatize
from tests.support.noise import ScaledNoise, SeededNoise, ZeroNoise
from tests.support.specs import SEED, build_spec, categorical, numeric

COLUMNS = (numeric("age", 20.0, 100.0), categorical("sex", "female"))
PATIENT = 1
EXTREME = stats.norm.isf(P_THRESHOLD / 2)

SETTINGS: dict[str, dict[str, Any]] = {
    "anchored mix": {"rows": 4, "outputs": 3, "anchor_weight": "3/10"},
    "mix": {"rows": 4, "outputs": 4, "anchor_weight": "0"},
    "buckets": {"rows": 60, "outputs": 3, "anchor_weight": "3/10", "mixing": "buckets"},
    "rows": {"mechanism": "rows", "rows": 3},
}
SPECS = {name: build_spec({"a": COLUMNS}, epsilon=64.0, **setting) for name, setting in SETTINGS.items()}
"""epsilon = 64 makes mu = 8: few runs measure it to a percent."""


def neighbours(spec: ReleaseSpec) -> tuple[BoundedRows, BoundedRows]:
    """The worst pair: every cell of one patient moves from one end of its range to the other.

    Any patient is as exposed as another. The second has signs of both kinds in B (checked below), so that differences
    between mixing rows show it too: that is where noise shared between rows would vanish.
    """
    ages = np.full(spec.rows, 50.0)
    sexes: list[str | None] = ["female"] * spec.rows
    tables = []
    for age, sex in ((20.0, "female"), (100.0, "other")):
        ages[PATIENT], sexes[PATIENT] = age, sex
        raw: dict[str, RawColumn] = {"age": ages, "sex": sexes}
        tables.append(BoundedRows(bound(raw, COLUMNS, spec.grid_bits), COLUMNS, spec.grid_bits))
    return tables[0], tables[1]


def test_the_patient_has_signs_of_both_kinds() -> None:
    signs = BernoulliMixing(PublicStream(SEED), 3, 4).signs(PATIENT, PATIENT + 1)
    assert set(signs.ravel()) == {-1, 1}


def outputs(table: BoundedRows, spec: ReleaseSpec, noise: NoiseSource, runs: int) -> Outputs:
    with exact_once():
        released = [privatize(table, spec, "a", noise).values.ravel() for _ in range(runs)]
    return np.array(released, np.float64)


def audited(spec: ReleaseSpec, noise: NoiseSource, runs: int) -> Audit:
    """By an attacker who knows nothing."""
    first, second = neighbours(spec)
    return audit(outputs(first, spec, noise, runs), outputs(second, spec, noise, runs))


def audited_by_one_who_knows_both(spec: ReleaseSpec, noise: NoiseSource) -> Audit:
    tables, own = neighbours(spec), spec.terms.noise_of("a")
    exact = [outputs(table, spec, ZeroNoise(), 1)[0] for table in tables]
    sd = np.full((len(exact[0]) // len(spec.released), len(spec.released)), own.scale)
    if own.anchor_scale:
        sd[0] = own.anchor_scale
    return audit_alike(exact, sd.ravel(), *(outputs(table, spec, noise, ROWS_RUNS) for table in tables))


def nominal(spec: ReleaseSpec) -> float:
    return math.sqrt(check_spec(spec).joint_mu2)


@pytest.mark.parametrize("name", SPECS)
def test_the_worst_neighbours_cost_what_is_declared(name: str) -> None:
    spec = SPECS[name]
    assert audited_by_one_who_knows_both(spec, SeededNoise(1)).agrees(nominal(spec), errors=3)


@pytest.mark.parametrize("name", ["anchored mix", "rows"])
def test_the_worst_neighbours_cost_what_is_declared_under_production_noise(name: str) -> None:
    spec = SPECS[name]
    assert audited(spec, SecureNoise(), SECURE_ROWS_RUNS).agrees(nominal(spec), errors=EXTREME)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_the_usual_target_under_production_noise(name: str) -> None:
    usual = build_spec({"a": COLUMNS}, epsilon=1.0, **SETTINGS[name])
    assert audited(usual, SecureNoise(), 3 * AUDIT_RUNS).agrees(nominal(usual), errors=EXTREME)


class Broken:
    """Noise that a mistake has spoiled before it is added."""

    def __init__(self) -> None:
        self.source = SeededNoise(2)

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        raise NotImplementedError


class Halved(Broken):
    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return self.source.discrete_gaussian(scale / 2, shape)


class OneRowForAll(Broken):
    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return np.repeat(self.source.discrete_gaussian(scale, (1, shape[1])), shape[0], axis=0)


class OneColumnForAll(Broken):
    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return np.repeat(self.source.discrete_gaussian(scale, (shape[0], 1)), shape[1], axis=1)


class NoneOnTheAnchor(Broken):
    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return np.zeros(shape, np.int64) if shape[0] == 1 else self.source.discrete_gaussian(scale, shape)


class TheSameEveryTime(Broken):
    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return SeededNoise(3).discrete_gaussian(scale, shape)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Halved, marks=pytest.mark.slow),  # what is a tenth too small is caught in any case
        OneRowForAll,
        pytest.param(OneColumnForAll, marks=pytest.mark.slow),
        NoneOnTheAnchor,
    ],
)
def test_too_little_noise_is_caught(broken: type[Broken]) -> None:
    spec = SPECS["anchored mix"]
    measured = audited(spec, broken(), CONTROL_RUNS)
    assert measured.mu > nominal(spec) + 5 * measured.standard_error
    assert not measured.agrees(nominal(spec), errors=5)


def test_the_same_noise_every_time_is_no_privacy() -> None:
    assert audited(SPECS["rows"], TheSameEveryTime(), 100).mu == math.inf


@pytest.mark.parametrize("error", [-DETECTABLE, DETECTABLE])
def test_a_tenth_too_little_or_too_much_is_caught(error: float) -> None:
    spec = SPECS["anchored mix"]
    measured = audited_by_one_who_knows_both(spec, ScaledNoise(SeededNoise(2), 1 + error))
    assert measured.agrees(nominal(spec) / (1 + error), errors=3)
    assert not measured.agrees(nominal(spec), errors=5)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("entries", [1, 5])
def test_the_auditor_measures_a_known_mu(mu: float, entries: int) -> None:
    generator = np.random.default_rng(4)
    shift = mu / math.sqrt(entries)
    errors = []
    for _ in range(20):
        first, second = (generator.normal(at, 1.0, (8000, entries)) for at in (0.0, shift))
        measured = audit(first, second)
        errors.append((measured.mu - mu) / measured.standard_error)
    assert np.abs(errors).max() < 5
    # The stated standard error is the real one: 20 squared standard normals sum to chi-square, within 5 s.e. sqrt(40).
    assert abs(np.sum(np.square(errors)) - 20) < 5 * math.sqrt(40)


def test_the_auditor_sees_nothing_where_nothing_differs() -> None:
    measured = audit(*np.random.default_rng(5).normal(size=(2, 8000, 4)))
    assert measured.mu < 5 * measured.standard_error


@pytest.mark.parametrize("spread", [0.5, 1.0])
@pytest.mark.parametrize("mu", [4.0, 40.0])
def test_few_releases_measure_a_known_mu_as_well_as_stated(mu: float, spread: float) -> None:
    generator = np.random.default_rng(6)
    errors = []
    for _ in range(40):
        sightings: list[list[Sighting]] = [[], []]
        for second in (False, True):
            for entries in (60, 70, 80, 90):
                shift = generator.normal(size=entries)
                shift *= mu * spread / np.linalg.norm(shift)
                residual = generator.normal(0.0, spread, entries) + second * shift
                sightings[second].append(Sighting(residual, shift))
        measured = audit_known(*sightings)
        errors.append((measured.mu - mu) / measured.standard_error)
    assert abs(np.mean(errors)) < 5 / math.sqrt(40)
    assert abs(np.sum(np.square(errors)) - 40) < 5 * math.sqrt(80)
