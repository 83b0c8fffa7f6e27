"""Alignment runs from the consent of all on: the session with the other hospitals, safe to repeat and to kill anywhere.

A run ends here with the patients that all hospitals have on disk. They are in force, and the table is read by them, once the
office says that every hospital has them; so no two hospitals are left with different versions by a run that failed half-way.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from dprelease.agreement import check_all
from dprelease.arrays import pieces
from dprelease.catalogue import COMPARE_KEYS
from dprelease.errors import Conflict, DataRefused, Irreparable
from dprelease.identity.certificates import read_identity
from dprelease.intersection.ring import Ring
from dprelease.intersection.task import Task
from dprelease.mpc.messages import Message
from dprelease.spec_base import moment
from dprelease.wire.boundary import LOCAL
from party_node.computation.work import Work, put_back, take_turns
from party_node.outgoing.office import Coordinator, Pending
from party_node.outgoing.relay import RelayCalls
from party_node.state.journal import Journal, Record, Status

if TYPE_CHECKING:
    from dprelease.intersection.session import AlignmentSession, Common

log = logging.getLogger(__name__)

NOBODY = f"no patient is common to all hospitals: {COMPARE_KEYS}"
"""How a run ends here that found nobody."""


@dataclass(frozen=True)
class _WhileApproved:
    """A session as long as its run is approved: a person may decline while it is computed, and the session is erased then.

    To the session itself an erased folder is a lost one, which it would begin anew.
    """

    session: AlignmentSession
    journal: Journal
    run: str

    def receive(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """As the session; raises `Conflict` once the run is declined."""
        record = self.journal.get(self.run)
        if record is None or record.status is not Status.APPROVED:
            raise Conflict("it was declined here while it was computed; nothing more of it leaves")
        return self.session.receive(listed)

    def advance(self) -> str | Common | None:
        """As the session."""
        return self.session.advance()


class AlignmentWork(Work):
    """All alignment runs of one party. If a hospital signed against the rules, the run ends and the office is told its name."""

    kind = Task
    folders = ("aligning",)
    declines = LOCAL | {Irreparable}

    def advance(self, coordinator: Coordinator, record: Record, pending: Pending) -> str | None:
        """All parties accepted: check that, then compute. No byte of the run leaves before this."""
        relay, journal = self._relay(record), self._hospital.journal
        if record.status is Status.APPROVED:
            done = self._take_turns(record, pending, relay)
            if isinstance(done, str):
                return done
            journal.finish(record.digest, *done)
            log.info("%s: done here", record.name)
        else:
            put_back(record, self._hospital.session(record), relay)
        coordinator.finish(record.digest)
        return None

    def end(self, coordinator: Coordinator, record: Record, pending: Pending) -> None:
        """Put a run in force that all hospitals finished; give up any other."""
        hospital, finished = self._hospital, pending.state == "DONE" and record.status is Status.FINISHED
        if finished and record.common and not self._outdated(record):
            hospital.session(record).erase()
            hospital.journal.enforce(record.digest)
            log.info("%s is in force: the table is read by it from now on", record.name)
            return
        note = f"{pending.state.lower()}: {pending.explanation}"
        if finished:
            note = "a later run is in force" if record.common else NOBODY
        hospital.give_up(record, Status.ENDED, note)
        log.log(logging.WARNING if note == NOBODY else logging.INFO, "%s is over: %s", record.name, note)

    def sweep(self, now: datetime) -> None:
        """As of all work; the patients of a run that is no version go too."""
        super().sweep(now)
        for path in sorted((self._hospital.settings.state / "rosters").glob("*")):
            if self._is_over(path.name, now):
                self._hospital.journal.drop_roster(path.name)

    def _take_turns(self, record: Record, pending: Pending, relay: RelayCalls) -> str | tuple[Iterator[bytes], bytes]:
        """Pseudonyms of the patients that all hospitals have, and the secret of the run; or for whom we wait."""
        from dprelease.intersection.session import AlignmentSession, RunEnvironment  # loads what only hospitals have

        hospital, task, folder = self._hospital, record.task, self._hospital.session(record)
        acceptances = pending.acceptances()
        check_all(acceptances, task, hospital.enrolment.root, hospital.pins())
        patients = folder.patients()
        if patients is None:
            raise DataRefused("what was kept of our patients for this alignment run is gone")
        self._note(record)
        elements = np.frombuffer(patients, np.uint8).reshape(-1, 32)
        session = AlignmentSession(
            Ring.of(task),
            hospital.settings.name,
            hospital.identity.key(),
            {each.acceptance.party: read_identity(each.certificate).key for each in acceptances},
            folder,
            RunEnvironment(relay.fetch, lambda: self._note(record), lambda: elements),
        )
        done = take_turns(_WhileApproved(session, hospital.journal, record.digest), folder, relay)
        if isinstance(done, str):
            return done
        return (elements[some].tobytes() for some in pieces(done.positions)), done.secret

    def _note(self, record: Record) -> None:
        """Before the first byte leaves."""
        settings = self._hospital.settings
        peers = [each.party for each in record.task.members if each.party != settings.name]
        detail: dict[str, str | float] = {"title": f"{record.name} with {', '.join(peers)}"}
        self._hospital.ledger.align(record.task.roster, record.digest, settings.policy.alignments, detail)

    def _outdated(self, record: Record) -> bool:
        """Tells whether a run that was proposed later is in force: who tells of ends in another order takes no version back."""
        present = self._hospital.journal.in_force(record.task.roster)
        return present is not None and moment(present.task.created) > moment(record.task.created)
