"""The commands: every one explains itself, every output for machines parses, every end has its exit code."""

import json
from fractions import Fraction
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dprelease.errors import Conflict, DpReleaseError, IntegrityError, InvalidInput, NotFound, SpecRefused
from dprelease.wire.boundary import exit_code
from party_node.cli.main import main
from party_node.state.ledger import Ledger
from tests.party_node.world import CAP, World
from tests.support.commands import every_command

ALL = every_command(main)


def test_without_settings_the_error_says_where_to_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["check"])
    assert result.exit_code == exit_code(InvalidInput(""))
    assert (
        "there is no party.toml; give --config FILE after the command (party-node check --config FILE)" in result.stderr
    )
    assert "PARTY_NODE_CONFIG" in result.stderr


@pytest.mark.parametrize(
    "path", [path for path in ALL if path != ("declare",) and not isinstance(ALL[path], click.Group)], ids=" ".join
)
def test_every_command_takes_the_settings_after_its_name(path: tuple[str, ...]) -> None:
    (option,) = [option for option in ALL[path].params if option.name == "config"]
    assert (option.opts, option.envvar) == (["--config"], "PARTY_NODE_CONFIG")


def test_there_are_the_commands_that_the_manual_names() -> None:
    assert {path for path in ALL if path} >= {
        ("declare",),
        ("enrol",),
        ("check",),
        ("run",),
        ("review", "list"),
        ("review", "show"),
        ("review", "approve"),
        ("review", "decline"),
        ("ledger", "show"),
        ("ledger", "open"),
        ("ledger", "verify"),
        ("ledger", "export"),
        ("alignment-key", "new"),
        ("alignment-key", "import"),
        ("fingerprint",),
        ("peers", "list"),
        ("peers", "pin"),
        ("peers", "export"),
        ("peers", "forget"),
        ("public", "declare"),
        ("public", "list"),
        ("public", "norm"),
    }


@pytest.fixture
def proposed(careful: World) -> tuple[World, str]:
    """A release that waits for a person at the north."""
    release = careful.propose()
    careful.north.cycle()
    return careful, release


def test_outputs_for_machines_parse(proposed: tuple[World, str]) -> None:
    world, release = proposed
    assert all(finding["ok"] for finding in json.loads(world.north.run("check", "--json").stdout))
    world.north.hospital_state().ledger.reserve("cohort", "f" * 64, Fraction(1, 100), {"title": "before"})
    (line,) = json.loads(world.north.run("review", "list", "--json").stdout)
    assert (line["release"], line["status"], line["title"]) == (release, "waiting", "age and glucose")
    shown = json.loads(world.north.run("review", "show", release[:6], "--json").stdout)
    assert shown["release"] == release
    ledger = json.loads(world.north.run("ledger", "show", "--json").stdout)
    assert [ledger[amount]["mu2"] for amount in ("cap", "reserved", "charged")] == ["1/2", "1/100", "0"]
    assert [entry["kind"] for entry in ledger["entries"]] == ["open", "reserve"]
    peers = json.loads(world.north.run("peers", "list", "--json").stdout)
    assert peers == {"south": world.members["south"].fingerprint}


JSON = [path for path, command in ALL.items() if any(option.name == "as_json" for option in command.params)]


