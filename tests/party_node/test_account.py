"""The account of a roster: what is spent and left after every entry, exactly."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.mechanisms.moments.terms import joint_moments
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.then import with_terms
from dprelease.privacy.price import epsilon_at, epsilon_text, mu2_text, price_text
from party_node.cli.budget import history
from party_node.state.ledger import Ledger
from tests.party_node.joint_release import approved, deliver, joint_spec
from tests.party_node.world import CAP, Hospital, World

FIRST, SECOND = "a" * 64, "b" * 64
THIRD = Fraction(1, 3)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """One release is charged and sent, one is given up, another roster has an entry of its own."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for roster in ("cohort", "another"):
        ledger.open(roster, Fraction(1))
    ledger.reserve("cohort", FIRST, THIRD, {"title": "first"})
    ledger.reserve("cohort", SECOND, Fraction(1, 7), {"title": "second"})
    ledger.charge("cohort", FIRST)
    ledger.reserve("another", FIRST, Fraction(1, 11), {"title": "elsewhere"})
    ledger.refund("cohort", SECOND)
    ledger.send("cohort", FIRST)
    return ledger


def test_every_entry_says_where_the_account_stands(ledger: Ledger) -> None:
    lines = history(ledger.entries("cohort"))
    both = THIRD + Fraction(1, 7)
    assert [(line.entry.kind, line.title, line.held) for line in lines] == [
        ("open", "", 0),
        ("reserve", "first", THIRD),
        ("reserve", "second", both),
        ("charge", "first", both),
        ("refund", "second", THIRD),
        ("send", "first", THIRD),
    ]
    assert all(line.left == 1 - line.held for line in lines)
    balance = ledger.balance("cohort")
    assert (lines[-1].held, lines[-1].left) == (balance.held, balance.remaining)


def test_the_command_shows_spent_left_and_history(world: World) -> None:
    first, second = world.propose(), world.propose("more", columns=("age",))
    world.north.cycle()
    hospital_state = world.north.hospital_state()
    lines, balance = history(hospital_state.ledger.entries("cohort")), hospital_state.ledger.balance("cohort")
    assert {line.entry.release for line in lines[1:]} == {first, second}
    found = json.loads(world.north.run("ledger", "show", "--delta", "1e-5", "--json").stdout)
    assert [Fraction(entry["mu2"]) for entry in found["entries"]] == [line.mu2 for line in lines]
    assert [Fraction(entry["held_mu2"]) for entry in found["entries"]] == [line.held for line in lines]
    assert [entry["held_epsilon"] for entry in found["entries"]] == [epsilon_at(line.held, 1e-5) for line in lines]
    assert Fraction(found["left"]["mu2"]) == CAP - balance.held == lines[-1].left
    text = world.north.run("ledger", "show", "--delta", "1e-5").stdout
    for line in lines:
        row = next(row for row in text.splitlines() if f" {line.entry.kind} " in row and mu2_text(line.held) in row)
        assert {line.entry.at, mu2_text(line.mu2), mu2_text(line.left)} <= set(row.split())
        assert line.title in row
    assert re.search(rf"^left +{re.escape(price_text(balance.remaining, 1e-5))}$", text, re.MULTILINE)


def test_epsilon_is_shown_at_the_delta_of_the_policy(world: World) -> None:
    assert json.loads(world.north.run("ledger", "show", "--json").stdout)["delta"] == 1e-6
    world.north.config.write_text(world.north.config.read_text() + "\n[policy.limits]\nmax_delta = 1e-7\n")
    assert json.loads(world.north.run("ledger", "show", "--json").stdout)["delta"] == 1e-7


def rounds_shown(hospital: Hospital) -> list[tuple[str, list[str]]]:
    """Kind of every entry, and what each round took of it, as `party-node ledger show` prints them."""
    text = hospital.run("ledger", "show", "--delta", "1e-5").stdout
    head = next(line for line in text.splitlines() if line.startswith("no "))
    found: list[tuple[str, list[str]]] = []
    for line in text[text.index(head) :].splitlines()[2:]:
        if not line or line.startswith("-"):
            break
        kind, rounds = line[head.index("kind") :].split(maxsplit=1)[0], line[head.index("of it") :].strip()
        if line[: head.index("at")].strip():
            found.append((kind, []))
        found[-1][1].extend([rounds] if rounds else [])
    return found


def test_each_round_of_a_charge_has_a_line_of_its_own(world: World) -> None:
    release = approved(world, two_rounds=True)
    deliver(world)
    spec = world.north.record(release).spec
    terms = joint_moments(spec)
    assert isinstance(terms.first, RangesTerms)
    parts = {
        each.mechanism: mechanism_of(each).cost(each).charges["north"]
        for each in (with_terms(spec, terms.first), with_terms(spec, terms.model_copy(update={"first": None})))
    }
    lines = [f"{name}: {mu2_text(mu2)}, {epsilon_text(mu2, 1e-5)}" for name, mu2 in parts.items()]
    priced = dict.fromkeys(("reserve", "charge", "send"), lines)
    kinds = ["open", "reserve", "made", "charge", "send", "made"]
    assert rounds_shown(world.north) == [(kind, priced.get(kind, [])) for kind in kinds]
    assert world.north.hospital_state().ledger.balance("cohort").charged == sum(parts.values())

    shown = json.loads(world.north.run("ledger", "show", "--delta", "1e-5", "--json").stdout)["entries"]
    world.north.run("ledger", "export", "--output", str(world.north.folder / "ledger.jsonl"))
    exported = [json.loads(line) for line in (world.north.folder / "ledger.jsonl").read_text().splitlines()]
    exact = {name: {"mu2": str(mu2)} for name, mu2 in parts.items()}
    with_epsilon = {name: {"mu2": str(mu2), "epsilon": epsilon_at(mu2, 1e-5)} for name, mu2 in parts.items()}
    assert [entry["rounds"] for entry in shown] == [with_epsilon if kind in priced else {} for kind in kinds]
    assert [entry["rounds"] for entry in exported] == [exact if kind in priced else {} for kind in kinds]


def test_other_releases_have_no_further_lines(careful: World) -> None:
    release = careful.propose()
    for names in ((), ("south",)):  # one that nobody approved, and one without us
        careful.coordinator.propose(joint_spec(careful, *names, two_rounds=True))
    careful.north.cycle()
    careful.north.run("review", "approve", release[:12], "--yes")
    careful.north.cycle()
    assert len(careful.north.hospital_state().journal.releases()) == 3
    assert rounds_shown(careful.north) == [("open", []), ("reserve", [])]
