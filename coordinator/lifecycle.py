"""The life of an agreement, without I/O: from where it stands, an event and the time to where it stands next.

::

    PROPOSED ──all approved──> APPROVED ──first block──> RUNNING ──the hub published──> PUBLISHED
        │                          (a release)           RUNNING ──all have the result─> DONE (an alignment run)
        ├─ a party declined ──> REJECTED     │              │
        ├─ not decided in time > EXPIRED     ├──────────────┴─ not done in time, withdrawn, revoked ──> FAILED
        └────────────── cancelled by the office, from any state until the hub may publish ──> CANCELLED

The states on the right are final. Every other one has a deadline and says for whom it waits, since when. Repeating an
event that has happened changes nothing, so every report to the coordinator may be retried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from dprelease.errors import Conflict, OutOfTurn
from dprelease.spec_base import instant


class Topic(StrEnum):
    """A release or an alignment run; the values are the words for them."""

    RELEASE = "release"
    RUN = "alignment run"


class Stage(StrEnum):
    """A step in the life of an agreement."""

    PROPOSED = "PROPOSED"
    APPROVED = "APPROVED"  # of releases only: nothing has arrived yet
    RUNNING = "RUNNING"
    PUBLISHED = "PUBLISHED"  # a release
    DONE = "DONE"  # an alignment run
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


OPEN = frozenset({Stage.PROPOSED, Stage.APPROVED, Stage.RUNNING})
"""States that are not final."""


STEPS = ("approved", "declined", "received", "finished")
"""Steps of a party: fields of `Standing` with the names of those who have made them."""


@dataclass(frozen=True)
class Standing:
    """State of one agreement.

    Attributes:
        kind: what it is about.
        parties: its parties, in the proposal's order.
        state: present state.
        since: when the present wait began, or when it ended.
        deadline: when the present wait ends in failure; None exactly in final states.
        run_time: how long the parties' work may take after the last approval.
        approved: parties whose signed approval is held.
        declined: parties that declined.
        received: parties that have sent the hub all that is theirs to send.
        finished: parties that have the result of an alignment run on their disks.
        publishing: when the hub was allowed to publish.
        manifest: SHA-256 of the published manifest.
        reason: why it ended without a result; empty otherwise. Every party of it may read it.
        joint: True for a release whose parties compute one result together (mechanism ``moments``, two parties or more).
    """

    kind: Topic
    parties: tuple[str, ...]
    state: Stage
    since: datetime
    deadline: datetime | None
    run_time: timedelta
    approved: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()
    received: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()
    publishing: datetime | None = None
    manifest: str | None = None
    reason: str = ""
    joint: bool = False

    @property
    def final(self) -> bool:
        """Tells whether nothing can change any more."""
        return self.state not in OPEN

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Whom it waits for: parties in the proposal's order, or the hub; nobody when final."""
        if self.final:
            return ()
        if self.state is Stage.PROPOSED:
            return self._without(self.approved)
        if self.kind is Topic.RUN:
            return self._without(self.finished)
        return ("the hub",) if self.publishing else self._without(self.received) or ("the hub",)

    def explain(self) -> str:
        """One sentence: whom it waits for, for what and since when, or how it ended."""
        if self.state is Stage.PUBLISHED:
            return f"published at {instant(self.since)}, manifest {self.manifest}"
        if self.state is Stage.DONE:
            return f"done at {instant(self.since)}; releases may name it"
        if self.deadline is None:
            return f"ended at {instant(self.since)}: {self.reason}"
        doing, what, end = "", "to send blocks", "fails"
        if self.state is Stage.PROPOSED:
            what, end = "to decide", "expires"
        elif self.kind is Topic.RUN:
            what = "to compute"
        elif self.waits_for == ("the hub",):
            what = "to publish"
        elif self.joint:
            doing, what = "is being computed jointly; ", "to send their numbers"
        since, until = instant(self.since), instant(self.deadline)
        return f"{doing}waits for {', '.join(self.waits_for)} {what} since {since}; {end} at {until}"

    def _without(self, done: frozenset[str]) -> tuple[str, ...]:
        return tuple(party for party in self.parties if party not in done)


