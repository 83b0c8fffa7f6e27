"""The account of a roster: what is spent and left after every entry, exactly."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.privacy.price import epsilon_at, mu2_text, price_text
from party_node.state.ledger import Ledger
from party_node.state.statement import history
from tests.party_node.world import CAP, World

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
    desk = world.north.desk()
    lines, balance = history(desk.ledger.entries("cohort")), desk.ledger.balance("cohort")
    assert {line.entry.release for line in lines[1:]} == {first, second}
    found = json.loads(world.north.run("ledger", "show", "--delta", "1e-5", "--json").stdout)
    assert [Fraction(entry["mu2"]) for entry in found["entries"]] == [line.mu2 for line in lines]
    assert [Fraction(entry["held_mu2"]) for entry in found["entries"]] == [line.held for line in lines]
    assert [entry["held_epsilon"] for entry in found["entries"]] == [epsilon_at(line.held, 1e-5) for line in lines]
    assert Fraction(found["remaining_mu2"]) == CAP - balance.held == lines[-1].left
    text = world.north.run("ledger", "show", "--delta", "1e-5").stdout
    for line in lines:
        row = next(row for row in text.splitlines() if f" {line.entry.kind} " in row and mu2_text(line.held) in row)
        assert {line.entry.at, mu2_text(line.mu2), mu2_text(line.left)} <= set(row.split())
        assert line.title in row
    assert f"roster cohort, left: {price_text(balance.remaining, 1e-5)}" in text


def test_epsilon_is_shown_at_the_delta_of_the_policy(world: World) -> None:
    assert json.loads(world.north.run("ledger", "show", "--json").stdout)["delta"] == 1e-6
    world.north.config.write_text(world.north.config.read_text() + "\n[policy.limits]\nmax_delta = 1e-7\n")
    assert json.loads(world.north.run("ledger", "show", "--json").stdout)["delta"] == 1e-7
