"""Requests for ranges: proposed, simulated, planned for, and refused where nobody has a number."""

import json
from fractions import Fraction
from pathlib import Path

from click.testing import CliRunner

from coordinator.cli.main import main
from dprelease.mechanisms.ranges.released import NO_FIT
from dprelease.release.accounting import guarantee
from tests.coordinator.office import GLUCOSE, STUDY, Office, catalogue
from tests.coordinator.test_dry_run import office, run
from tests.coordinator.test_streams import end

__all__ = ["office"]


def test_a_request_becomes_a_release_that_charges_by_private_numbers(office: Office, study: Path) -> None:
    study.write_text(f'mechanism = "ranges"\n{STUDY}')
    shown = run(str(study), "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert f"no fit: {NO_FIT}" in shown.stdout
    found = json.loads(run(str(study), "--dry-run", "--json").stdout)
    assert found["verified"]
    created = run(str(study), "--json")
    assert created.exit_code == 0, created.output
    spec = office.release(json.loads(created.stdout)["digest"]).read_spec()
    assert spec.mechanism == "ranges"
    charged = {each["party"]: Fraction(each["charged"]["mu2"]) for each in found["parties"]}
    assert {part.party: part.mu2 for part in guarantee(spec).parties} == charged
    assert charged["north"] == charged["south"] > 0  # age here, glucose there; sex takes no part


def test_without_a_number_or_for_each_party_alone_it_is_refused(office: Office, study: Path) -> None:
    none = STUDY.replace('north = "*"\nsouth = ["glucose"]', 'north = ["sex"]')
    study.write_text(f'mechanism = "ranges"\n{none}')
    refused = run(str(study))
    assert refused.exit_code
    assert "ranges are of private numeric columns, and nobody has any" in refused.output
    study.write_text(f'mechanism = "ranges"\nscope = "per-party"\n{STUDY}')
    refused = run(str(study))
    assert refused.exit_code
    assert 'write scope = "joint"' in refused.output
    study.write_text(f'mechanism = "ranges"\nk = 3\n{STUDY}')
    assert "k belongs to mechanism" in run(str(study)).output


def test_a_plan_names_ranges_that_are_published_already(office: Office, study: Path) -> None:
    def planned(request: str) -> str:
        study.write_text(request)
        return CliRunner().invoke(main, ["plan", str(study), "--signal", "0.3"]).stdout

    used = "moments in ranges: in the ranges that release "
    made = office.propose(mechanism="ranges")
    assert used not in planned(STUDY)
    end(office, made)
    assert used not in planned(STUDY)  # its files are not on this machine
    named = f"were published on 2026-03-01, release {made.digest[:12]}: with ranges = "
    for said in ("first", "none"):
        shown = planned(f'mechanism = "moments"\nranges = "{said}"\n{STUDY}')
        assert f'Ranges of all these numbers {named}"auto" in the request moments use them at no charge' in shown
        assert used not in shown
    assert named not in planned(f'mechanism = "moments"\noutcomes = ["glucose"]\n{STUDY}')
    office.report(catalogue("south", columns=(GLUCOSE.model_copy(update={"upper": 40.0}),)))
    assert made.digest[:12] not in planned(STUDY)
    office.report(catalogue("south", columns=(GLUCOSE, GLUCOSE.model_copy(update={"name": "insulin"}))))
    assert made.digest[:12] not in planned(STUDY.replace('["glucose"]', '"*"'))
    office.report(*(catalogue(party, rows=1001) for party in ("north", "south")))
    shown = planned(STUDY)
    assert f'Ranges of all these numbers of other patients {named}"FOLDER" in the request' in shown
    assert used not in shown
