"""The daemon: dial out, ask what is pending, take each agreement one step further, start again after any trouble.

Every step is safe to repeat: what was done is read from ledger, journal and vault, never remembered. A release or an alignment
run that is stuck never holds up another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Container
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dprelease.cli.console import StopSignal
from dprelease.errors import DpReleaseError, IntegrityError, InvalidInput, Irreparable, PeerUnavailable, SpecRefused
from dprelease.files.durable import disk_takes, remove_leftovers
from dprelease.identity.certificates import read_identity
from dprelease.privacy.noise import NoiseSource
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import moment
from dprelease.threads import give_back, share_arena
from dprelease.wire.boundary import row_for
from dprelease.wire.retry import Backoff
from party_node.computation.alignments import AlignmentWork
from party_node.computation.releases import ReleaseWork
from party_node.computation.work import Work
from party_node.hospital import HospitalState
from party_node.outgoing.hub import HubConnection, Notifications, try_step
from party_node.outgoing.joining import hear_witness
from party_node.outgoing.office import OVER, AgreementCalls, Coordinator, Pending, left_alone
from party_node.outgoing.reviews import Reviews
from party_node.state.books import check as check_books
from party_node.state.journal import FINAL, MOST_UNDECIDED, PUBLISHED, UNDER_WAY, Proposed, Record, Status
from party_node.state.transactions import only_one
from party_node.upkeep import ChangedSettings, Renewal, TableReport

log = logging.getLogger(__name__)


class Undecided:
    """The proposals of one kind that wait for a person: no more than somebody reads, each looked at again only on other grounds.

    Whatever a coordinator offers, a round costs what few proposals cost, and those that go on are not held up.
    """

    def __init__(self, hospital: HospitalState, kind: type[Proposed]) -> None:
        self._hospital = hospital
        self._kind = kind
        self._listed: Container[str] = frozenset()
        self._grounds: tuple[object, ...] = ()
        self._expiries: dict[str, datetime] = {}  # of those that were looked at on these grounds
        self._strangers: set[str] = set()  # beyond the most that wait, which continue no stream on these grounds
        self._full = False
        self._left = self._told = 0
        self._unread: list[str] = []

    def begin(self, listed: Container[str], standing: dict[str, str]) -> None:
        """Begin a round."""
        self._listed, self._full, self._left, self._unread = listed, False, 0, []
        under_way = {release for release, status in standing.items() if status in UNDER_WAY}
        grounds = (*self._hospital.grounds(), under_way)
        if grounds != self._grounds:
            self._grounds = grounds
            self._expiries.clear()
            self._strangers.clear()

    def take(self, pending: Pending) -> Record | None:
        """Note a new proposal; None where there is no room for it, or it cannot be read.

        One that the office no longer lists makes room for one that it does. A checkpoint of a stream that was approved here
        waits for nobody and needs no room.
        """
        journal = self._hospital.journal
        if not self._full:
            waiting = [release for release, status in journal.standing(self._kind).items() if status == Status.WAITING]
            gone = [release for release in waiting if release not in self._listed]
            for release in gone[: max(0, len(waiting) + 1 - MOST_UNDECIDED)]:
                journal.forget(release)
            self._full = len(waiting) - len(gone) >= MOST_UNDECIDED
        try:
            if self._full and not self._continues(pending):
                self._left += 1
                return None
            return journal.offer(self._kind.from_bytes(pending.data))
        except InvalidInput as error:
            self.leave(error.message)
            return None

    def _continues(self, pending: Pending) -> bool:
        """True for the next checkpoint of a stream that was approved here; raises `InvalidInput` if it cannot be read."""
        if pending.digest in self._strangers or self._kind is not ReleaseSpec:
            return False
        streams = self._hospital.streams
        try:
            # A spec spells out the stream that it continues: thousands of others are not parsed.
            if any(stream.encode() in pending.data for stream in streams.folder.kept()) and streams.earlier(
                ReleaseSpec.from_bytes(pending.data)
            ):
                return True
        except (SpecRefused, IntegrityError) as error:
            log.debug("release %s continues no stream: %s", pending.digest[:12], error.message)
        self._strangers.add(pending.digest)
        return False

    def leave(self, reason: str) -> None:
        """Count one of the list that cannot be read."""
        self._unread.append(reason)

    def waits(self, record: Record) -> bool:
        """True for a proposal that was looked at and waits for a person, where nothing has changed since."""
        return datetime.now(UTC) < self._expiries.get(record.digest, datetime.min.replace(tzinfo=UTC))

    def looked(self, record: Record) -> None:
        """Note that a proposal was looked at, and waits for a person."""
        self._expiries[record.digest] = moment(record.proposal.expires)

    def end(self) -> None:
        """Say at the end of a round what was left alone."""
        left_alone(log, self._kind.noun, self._unread)
        if self._left != self._told and self._left:
            log.warning(
                "%d proposals are left at the office: %d wait for a decision here; see: party-node review list",
                self._left,
                MOST_UNDECIDED,
            )
        self._told = self._left


_GO = {"APPROVED", "RUNNING"}
_MOST_UNSETTLED = 500  # a coordinator takes no more


class Daemon:
    """One hospital's daemon."""

    def __init__(self, hospital: HospitalState, noise: NoiseSource, config: Path | None = None) -> None:
        self._hospital = hospital
        self._hub = HubConnection.of(hospital)
        self._notifications = Notifications(hospital.settings.daemon, hospital.journal)
        works: tuple[Work, ...] = (AlignmentWork(hospital, self._hub), ReleaseWork(hospital, self._hub, noise))
        self._works = [(work, Undecided(hospital, work.kind)) for work in works]
        self._computing = self._unreached = False
        self._renewal = Renewal(hospital.identity)
        self._table = TableReport(hospital)
        self._settings = ChangedSettings(hospital, config)
        self.reviews = Reviews(hospital)

    def run(self, stop: threading.Event | StopSignal) -> None:
        """Work until stopped; reconnect with backoff and jitter whenever the coordinator is away.

        Raises:
            Conflict: another daemon runs on the same state folder.
            NotFound: not enrolled, no alignment key, or the roster was never opened.
            IntegrityError: the ledger's chain is broken, or ledger, journal, vault and what the office has seen disagree; see
                `books`.
            DataRefused: the source cannot be used at start.
        """
        settings, identity = self._hospital.settings, self._hospital.identity
        share_arena()
        with only_one(settings.state / "daemon.lock"):
            self._hospital.ledger.balance(settings.roster)
            self._hospital.ledger.verify()
            check_books(self._hospital.books)
            enrolment = self._hospital.enrolment
            self._hospital.make_catalogue()
            self.sweep(datetime.now(UTC))
            self._hospital.streams.sweep()
            waits = Backoff(longest_seconds=settings.daemon.longest_wait_seconds)
            pause, away = waits.waits(), False
            log.info("%s is ready; it dials %s and %s", settings.name, enrolment.coordinator, enrolment.hub)
            lost: IntegrityError | None = None
            while lost is None and not stop.is_set():
                try:
                    with (
                        disk_takes(f"{settings.state} cannot be used now"),
                        Coordinator.dial(enrolment.coordinator, credentials := identity.credentials()) as coordinator,
                        closing(self._hub),
                        self._notifications.open(coordinator, self._hub),
                    ):
                        self._table.forget()
                        lost = hear_witness(self._hospital, coordinator)
                        while lost is None and not stop.is_set() and identity.credentials() == credentials:
                            self.cycle(coordinator)
                            if away:
                                log.info("the coordinator answers again")
                            pause, away = waits.waits(), False
                            self._hub.quiet = self._notifications.wait(stop, unreached=self._unreached)
                except DpReleaseError as error:
                    seconds = next(pause)
                    level = logging.INFO if away and isinstance(error, PeerUnavailable) else logging.WARNING
                    log.log(level, "%s; next attempt in %.0f s", error.message, seconds)
                    away = True
                    stop.wait(seconds)
            if lost is not None:
                raise lost
            log.info("%s stops", settings.name)

    def sweep(self, now: datetime) -> None:
        """Erase what a kill left and what is kept of agreements that nobody tells us about any more; let go of those over here."""
        hospital = self._hospital
        # A clock that runs ahead would make what is under way look forgotten: beyond our certificate's end it is not believed.
        now = min(now, read_identity(hospital.enrolment.certificate).expires)
        for name in ("sealed", "streams", *(name for work, _ in self._works for name in work.folders)):
            remove_leftovers(hospital.settings.state / name)
        for work, _ in self._works:
            work.sweep(now)
        for release, stage in hospital.ledger.stages(hospital.settings.roster).items():
            record = hospital.journal.get(release) if stage in {"reserve", "charge"} else None
            if record is not None and record.status in FINAL:
                hospital.let_go(record)

    def cycle(self, coordinator: Coordinator) -> None:
        """One round: look after certificate and settings, report a changed table, take releases and alignment runs a step on."""
        self._renewal.refresh(coordinator)
        if self._settings.refresh():
            self._notifications.follow(self._hospital.settings.daemon)
            self._table.forget()
        self._table.refresh(coordinator)
        self._computing = self._unreached = False
        for work, undecided in self._works:
            self._round(coordinator, work, undecided)
        self._hub.away &= self._unreached
        if not self._computing:
            give_back()

    def _round(self, coordinator: Coordinator, work: Work, undecided: Undecided) -> None:
        """Take all agreements of one kind a step further; one that is stuck never holds up another."""
        journal = self._hospital.journal
        standing = journal.standing(work.kind)
        listed = coordinator.about[work.kind].pending(standing if len(standing) <= _MOST_UNSETTLED else None)
        undecided.begin({pending.digest for pending in listed}, standing)
        for pending in listed:
            digest = pending.digest
            if not pending.state:
                undecided.leave("a state that only a later version has")
            elif digest in standing or pending.state not in OVER:
                step, note = (
                    partial(self._step, coordinator, work, undecided, pending),
                    partial(journal.annotate, digest),
                )
                self._unreached |= not try_step(step, f"{work.kind.noun} {digest[:12]}", note, self._hub)
        undecided.end()

    def _step(self, coordinator: Coordinator, work: Work, undecided: Undecided, pending: Pending) -> None:
        hospital, calls = self._hospital, coordinator.about[work.kind]
        record = hospital.journal.get(pending.digest)
        if record is None and pending.state == "PROPOSED":
            record = undecided.take(pending)
        if record is None:
            return
        if record.status is Status.DECLINED:
            hospital.let_go(record)  # a person may decline while we compute
            if pending.state not in OVER:
                calls.decline(record.digest, record.note)
        elif pending.state in OVER:
            if record.status not in FINAL:
                work.end(coordinator, record, pending)
        elif record.status is Status.ENDED and record.note != PUBLISHED:
            if pending.state == "PROPOSED":  # our consent would let all others compute and pay for nothing
                calls.decline(record.digest, "it is over here")
        elif record.status in {Status.WAITING, Status.ACCEPTED}:
            try:
                self._decide(calls, undecided, record)
            except tuple(work.declines) as error:
                self._refuse(calls, record, error)
        elif pending.state == "PROPOSED":
            if record.consent is not None and record.consent not in pending.consents:
                calls.approve(record.consent)
        elif pending.state in _GO:
            try:
                waits = work.advance(coordinator, record, pending)
            except tuple(work.declines) as error:
                self._refuse(calls, record, error)
                return
            if waits is not None:
                self._computing = True
                if waits != record.note:
                    log.info("%s: %s", record.name, waits)
                    hospital.journal.annotate(record.digest, waits)

    def _decide(self, calls: AgreementCalls, undecided: Undecided, record: Record) -> None:
        """Decide by policy, or say what a person has to do; hand in our consent once it is decided."""
        hospital = self._hospital
        if record.status is Status.WAITING:
            if undecided.waits(record):
                return
            review = hospital.review(record.proposal)
            if not review.automatic:
                self.reviews.begin(record, review)
                undecided.looked(record)
                return
            hospital.journal.move(record.digest, {Status.WAITING}, Status.ACCEPTED, "approved by policy")
            record = hospital.journal.find(record.digest)
        calls.approve(hospital.sign(record))
        log.info("%s: approved", record.name)

    def _refuse(self, calls: AgreementCalls, record: Record, error: DpReleaseError) -> None:
        # Across the boundary goes the constant sentence; what exactly was wrong stays here.
        log.error("%s is declined: %s", record.name, error.message)
        sentence = row_for(error).sentence
        if isinstance(error, Irreparable) and error.signer:
            sentence += f" {error.signer} sent them."
        self._hospital.give_up(record, Status.DECLINED, sentence)
        calls.decline(record.digest, sentence)
