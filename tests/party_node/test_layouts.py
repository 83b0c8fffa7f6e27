"""A hospital's SQLite files as an older and a newer version of the software left them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import IntegrityError, InvalidInput
from party_node.state.journal import Journal, Status
from party_node.state.ledger import Ledger
from party_node.state.used_seeds import UsedSeeds
from tests.support.specs import build_spec


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """What a node kept before layouts had numbers."""
    Ledger(tmp_path / "ledger.sqlite").open("cohort", Fraction(1, 3))
    Journal(tmp_path / "journal.sqlite").offer(build_spec(), Status.WAITING, "new")
    UsedSeeds(tmp_path / "seeds.sqlite").use(["ab" * 32], "session", "")
    number(tmp_path, 0)
    return tmp_path


def number(state: Path, layout: int) -> None:
    for path in state.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {layout}")


def test_what_an_older_node_kept_counts(state: Path) -> None:
    ledger = Ledger(state / "ledger.sqlite")
    assert ledger.balance("cohort").cap == Fraction(1, 3)
    ledger.verify()
    assert [record.status for record in Journal(state / "journal.sqlite").records()] == [Status.WAITING]
    with pytest.raises(IntegrityError, match="used before"):
        UsedSeeds(state / "seeds.sqlite").use(["ab" * 32], "another session", "")
    for path in state.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize(
    ("name", "open_it"), [("ledger.sqlite", Ledger), ("journal.sqlite", Journal), ("seeds.sqlite", UsedSeeds)]
)
def test_what_a_newer_node_kept_is_refused_and_left_alone(
    state: Path, name: str, open_it: Callable[[Path], object]
) -> None:
    number(state, 2)
    before = (state / name).read_bytes()
    with pytest.raises(InvalidInput, match=rf"{name} has layout 2, .* update party-node"):
        open_it(state / name)
    assert (state / name).read_bytes() == before
