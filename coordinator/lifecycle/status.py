"""State of an agreement: its kind, whom it waits for, since when and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dprelease.spec_base import instant


class Kind(StrEnum):
    """A release or an alignment run; the values are the words for them."""

    RELEASE = "release"
    RUN = "alignment run"


class State(StrEnum):
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


OPEN = frozenset({State.PROPOSED, State.APPROVED, State.RUNNING})
"""States that are not final."""


@dataclass(frozen=True)
class Record:
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

    kind: Kind
    parties: tuple[str, ...]
    state: State
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
        if self.state is State.PROPOSED:
            return self._without(self.approved)
        if self.kind is Kind.RUN:
            return self._without(self.finished)
        return ("the hub",) if self.publishing else self._without(self.received) or ("the hub",)

    def explain(self) -> str:
        """One sentence: whom it waits for, for what and since when, or how it ended."""
        if self.state is State.PUBLISHED:
            return f"published at {instant(self.since)}, manifest {self.manifest}"
        if self.state is State.DONE:
            return f"done at {instant(self.since)}; releases may name it"
        if self.deadline is None:
            return f"ended at {instant(self.since)}: {self.reason}"
        doing, what, end = "", "to send blocks", "fails"
        if self.state is State.PROPOSED:
            what, end = "to decide", "expires"
        elif self.kind is Kind.RUN:
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
    kind: Kind = Kind.RELEASE,
    joint: bool = False,
) -> Record:
    """The record of a fresh proposal.

    Args:
        parties: parties of the proposal, in its order.
        now: when it was made.
        expires: until when every party must have approved.
        run_time: how long the parties' work may take after the last approval.
        kind: what it is about.
        joint: whether the parties of a release compute one result together.
    """
    return Record(kind, tuple(parties), State.PROPOSED, now, expires, run_time, joint=joint)
