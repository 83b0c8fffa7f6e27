"""The budget: exact, fixed, append-only, and never more than it says."""

import math
import sqlite3
from contextlib import closing
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from dprelease.errors import BudgetExceeded, Conflict, IntegrityError, InvalidInput
from dprelease.privacy.gaussian import mu_of
from party_node.state.entries import Balance, Entry
from party_node.state.ledger import Ledger

CAP = Fraction(1, 10)
A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    ledger = Ledger(path)
    ledger.open("cohort", CAP, "fixed at enrolment")
    return ledger


def reserve(ledger: Ledger, release: str, mu2: Fraction, roster: str = "cohort") -> None:
    ledger.reserve(roster, release, mu2, {"title": "t", "epsilon": 1.0})


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def test_a_release_lives_from_reservation_to_sending(ledger: Ledger) -> None:
    cost = Fraction(3, 100)
    steps = [
        (lambda: reserve(ledger, A, cost), "reserve", Balance(CAP, Fraction(0), cost, cost)),
        (lambda: ledger.charge("cohort", A), "charge", Balance(CAP, cost, Fraction(0), cost)),
        (lambda: ledger.send("cohort", A), "send", Balance(CAP, cost, Fraction(0), cost)),
    ]
    for step, stage, balance in steps:
        for _ in range(2):  # doing it again changes nothing
            step()
            assert ledger.stage("cohort", A) == stage
            assert ledger.balance("cohort") == balance
    assert kinds(ledger) == ["open", "reserve", "charge", "send"]
    assert ledger.balance("cohort").remaining == Fraction(7, 100)


def test_a_cap_is_fixed_when_a_roster_is_opened(ledger: Ledger) -> None:
    ledger.open("cohort", CAP)
    with pytest.raises(Conflict, match="it cannot change"):
        ledger.open("cohort", 2 * CAP)
    assert kinds(ledger) == ["open"]


def test_the_cap_is_exact(ledger: Ledger) -> None:
    third = CAP / 3
    for release in (A, B, C):
        reserve(ledger, release, third)
    assert ledger.balance("cohort").remaining == 0  # three doubles 0.1/3 would leave something over
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "d" * 64, Fraction(1, 10**30))


def test_what_is_beyond_the_cap_is_refused_and_not_written(ledger: Ledger) -> None:
    reserve(ledger, A, Fraction(6, 100))
    before, balance = ledger.entries(), ledger.balance("cohort")
    with pytest.raises(BudgetExceeded, match=r"needs mu\^2 = 0\.05; roster cohort has 0\.04 of 0\.1 left") as caught:
        reserve(ledger, B, Fraction(5, 100))
    assert (caught.value.needed, caught.value.remaining) == (0.05, 0.04)
    assert (ledger.entries(), ledger.balance("cohort"), ledger.stage("cohort", B)) == (before, balance, "")


def test_several_columns_become_public_together_or_not_at_all(ledger: Ledger) -> None:
    with pytest.raises(TypeError):
        ledger.declare_public("cohort", [{"title": "one"}, {"title": object()}])  # type: ignore[dict-item]
    assert kinds(ledger) == ["open"]
    ledger.declare_public("cohort", [{"title": "one"}, {"title": "two"}])
    assert kinds(ledger) == ["open", "public", "public"]
    assert ledger.verify()


@pytest.mark.parametrize("mu2", [Fraction(-1), Fraction(-1, 100)])
def test_nothing_is_reserved_for_nothing(ledger: Ledger, mu2: Fraction) -> None:
    with pytest.raises(InvalidInput):
        reserve(ledger, A, mu2)
    assert kinds(ledger) == ["open"]


def test_every_commit_is_synced_with_the_removal_of_the_rollback_journal(ledger: Ledger) -> None:
    with ledger._transaction() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize(
    "statement", ["UPDATE entries SET mu2 = '0'", "DELETE FROM entries", "DELETE FROM entries WHERE number = 1"]
)
def test_entries_are_neither_changed_nor_removed(ledger: Ledger, path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)


