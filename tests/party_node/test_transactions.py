"""The party's databases are its own from the first moment, and again at the next opening."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

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
