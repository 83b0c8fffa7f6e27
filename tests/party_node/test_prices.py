"""Planner, office, dry run, review and ledger state one price for one release, to the last digit that they print."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coordinator.cli.main import main as coordinator
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.files.settings import read_settings
from dprelease.privacy.price import epsilon_text, price_text
from learner.cli.main import main as learner
from tests.party_node.world import ROWS, World
from tests.support.plans import way

STUDY = """
title = "age and glucose"
about = { description = "Made-up rows", licence = "CC0-1.0", creators = [{ name = "A test" }] }
epsilon = 0.7
delta = 1e-5
[parties]
north = ["age"]
south = ["glucose"]
"""
PLAN = ("--rows", str(ROWS), "--parties", "1,1", "--epsilon", "0.7", "--delta", "1e-5", "--signal", "0.5")
PRICE = r"mu\^2 = (\S+), epsilon = (\S+) at delta = 1e-05"


def run(command: click.Group, *arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def office(careful: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Store]:
    """An office of the same consortium, in which both hospitals are enrolled and have reported; opens its store."""
    home = folder / "office"
    named = ("--consortium", careful.authority.consortium, "--host", "localhost", "--epsilon", "3", "--delta", "1e-6")
    run(coordinator, "init", "--home", str(home), *named, "--listen-host", "127.0.0.1")
    monkeypatch.setenv("COORDINATOR_CONFIG", str(home / "coordinator.toml"))
    url, now = read_settings(home / "coordinator.toml", CoordinatorSettings).database, datetime.now(UTC)
    store = Store.open(url)
    with store.writing() as tx:
        for hospital in (careful.north, careful.south):
            tx.members.enrol(hospital.member.certificate, store.consortium.mu2 / 2, now)
            tx.members.report_catalogue(hospital.hospital_state().catalogue(), now)
    store.close()
    return lambda: Store.open(url)


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_one_price_from_the_plan_to_the_ledger(
    careful: World, office: Callable[[], Store], folder: Path, mechanism: str
) -> None:
    study = folder / "study.toml"
    study.write_text(f'mechanism = "{mechanism}"\n{STUDY}')
    only = ("--signal", "0.5", "--mechanism", mechanism)
    stated = {
        "coordinator plan": run(coordinator, "plan", str(study), *only),
        "learner plan": run(learner, "plan", *PLAN, "--mechanism", mechanism),
        "dry run": run(coordinator, "release", "create", str(study), "--dry-run"),
        "create": run(coordinator, "release", "create", str(study)),
    }
    store = office()
    with store.reading() as tx:
        (release,) = tx.releases.all()
    store.close()
    spec = release.read_spec()
    careful.coordinator.propose(spec)
    careful.north.cycle()
    card = json.loads(careful.north.run("review", "show", spec.digest()[:12], "--json").stdout)
    shown = careful.north.run("review", "show", spec.digest()[:12], "--explain").stdout
    careful.north.run("review", "approve", spec.digest()[:12], "--yes")
    careful.north.cycle()
    entry = careful.north.hospital_state().ledger.entries("cohort")[-1]
    charged = Fraction(entry.mu2)
    exposed = epsilon_text(entry.exposure, 1e-5)
    price = price_text(charged, 1e-5)
    mu2, epsilon = re.fullmatch(PRICE, price).groups()  # type: ignore[union-attr]
    for text in stated.values():
        assert price in text, text
        # both hospitals hold one number each, so there is no other price but that of another way, and of what is left
        own = "\n".join(
            line for line in text.splitlines() if not re.search(r"in ranges| has left |delta = \S+ {2,}", line)
        )
        assert set(re.findall(PRICE, own)) == {(mu2, epsilon)}
    assert card["costs"]["mu2"] == card["taken_from_your_budget"]["mu2"] == str(charged)
    assert re.search(rf"^costs +{re.escape(price)}$", shown, re.MULTILINE)
    assert re.search(rf"^taken from your budget +epsilon {re.escape(epsilon)},", shown, re.MULTILINE)
    assert re.search(rf"own epsilon +{re.escape(exposed)}\s", shown)
    assert card["own_epsilon"] == pytest.approx(float(exposed), rel=1e-5)
    account = careful.north.run("ledger", "show", "--delta", "1e-5").stdout
    row = next(line for line in account.splitlines() if " reserve " in line)
    assert mu2 in row.split()
    assert epsilon in row.split()


def test_what_is_charged_in_the_end_is_what_was_reserved(world: World) -> None:
    release = world.approved()
    world.north.cycle(2)
    entries = [entry for entry in world.north.hospital_state().ledger.entries("cohort") if entry.release == release]
    assert [entry.kind for entry in entries] == ["reserve", "made", "charge", "send"]
    card = json.loads(world.north.run("review", "show", release[:12], "--json").stdout)
    assert {entry.mu2 for entry in entries if not entry.blocks} == {card["costs"]["mu2"]}


def test_prices_for_machines_are_the_same_rational(careful: World, office: Callable[[], Store], folder: Path) -> None:
    study = folder / "study.toml"
    study.write_text(STUDY.replace('["age"]', '"*"'))
    planned = way(json.loads(run(coordinator, "plan", str(study), "--json")), "mixed")["charged_mu2"]
    simulated = json.loads(run(coordinator, "release", "create", str(study), "--dry-run", "--json"))
    made = json.loads(run(coordinator, "release", "create", str(study), "--json"))
    assert planned == {each["party"]: each["charged"]["mu2"] for each in simulated["parties"]} == made["charged_mu2"]
    assert len(set(planned.values())) == 2