def filled(ledger: Ledger) -> None:
    for release in (A, B):
        reserve(ledger, release, Fraction(1, 100))
    ledger.charge("cohort", A)
    ledger.send("cohort", A)
    ledger.refund("cohort", B)


def tamper(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db:
        for trigger in ("no_update", "no_delete"):
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute(statement, values)
        db.commit()


ALTERED: dict[str, object] = {
    "number": 99,
    "roster": "others",
    "kind": "refund",
    "release": "e" * 64,
    "mu2": "1/1000000",
    "detail": "{}",
    "at": "2020-01-01T00:00:00Z",
    "previous": "0" * 63 + "1",
    "hash": "f" * 64,
}


@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("field", [field.name for field in fields(Entry)])
def test_an_altered_field_of_any_entry_breaks_the_chain(ledger: Ledger, path: Path, field: str, number: int) -> None:
    filled(ledger)
    entry = ledger.entries()[number - 1]
    value = ALTERED[field] if ALTERED[field] != getattr(entry, field) else "reserve"
    tamper(path, f"UPDATE entries SET {field} = ? WHERE number = ?", value, number)  # noqa: S608 - names of fields
    with pytest.raises(IntegrityError, match=rf"broken at entry {number}\b"):
        ledger.verify()


@pytest.mark.parametrize("number", range(1, 6))
def test_a_lost_entry_breaks_the_chain(ledger: Ledger, path: Path, number: int) -> None:
    filled(ledger)
    tamper(path, "DELETE FROM entries WHERE number = ?", number)
    with pytest.raises(IntegrityError, match=f"broken at entry {number}"):
        ledger.verify()


def test_a_lost_tail_shows_in_the_last_hash(ledger: Ledger, path: Path) -> None:
    filled(ledger)
    noted = ledger.verify()
    tamper(path, "DELETE FROM entries WHERE number = 6")
    assert ledger.verify() != noted


def test_two_entries_in_each_others_place_break_the_chain(ledger: Ledger, path: Path) -> None:
    filled(ledger)
    tamper(path, "UPDATE entries SET number = CASE number WHEN 3 THEN -4 WHEN 4 THEN -3 ELSE number END")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE entries SET number = -number WHERE number < 0")
        db.commit()
    with pytest.raises(IntegrityError, match="broken at entry 3"):
        ledger.verify()


@pytest.mark.parametrize("targets", [[(1.0, 1e-5)], [(0.5, 1e-6), (1.0, 1e-5), (2.0, 1e-5)], [(0.1, 1e-6)] * 12])
def test_spent_epsilon_is_that_of_the_composed_gaussians(folder: Path, targets: list[tuple[float, float]]) -> None:
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.open("cohort", Fraction(100))
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    for number, (epsilon, delta) in enumerate(targets):
        mu = mu_of(epsilon, delta)
        release = f"{number:064x}"
        reserve(ledger, release, Fraction(mu) ** 2)
        if number % 2:
            ledger.charge("cohort", release)  # reserved and charged count alike
        accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    delta = 1e-5
    ours, theirs = ledger.balance("cohort").epsilon(delta), accountant.get_epsilon(delta)
    assert ours == pytest.approx(theirs, rel=2e-3)
    assert ours <= theirs * (1 + 1e-6)  # theirs is an upper bound for a discretised loss, ours is exact


def test_twelve_equal_releases_cost_the_square_root_of_twelve_times_mu(ledger: Ledger) -> None:
    balance = Balance(Fraction(10), 12 * Fraction(mu_of(1.0, 1e-5)) ** 2, Fraction(0), Fraction(0))
    assert balance.epsilon(1e-5) == pytest.approx(4.01807, rel=1e-5)
    once = Balance(Fraction(10), Fraction(0), Fraction(0), Fraction(0))
    assert once.epsilon(1e-5, Fraction(mu_of(1.0, 1e-5)) ** 2) == pytest.approx(1.0, rel=1e-9)
    assert once.epsilon(1e-5) == 0
    assert math.isfinite(balance.epsilon(1e-12))
