"""The auditor of a consortium's states is shown broken states, and catches each."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from audit import Violation, audit
from audit.__main__ import main
from audit.disclosure import SHORTEST
from demo.consortium import wait_for
from dprelease.privacy.price import epsilon_figure
from dprelease.release.accounting import guarantee
from dprelease.release.folder import ReleaseFolder
from tests.end_to_end.hospitals import IDENTIFIER_MARK, Hospital, final_state, found, numeric, propose
from tests.end_to_end.test_public import clinic, knows_of
from tests.support.forked import ForkedConsortium

pytestmark = pytest.mark.end_to_end

ROWS = 200


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The states after one release beside a public column of the clinic; its digest."""
    random = np.random.default_rng(7)
    columns = {"clinic": ("dose", "age"), "ward": ("pain",)}
    hospitals = [
        Hospital(
            name,
            {column: numeric(0, 93) for column in names},
            {column: [*map(float, random.uniform(0, 93, ROWS))] for column in names},
            policy='[policy.auto_approve]\nguarantees = ["DP", "label-DP"]\n',
        )
        for name, names in columns.items()
    ]
    folder = tmp_path_factory.mktemp("audit") / "consortium"
    with ForkedConsortium(folder) as consortium:
        found(consortium, hospitals)
        clinic(consortium, "public", "declare", "age", "--irrevocable")
        wait_for(lambda: knows_of(consortium, "age"), 60, "the clinic to report its public column")
        release = propose(consortium, hospitals, mechanism="mixed", public_side="features")
        assert final_state(consortium, release) == "PUBLISHED"
    return folder, release


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _ledger(folder: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(folder / "clinic" / "state" / "ledger.sqlite")) as db:
        for trigger in ("no_update", "no_delete"):
            db.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        db.execute(statement, values)
        db.commit()


def _office(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "office" / "coordinator.sqlite")) as db:
        db.execute(statement)
        db.commit()


def _dealt(folder: Path, release: str, *parties: str) -> None:
    for party in parties:
        _office(folder, f"INSERT INTO deals VALUES (printf('%064d', 7), '{party}', '{release}', 1, x'00')")  # noqa: S608


def _published(folder: Path, release: str) -> Path:
    return folder / "office" / "hub" / "storage" / "published" / release


def _half(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "clinic" / "state" / "ledger.sqlite")) as db:
        ((text,),) = db.execute("SELECT mu2 FROM entries WHERE kind = 'charge'").fetchall()
    _ledger(folder, "UPDATE entries SET mu2 = ? WHERE kind = 'charge'", str(Fraction(text) / 2))


BREAKS: dict[str, tuple[Callable[[Path, str], None], str]] = {
    "a published block differs by a bit": (
        lambda folder, release: _flip(_published(folder, release) / "blocks" / "clinic.0.block"),
        "does not verify",
    ),
    "a sealed block differs by a bit": (
        lambda folder, release: _flip(folder / "clinic" / "state" / "sealed" / f"{release}.0.block"),
        "other bytes than those sealed",
    ),
    "a page says what the release does not": (
        lambda folder, release: _flip(_published(folder, release) / "index.html"),
        "index.html is not made from the signed bytes",
    ),
    "a manifest differs by a bit": (
        lambda folder, release: _flip(_published(folder, release) / "manifest.json"),
        "does not verify",
    ),
    "a charge was halved": (lambda folder, release: _half(folder), "chain is broken"),
    "a charge was deleted": (
        lambda folder, release: _ledger(folder, "DELETE FROM entries WHERE kind = 'charge'"),
        "chain is broken",
    ),
    "the last entry was cut off": (
        lambda folder, release: _ledger(folder, "DELETE FROM entries WHERE kind = 'send'"),
        "without one reservation, charge, block and sending",
    ),
    "nobody declared the public column": (
        lambda folder, release: _ledger(folder, "DELETE FROM entries WHERE kind = 'public'"),
        "shows age exactly",
    ),
    "the column was declared public too late": (
        lambda folder, release: _ledger(folder, "UPDATE entries SET number = 99 WHERE kind = 'public'"),
        "shows age exactly",
    ),
    "other bounds were declared public": (
        lambda folder, release: _ledger(folder, "UPDATE entries SET detail = replace(detail, '93', '94')"),
        "shows age exactly",
    ),
    "the office cancelled what is public": (
        lambda folder, release: _office(folder, "UPDATE agreements SET state = 'CANCELLED'"),
        "CANCELLED at the office",
    ),
    "the office knows another manifest": (
        lambda folder, release: _office(folder, "UPDATE agreements SET manifest = printf('%064d', 0)"),
        "another manifest",
    ),
    "the office kept what it dealt": (
        lambda folder, release: _dealt(folder, release, "clinic", "ward"),
        "still holds what it dealt",
    ),
    "the office dealt to one party of two": (
        lambda folder, release: _dealt(folder, release, "ward"),
        "dealt to some of its parties only",
    ),
    "an identifier in a log": (
        lambda folder, release: (folder / "hub.log").write_text(f"row {IDENTIFIER_MARK}000017 is odd"),
        "private cell or identifier",
    ),
    "a cell in the hub's storage": (
        lambda folder, release: (_published(folder, release) / "note").write_text(_a_cell(folder, "dose")),
        "private cell or identifier",
    ),
}


