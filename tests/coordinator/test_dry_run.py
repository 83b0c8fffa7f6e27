"""`coordinator release create --dry-run`: the whole way on made-up rows, with nothing changed and FAKE everywhere."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import main
from coordinator.clock import utc_now
from coordinator.dry_run import dry_run as module
from dprelease.release.accounting import guarantee, trust
from learner.cli.main import main as learner
from tests.coordinator.office import AGE, GLUCOSE, SEX, STUDY, Office, catalogue
from tests.support.plans import way

pytestmark = pytest.mark.usefixtures("short_chains")  # a report says what a fit says, whatever it says


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["release", "create", *arguments])


@pytest.fixture
def office(opened: Office) -> Office:
    return opened


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the index that readers of the database share."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_nothing_is_stored_and_nobody_is_called(
    office: Office, study: Path, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError(f"a dry run calls nobody: {given}")

    study.write_text(f'mechanism = "{mechanism}"\n{STUDY}')
    before = contents(tmp_path)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    shown = run(str(study), "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert contents(tmp_path) == before
    with office.store.reading() as tx:
        assert tx.releases.all() == ()


def charged(found: dict[str, Any]) -> dict[str, str]:
    """Hospital to the exact mu^2 that it would be charged."""
    return {each["party"]: each["charged"]["mu2"] for each in found["parties"]}


@pytest.mark.parametrize("outcomes", [["age"], ["sex", "glucose"]])
def test_outcomes_are_fitted_on_the_features_alone(office: Office, study: Path, outcomes: list[str]) -> None:
    study.write_text(f'mechanism = "moments"\noutcomes = {json.dumps(outcomes)}\n{STUDY}')
    shown = run(str(study), "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert f"outcomes only: {', '.join(outcomes)}" in shown.stdout
    assert "Products of two outcomes are not released." in shown.stdout
    found = json.loads(run(str(study), "--dry-run", "--json").stdout)
    features = {"age": ["sex=male", "sex=other", "glucose"], "glucose": ["age"]}
    assert (found["fit"]["target"], found["fit"]["features"]) == (outcomes[-1], features[outcomes[-1]])
    created = run(str(study))
    assert f"dealer coordinator, range proofs, outcomes only: {', '.join(outcomes)}" in created.stdout
    assert re.search(rf"^plan +d = {found['plan'].split()[2]} features", created.stdout, re.MULTILINE)
    digest = created.stdout.split()[1]
    shown = CliRunner().invoke(main, ["release", "show", digest, "--json"])
    assert json.loads(shown.stdout)["outcomes"] == outcomes
    assert found["verified"]


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_the_report_says_what_the_release_would(office: Office, study: Path, mechanism: str) -> None:
    study.write_text(f'mechanism = "{mechanism}"\n{STUDY}')
    text = run(str(study), "--dry-run").stdout
    assert text.startswith("FAKE: a dry run of 'Age and glucose'. Nothing was proposed, charged, stored or sent.\n")
    found = json.loads(run(str(study), "--dry-run", "--json").stdout)
    spec = office.release(json.loads(run(str(study), "--json").stdout)["digest"]).read_spec()
    given = guarantee(spec)
    for sentence in (*given.words(), *trust(spec)):
        assert sentence in text
    assert (found["fake"], found["rows"], found["fake_rows"], found["verified"]) == (True, 1000, 1000, True)
    assert charged(found) == {part.party: str(part.mu2) for part in given.parties}
    steps = {"check the request, make the spec", "make up rows", "read back and verify", "fit"}
    assert steps <= {each["step"] for each in found["steps"]}
    assert (found["fit"]["target"], found["fit"]["features"]) == ("glucose", ["age", "sex=male", "sex=other"])
    assert "verified: as `learner verify` does" in text
    assert "FAKE fit of glucose on 3 features by" in text
    assert ("masked columns" in text) == (mechanism == "moments")


def test_what_is_kept_opens_as_a_release_that_says_fake_in_every_print(
    office: Office, study: Path, tmp_path: Path
) -> None:
    for mechanism in ("mixed", "moments"):
        study.write_text(f'mechanism = "{mechanism}"\n{STUDY}')
        keep = tmp_path / mechanism
        shown = run(str(study), "--dry-run", "--target", "age", "--keep", str(keep))
        assert shown.exit_code == 0, shown.output
        (folder,) = keep.iterdir()
        assert folder.name.startswith("FAKE-")
        offered = [line.split()[1:] for line in shown.stdout.splitlines() if line.startswith("  learner ")]
        assert [line[2] for line in offered] == ["trust", "verify", "fit"]
        home = offered[0][1]
        describe, export = ["describe", str(folder)], ["export", str(folder), "--format", "csv", "--output"]
        output = tmp_path / f"{mechanism}.csv"
        more = [
            [*describe],
            [*describe, "--json"],
            [*export, str(output)],
            [*offered[1][2:], "--json"],
            [*offered[2][2:], "--json"],
        ]
        for arguments in (*offered, *(["--home", home, *each] for each in more)):
            result = CliRunner().invoke(learner, arguments)
            assert result.exit_code == 0, result.output
            assert "FAKE" in result.stdout, arguments
        assert "FAKE" in output.with_name(f"{output.name}.json").read_text()


def test_many_patients_are_rehearsed_with_fewer_and_the_report_says_so(
    office: Office, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.report(catalogue("north", rows=900_000), catalogue("south", rows=900_000), now=utc_now())
    study.write_text(STUDY.replace("1e-6", "1e-7\nk = 30"))
    text = run(str(study), "--dry-run", "--rows", "500").stdout
    assert "FAKE rows: 500 instead of n = 900,000 (--rows)." in text
    found = json.loads(run(str(study), "--dry-run", "--rows", "500", "--json").stdout)
    assert (found["rows"], found["fake_rows"]) == (900_000, 500)
    made = json.loads(run(str(study), "--json").stdout)
    assert charged(found) == made["charged_mu2"]
    monkeypatch.setattr(module, "MOST_ROWS", 20)
    assert json.loads(run(str(study), "--dry-run", "--json").stdout)["fake_rows"] == 30  # k rows at least
    monkeypatch.setattr(module, "MOST_ROWS", 700)
    assert json.loads(run(str(study), "--dry-run", "--json").stdout)["fake_rows"] == 700


@pytest.mark.parametrize("mechanism", ["mixed", "moments"])
def test_public_columns_are_rehearsed_and_priced_as_in_earnest(office: Office, study: Path, mechanism: str) -> None:
    public = {"north": (AGE, SEX), "south": (GLUCOSE.model_copy(update={"public": True}),)}
    office.report(*(catalogue(party, columns=columns) for party, columns in public.items()), now=utc_now())
    study.write_text(f'mechanism = "{mechanism}"\n{STUDY}')
    planned = json.loads(CliRunner().invoke(main, ["plan", str(study), "--json"]).stdout)
    shown = run(str(study), "--dry-run", "--public-side", "outcomes", "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    made = json.loads(run(str(study), "--public-side", "outcomes", "--json").stdout)
    assert way(planned, mechanism)["charged_mu2"] == charged(found) == made["charged_mu2"]
    assert charged(found)["south"] == "0"
    assert found["guarantee"] == made["guarantee"]


def test_one_column_is_not_fitted(office: Office, study: Path) -> None:
    study.write_text(STUDY.replace('north = "*"\n', ""))
    shown = run(str(study), "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "no fit: there is one column only" in shown.stdout


def test_what_cannot_be_fitted_withholds_nothing_else(office: Office, study: Path) -> None:
    study.write_text(STUDY.replace("epsilon", "k = 1\nepsilon", 1))
    shown = run(str(study), "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "no fit: 3 features are too many for 2 released rows" in shown.stdout
    assert "is charged" in shown.stdout
    assert json.loads(run(str(study), "--dry-run", "--json").stdout)["fit"] is None


@pytest.mark.parametrize(
    ("changed", "arguments", "exit_code", "message"),
    [
        (("", ""), ("--rows", "100"), 2, "--rows, --target and --keep are for --dry-run"),
        (("", ""), ("--dry-run", "--target", "weight"), 2, "no such column: weight; there are age, sex, glucose"),
        (("1e-6", "1e-6\nk = 30"), ("--dry-run", "--rows", "29"), 2, "--rows must be at least 30"),
        (("1e-6", "0.5"), ("--dry-run",), 2, "--allow-large-delta"),
        (("glucose", "weight"), ("--dry-run",), 2, "does not offer weight"),
        (("1e-6", "1e-6\ngrid_bits = 1"), ("--dry-run",), 11, "too coarse"),
    ],
)
def test_what_is_refused_in_earnest_is_refused_here(
    office: Office, study: Path, changed: tuple[str, str], arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    head, parties = STUDY.split("[parties]")
    study.write_text(head.replace(*changed) + "[parties]" + parties.replace(*changed))
    result = run(str(study), *arguments)
    assert result.exit_code == exit_code, result.output
    assert message in result.stderr
