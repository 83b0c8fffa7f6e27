"""The daemon: dial out, ask what is pending, take each release one step further, start again after any trouble.

Every step is safe to repeat: what was done is read from ledger, journal and vault, never remembered. One release that
is stuck never holds up another.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dprelease.agreement import check_all
from dprelease.cli.console import StopSignal
from dprelease.errors import (
    BudgetExceeded,
    DataRefused,
    DpReleaseError,
    IntegrityError,
    PeerUnavailable,
    PolicyRefused,
    SpecRefused,
)
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.approval import SignedApproval
from dprelease.release.block import Block, SealedBlock
from dprelease.wire.boundary import row_for
from dprelease.wire.retry import Backoff
from party_node.aligning.work import AlignmentWork
from party_node.changed_settings import ChangedSettings
from party_node.computation.once import left_before, require
from party_node.computation.rounds import RoundWork
from party_node.computation.sessions import JointWork
from party_node.hospital import HospitalState
from party_node.memory import give_back, share_arena
from party_node.outgoing.agreements import Pending
from party_node.outgoing.calls import Coordinator
from party_node.outgoing.delivery import Delivery
from party_node.outgoing.joining import hear_witness, show_approval
from party_node.outgoing.line import HubLine, attempt
from party_node.outgoing.news import Ears
from party_node.outgoing.renewal import Renewal
from party_node.outgoing.report import TableReport
from party_node.outgoing.reviews import Reviews
from party_node.state.books import check as check_books
from party_node.state.journal import PUBLISHED, Record, Status
from party_node.state.lock import only_one
from party_node.undecided import Undecided

log = logging.getLogger(__name__)

_OVER = {"PUBLISHED", "REJECTED", "FAILED", "CANCELLED", "EXPIRED"}
_GO = {"APPROVED", "RUNNING"}
_MOST_UNSETTLED = 500  # a coordinator takes no more


class Daemon:
    """One hospital's daemon.

    Args:
        desk: the party's state.
        noise: secret noise; `SecureNoise` outside tests.
        config: the settings file, whose changes are noticed.

    Attributes:
        reviews: tells of releases that wait for a person.
    """

    def __init__(self, desk: HospitalState, noise: NoiseSource, config: Path | None = None) -> None:
        self._desk = desk
        self._noise = noise
        self._hub = HubLine.of(desk)
        self._delivery = Delivery(desk, self._hub)
        self._ears = Ears(desk.settings.daemon, desk.journal, desk.runs)
        self._joint = JointWork(desk, noise, self._hub)
        self._rounds = RoundWork(desk, self._hub)
        self._computing = self._unreached = False
        self._renewal = Renewal(desk.identity)
        self._table = TableReport(desk)
        self._settings = ChangedSettings(desk, config)
        self.reviews = Reviews(desk)
        self._undecided = Undecided(desk)
        self._aligning = AlignmentWork(desk, self._hub, self.reviews.begin_run)

    def run(self, stop: threading.Event | StopSignal) -> None:
        """Work until stopped; reconnect with backoff and jitter whenever the coordinator is away.

        Raises:
            Conflict: another daemon runs on the same state folder.
            NotFound: not enrolled, no alignment key, or the roster was never opened.
            IntegrityError: the ledger's chain is broken, or ledger, journal, vault and what the office has seen disagree; see
                `books`.
            DataRefused: the source cannot be used at start.
        """
        settings = self._desk.settings
        share_arena()
        with only_one(settings.state / "daemon.lock"):
            self._desk.ledger.balance(settings.roster)
            self._desk.ledger.verify()
            check_books(self._desk.books)
            enrolment = self._desk.enrolment
            self._desk.make_catalogue()
            self._joint.sweep(datetime.now(UTC))
            self._aligning.sweep(datetime.now(UTC))
            self._desk.streams.sweep()
            waits = Backoff(longest_seconds=settings.daemon.longest_wait_seconds)
            pause, away = waits.waits(), False
            log.info("%s is ready; it dials %s and %s", settings.name, enrolment.coordinator, enrolment.hub)
            lost: IntegrityError | None = None
            while lost is None and not stop.is_set():
                try:
                    credentials = self._desk.identity.credentials()
                    with (
                        Coordinator.dial(enrolment.coordinator, credentials) as coordinator,
                        closing(self._hub),
                        self._ears.open(coordinator, self._hub),
                    ):
                        self._table.forget()
                        lost = hear_witness(self._desk, coordinator)
                        while lost is None and not stop.is_set() and self._desk.identity.credentials() == credentials:
                            self.cycle(coordinator)
                            if away:
                                log.info("the coordinator answers again")
                            pause, away = waits.waits(), False
                            self._ears.wait(stop, computing=self._computing, unreached=self._unreached)
                except DpReleaseError as error:
                    seconds = next(pause)
                    level = logging.INFO if away and isinstance(error, PeerUnavailable) else logging.WARNING
                    log.log(level, "%s; next attempt in %.0f s", error.message, seconds)
                    away = True
                    stop.wait(seconds)
            if lost is not None:
                raise lost
            log.info("%s stops", settings.name)

    def cycle(self, coordinator: Coordinator) -> None:
        """One round: look after certificate and settings, report a changed table, take releases and alignment runs a step on."""
        self._renewal.look(coordinator)
        if self._settings.look():
            self._ears.follow(self._desk.settings.daemon)
            self._table.forget()
        self._table.look(coordinator)
        self._unreached = not self._aligning.cycle(coordinator)
        self._computing = self._aligning.computing
        standing = self._desk.journal.standing()
        listed = coordinator.releases.pending(standing if len(standing) <= _MOST_UNSETTLED else None)
        self._undecided.begin({pending.digest for pending in listed}, standing)
        for pending in listed:
            release = pending.digest
            if not pending.state:
                self._undecided.leave("a state that only a later version has")
            elif release in standing or pending.state not in _OVER:
                step, note = partial(self._step, coordinator, pending), partial(self._desk.journal.annotate, release)
                self._unreached |= not attempt(step, f"release {release[:12]}", note, self._hub)
        self._undecided.end()
        self._hub.away &= self._unreached
        if not self._computing:
            give_back()

    def _step(self, coordinator: Coordinator, pending: Pending) -> None:
        desk = self._desk
        record = desk.journal.get(pending.digest)
        if record is None and pending.state == "PROPOSED":
            record = self._undecided.take(pending)
        if record is None:
            return
        if record.status == Status.DECLINED:
            self._stay_out(coordinator, record, pending)
            return
        if pending.state in _OVER:
            self._end(coordinator, record, pending)
            return
        if record.status == Status.WAITING and not self._undecided.waits(record):
            record = self._consider(coordinator, record)
        if record.status == Status.ACCEPTED:
            self._approve(coordinator, record)
            return  # what we were told is from before our approval
        if record.status == Status.APPROVED:
            if pending.state == "PROPOSED" and record.approval not in pending.consents and record.approval is not None:
                coordinator.releases.approve(record.approval)
            elif pending.state in _GO:
                record = self._seal(coordinator, record, pending)
        if record.status in {Status.SEALED, Status.DELIVERED} and pending.state in _GO:
            self._delivery.deliver(record)
            self._joint.keep_up(record)

    def _stay_out(self, coordinator: Coordinator, record: Record, pending: Pending) -> None:
        """Say no until the coordinator has heard it, and keep nothing: a person may decline while we compute."""
        self._desk.release_hold(record.release)
        if pending.state not in _OVER:
            coordinator.releases.decline(record.release, record.note)

    def _consider(self, coordinator: Coordinator, record: Record) -> Record:
        """Decide by policy, or say what a person has to do."""
        try:
            assessment = self._desk.assess(record.spec)
        except (SpecRefused, PolicyRefused, BudgetExceeded) as error:
            log.warning("release %s is declined: %s", record.release[:12], error.message)
            return self._refuse(coordinator, record, error)
        if assessment.automatic:
            self._desk.journal.move(record.release, {Status.WAITING}, Status.ACCEPTED, "approved by policy")
        else:
            self.reviews.begin(record, assessment)
            self._undecided.looked(record)
        return self._desk.journal.find(record.release)

    def _refuse(self, coordinator: Coordinator, record: Record, error: DpReleaseError) -> Record:
        # Across the boundary goes the constant sentence; what exactly was wrong stays here.
        sentence = row_for(error).sentence
        coordinator.releases.decline(record.release, sentence)
        self._desk.give_up(record, Status.DECLINED, sentence)
        return self._desk.journal.find(record.release)

    def _approve(self, coordinator: Coordinator, record: Record) -> None:
        try:
            approval = self._desk.sign(record)
        except (BudgetExceeded, DataRefused, SpecRefused, PolicyRefused) as error:
            log.error("release %s is declined: %s", record.release[:12], error.message)
            self._refuse(coordinator, record, error)
            return
        coordinator.releases.approve(approval)
        log.info("release %s: approved", record.release[:12])

    def _seal(self, coordinator: Coordinator, record: Record, pending: Pending) -> Record:
        """All parties approved: check that, then compute, seal, charge and send round after round. No noise exists before this.

        The last round is sent by `Delivery.deliver`.
        """
        desk = self._desk
        approvals = pending.approvals()
        check_all(approvals, record.spec, desk.enrolment.root, desk.pins())
        while True:
            sealed = desk.vault.find(record.release)
            if sealed:
                self._charge(record, sealed)
            if len(sealed) == record.spec.rounds()[-1].stop:
                break
            if sealed:
                self._delivery.send_round(record, sealed)
            if left_before(desk, self._hub, coordinator, record, sealed):
                return desk.journal.find(record.release)
            try:
                blocks = self._blocks(coordinator, record, approvals, sealed)
            except (DataRefused, SpecRefused) as error:  # the latter where another checkpoint was sealed meanwhile
                log.error("release %s is withdrawn: %s", record.release[:12], error.message)
                return self._refuse(coordinator, record, error)
            if isinstance(blocks, str):
                self._computing = True
                if blocks != record.note:
                    log.info("release %s: %s", record.release[:12], blocks)
                    desk.journal.annotate(record.release, blocks)
                return record
            desk.vault.seal(blocks, desk.identity.key())
        desk.journal.move(record.release, {Status.APPROVED}, Status.SEALED, "sealed and charged")
        desk.frozen(record.release).erase()
        log.info("release %s: sealed and charged", record.release[:12])
        return desk.journal.find(record.release)

    def _charge(self, record: Record, sealed: tuple[SealedBlock, ...]) -> None:
        """Note the blocks of the latest round; the whole price is charged with those of the first."""
        roster, digests = self._desk.settings.roster, tuple(block.sha256 for block in sealed)
        start = next(each.start for each in record.spec.rounds() if each.stop == len(sealed))
        kept = self._desk.streams.noted(record.spec)
        self._desk.ledger.make(roster, record.release, digests[start:], digests[:start], kept=kept)
        self._desk.ledger.charge(roster, record.release)

    def _blocks(
        self,
        coordinator: Coordinator,
        record: Record,
        approvals: tuple[SignedApproval, ...],
        sealed: tuple[SealedBlock, ...],
    ) -> tuple[Block, ...] | str:
        """All our blocks of the next round; or, of a joint computation that is under way, for whom we wait."""
        desk = self._desk
        before = self._rounds.before(record, approvals, sealed)
        if isinstance(before, str):
            return before
        last = len(sealed) == record.spec.rounds()[-1].start
        if last and mechanism_of(record.spec).schedule(record.spec) is not None:
            return self._joint.blocks(coordinator, record, approvals, sealed, before)
        bounded = desk.approved(record)
        require(desk, record.release, "send" if sealed else "reserve", before=sealed)
        kept = desk.streams.keep(record, desk.settings.name, bounded, None)
        return privatize(bounded, record.spec, desk.settings.name, self._noise, None, before.values, kept)

    def _end(self, coordinator: Coordinator, record: Record, pending: Pending) -> None:
        if record.status == Status.ENDED:
            return
        show_approval(coordinator, record, pending.consents)  # what is over here is not shown again on this connection
        note = PUBLISHED if pending.state == "PUBLISHED" else f"{pending.state.lower()}: {pending.explanation}"
        self._desk.give_up(record, Status.ENDED, note)
        log.info("release %s is over: %s", record.release[:12], note)