def propose(
    parties: Iterable[str],
    now: datetime,
    expires: datetime,
    run_time: timedelta,
    *,
    kind: Topic = Topic.RELEASE,
    joint: bool = False,
) -> Standing:
    """The record of a fresh proposal."""
    return Standing(kind, tuple(parties), Stage.PROPOSED, now, expires, run_time, joint=joint)


PUBLICATION_TIME = timedelta(days=30)
"""How long the hub may take to report a publication that it was allowed: it may already be public, so give up late."""


@dataclass(frozen=True)
class Approved:
    """The party handed in its signed approval."""

    party: str


@dataclass(frozen=True)
class Declined:
    """The party will not take part. The reason is for the office; the other parties do not see it."""

    party: str
    reason: str = ""


@dataclass(frozen=True)
class IntakeReported:
    """The hub holds, and has verified, all that these parties send: blocks of a release, or messages of an alignment run."""

    parties: frozenset[str]


@dataclass(frozen=True)
class Finished:
    """The party has the result of an alignment run on its disk."""

    party: str


@dataclass(frozen=True)
class PublicationAuthorized:
    """The hub holds every block and may publish; from here on nobody can cancel."""


@dataclass(frozen=True)
class PublicationReported:
    """The release is visible to the public under this manifest's SHA-256."""

    manifest: str


@dataclass(frozen=True)
class Cancelled:
    """The office withdraws the proposal; every party sees the reason."""

    reason: str


@dataclass(frozen=True)
class PartyRevoked:
    """The office revoked a party's certificate."""

    party: str


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event = (
    Approved
    | Declined
    | IntakeReported
    | Finished
    | PublicationAuthorized
    | PublicationReported
    | Cancelled
    | PartyRevoked
    | Tick
)


def advance(record: Standing, event: Event, now: datetime) -> Standing:
    """The record after an event. Equal to `record` when the event is a repetition or concerns it no more.

    A deadline that has passed counts as passed whether or not a `Tick` came in between; only the report of a publication,
    which is a fact already, is still heard then.

    Raises:
        Conflict: the event does not fit the present state.
    """
    if _repeats(record, event):
        return record
    current = record if isinstance(event, PublicationReported) else _lapse(record, now)
    if isinstance(event, Tick) or (isinstance(event, PartyRevoked) and current.final):
        return current
    if current.final:
        raise OutOfTurn(f"the {current.kind} is {current.state}: {current.explain()}")
    _check_fits(current, event)
    return _apply(current, event, now)


def words(event: Event) -> str:
    """An event in words, for the history that the office reads."""
    match event:
        case Approved(party):
            return f"{party} approved"
        case Declined(party, reason):
            return f"{party} declined" + (f": {reason}" if reason else "")
        case IntakeReported(parties):
            return f"the hub holds all that {', '.join(sorted(parties))} sent"
        case Finished(party):
            return f"{party} has the result"
        case PublicationAuthorized():
            return "the hub may publish"
        case PublicationReported(manifest):
            return f"published, manifest {manifest}"
        case Cancelled(reason):
            return f"cancelled: {reason}"
        case PartyRevoked(party):
            return f"{party} was revoked"
        case Tick():
            return "the deadline passed"


def _repeats(record: Standing, event: Event) -> bool:
    match event:
        case Approved(party):
            return party in record.approved
        case Declined(party):
            return party in record.declined
        case IntakeReported(parties):
            return record.state is not Stage.PROPOSED and parties <= record.received
        case Finished(party):
            return party in record.finished
        case PublicationAuthorized():
            return record.state is Stage.PUBLISHED or (record.publishing is not None and not record.final)
        case PublicationReported(manifest):
            return record.manifest == manifest
        case Cancelled():
            return record.state is Stage.CANCELLED
        case PartyRevoked(party):
            return record.final or party not in record.parties
        case Tick():
            return record.final


