"""Requests for a synthetic control: proposed, planned, simulated, and refused where donors are in several hospitals."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import main
from coordinator.clock import utc_now
from dprelease.mechanisms.synthetic_control.released import NO_FIT
from tests.coordinator.office import AGE, STUDY, Office, catalogue
from tests.coordinator.test_dry_run import office, run
from tests.support.specs import numeric

__all__ = ["office"]

OWN = 'mechanism = "synthetic-control"\nseries = [60.0, 45.0]\nintervention = "glucose"\n'


def run_plan(study: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["plan", str(study), *more])


def written(study: Path, parties: str = 'north = ["age"]', own: str = OWN) -> Path:
    study.write_text(own + STUDY.split("[parties]")[0] + f"[parties]\n{parties}\n")
    return study


@pytest.mark.parametrize(
    ("parties", "said"),
    [
        ('north = ["age"]\nsouth = ["glucose"]', "ask each hospital for a release of its own"),
        ('north = ["age", "sex"]', "leave out sex"),
        ('north = ["age"]', "the intervention glucose is no time of the series"),
    ],
)
def test_what_cannot_be_asked_is_refused(office: Office, study: Path, parties: str, said: str) -> None:
    refused = run(str(written(study, parties)))
    assert refused.exit_code
    assert said in refused.output


def test_unknown_words_of_the_request(office: Office, study: Path) -> None:
    for own, said in (
        (OWN + 'perturbation = "objective"\n', "objective perturbation is not private"),
        (OWN + "k = 3\n", "k belongs to mechanism"),
    ):
        refused = run(str(written(study, own=own)))
        assert refused.exit_code
        assert said in refused.output


def test_two_times_of_one_hospital(office: Office, study: Path, tmp_path: Path) -> None:
    two = 'mechanism = "synthetic-control"\nseries = [40.0, 45.0]\nintervention = "weight"\n'
    office.report(catalogue("north", columns=(AGE, numeric("weight", 30.0, 200.0))), now=utc_now())
    written(study, 'north = ["age", "weight"]', two.replace("45.0]", "45.0, 50.0]"))
    assert "series has 3 values and the donors' 2 columns" in run(str(study)).output
    written(study, 'north = ["age", "weight"]', two)
    shown = run(str(study), "--dry-run", "--keep", str(tmp_path / "kept"))
    assert shown.exit_code == 0, shown.output
    assert f"no fit: {NO_FIT}" in shown.stdout
    assert " describe " in shown.stdout.splitlines()[-1]
    written(study, 'north = ["age", "weight"]', two + 'law = "laplace"\n')
    found = json.loads(run(str(study), "--dry-run", "--json").stdout)
    assert found["verified"]
    charged = {each["party"]: each["charged"]["mu2"] for each in found["parties"]}
    assert Fraction(charged["north"]) > 0
    planned = json.loads(run_plan(study, "--json").stdout)
    (paid,) = planned["charges"]
    assert (paid["hospitals"], paid["charged"]["mu2"]) == (["north"], charged["north"])
    assert {each["donors"] for each in planned["paths"]} == {1000, 10_000}
    assert "releases" not in planned


def test_a_plan_of_it_says_what_the_path_would_be_worth(office: Office, study: Path) -> None:
    own = 'mechanism = "synthetic-control"\nseries = [40.0, 45.0]\nintervention = "weight"\n'
    office.report(catalogue("north", columns=(AGE, numeric("weight", 30.0, 200.0))), now=utc_now())
    written(study, 'north = ["age", "weight"]', own)
    shown = run_plan(study)
    assert shown.exit_code == 0, shown.output
    for said in ("A plan reads no data", "error of the mean effect", "told from noise", "charged to each"):
        assert said in shown.stdout
    assert "R^2" not in shown.stdout
    assert "leave out --target" in run_plan(study, "--target", "age").output
    assert "R^2" in run_plan(study, "--mechanism", "mixed").stdout
    written(study, 'north = ["age", "weight"]', own + "penalty = 0\n")
    assert "lambda must be positive" in run_plan(study).output