def test_every_output_for_machines_was_looked_at() -> None:
    assert set(JSON) == {
        ("check",),
        ("review", "list"),
        ("review", "show"),
        ("ledger", "show"),
        ("peers", "list"),
        ("public", "list"),
        ("public", "norm"),
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["review", "show", "zz"], NotFound),
        (["review", "approve", "zz", "--yes"], NotFound),
        (["review", "decline", "zz"], NotFound),
        (["review", "show", ""], None),
        (["enrol", "not-a-token"], InvalidInput),
        (["alignment-key", "new"], InvalidInput),
        (["alignment-key", "import", "ABCD"], InvalidInput),
        (["peers", "pin", "east", "beef"], InvalidInput),
        (["peers", "pin", "south", "0" * 64], Conflict),
        (["peers", "forget", "east"], NotFound),
        (["ledger", "show", "--delta", "2"], InvalidInput),
        (["ledger", "open", "cohort"], None),
        (["ledger", "verify"], None),
        (["fingerprint"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_exit_codes_are_those_of_the_table(
    proposed: tuple[World, str], arguments: list[str], error: type[DpReleaseError] | None
) -> None:
    result = proposed[0].north.run(*arguments)
    assert result.exit_code == (exit_code(error("")) if error else 0), result.output
    assert result.stderr.startswith("error: ") == bool(error)


@pytest.mark.parametrize("text", ["name = ", 'name = "north"', None])
@pytest.mark.parametrize("path", [("check",), ("fingerprint",), ("ledger", "verify"), ("review", "list")])
def test_settings_that_cannot_be_used(world: World, text: str | None, path: tuple[str, ...]) -> None:
    if text is None:
        world.north.config.unlink()
    else:
        world.north.config.write_text(text)
    result = world.north.run(*path)
    assert (result.exit_code, result.stderr.startswith("error: ")) == (2, True)


def test_the_settings_may_be_named_by_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTY_NODE_CONFIG", str(world.north.config))
    assert CliRunner().invoke(main, ["fingerprint"]).stdout.strip() == world.members["north"].fingerprint


def test_a_release_is_approved_only_after_its_card_was_shown(proposed: tuple[World, str]) -> None:
    world, release = proposed
    result = world.north.run("review", "approve", release[:8], stdin="y\n")
    assert result.exit_code == 0
    assert (
        result.stdout.index("taken from your budget")
        < result.stdout.index("Approve?")
        < result.stdout.index("approved")
    )
    again = world.north.run("review", "approve", release[:8])
    assert (again.exit_code, again.stdout) == (exit_code(Conflict("")), "")
    assert "there is nothing to approve" in again.stderr


def test_a_peer_must_be_pinned_before_a_person_can_approve(proposed: tuple[World, str]) -> None:
    world, release = proposed
    assert world.north.run("peers", "forget", "south").exit_code == 0
    result = world.north.run("review", "approve", release[:8], "--yes")
    assert result.exit_code == exit_code(Conflict(""))
    assert "party-node peers pin south FINGERPRINT" in result.stderr
    assert world.members["south"].fingerprint not in result.stderr
    assert world.north.status(release) == "waiting"
    assert world.north.run("peers", "pin", "south", world.members["south"].fingerprint).exit_code == 0
    assert world.north.run("review", "approve", release[:8], "--yes").exit_code == 0


def test_a_release_that_no_longer_checks_out_cannot_be_approved(proposed: tuple[World, str]) -> None:
    world, release = proposed
    world.north.edit("upper = 120", "upper = 130")
    world.north.hospital_state().make_catalogue()
    result = world.north.run("review", "approve", release[:8], "--yes")
    assert result.exit_code == exit_code(SpecRefused(""))
    assert world.north.status(release) == "waiting"


def test_declining_twice_is_a_conflict(proposed: tuple[World, str]) -> None:
    world, release = proposed
    assert world.north.run("review", "decline", release[:8]).exit_code == 0
    result = world.north.run("review", "decline", release[:8])
    assert result.exit_code == exit_code(Conflict(""))
    assert "is declined here" in result.stderr


def test_another_roster_gets_the_cap_of_the_enrolment(world: World) -> None:
    result = world.north.run("ledger", "open", "cohort-2027")
    assert "cohort-2027: mu^2 = 0.5, epsilon = " in result.stdout
    assert world.north.hospital_state().ledger.balance("cohort-2027").cap == CAP


def test_the_ledger_is_exported_whole(world: World) -> None:
    release = world.propose()
    world.north.cycle()
    output = world.north.folder / "ledger.jsonl"
    assert world.north.run("ledger", "export", "--output", str(output)).exit_code == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["open", "reserve"]
    assert lines[1]["release"] == release
    assert lines[1]["previous"] == lines[0]["hash"]
    assert lines[1]["hash"] in world.north.run("ledger", "verify").stdout


@pytest.mark.parametrize("arguments", [["ledger", "verify"], ["ledger", "export", "--output", "x"]])
def test_a_broken_ledger_ends_the_command(world: World, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Ledger) -> str:
        raise IntegrityError("the ledger's chain is broken at entry 1")

    monkeypatch.setattr(Ledger, "verify", broken)
    assert world.north.run(*arguments).exit_code == exit_code(IntegrityError(""))


def test_the_alignment_key_goes_from_one_hospital_to_the_other(world: World) -> None:
    for hospital in (world.north, world.south):
        (hospital.folder / "state" / "identity" / "alignment.key").unlink()
    made = world.north.run("alignment-key", "new")
    taken = world.south.run("alignment-key", "import", made.stdout.strip())
    assert taken.exit_code == 0
    check = taken.stdout.split()[-1]
    assert f"key check {check}:" in made.stderr  # standard output is the key alone
    assert (
        world.north.hospital_state().identity.alignment_key() == world.south.hospital_state().identity.alignment_key()
    )
