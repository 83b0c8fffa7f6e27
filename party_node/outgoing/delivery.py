"""Delivery of sealed blocks: the same bytes as often as the hub lacks them, also when it has forgotten that it had them."""

from __future__ import annotations

import logging
import time

from dprelease.errors import Conflict
from dprelease.release.block import SealedBlock
from party_node.hospital import HospitalState
from party_node.outgoing.calls import check_reachable, upload
from party_node.outgoing.line import HubLine
from party_node.state.journal import Record, Status

CONFIRM_SECONDS = 600.0
"""How often a hub is asked whether it still holds a block of a release that is not over: one small call."""

log = logging.getLogger(__name__)


class Delivery:
    """The sealed blocks of one party on their way.

    Args:
        desk: the party's state.
        hub: the connection to it.
    """

    def __init__(self, desk: HospitalState, hub: HubLine) -> None:
        self._desk = desk
        self._hub = hub
        self._ask_after: dict[str, float] = {}  # a release, or a release and how many of its blocks

    def deliver(self, record: Record) -> None:
        """Send the sealed bytes of all rounds; a hub whose storage was restored from an older backup is sent the same again.

        Raises:
            Conflict: the sealed block is gone.
            PeerUnavailable, IntegrityError, ...: see `upload`.
        """
        desk, release = self._desk, record.digest
        if record.status == Status.DELIVERED and time.monotonic() < self._ask_after.get(release, 0.0):
            return
        sealed = desk.vault.find(release)
        if not sealed:
            raise Conflict("the sealed block is gone; it cannot be made again")
        self.send(record, sealed)
        self._ask_after[release] = time.monotonic() + CONFIRM_SECONDS
        if record.status == Status.SEALED:
            desk.journal.move(release, {Status.SEALED}, Status.DELIVERED, "the hub holds our block")
            log.info("release %s: delivered", release[:12])

    def send_round(self, record: Record, sealed: tuple[SealedBlock, ...]) -> None:
        """Send what was sealed before the last round, and ask now and then whether the hub still holds it; raises as `send`."""
        rounds = f"{record.digest}.{len(sealed)}"
        if time.monotonic() >= self._ask_after.get(rounds, 0.0):
            self.send(record, sealed)
            self._ask_after[rounds] = time.monotonic() + CONFIRM_SECONDS

    def send(self, record: Record, sealed: tuple[SealedBlock, ...]) -> None:
        """Send sealed bytes; the ledger notes it first.

        A hub that is away is found out before that note: what never had a chance to leave can still be given back.

        Raises:
            PeerUnavailable, IntegrityError, ...: see `upload`.
        """
        desk, hub, release = self._desk, self._hub.channel(), record.digest
        check_reachable(hub, "the hub")
        desk.ledger.send(desk.settings.roster, release)
        for block in sealed:
            upload(hub, block, desk.vault.path(release, block.sequence), desk.settings.daemon.stall_seconds)
