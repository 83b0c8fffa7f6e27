"""Checkpoints of a stream as releases: everything that reads moments reads them, as it reads a release of all patients at once."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprelease.analyses import (
    Analysis,
    compare_groups,
    contingency_table,
    correlations,
    cronbach_alpha,
    lasso,
    logistic,
    mediation,
    nested,
    principal_components,
    rates,
    two_stage_least_squares,
)
from dprelease.errors import InvalidInput
from dprelease.estimators import METHODS, fit
from dprelease.release.release import Release
from dprelease.release.stream import Checkpoint, checkpoint_of
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric
from tests.support.streams import Hospitals, first_spec, following

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0), categorical("ill", "yes"), numeric("years", 0.0, 10.0)),
    "south": (numeric("glucose", 2.0, 30.0), categorical("smoker", "yes")),
    "west": (numeric("weight", 30.0, 200.0), categorical("arm", "a", "b")),
}
BATCHES = (300, 200, 250)


def stream(noise: Any, inner: str = "moments", **options: Any) -> tuple[Hospitals, list[Release]]:
    first = first_spec(build_spec(COLUMNS, rows=BATCHES[0], epsilon=20.0), of=inner, checkpoints=5, **options)
    hospitals, releases = Hospitals(first), []
    for number, rows in enumerate(BATCHES):
        if number:
            hospitals.spec = following(hospitals.spec, rows)
        releases.append(hospitals.publish(noise))
    return hospitals, releases


@pytest.fixture(scope="module")
def exact() -> tuple[Hospitals, list[Release]]:
    return stream(ZeroNoise())


def at_once(release: Release) -> Release:
    """A release of all patients at once that says what a checkpoint says."""
    alone = build_spec(COLUMNS, mechanism="moments", rows=release.patients)
    found = Release(alone, {}, release.guarantee)
    found.__dict__["view"] = release.view
    return found


def raw(hospitals: Hospitals, upto: int | None = None) -> dict[str, np.ndarray]:
    """Cells in original units, an indicator for each level."""
    spec = hospitals.spec
    middle, half = Release(spec, {}, ()).original_units()
    return dict(zip(spec.released, (middle + half * hospitals.rows(upto)).T, strict=True))


def test_a_checkpoint_knows_its_place_and_everybody_so_far(exact: tuple[Hospitals, list[Release]]) -> None:
    _, releases = exact
    totals = np.cumsum(BATCHES).tolist()
    for number, (release, total) in enumerate(zip(releases, totals, strict=True), 1):
        place = checkpoint_of(release.spec)
        assert place == Checkpoint(stream=releases[0].digest, number=number, last=5)
        assert str(place) == f"{number} of 5"
        assert not place.ended
        assert release.patients == release.spec.patients == total
        assert {at: each.patients for at, each in release.checkpoints().items()} == dict(enumerate(totals[:number], 1))
    assert place.model_copy(update={"number": 5}).ended
    assert not Checkpoint(stream="ab" * 32, number=5).ended
    alone = build_spec(COLUMNS, mechanism="moments", rows=40)
    assert checkpoint_of(alone) is None
    assert Release(alone, {}, ()).patients == 40
    assert Release(alone, {}, ()).checkpoints() == {}


@pytest.mark.parametrize("inner", ["moments", "mixed"])
@pytest.mark.parametrize("factor", ["square-root", "tree"])
def test_the_newest_release_has_what_each_before_it_said(inner: str, factor: str) -> None:
    _, releases = stream(SeededNoise(3), inner, factor=factor)
    for release, late in zip(releases, releases[-1].checkpoints().values(), strict=True):
        assert late.patients == release.patients
        assert late.digest == releases[-1].digest
        then, now = (fit(each, ["glucose"], ["age", "weight"], "ols") for each in (release, late))
        for part in ("coef", "intercept", "constant"):
            np.testing.assert_array_equal(getattr(now, part), getattr(then, part))
        np.testing.assert_array_equal(now.inference.standard_error, then.inference.standard_error)
        assert now.patients == then.patients == release.patients
        assert list(late.checkpoints()) == list(release.checkpoints())


def test_without_noise_least_squares_at_each_checkpoint_are_those_of_its_rows(
    exact: tuple[Hospitals, list[Release]],
) -> None:
    hospitals, releases = exact
    names = ["age", "smoker=yes", "weight"]
    for number, release in releases[-1].checkpoints().items():
        table = raw(hospitals, number)
        x = np.column_stack([np.ones(release.patients), *(table[name] for name in names)])
        known, *_ = np.linalg.lstsq(x, table["glucose"], rcond=None)
        found = fit(release, ["glucose"], names, "ols")
        np.testing.assert_allclose([found.intercept[0], *found.coef[0]], known, rtol=1e-6)


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if "moments" in row.on])
def test_every_method_reads_a_checkpoint_as_a_release_of_all_patients(
    exact: tuple[Hospitals, list[Release]], method: str
) -> None:
    _, releases = exact
    try:
        expected = fit(at_once(releases[-1]), ["glucose", "ill"], ["age", "smoker", "weight"], method)
    except InvalidInput as error:  # what the method does not apply to, it refuses here in the same words
        with pytest.raises(InvalidInput, match=error.message[:40]):
            fit(releases[-1], ["glucose", "ill"], ["age", "smoker", "weight"], method)
        return
    found = fit(releases[-1], ["glucose", "ill"], ["age", "smoker", "weight"], method)
    own = ("release", "mechanism", "guarantee", "trust")
    plain, other = ({k: v for k, v in each.document().to_json().items() if k not in own} for each in (found, expected))
    assert json.dumps(plain) == json.dumps(other)


ANALYSES: dict[str, Callable[[Release], Analysis]] = {
    "table": lambda release: contingency_table(release, "smoker", "ill"),
    "means": lambda release: compare_groups(release, "glucose", ["arm"], ["age"]),
    "correlations": lambda release: correlations(release, ["age", "glucose", "weight"]),
    "alpha": lambda release: cronbach_alpha(release, ["age", "glucose", "weight"]),
    "lasso": lambda release: lasso(release, "glucose", ["age", "weight"]),
    "logistic": lambda release: logistic(release, "ill", ["age", "weight"]),
    "mediation": lambda release: mediation(release, "glucose", "age", "weight"),
    "components": lambda release: principal_components(release, ["age", "glucose", "weight"]),
    "rates": lambda release: rates(release, "glucose", "years", "arm"),
    "nested": lambda release: nested(release, "glucose", ["age", "weight"]),
    "instruments": lambda release: two_stage_least_squares(release, "glucose", ["age"], ["weight"]),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_reads_a_checkpoint(exact: tuple[Hospitals, list[Release]], name: str) -> None:
    _, releases = exact
    found, expected = (ANALYSES[name](each).document().to_json() for each in (releases[-1], at_once(releases[-1])))
    own = ("release", "guarantee", "trust")
    plain, other = ({k: v for k, v in each.items() if k not in own} for each in (found, expected))
    assert json.dumps(plain) == json.dumps(other)
    assert found["patients"] == sum(BATCHES)
