"""Releases from the approval of all on: compute, seal, charge and send round after round, until the hub holds every block.

Source: docs/protocol.md.
"""

from __future__ import annotations

import logging
import time

from dprelease.agreement import check_all
from dprelease.errors import ProofRefused
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.approval import SignedApproval
from dprelease.release.block import Block, SealedBlock
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import LOCAL
from party_node.cluster.engine import engine
from party_node.computation.once import left_before, require
from party_node.computation.rounds import RoundWork
from party_node.computation.sessions import JointWork
from party_node.computation.work import Work
from party_node.hospital import HospitalState
from party_node.outgoing.hub import Delivery, HubConnection
from party_node.outgoing.joining import show_approval
from party_node.outgoing.office import Coordinator, Pending
from party_node.state.journal import PUBLISHED, Record, Status

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
"""How often a release that waits for others is looked at where no server tells of news: all that is there is read each time."""


class ReleaseWork(Work):
    """All releases of one party."""

    kind = ReleaseSpec
    folders = ("joint", "rounds", "frozen")
    declines = LOCAL | {ProofRefused}

    def __init__(self, hospital: HospitalState, hub: HubConnection, noise: NoiseSource) -> None:
        super().__init__(hospital, hub)
        self._noise = noise
        self._delivery = Delivery(hospital, hub)
        self._joint = JointWork(hospital, noise, hub)
        self._rounds = RoundWork(hospital, hub)
        self._waits: dict[str, tuple[str, float]] = {}
        self._checked: dict[str, tuple[tuple[bytes, ...], dict[str, str], tuple[SignedApproval, ...]]] = {}

    def advance(self, coordinator: Coordinator, record: Record, pending: Pending) -> str | None:
        """All parties approved: check that, then compute. No noise exists before this."""
        hospital = self._hospital
        if record.status is Status.APPROVED:
            said, until = self._waits.get(record.digest, ("", 0.0))
            if self._hub.quiet and time.monotonic() < until:
                return said
            approvals = self._approvals(record, pending)
            waits = self._seal(coordinator, record, approvals)
            if waits is not None:
                self._waits[record.digest] = waits, time.monotonic() + LOOK_SECONDS
                return waits
            record = hospital.journal.find(record.digest)
        if record.status in {Status.SEALED, Status.DELIVERED}:
            self._delivery.deliver(record)
            self._joint.keep_up(record)
        return None

    def _approvals(self, record: Record, pending: Pending) -> tuple[SignedApproval, ...]:
        """Every party's, checked once as long as they and the pins stay as they are: each costs two signatures."""
        hospital = self._hospital
        grounds, pins = pending.consents, hospital.pins()
        known = self._checked.get(record.digest)
        if known is None or known[:2] != (grounds, pins):
            approvals = pending.approvals()
            check_all(approvals, record.spec, hospital.enrolment.root, pins)
            self._checked[record.digest] = known = (grounds, pins, approvals)
        return known[2]

    def end(self, coordinator: Coordinator, record: Record, pending: Pending) -> None:
        """Keep nothing of a release but what was charged and sent."""
        self._joint.end(record)
        self._checked.pop(record.digest, None)
        self._waits.pop(record.digest, None)
        show_approval(coordinator, record, pending.consents)  # what is over here is not shown again on this connection
        note = PUBLISHED if pending.state == "PUBLISHED" else f"{pending.state.lower()}: {pending.explanation}"
        self._hospital.give_up(record, Status.ENDED, note)
        log.info("%s is over: %s", record.name, note)

    def _seal(self, coordinator: Coordinator, record: Record, approvals: tuple[SignedApproval, ...]) -> str | None:
        """Seal, charge and send round after round but the last one, which `Delivery.deliver` sends; or for whom we wait."""
        hospital, rounds = self._hospital, record.spec.rounds()
        while True:
            sealed = hospital.vault.find(record.digest)
            if sealed:
                self._charge(record, sealed)
            if len(sealed) == rounds[-1].stop:
                break
            if sealed:
                self._delivery.send_round(record, sealed)
            if left_before(hospital, self._hub, coordinator, record, sealed):
                return None
            blocks = self._blocks(coordinator, record, approvals, sealed)
            if isinstance(blocks, str):
                return blocks
            hospital.vault.seal(blocks, hospital.identity.key())
        hospital.journal.move(record.digest, {Status.APPROVED}, Status.SEALED, "sealed and charged")
        hospital.frozen(record.digest).erase()
        log.info("%s: sealed and charged", record.name)
        return None

    def _charge(self, record: Record, sealed: tuple[SealedBlock, ...]) -> None:
        """Note the blocks of the latest round; the whole price is charged with those of the first."""
        roster, digests = self._hospital.settings.roster, tuple(block.sha256 for block in sealed)
        start = next(each.start for each in record.spec.rounds() if each.stop == len(sealed))
        kept = self._hospital.streams.noted(record.spec)
        self._hospital.ledger.make(roster, record.digest, digests[start:], digests[:start], kept=kept)
        self._hospital.ledger.charge(roster, record.digest)

    def _blocks(
        self,
        coordinator: Coordinator,
        record: Record,
        approvals: tuple[SignedApproval, ...],
        sealed: tuple[SealedBlock, ...],
    ) -> tuple[Block, ...] | str:
        """All our blocks of the next round; or, of a joint computation that is under way, for whom we wait."""
        hospital = self._hospital
        before = self._rounds.before(record, approvals, sealed)
        if isinstance(before, str):
            return before
        last = len(sealed) == record.spec.rounds()[-1].start
        if last and record.spec.joint:
            return self._joint.blocks(coordinator, record, approvals, sealed, before)
        bounded = hospital.approved(record)
        require(hospital, record.digest, "send" if sealed else "reserve", before=sealed)
        kept = hospital.streams.keep(record, hospital.settings.name, bounded, None)
        with engine(hospital.settings) as run:
            return privatize(bounded, record.spec, hospital.settings.name, self._noise, None, before.earlier, kept, run)
