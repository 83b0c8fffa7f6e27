"""Agreements, where they stand, what happened to them and what was dealt for them. Works inside a transaction of the store.

Every change of an agreement goes through `lifecycle.advance`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select, true

from coordinator.lifecycle import OPEN, STEPS, Event, Stage, Standing, Topic, advance, words
from coordinator.store.database import Part, afterwards, digest_prefix
from coordinator.store.tables import agreements, consents, deals, history, parties
from dprelease.agreement import SignedAcceptance, SignedConsent
from dprelease.errors import AccessDenied, Conflict, InvalidInput, NotFound
from dprelease.intersection.task import Task
from dprelease.release.approval import SignedApproval
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant, moment

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Happening:
    """One line of the history: when and what."""

    at: datetime
    what: str


class History(Part):
    """The history, in one transaction."""

    def note(
        self, what: str, now: datetime, *, about: str = "", agreement: str | None = None, party: str | None = None
    ) -> None:
        """Add a line about an agreement, whose kind is told, or about a party's membership; the log has it once it is kept."""
        line = f"{about} {agreement[:12]}: {what}" if agreement else what
        afterwards(self._connection, partial(log.info, "%s", line))
        self._connection.execute(history.insert().values(at=now, release=agreement, party=party, what=what))

    def of_agreement(self, digest: str) -> tuple[Happening, ...]:
        """Events of a release or an alignment run, oldest first."""
        return self._lines(history.c.release == digest)

    def of_party(self, name: str) -> tuple[Happening, ...]:
        """A party's invites, enrolments and revocations, oldest first."""
        return self._lines(history.c.party == name)

    def latest(self) -> int:
        """Number of the latest line; 0 before the first."""
        return self._connection.scalar(select(func.max(history.c.number))) or 0

    def concerned(self, after: int) -> set[tuple[str | None, str | None]]:
        """Release or run, and party, of every line after the one with this number."""
        chosen = select(history.c.release, history.c.party).where(history.c.number > after).distinct()
        return {(row.release, row.party) for row in self._connection.execute(chosen)}

    def _lines(self, condition: ColumnElement[bool]) -> tuple[Happening, ...]:
        chosen = select(history.c.at, history.c.what).where(condition).order_by(history.c.number)
        return tuple(Happening(row.at, row.what) for row in self._connection.execute(chosen))


class Deals(Part):
    """Sealed deals, in one transaction. A session is dealt once, for all its parties together, or never."""

    def find(self, session: str, party: str) -> bytes | None:
        """A party's sealed deal of a session; None while the session has none."""
        chosen = select(deals.c.sealed).where(deals.c.session == session, deals.c.party == party)
        return self._connection.scalar(chosen)

    def latest(self, release: str) -> int:
        """Latest round of a release that was dealt for; 0 before the first."""
        chosen = select(func.max(deals.c.round)).where(deals.c.release == release)
        return self._connection.scalar(chosen) or 0

    def check_turn(self, release: str, number: int) -> None:
        """Refuse to deal for a round that was dealt, or that lies before one.

        Raises:
            Conflict: it was.
        """
        dealt = self.latest(release)
        if number <= dealt:
            raise Conflict(f"another session of release {release[:12]} was dealt for in round {dealt} already")

    def add(self, release: str, number: int, session: str, sealed: Mapping[str, bytes]) -> None:
        """Keep the deals of a session.

        Raises:
            Conflict: this round, or a later one, was dealt.
        """
        self.check_turn(release, number)
        same = {"session": session, "release": release, "round": number}
        self._connection.execute(
            deals.insert(), [{**same, "party": party, "sealed": data} for party, data in sealed.items()]
        )

    def forget(self, release: str) -> None:
        """Delete what was dealt for a release."""
        self._connection.execute(deals.delete().where(deals.c.release == release))


