"""Real releases for measuring transfers: approved by hospitals, sealed blocks of the right shape that were not sent yet."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common.hospitals import PATIENCE, processor, propose
from demo.consortium import Consortium, wait_for
from dprelease.errors import NotFound
from dprelease.files.settings import read_settings
from dprelease.release.block import Block, SealedBlock, expected_header
from dprelease.wire.transport import connect
from party_node.hospital import HospitalState
from party_node.identity import KeyFolder
from party_node.outgoing.hub import upload
from party_node.settings import PartySettings
from party_node.state.vault import Vault

REST_SECONDS = 0.5
"""A hub that takes no tick of the processor for so long has nothing left to do."""


@dataclass(frozen=True)
class Release:
    """A release whose blocks are sealed at the hospitals.

    Attributes:
        digest: of its spec.
        consortium: its processes.
        parties: hospitals, the first one's block being the large one.
    """

    digest: str
    consortium: Consortium
    parties: tuple[str, ...]

    def sealed(self, party: str) -> tuple[SealedBlock, Path]:
        """A hospital's block: identity and file."""
        vault = Vault(self.consortium.hospital(party) / "state" / "sealed")
        found = vault.find(self.digest)
        if not found:
            raise NotFound(f"{party} sealed nothing")
        return found[0], vault.path(self.digest)

    def upload(self, party: str) -> Callable[[], None]:
        """Brings a hospital's block to the hub when called, over a connection of its own."""
        sealed, path = self.sealed(party)
        identity = KeyFolder(self.consortium.hospital(party) / "state")
        hub, credentials = identity.enrolment().hub, identity.credentials()

        def send() -> None:
            with connect(hub, credentials) as channel:
                upload(channel, sealed, path, stall_seconds=60.0)

        return send

    def forget(self) -> None:
        """Let the hub start again without anything of this release."""
        self.consortium.halt("hub")
        shutil.rmtree(self.consortium.hub / "storage" / "staging" / self.digest, ignore_errors=True)
        self.consortium.restart("hub")
        self.upload(self.parties[1])()  # a small block, so that nothing is asked or dialled for the first time later
        wait_for(self._hub_rests, PATIENCE, "the hub to have looked at what it publishes, as at every start")

    def _hub_rests(self) -> bool:
        before = processor(self.consortium)["hub"]
        time.sleep(REST_SECONDS)
        return processor(self.consortium)["hub"] == before

    def publish(self) -> Path:
        """Send every block; the folder in which the hub publishes the release."""
        for party in self.parties:
            self.upload(party)()
        folder = self.consortium.hub / "storage" / "published" / self.digest
        wait_for(folder.exists, PATIENCE, "the release to be published")
        return folder


def sealed_releases(consortium: Consortium, columns: Mapping[str, int], mixed_rows: int) -> tuple[Release, Release]:
    """Two releases: of noised rows (the first hospital's block is large), and of mixed rows (small). Ends the hospitals.

    Args:
        consortium: its hospitals run.
        columns: hospital to how many it holds; the first one has at least 19.
        mixed_rows: k of the small release.
    """
    parties = tuple(columns)
    consortium.halt("hub")  # blocks are sealed and cannot be sent
    few = dict.fromkeys(parties, 1) | {parties[0]: columns[parties[0]]}
    mixed = f'mechanism = "mixed"\nk = {mixed_rows}'
    digests = [
        propose(consortium, "large", 'mechanism = "rows"', few),
        propose(consortium, "small", mixed, few | {parties[0]: 19}),
    ]
    logs = [consortium.log(name) for name in parties]
    for digest in digests:
        wait_for(partial(_all_say, logs, f"release {digest[:12]}: approved"), PATIENCE, "every approval")
    for name in parties:
        consortium.kill(name)
        _seal(consortium.hospital(name), name, digests)
    consortium.restart("hub")
    large, small = (Release(digest, consortium, parties) for digest in digests)
    return large, small


def _all_say(logs: list[Path], words: str) -> bool:
    return all(words in log.read_text() for log in logs)


def _seal(home: Path, name: str, digests: list[str]) -> None:
    """Seal blocks of the right shape: what numbers are in them makes no difference to a transfer."""
    hospital_state = HospitalState(read_settings(home / "party.toml", PartySettings))
    for digest in digests:
        header = expected_header(hospital_state.journal.find(digest).spec, name)
        values = np.random.default_rng(0).integers(-(1 << 30), 1 << 30, (header.rows, header.columns))
        hospital_state.vault.seal((Block(header, values),), hospital_state.identity.key())
