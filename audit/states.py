"""Finding the states of the roles below a folder, and opening them read-only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import DpReleaseError
from dprelease.files.settings import read_settings
from dprelease.release.folder import MANIFEST, ReleaseFolder
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from party_node.settings import PartySettings
from party_node.state.journal import Journal
from party_node.state.ledger import Ledger
from party_node.state.vault import Vault

_DATABASE = "coordinator.sqlite"


@dataclass(frozen=True)
class Hospital:
    """One party's settings and ledger.

    Attributes:
        settings: its party.toml.
        ledger: its budget.
    """

    settings: PartySettings
    ledger: Ledger

    def rosters(self) -> dict[str, bytes]:
        """Alignment run to the pseudonyms of its common patients, 32 bytes each, of runs in force."""
        journal = Journal(self.settings.state / "journal.sqlite")
        folder = self.settings.state / "rosters"  # as the files are: whoever altered one is to be found out here
        return {run.digest: (folder / run.digest).read_bytes() for run in journal.runs() if run.version is not None}

    def sealed(self, release: str, sequence: int) -> Path:
        """The file of a sealed block, which may not exist."""
        return Vault(self.settings.state / "sealed").path(release, sequence)


@dataclass(frozen=True)
class Office:
    """A release in the coordinator's database.

    Attributes:
        state: e.g. ``PUBLISHED``.
        manifest: SHA-256 of the published manifest, or None.
        spec: the spec.
        deals: session of joint moments to the parties that something was dealt to.
    """

    state: str
    manifest: str | None
    spec: ReleaseSpec
    deals: dict[str, set[str]]


def hospitals(folder: Path) -> dict[str, Hospital]:
    """Party name to its state, for every party.toml below the folder that has a ledger."""
    found = {}
    for path in sorted(folder.rglob("party.toml")):
        settings = read_settings(path, PartySettings)
        if (settings.state / "ledger.sqlite").exists():
            found[settings.name] = Hospital(settings, Ledger(settings.state / "ledger.sqlite"))
    return found


def published(folder: Path) -> list[ReleaseFolder]:
    """Every published release below the folder: the hub's, and learners' copies."""
    folders = [ReleaseFolder(path.parent) for path in sorted(folder.rglob(MANIFEST))]
    return [found for found in folders if "staging" not in found.path.parts]


def office(folder: Path) -> dict[str, Office]:
    """Release digest to what the coordinator's database says, for every database below the folder."""
    found = {}
    for path in folder.rglob(_DATABASE):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            releases = "SELECT digest, state, manifest, proposal FROM agreements WHERE kind = 'release'"
            for digest, state, manifest, spec in db.execute(releases):
                found[digest] = Office(state, manifest, ReleaseSpec.from_bytes(spec), {})
            for digest, session, party in db.execute("SELECT release, session, party FROM deals"):
                found[digest].deals.setdefault(session, set()).add(party)
    return found


@dataclass(frozen=True)
class AlignmentRun:
    """An alignment run in the coordinator's database.

    Attributes:
        state: e.g. ``DONE``.
        consents: party to True if its signed acceptance is there.
    """

    state: str
    consents: tuple[bool, ...]


def alignments(folder: Path) -> dict[str, AlignmentRun]:
    """Run to what the coordinator's database says, for every database below the folder."""
    found = {}
    for path in folder.rglob(_DATABASE):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            runs = "SELECT digest, state FROM agreements WHERE kind = 'alignment run'"
            for run, state in db.execute(runs).fetchall():
                said = db.execute("SELECT consent IS NOT NULL FROM consents WHERE agreement = ?", (run,))
                found[run] = AlignmentRun(state, tuple(bool(each) for (each,) in said))
    return found


def roots(folder: Path) -> list[str]:
    """Every distinct consortium root below the folder, PEM."""
    return sorted({path.read_text() for path in folder.rglob("root.pem")})


def verified(release: ReleaseFolder, folder: Path) -> Release | str:
    """The release if it verifies against a root below the folder, else why not."""
    reason = "there is no root.pem below the folder"
    for root in roots(folder):
        try:
            return release.verify(root)
        except DpReleaseError as error:
            reason = error.message
    return reason