def _a_cell(folder: Path, column: str) -> str:
    header, first, *_ = (folder / "clinic" / "table.csv").read_text().splitlines()
    return first.split(",")[header.replace('"', "").split(",").index(column)]


def test_honest_states_pass(finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(finished[0]) == 0
    assert "every invariant holds" in capsys.readouterr().out


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_state_is_caught(finished: tuple[Path, str], tmp_path: Path, name: str) -> None:
    folder, release = finished
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    wreck, words = BREAKS[name]
    wreck(copy, release)
    violations = audit(copy)
    assert any(words in violation.what for violation in violations), violations


def test_a_cell_of_a_public_column_is_no_disclosure(finished: tuple[Path, str], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished[0], copy)
    (copy / "hub.log").write_text(_a_cell(copy, "age"))
    assert audit(copy) == []


def _with_a_cell_like_the_guarantee(finished: tuple[Path, str], copy: Path) -> bytes:
    """Another table of the clinic, with the number of its own guarantee in a private cell; that number."""
    folder, release = finished
    shutil.copytree(folder, copy)
    epsilon = guarantee(ReleaseFolder(_published(copy, release)).manifest().spec).party("clinic").epsilon
    table = copy / "clinic" / "table.csv"
    table.write_text(table.read_text().replace(_a_cell(copy, "dose"), epsilon_figure(epsilon), 1))
    return epsilon_figure(epsilon).encode()


def test_a_cell_that_equals_a_number_of_the_guarantee_is_no_disclosure(
    finished: tuple[Path, str], tmp_path: Path
) -> None:
    cell = _with_a_cell_like_the_guarantee(finished, tmp_path / "copy")
    assert len(cell) >= SHORTEST
    assert cell in (_published(tmp_path / "copy", finished[1]) / "manifest.json").read_bytes()
    assert audit(tmp_path / "copy") == []


@pytest.mark.parametrize("place", ["elsewhere in the manifest", "a log", "a false guarantee"])
def test_the_same_cell_anywhere_else_is_found(finished: tuple[Path, str], tmp_path: Path, place: str) -> None:
    copy = tmp_path / "copy"
    cell = _with_a_cell_like_the_guarantee(finished, copy).decode()
    folder = ReleaseFolder(_published(copy, finished[1]))
    manifest = folder.manifest()
    leak = copy / "hub.log" if place == "a log" else folder.path / "manifest.json"
    if place == "a log":
        leak.write_text(f"the dose is {cell} today")
    elif place == "a false guarantee":
        leak.write_bytes(manifest.model_copy(update={"guarantee": (f"the dose is {cell} today",)}).to_bytes())
    else:
        leak.write_bytes(manifest.model_copy(update={"software": cell}).to_bytes())
    assert Violation(str(leak.relative_to(copy)), "holds a private cell or identifier") in audit(copy)


def test_a_folder_without_states_is_no_success(tmp_path: Path) -> None:
    assert main(tmp_path) == 1