@dataclass(frozen=True)
class Agreement:
    """A proposal as the coordinator keeps it, of a release or of an alignment run.

    Attributes:
        digest: SHA-256 of the proposal; its identity.
        title: of a release; the roster of an alignment run.
        proposal: canonical bytes of the spec or the task.
        created: when it was proposed.
        record: where it stands.
        consents: canonical bytes of the signed consents so far, in the proposal's order.
    """

    digest: str
    title: str
    proposal: bytes
    created: datetime
    record: Standing
    consents: tuple[bytes, ...]

    def read(self) -> ReleaseSpec | Task:
        """The proposal."""
        return self.read_spec() if self.record.kind is Topic.RELEASE else self.read_task()

    def read_consents(self) -> tuple[SignedConsent, ...]:
        """The signed consents."""
        signed = SignedApproval if self.record.kind is Topic.RELEASE else SignedAcceptance
        return tuple(signed.from_bytes(data).consent for data in self.consents)

    def read_spec(self) -> ReleaseSpec:
        """The spec of a release."""
        return ReleaseSpec.from_bytes(self.proposal)

    def read_task(self) -> Task:
        """The task of an alignment run."""
        return Task.from_bytes(self.proposal)


class AgreementTable(Part):
    """Agreements, in one transaction.

    Args:
        connection: of the transaction.
        kind: those of one kind; all if left out.
    """

    def __init__(self, connection: Connection, kind: Topic | None = None) -> None:
        super().__init__(connection)
        self._history = History(connection)
        self._noun = kind or "agreement"
        self._mine = true() if kind is None else agreements.c.kind == kind.value

    def add(self, proposal: ReleaseSpec | Task, record: Standing, now: datetime) -> Agreement:
        """Keep a fresh proposal.

        Raises:
            Conflict: the very same one was made before. Only a mixing seed tells specs of one second apart.
        """
        digest = proposal.digest()
        if self.state(digest) is not None:
            raise Conflict(
                f"{record.kind} {digest[:12]} is exactly this one; to propose it again, do so a second later"
            )
        self._insert(proposal, record, now)
        self._history.note("proposed", now, about=record.kind, agreement=digest)
        return self.get(digest)

    def get(self, digest: str) -> Agreement:
        """The one with this digest.

        Raises:
            NotFound: there is none.
        """
        found = self._load(agreements.c.digest == digest)
        if not found:
            raise NotFound(f"no {self._noun} {digest[:12]} is known here")
        return found[0]

    def get_of(self, party: str, digest: str) -> Agreement:
        """As `get`, for a party of it.

        Raises:
            AccessDenied: the caller is none.
        """
        found = self.get(digest)
        if party not in found.record.parties:
            raise AccessDenied(f"{party} is not a party of {found.record.kind} {digest[:12]}")
        return found

    def find(self, prefix: str) -> Agreement:
        """The one whose digest begins so.

        Args:
            prefix: at least 4 hexadecimal digits.

        Raises:
            InvalidInput: not hexadecimal, too short, or several begin so.
            NotFound: none does.
        """
        start = digest_prefix(prefix)
        found = self._load(agreements.c.digest.startswith(start, autoescape=True))
        if not found:
            raise NotFound(f"no {self._noun} begins with {start}; see: coordinator release list")
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} {self._noun}s begin with {start}; give more digits")
        return found[0]

    def all(self) -> tuple[Agreement, ...]:
        """Every one, oldest first."""
        return self._load(true())

    def open(self) -> tuple[Agreement, ...]:
        """Agreements that are not over, oldest first."""
        return self._load(agreements.c.state.in_(OPEN))

    def of_party(
        self, party: str, ended_after: datetime, among: Collection[str] | None = None, after: str = ""
    ) -> Iterator[tuple[str, Agreement]]:
        """A party's agreements that are open or ended after a time, each with its place in the list.

        First come those that ended and are wanted by their names, then those under way, proposals, and others that ended; oldest
        first in each. So whoever sees the beginning only can take it off the list, and then sees the rest.

        Args:
            party: its name.
            ended_after: the time.
            among: those that ended and are wanted; all if None.
            after: the place in the list to go on from; any text will do.
        """
        ended = agreements.c.since > ended_after
        wanted = ended if among is None else ended & agreements.c.digest.in_(among)
        chosen = self._mine & or_(agreements.c.state.in_(OPEN), wanted) & agreements.c.digest.in_(_digests_of(party))
        rows = self._connection.execute(
            select(agreements.c.digest, agreements.c.state, agreements.c.created).where(chosen)
        )
        last = 3 if among is None else 0
        places = sorted(f"{_ORDER.get(row.state, last)} {instant(row.created)} {row.digest}" for row in rows)
        further = [place for place in places if place > after]
        for start in range(0, len(further), _AT_ONCE):
            digests = {place.split()[-1]: place for place in further[start : start + _AT_ONCE]}
            loaded = {each.digest: each for each in self._load(agreements.c.digest.in_(digests))}
            yield from ((place, loaded[digest]) for digest, place in digests.items())

    def state(self, digest: str) -> Stage | None:
        """State of one; None if it is not known."""
        state = self._connection.scalar(select(agreements.c.state).where(agreements.c.digest == digest))
        return None if state is None else Stage(state)

    def parties(self, digest: str) -> tuple[str, ...]:
        """Parties of one, in the proposal's order; none if it is not known."""
        chosen = select(consents.c.party).where(consents.c.agreement == digest)
        return tuple(self._connection.scalars(chosen.order_by(consents.c.position)))

    def ended_for(self, reason: str) -> int:
        """How many ended for a reason."""
        chosen = self._mine & (agreements.c.reason == reason)
        return self._connection.scalar(select(func.count()).select_from(agreements).where(chosen)) or 0

    def may_have_spent(self, party: str) -> bool:
        """True once a party can have made a block: everybody approved a release of its."""
        return self._connection.scalar(self._complete(party).limit(1)) is not None

    def approved_by_all(self, party: str) -> tuple[Agreement, ...]:
        """A party's releases for which it can have made a block, whatever became of them, oldest first."""
        return self._load(agreements.c.digest.in_(self._complete(party)))

    def advance(self, digest: str, event: Event, now: datetime, consent: bytes | None = None) -> Agreement:
        """Let an event happen to one, with the signed consent that it brings. A final state is final in the database itself.

        Args:
            digest: which one.
            event: what happened.
            now: when.
            consent: canonical bytes of the signed consent, with `Approved`.

        Raises:
            NotFound: it is not known.
            Conflict: the event does not fit its state; nothing changes.
        """
        old = self.get(digest).record
        new = advance(old, event, now)
        if new == old:
            return self.get(digest)
        unchanged = (agreements.c.digest == digest, agreements.c.state == old.state, agreements.c.state.in_(OPEN))
        if self._connection.execute(agreements.update().where(*unchanged).values(_columns(new))).rowcount != 1:
            raise Conflict(f"{old.kind} {digest[:12]} changed in the meantime")
        for step in STEPS:
            signed = {"consent": consent} if step == "approved" else {}
            self._mark(digest, getattr(new, step) - getattr(old, step), {step: now, **signed})
        if new.final:
            Deals(self._connection).forget(digest)
        self._history.note(words(event), now, about=old.kind, agreement=digest)
        return self.get(digest)

    def take_back(
        self, spec: ReleaseSpec, record: Standing, approvals: Mapping[str, bytes], now: datetime
    ) -> Agreement:
        """Put down a release that was forgotten in a restore as it is known to have ended, over whatever stands here.

        Args:
            spec: its spec.
            record: where it stands; final.
            approvals: party to canonical bytes of its signed approval, of those that are known now.
            now: when.

        Raises:
            Conflict: a party of it is not enrolled here.
        """
        digest = spec.digest()
        enrolled = set(self._connection.scalars(select(parties.c.name)))
        unknown = [name for name in record.parties if name not in enrolled]
        if unknown:
            raise Conflict(f"release {digest[:12]}: {', '.join(unknown)} must enrol again first: coordinator invite")
        if self.state(digest) is None:
            self._insert(spec, record, moment(spec.created))
        self._connection.execute(agreements.update().where(agreements.c.digest == digest).values(_columns(record)))
        for party, approval in approvals.items():
            self._mark(digest, frozenset({party}), {"approved": now, "consent": approval})
        self._mark(digest, record.received, {"received": now})
        Deals(self._connection).forget(digest)
        words = f"taken back, it was forgotten in a restore: {record.explain()}"
        self._history.note(words, now, about=Topic.RELEASE, agreement=digest)
        return self.get(digest)

    def keep_approval(self, digest: str, party: str, approval: bytes, now: datetime) -> None:
        """Keep an approval of a release that is over: it says what a ledger was charged, and moves nothing."""
        self._mark(digest, frozenset({party}), {"approved": now, "consent": approval})
        words = f"{party} showed its approval, which was forgotten in a restore"
        self._history.note(words, now, about=Topic.RELEASE, agreement=digest)

    def _complete(self, party: str) -> Any:
        """Digests of a party's own that everybody approved."""
        mine = select(agreements.c.digest).where(self._mine, agreements.c.digest.in_(_digests_of(party)))
        return (
            select(consents.c.agreement)
            .where(consents.c.agreement.in_(mine))
            .group_by(consents.c.agreement)
            .having(func.count(consents.c.approved) == func.count())
        )

    def _insert(self, proposal: ReleaseSpec | Task, record: Standing, created: datetime) -> None:
        digest = proposal.digest()
        title = proposal.title if isinstance(proposal, ReleaseSpec) else proposal.roster
        identity = {"digest": digest, "title": title, "proposal": proposal.to_bytes(), "created": created}
        self._connection.execute(agreements.insert().values({**identity, **_columns(record)}))
        self._connection.execute(
            consents.insert(),
            [{"agreement": digest, "party": party, "position": place} for place, party in enumerate(record.parties)],
        )

    def _mark(self, digest: str, names: frozenset[str], values: dict[str, Any]) -> None:
        if names:
            chosen = (consents.c.agreement == digest, consents.c.party.in_(names))
            self._connection.execute(consents.update().where(*chosen).values(values))

    def _load(self, condition: ColumnElement[bool]) -> tuple[Agreement, ...]:
        found = self._connection.execute(select(agreements).where(self._mine, condition).order_by(*_OLDEST_FIRST)).all()
        chosen = select(consents).where(consents.c.agreement.in_([row.digest for row in found]))
        rows = self._connection.execute(chosen.order_by(consents.c.agreement, consents.c.position)).all()
        members = {digest: tuple(group) for digest, group in groupby(rows, key=lambda row: row.agreement)}
        return tuple(_agreement(row, members[row.digest]) for row in found)


