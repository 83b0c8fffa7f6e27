"""Any sequence of operations against a model of a few lines; and many hands at once on one file."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dprelease.errors import BudgetExceeded, Conflict, DpReleaseError, NotFound
from party_node.state.ledger import Ledger
from tests.support.together import together

ROSTERS = st.sampled_from(["one", "two"])
RELEASES = st.sampled_from(["a" * 64, "b" * 64, "c" * 64])
COSTS = st.fractions(Fraction(1, 1000), Fraction(1, 2), max_denominator=1000)
CAPS = st.sampled_from([Fraction(1, 3), Fraction(1, 2)])
AFTER = {"charge": ("reserve", {"charge", "send"}), "send": ("charge", {"send"})}


class LedgerAndModel(RuleBasedStateMachine):
    """The model: cap, and stage and cost of every release, of every roster."""

    @initialize()
    def begin(self) -> None:
        memory = "/dev/shm"  # noqa: S108 - a fresh folder of our own within it
        self.folder = TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)
        self.path = Path(self.folder.name) / "ledger.sqlite"
        self.caps: dict[str, Fraction] = {}
        self.releases: dict[tuple[str, str], tuple[str, Fraction]] = {}
        self.written = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @contextmanager
    def expecting(self, error: type[DpReleaseError] | None) -> Iterator[Ledger]:
        """A ledger as a fresh process opens it; `error` is what the model says must be raised."""
        ledger = Ledger(self.path)
        if error is None:
            yield ledger
        else:
            with pytest.raises(error):
                yield ledger

    def holds(self, roster: str, *stages: str) -> Fraction:
        own = [state for (where, _), state in self.releases.items() if where == roster]
        return sum((cost for stage, cost in own if stage in stages), Fraction(0))

    @rule(roster=ROSTERS, cap=CAPS)
    def open(self, roster: str, cap: Fraction) -> None:
        known = self.caps.get(roster)
        with self.expecting(Conflict if known not in (None, cap) else None) as ledger:
            ledger.open(roster, cap)
        if known is None:
            self.caps[roster] = cap
            self.written += 1

    @rule(roster=ROSTERS, release=RELEASES, cost=COSTS)
    def reserve(self, roster: str, release: str, cost: Fraction) -> None:
        stage, _ = self.releases.get((roster, release), ("", Fraction(0)))
        error: type[DpReleaseError] | None = None
        if stage == "refund":
            error = Conflict
        elif not stage and roster not in self.caps:
            error = NotFound
        elif not stage and self.holds(roster, "reserve", "charge", "send") + cost > self.caps[roster]:
            error = BudgetExceeded
        with self.expecting(error) as ledger:
            ledger.reserve(roster, release, cost, {})
        if error is None and not stage:
            self.releases[roster, release] = ("reserve", cost)
            self.written += 1

    @rule(roster=ROSTERS, release=RELEASES, step=st.sampled_from(["charge", "send"]))
    def advance(self, roster: str, release: str, step: str) -> None:
        stage, cost = self.releases.get((roster, release), ("", Fraction(0)))
        before, already = AFTER[step]
        with self.expecting(None if stage == before or stage in already else Conflict) as ledger:
            getattr(ledger, step)(roster, release)
        if stage == before:
            self.releases[roster, release] = (step, cost)
            self.written += 1

    @rule(roster=ROSTERS, release=RELEASES)
    def refund(self, roster: str, release: str) -> None:
        stage, cost = self.releases.get((roster, release), ("", Fraction(0)))
        with self.expecting(None if stage in {"reserve", "charge", "refund"} else Conflict) as ledger:
            ledger.refund(roster, release)
        if stage in {"reserve", "charge"}:
            self.releases[roster, release] = ("refund", cost)
            self.written += 1

    @invariant()
    def agrees(self) -> None:
        ledger = Ledger(self.path)
        assert len(ledger.entries()) == self.written
        ledger.verify()
        for roster, cap in self.caps.items():
            balance = ledger.balance(roster)
            assert (balance.cap, balance.charged) == (cap, self.holds(roster, "charge", "send"))
            assert balance.reserved == self.holds(roster, "reserve")
            assert balance.remaining >= 0
        for (roster, release), (stage, _) in self.releases.items():
            assert ledger.stage(roster, release) == stage


TestLedgerAndModel = LedgerAndModel.TestCase
TestLedgerAndModel.settings = settings(max_examples=25, stateful_step_count=30, derandomize=True, deadline=None)


def spend(path: Path, worker: int, attempts: int) -> list[str]:
    """Reserve tenths of the cap until it is refused; the releases that were granted."""
    ledger, granted = Ledger(path), []
    for attempt in range(attempts):
        release = f"{worker:032x}{attempt:032x}"
        try:
            ledger.reserve("cohort", release, Fraction(1, 10), {})
        except BudgetExceeded:
            continue
        granted.append(release)
        ledger.charge("cohort", release)
    return granted


def spend_in_a_process(path: Path, worker: int, answers: multiprocessing.Queue[list[str]]) -> None:
    answers.put(spend(path, worker, 8))


def check_spent_to_the_cap(path: Path, granted: list[str]) -> None:
    ledger = Ledger(path)
    ledger.verify()
    assert len(granted) == len(set(granted)) == 10
    balance = ledger.balance("cohort")
    assert (balance.charged, balance.reserved, balance.remaining) == (1, 0, 0)
    assert [entry.number for entry in ledger.entries()] == list(range(1, 22))


def test_threads_together_never_overspend(folder: Path) -> None:
    path = folder / "ledger.sqlite"
    Ledger(path).open("cohort", Fraction(1))
    granted = together(lambda worker: spend(path, worker, 4), range(6))
    check_spent_to_the_cap(path, [release for each in granted for release in each])


def test_processes_together_never_overspend(folder: Path) -> None:
    path = folder / "ledger.sqlite"
    Ledger(path).open("cohort", Fraction(1))
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=spend_in_a_process, args=(path, worker, answers)) for worker in range(2)]
    for process in processes:
        process.start()
    granted = [release for _ in processes for release in answers.get(timeout=60)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    check_spent_to_the_cap(path, granted)


def test_many_hands_on_one_release_make_one_entry_of_each_kind(folder: Path) -> None:
    path, release = folder / "ledger.sqlite", "a" * 64
    Ledger(path).open("cohort", Fraction(1))

    def work(ledger: Ledger) -> None:
        ledger.reserve("cohort", release, Fraction(1, 10), {})
        ledger.charge("cohort", release)
        ledger.send("cohort", release)

    together(work, [Ledger(path) for _ in range(6)])
    assert [entry.kind for entry in Ledger(path).entries()] == ["open", "reserve", "charge", "send"]


@pytest.mark.parametrize("worker", range(6))
def test_freeing_and_sending_at_once_leave_one_winner(folder: Path, worker: int) -> None:
    path, release = folder / "ledger.sqlite", "a" * 64
    ledger = Ledger(path)
    ledger.open("cohort", Fraction(1))
    ledger.reserve("cohort", release, Fraction(1, 10), {})
    ledger.charge("cohort", release)

    def lost(step: str) -> str:
        try:
            getattr(Ledger(path), step)("cohort", release)
        except Conflict:
            return step
        return ""

    (loser,) = filter(None, together(lost, ("refund", "send")))
    assert ledger.stage("cohort", release) == ({"refund", "send"} - {loser}).pop()
