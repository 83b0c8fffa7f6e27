"""The party's databases are its own from the first moment, and again at the next opening; an error leaves nothing in them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import DataRefused
from party_node.state.journal import Journal
from party_node.state.ledger import Ledger
from party_node.state.session import UsedSeeds
from party_node.state.transactions import transaction

pytestmark = pytest.mark.usefixtures("loose_umask")


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


OPENED: dict[str, Callable[[Path], object]] = {"ledger": Ledger, "journal": Journal, "seeds": UsedSeeds}


@pytest.mark.parametrize("name", OPENED)
def test_nobody_else_reads_a_database(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.sqlite"
    OPENED[name](path)
    assert modes(tmp_path) == {path.name: 0o600}
    path.chmod(0o644)
    OPENED[name](path)
    assert modes(tmp_path) == {path.name: 0o600}


def test_what_stands_beside_it_during_a_transaction_is_private_too(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open("cohort", Fraction(1))
    with transaction(path) as db:
        db.execute("CREATE TABLE t (a)")
        assert modes(tmp_path) == {"ledger.sqlite": 0o600, "ledger.sqlite-journal": 0o600}


def test_an_error_undoes_what_was_written_and_frees_the_file_while_an_answer_is_half_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with transaction(path) as db:
        db.execute("CREATE TABLE t (a)")

    def fail_while_reading() -> None:
        with transaction(path) as db:
            db.execute("INSERT INTO t VALUES (1), (2)")
            answer = db.execute("SELECT a FROM t")
            raise DataRefused(f"{next(answer)} is half of it")

    with pytest.raises(DataRefused) as caught:
        fail_while_reading()
    assert caught.tb is not None  # it keeps the answer, and with it the connection, which would lock the file
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT a FROM t").fetchall() == []
