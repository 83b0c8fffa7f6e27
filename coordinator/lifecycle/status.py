"""Where one release stands: its state, whom it waits for, since when and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dprelease.spec_base import instant


class State(StrEnum):
    """Where a release stands."""

    PROPOSED = "PROPOSED"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    PUBLISHED = "PUBLISHED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


OPEN = frozenset({State.PROPOSED, State.APPROVED, State.RUNNING})
"""States that are not final."""


@dataclass(frozen=True)
class Record:
    """Where one release stands.

    Attributes:
        parties: its parties, in the spec's order.
        state: present state.
        since: when the present wait began, or when the release ended.
        deadline: when the present wait ends in failure; None exactly in final states.
        run_time: how long blocks may take after the last approval.
        approved: parties whose signed approval is held.
        declined: parties that declined.
        received: parties all of whose blocks the hub holds.
        publishing: when the hub was allowed to publish.
        manifest: SHA-256 of the published manifest.
        reason: why it ended unpublished; empty otherwise. Every party of the release may read it.
        joint: whether its parties compute one result together (mechanism ``moments``, two parties or more).
    """

    parties: tuple[str, ...]
    state: State
    since: datetime
    deadline: datetime | None
    run_time: timedelta
    approved: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()
    received: frozenset[str] = frozenset()
    publishing: datetime | None = None
    manifest: str | None = None
    reason: str = ""
    joint: bool = False

    @property
    def final(self) -> bool:
        """Whether nothing can change any more."""
        return self.state not in OPEN

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Whom the release waits for: parties in the spec's order, or the hub; nobody when final."""
        if self.final:
            return ()
        if self.state is State.PROPOSED:
            return self._without(self.approved)
        return ("the hub",) if self.publishing else self._without(self.received) or ("the hub",)

    def explain(self) -> str:
        """One sentence: whom it waits for, for what and since when, or how it ended."""
        if self.state is State.PUBLISHED:
            return f"published at {instant(self.since)}, manifest {self.manifest}"
        if self.deadline is None:
            return f"ended at {instant(self.since)}: {self.reason}"
        doing, what, end = "", "to send blocks", "fails"
        if self.state is State.PROPOSED:
            what, end = "to decide", "expires"
        elif self.waits_for == ("the hub",):
            what = "to publish"
        elif self.joint:
            doing, what = "is being computed jointly; ", "to send their numbers"
        since, until = instant(self.since), instant(self.deadline)
        return f"{doing}waits for {', '.join(self.waits_for)} {what} since {since}; {end} at {until}"

    def _without(self, done: frozenset[str]) -> tuple[str, ...]:
        return tuple(party for party in self.parties if party not in done)


def propose(
    parties: Iterable[str], now: datetime, expires: datetime, run_time: timedelta, *, joint: bool = False
) -> Record:
    """The record of a fresh proposal.

    Args:
        parties: parties of the spec, in its order.
        now: when it was made.
        expires: until when every party must have approved.
        run_time: how long blocks may take after the last approval.
        joint: whether the parties compute one result together.
    """
    return Record(tuple(parties), State.PROPOSED, now, expires, run_time, joint=joint)
