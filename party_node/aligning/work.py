"""Alignment runs at the daemon: each one step further, safe to repeat and to kill anywhere.

A run ends here with the patients that all hospitals have on disk. They are in force, and the table is read by them, once the
office says that every hospital has them; so no two hospitals are left with different versions by a run that failed half-way.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dprelease.agreement import check_all
from dprelease.catalogue import COMPARE_KEYS
from dprelease.errors import (
    Conflict,
    DataRefused,
    DpReleaseError,
    InvalidInput,
    Irreparable,
    PolicyRefused,
    SpecRefused,
    VersionMismatch,
)
from dprelease.identity.certificates import read_identity
from dprelease.intersection.ring import Ring
from dprelease.mpc.messages import Message
from dprelease.spec_base import moment
from dprelease.wire.boundary import row_for
from party_node.aligning.consent import consider, sign
from party_node.computation.sessions import FORGOTTEN
from party_node.computation.turns import take_turns
from party_node.hospital import HospitalState
from party_node.outgoing.agreements import Pending, left_alone
from party_node.outgoing.calls import Coordinator
from party_node.outgoing.line import HubLine, attempt
from party_node.outgoing.relay import Relay
from party_node.state.runs import OVER, RunEntry, Runs, RunStatus

if TYPE_CHECKING:
    from dprelease.intersection.session import Common, Session

log = logging.getLogger(__name__)

NOBODY = f"no patient is common to all hospitals: {COMPARE_KEYS}"
"""How a run ends here that found nobody."""

_ENDED = frozenset({"DONE", "DECLINED", "FAILED", "CANCELLED", "EXPIRED"})


@dataclass(frozen=True)
class _WhileAccepted:
    """A session as long as its run is accepted: a person may decline while it is computed, and the session is erased then.

    To the session itself an erased folder is a lost one, which it would begin anew.
    """

    session: Session
    runs: Runs
    run: str

    def receive(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """As the session; raises `Conflict` once the run is declined."""
        entry = self.runs.get(self.run)
        if entry is None or entry.status is not RunStatus.SIGNED:
            raise Conflict("it was declined here while it was computed; nothing more of it leaves")
        return self.session.receive(listed)

    def advance(self) -> str | Common | None:
        """As the session."""
        return self.session.advance()


class AlignmentWork:
    """All alignment runs of one party.

    Args:
        desk: the party's state.
        hub: the connection to its relay.
        tell: told of every run that waits for a person, again and again.

    Attributes:
        computing: whether peers compute with us, as of the last cycle.
    """

    def __init__(self, desk: HospitalState, hub: HubLine, tell: Callable[[str], object] = lambda run: None) -> None:
        self._desk = desk
        self._hub = hub
        self._tell = tell
        self._older = False
        self.computing = False

    def cycle(self, coordinator: Coordinator) -> bool:
        """Take every run one step further; one that is stuck never holds up another, or a release.

        Returns:
            True if everybody who had to be asked was there.
        """
        self.computing, reached = False, True
        unread: list[str] = []
        for pending in self._pending(coordinator):
            run = pending.digest
            try:
                entry = self._entry(pending)
            except InvalidInput as error:
                unread.append(error.message)
                continue
            if entry is not None:
                step, note = partial(self._step, coordinator, entry, pending), partial(self._desk.runs.annotate, run)
                reached &= attempt(step, f"alignment run {run[:12]}", note, self._hub)
        left_alone(log, "alignment run", unread)
        return reached

    def sweep(self, now: datetime) -> None:
        """Erase sessions of runs that are over here, or that nobody can have told us the end of any more."""
        for run in self._desk.runs.sessions():
            entry = self._desk.runs.get(run)
            if entry is None or entry.status in OVER or moment(entry.task.expires) + FORGOTTEN < now:
                log.warning("alignment run %s: its session is removed", run[:12])
                self._desk.runs.tidy(run)

    def _pending(self, coordinator: Coordinator) -> list[Pending]:
        try:
            return coordinator.runs.pending()
        except VersionMismatch:
            if not self._older:
                log.info("the coordinator knows no alignment runs")
            self._older = True
            return []

    def _entry(self, pending: Pending) -> RunEntry | None:
        """Our record of a run; None for one that was over, or under way, before it was offered to us.

        Raises:
            InvalidInput: it cannot be read.
        """
        if not pending.state:
            raise InvalidInput("a state that only a later version has")
        known = self._desk.runs.get(pending.digest)
        return self._desk.runs.offer(pending.task()) if known is None and pending.state == "PROPOSED" else known

    def _step(self, coordinator: Coordinator, entry: RunEntry, pending: Pending) -> None:
        runs, run = self._desk.runs, entry.run
        if entry.status is RunStatus.DECLINED:
            runs.tidy(run)  # a person may have declined while a step wrote to its session
            if pending.state not in _ENDED:
                coordinator.runs.decline(run, entry.note)
            return
        if pending.state in _ENDED:
            self._end(entry, pending)
        elif entry.status is RunStatus.WAITING:
            self._wait(coordinator, entry)
        elif entry.status is RunStatus.ACCEPTED:
            self._accept(coordinator, entry)
        elif pending.state == "PROPOSED":
            if entry.acceptance is not None and entry.acceptance not in pending.consents:
                coordinator.runs.approve(entry.acceptance)
        elif pending.state == "RUNNING":
            self._compute(coordinator, entry, pending)

    def _wait(self, coordinator: Coordinator, entry: RunEntry) -> None:
        try:
            consent = consider(self._desk, entry.task)
        except (SpecRefused, PolicyRefused) as error:
            self._refuse(coordinator, entry, error)
            return
        note = "; ".join(consent.blockers) or "waits for a person"
        if note != entry.note:
            log.info("alignment run %s waits for a person: party-node review show %s", entry.run[:12], entry.run[:12])
            self._desk.runs.annotate(entry.run, note)
        self._tell(entry.run)

    def _accept(self, coordinator: Coordinator, entry: RunEntry) -> None:
        from party_node.source.table import read_subjects  # Arrow is slow to load

        desk = self._desk
        try:
            signed = sign(desk, entry, lambda: read_subjects(desk.settings, desk.identity.alignment_key()))
        except (SpecRefused, PolicyRefused, DataRefused) as error:
            self._refuse(coordinator, entry, error)
            return
        coordinator.runs.approve(signed)
        log.info("alignment run %s: accepted", entry.run[:12])

    def _refuse(self, coordinator: Coordinator, entry: RunEntry, error: DpReleaseError) -> None:
        # Across the boundary goes the constant sentence; what exactly was wrong stays here.
        log.error("alignment run %s is declined: %s", entry.run[:12], error.message)
        sentence = row_for(error).sentence
        if isinstance(error, Irreparable) and error.signer:
            sentence += f" {error.signer} sent them."
        before = {RunStatus.WAITING, RunStatus.ACCEPTED, RunStatus.SIGNED}
        self._desk.runs.move(entry.run, before, RunStatus.DECLINED, sentence)
        self._desk.runs.tidy(entry.run)
        coordinator.runs.decline(entry.run, sentence)

    def _compute(self, coordinator: Coordinator, entry: RunEntry, pending: Pending) -> None:
        """All parties accepted: check that, then compute. No byte of the run leaves before this."""
        desk, relay = self._desk, self._relay(entry)
        folder = desk.runs.session(entry.run)
        if entry.status is RunStatus.SIGNED:
            try:
                done = self._take_turns(entry, pending, relay)
            except (PolicyRefused, DataRefused, Irreparable) as error:
                self._refuse(coordinator, entry, error)
                return
            if isinstance(done, str):
                self.computing = True
                if done != entry.note:
                    log.info("alignment run %s: %s", entry.run[:12], done)
                    desk.runs.annotate(entry.run, done)
                return
            desk.runs.finish(entry.run, *done)
            log.info("alignment run %s: done here", entry.run[:12])
        else:
            relay.put(folder.outgoing(), relay.messages())  # for peers that are not as far, what the relay has lost
        coordinator.finish(entry.run)

    def _take_turns(self, entry: RunEntry, pending: Pending, relay: Relay) -> str | tuple[bytes, bytes]:
        """Pseudonyms of the patients that all hospitals have, and the secret of the run; or for whom we wait."""
        from dprelease.intersection.session import Outside, Session  # loads what only hospitals have

        desk, folder = self._desk, self._desk.runs.session(entry.run)
        acceptances = pending.acceptances()
        check_all(acceptances, entry.task, desk.enrolment.root, desk.pins())
        patients = folder.patients()
        if patients is None:
            raise DataRefused("what was kept of our patients for this alignment run is gone")
        self._note(entry)
        elements = np.frombuffer(patients, np.uint8).reshape(-1, 32)
        session = Session(
            Ring.of(entry.task),
            desk.settings.name,
            desk.identity.key(),
            {each.acceptance.party: read_identity(each.certificate).key for each in acceptances},
            folder,
            Outside(relay.fetch, lambda: self._note(entry), lambda: elements),
        )
        done = take_turns(_WhileAccepted(session, desk.runs, entry.run), folder, relay)
        return done if isinstance(done, str) else (elements[done.positions].tobytes(), done.secret)

    def _note(self, entry: RunEntry) -> None:
        """Before the first byte leaves."""
        peers = [each.party for each in entry.task.members if each.party != self._desk.settings.name]
        detail: dict[str, str | float] = {"title": f"alignment run {entry.run[:12]} with {', '.join(peers)}"}
        self._desk.ledger.align(entry.task.roster, entry.run, self._desk.settings.policy.alignments, detail)

    def _end(self, entry: RunEntry, pending: Pending) -> None:
        runs = self._desk.runs
        if entry.status in OVER:
            pass  # and what follows was perhaps cut short
        elif (
            pending.state == "DONE"
            and entry.status is RunStatus.FINISHED
            and entry.common
            and not self._outdated(entry)
        ):
            runs.enforce(entry.run)
            log.info("alignment run %s is in force: the table is read by it from now on", entry.run[:12])
        else:
            note = f"{pending.state.lower()}: {pending.explanation}"
            if pending.state == "DONE" and entry.status is RunStatus.FINISHED:
                note = "a later run is in force" if entry.common else NOBODY
            runs.move(entry.run, set(RunStatus) - OVER, RunStatus.ENDED, note)
            log.log(
                logging.WARNING if note == NOBODY else logging.INFO,
                "alignment run %s is over: %s",
                entry.run[:12],
                note,
            )
        runs.tidy(entry.run)

    def _outdated(self, entry: RunEntry) -> bool:
        """Tells whether a run that was proposed later is in force: who tells of ends in another order takes no version back."""
        present = self._desk.runs.in_force(entry.task.roster)
        return present is not None and moment(present.task.created) > moment(entry.task.created)

    def _relay(self, entry: RunEntry) -> Relay:
        return Relay(self._hub.channel(), entry.run, self._desk.settings.daemon.stall_seconds)
