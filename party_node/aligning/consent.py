"""May we take part in an alignment run? From its task, our own catalogue, pins, settings and ledger alone.

No policy says yes: a person does, for a run tells every other hospital which of its own patients we have too.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import UTC, datetime

from dprelease.acceptance import accept
from dprelease.errors import Conflict, DataRefused, PolicyRefused, SpecRefused
from dprelease.intersection.task import Task
from dprelease.spec_base import moment
from party_node.decision.decision import unpinned
from party_node.hospital import HospitalState
from party_node.state.runs import RunEntry, RunStatus


@dataclass(frozen=True)
class Peer:
    """Another hospital of a run.

    Attributes:
        party: its name.
        patients: how many it announced.
        first: what a person here has to do before it is certain who it is; empty where its key is pinned.
    """

    party: str
    patients: int
    first: str


@dataclass(frozen=True)
class Consent:
    """The meaning of taking part.

    Attributes:
        task: of the run.
        patients: how many we announced.
        peers: the other hospitals.
        attempts: runs of the roster that were counted here before.
        most: that are allowed.
    """

    task: Task
    patients: int
    peers: tuple[Peer, ...]
    attempts: int
    most: int

    @property
    def blockers(self) -> tuple[str, ...]:
        """The tasks of a person here that come first."""
        return tuple(peer.first for peer in self.peers if peer.first)


def consider(desk: HospitalState, task: Task) -> Consent:
    """Check a run that was proposed.

    Raises:
        SpecRefused: it names other facts of ours than are so, or has expired.
        PolicyRefused: so many runs of the roster were taken part in that no more are allowed.
    """
    settings, own, run = desk.settings, desk.catalogue(), task.digest()
    member = task.member(settings.name)
    if member is None:
        raise SpecRefused(f"{settings.name} is not a party of this alignment run")
    facts: tuple[tuple[str, object, object], ...] = (
        ("consortium", task.consortium, desk.enrolment.consortium),
        ("roster", task.roster, settings.roster),
        ("key of ours", member.key, desk.identity.fingerprint()),
        ("number of our patients", member.patients, own.patients),
        ("normal form of identifiers", task.identifiers or "as they stand", own.identifiers or "as they stand"),
    )
    for what, said, known in facts:
        if said != known:
            raise SpecRefused(f"the alignment run says {what} = {said}, and here it is {known}")
    if moment(task.expires) <= datetime.now(UTC):
        raise SpecRefused("the alignment run has expired")
    before, most = _counted(desk, task.roster) - {run}, settings.policy.alignments
    if len(before) >= most:
        raise PolicyRefused(
            f"roster {task.roster} was aligned {len(before)} times, and alignments = {most} under [policy] allows no more"
        )
    pins = desk.identity.pins()
    peers = tuple(
        Peer(each.party, each.patients, unpinned(each.party, each.key, pins, "alignment run"))
        for each in task.members
        if each.party != settings.name
    )
    return Consent(task, member.patients, peers, len(before), most)


def say_yes(desk: HospitalState, entry: RunEntry) -> Consent:
    """A person's yes: the daemon signs next time it looks.

    Raises:
        Conflict: the run does not wait for a decision, or something must be done here first.
        SpecRefused, PolicyRefused: as `consider`.
    """
    consent = consider(desk, entry.task)
    if consent.blockers:
        raise Conflict("first: " + "; ".join(consent.blockers))
    desk.runs.move(entry.run, {RunStatus.WAITING}, RunStatus.ACCEPTED, "accepted here")
    return consent


def say_no(desk: HospitalState, entry: RunEntry, reason: str) -> None:
    """A person's no, before the run is over; what was counted of it stays counted.

    Raises:
        Conflict: the result is on disk, or the run is over.
    """
    before = {RunStatus.WAITING, RunStatus.ACCEPTED, RunStatus.SIGNED}
    desk.runs.move(entry.run, before, RunStatus.DECLINED, reason)
    desk.runs.tidy(entry.run)


def sign(desk: HospitalState, entry: RunEntry, read: Callable[[], Set[bytes]]) -> bytes:
    """Keep the patients that the table has now, which the run is about here, then sign; the same acceptance again if it exists.

    Args:
        desk: the party's state.
        entry: accepted by a person.
        read: gives the pseudonyms of all patients that the table has now.

    Raises:
        DataRefused: they are not as many as were announced, or the source cannot be read.
        SpecRefused, PolicyRefused, Conflict: as `say_yes`.
    """
    if entry.acceptance is not None:
        return entry.acceptance
    consent = consider(desk, entry.task)
    if consent.blockers:
        raise Conflict("first: " + "; ".join(consent.blockers))
    patients = read()
    if len(patients) != consent.patients:
        raise DataRefused(
            f"the table has {len(patients)} patients now, and {consent.patients} were announced for the alignment run"
        )
    desk.runs.session(entry.run).keep_patients(b"".join(sorted(patients)))
    signed = accept(
        entry.task, desk.settings.name, desk.identity.key(), desk.enrolment.certificate, datetime.now(UTC)
    ).to_bytes()
    desk.runs.sign(entry.run, signed)
    return signed


def _counted(desk: HospitalState, roster: str) -> set[str]:
    """Runs of a roster that the ledger has, and those that were computed here: a ledger from an older backup forgot some."""
    done = {each.run for each in desk.runs.entries() if each.task.roster == roster and each.common is not None}
    return done | set(desk.ledger.alignments(roster))