def _check_fits(record: Standing, event: Event) -> None:
    """Refuse what does not happen to this kind, is about others, or comes before all parties approved."""
    named = event.parties if isinstance(event, IntakeReported) else {getattr(event, "party", record.parties[0])}
    strangers = named - {*record.parties}
    if strangers:
        raise Conflict(f"not a party of this {record.kind}: {', '.join(sorted(strangers))}")
    if isinstance(event, Finished if record.kind is Topic.RELEASE else PublicationAuthorized | PublicationReported):
        raise Conflict(f"that does not happen to an agreement of this kind: {record.kind}")
    early = IntakeReported | Finished | PublicationAuthorized
    if record.state is Stage.PROPOSED and isinstance(event, early):
        raise OutOfTurn(f"the {record.kind} still {record.explain()}")


def _apply(record: Standing, event: Event, now: datetime) -> Standing:
    match event:
        case Approved(party):
            return _approved(record, party, now)
        case Declined(party):
            return _declined(record, party, now)
        case IntakeReported(parties):
            return replace(record, state=Stage.RUNNING, received=record.received | parties)
        case Finished(party):
            return _finished(record, party, now)
        case PublicationAuthorized():
            complete = replace(record, state=Stage.RUNNING, received=frozenset(record.parties))
            return replace(complete, since=now, publishing=now, deadline=now + PUBLICATION_TIME)
        case PublicationReported(manifest):
            if record.publishing is None:
                raise Conflict("the hub was not allowed to publish this release")
            return replace(_end(record, Stage.PUBLISHED, "", now), manifest=manifest)
        case Cancelled(reason):
            if record.publishing is not None:
                raise Conflict("the hub was allowed to publish this release; it can no longer be cancelled")
            return _end(record, Stage.CANCELLED, f"cancelled: {reason}", now)
        case PartyRevoked(party):
            if record.publishing is not None:
                return record
            state = Stage.CANCELLED if record.state is Stage.PROPOSED else Stage.FAILED
            return _end(record, state, f"{party} was revoked", now)
        case Tick():
            return record


def _approved(record: Standing, party: str, now: datetime) -> Standing:
    approved = record.approved | {party}
    if len(approved) < len(record.parties):
        return replace(record, approved=approved)
    state = Stage.APPROVED if record.kind is Topic.RELEASE else Stage.RUNNING
    return replace(record, state=state, approved=approved, since=now, deadline=now + record.run_time)


def _declined(record: Standing, party: str, now: datetime) -> Standing:
    declined = replace(record, declined=record.declined | {party})
    if record.state is Stage.PROPOSED:
        return _end(declined, Stage.REJECTED, f"{party} declined", now)
    if record.kind is Topic.RELEASE and party in record.received:
        raise Conflict(f"the hub holds the block of {party}; it can no longer decline")
    return _end(declined, Stage.FAILED, f"{party} withdrew after approving", now)


def _finished(record: Standing, party: str, now: datetime) -> Standing:
    if party not in record.received:
        raise OutOfTurn(f"{party} cannot have the result: the hub has not carried all that it sends")
    finished = replace(record, finished=record.finished | {party})
    return finished if finished.waits_for else _end(finished, Stage.DONE, "", now)


def _lapse(record: Standing, now: datetime) -> Standing:
    if record.deadline is None or now < record.deadline:
        return record
    missing = ", ".join(record.waits_for)
    if record.state is Stage.PROPOSED:
        return _end(record, Stage.EXPIRED, f"no decision in time by {missing}", now)
    if record.publishing is not None:
        when = instant(record.publishing)
        reason = f"the hub was allowed to publish at {when} and did not report back; look there whether it did"
        return _end(record, Stage.FAILED, reason, now)
    if record.kind is Topic.RUN:
        return _end(record, Stage.FAILED, f"no result in time at {missing}", now)
    if set(record.parties) <= record.received:
        return _end(record, Stage.FAILED, "the hub held every block and did not ask to publish in time", now)
    return _end(record, Stage.FAILED, f"no block in time from {missing}", now)


def _end(record: Standing, state: Stage, reason: str, now: datetime) -> Standing:
    return replace(record, state=state, since=now, deadline=None, reason=reason)
