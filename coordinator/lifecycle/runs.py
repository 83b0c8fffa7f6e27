"""The life of an alignment run, without I/O: a record, an event and the time in, the next record out.

::

    PROPOSED ──all accepted──> RUNNING ──all hold the result──> DONE
        ├─ a party declined ──> DECLINED  │
        ├─ not accepted in time > EXPIRED ├─ not done in time, withdrawn, revoked ──> FAILED
        └──── cancelled by the office ────┴──> CANCELLED

The states on the right are final. Repeating an event that has happened changes nothing, so every call may be retried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from coordinator.lifecycle import lifecycle
from coordinator.lifecycle.lifecycle import Cancelled, Declined, PartyRevoked, Tick
from dprelease.errors import Conflict, OutOfTurn
from dprelease.spec_base import instant


class RunState(StrEnum):
    """Where a run stands."""

    PROPOSED = "PROPOSED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DECLINED = "DECLINED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


OPEN_RUNS = frozenset({RunState.PROPOSED, RunState.RUNNING})
"""States that are not final."""


@dataclass(frozen=True)
class RunRecord:
    """Where one run stands.

    Attributes:
        parties: its parties, in the task's order.
        state: present state.
        since: when the present wait began, or when the run ended.
        deadline: when the present wait ends in failure; None exactly in final states.
        run_time: how long hospitals may compute after the last acceptance.
        accepted: parties whose signed acceptance is held.
        declined: parties that declined.
        finished: parties that have the result on their disks.
    carried: when the hub first asked for the run, as it does before it carries a message; None before.
        reason: why it ended without a result; empty otherwise. Every party of the run may read it.
    """

    parties: tuple[str, ...]
    state: RunState
    since: datetime
    deadline: datetime | None
    run_time: timedelta
    accepted: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()
    carried: datetime | None = None
    reason: str = ""

    @property
    def final(self) -> bool:
        """Whether nothing can change any more."""
        return self.state not in OPEN_RUNS

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Parties that the run waits for, in the task's order; nobody when final."""
        done = self.accepted if self.state is RunState.PROPOSED else self.finished
        return () if self.final else tuple(party for party in self.parties if party not in done)

    def explain(self) -> str:
        """One sentence: whom it waits for, for what and since when, or how it ended."""
        if self.state is RunState.DONE:
            return f"done at {instant(self.since)}; releases may name it"
        if self.deadline is None:
            return f"ended at {instant(self.since)}: {self.reason}"
        what, end = ("to accept", "expires") if self.state is RunState.PROPOSED else ("to compute", "fails")
        since, until = instant(self.since), instant(self.deadline)
        return f"waits for {', '.join(self.waits_for)} {what} since {since}; {end} at {until}"


@dataclass(frozen=True)
class Accepted:
    """The party handed in its signed acceptance."""

    party: str


@dataclass(frozen=True)
class Carried:
    """The hub carries the hospitals' messages."""


@dataclass(frozen=True)
class Finished:
    """The party has the result on its disk."""

    party: str


Event = Accepted | Carried | Declined | Finished | Cancelled | PartyRevoked | Tick


def advance(record: RunRecord, event: Event, now: datetime) -> RunRecord:
    """The record after an event. Equal to `record` when the event is a repetition or concerns it no more.

    Raises:
        Conflict: the event does not fit the present state.
    """
    if _repeats(record, event):
        return record
    current = _lapse(record, now)
    if isinstance(event, Tick) or (isinstance(event, PartyRevoked) and current.final):
        return current
    if current.final:
        raise OutOfTurn(f"the run is {current.state}: {current.explain()}")
    party = getattr(event, "party", None)
    if party is not None and party not in current.parties:
        raise Conflict(f"{party} is not a party of this run")
    match event:
        case Accepted(party):
            accepted = current.accepted | {party}
            if len(accepted) < len(current.parties):
                return replace(current, accepted=accepted)
            running = replace(current, state=RunState.RUNNING, accepted=accepted)
            return replace(running, since=now, deadline=now + current.run_time)
        case Carried():
            return current if current.state is RunState.PROPOSED else replace(current, carried=now)
        case Declined(party):
            said = replace(current, declined=current.declined | {party})
            if current.state is RunState.PROPOSED:
                return _end(said, RunState.DECLINED, f"{party} declined", now)
            return _end(said, RunState.FAILED, f"{party} cannot go on", now)
        case Finished(party):
            if current.state is RunState.PROPOSED:
                raise OutOfTurn(f"the run still {current.explain()}")
            if current.carried is None:
                raise OutOfTurn(f"{party} cannot have the result: the hub has carried no message of the run")
            finished = replace(current, finished=current.finished | {party})
            return finished if finished.waits_for else _end(finished, RunState.DONE, "", now)
        case Cancelled(reason):
            return _end(current, RunState.CANCELLED, f"cancelled: {reason}", now)
        case PartyRevoked(party):
            state = RunState.CANCELLED if current.state is RunState.PROPOSED else RunState.FAILED
            return _end(current, state, f"{party} was revoked", now)


def words(event: Event) -> str:
    """What happened, for the history that the office reads."""
    match event:
        case Accepted(party):
            return f"{party} accepted"
        case Carried():
            return "the hub carries its messages"
        case Finished(party):
            return f"{party} has the result"
        case _:
            return lifecycle.words(event)


def _repeats(record: RunRecord, event: Event) -> bool:
    match event:
        case Accepted(party):
            return party in record.accepted
        case Carried():
            return record.carried is not None or record.final
        case Declined(party):
            return party in record.declined
        case Finished(party):
            return party in record.finished
        case Cancelled():
            return record.state is RunState.CANCELLED
        case PartyRevoked(party):
            return record.final or party not in record.parties
        case Tick():
            return record.final


def _lapse(record: RunRecord, now: datetime) -> RunRecord:
    if record.deadline is None or now < record.deadline:
        return record
    missing = ", ".join(record.waits_for)
    if record.state is RunState.PROPOSED:
        return _end(record, RunState.EXPIRED, f"not accepted in time by {missing}", now)
    return _end(record, RunState.FAILED, f"no result in time at {missing}", now)


def _end(record: RunRecord, state: RunState, reason: str, now: datetime) -> RunRecord:
    return replace(record, state=state, since=now, deadline=None, reason=reason)