_ORDER = {Stage.RUNNING: 1, Stage.APPROVED: 1, Stage.PROPOSED: 2}
_AT_ONCE = 50
"""Releases that are loaded together; they and their approvals have some hundred kilobytes."""

_OLDEST_FIRST = (agreements.c.created, agreements.c.digest)


def _digests_of(party: str) -> Any:
    return select(consents.c.agreement).where(consents.c.party == party)


_SAME = ("since", "deadline", "joint", "publishing", "manifest", "reason")
"""Fields of `Standing` that are columns as they are."""


def _columns(record: Standing) -> dict[str, Any]:
    named = {"kind": record.kind.value, "state": record.state.value}
    same = {name: getattr(record, name) for name in _SAME}
    return {**named, **same, "run_seconds": int(record.run_time.total_seconds())}


def _agreement(row: Row[Any], members: tuple[Row[Any], ...]) -> Agreement:
    steps: dict[str, Any] = {
        step: frozenset(member.party for member in members if getattr(member, step)) for step in STEPS
    }
    record = Standing(
        kind=Topic(row.kind),
        parties=tuple(member.party for member in members),
        state=Stage(row.state),
        run_time=timedelta(seconds=row.run_seconds),
        **steps,
        **{name: getattr(row, name) for name in _SAME},
    )
    signed = tuple(member.consent for member in members if member.consent is not None)
    return Agreement(row.digest, row.title, row.proposal, row.created, record, signed)
