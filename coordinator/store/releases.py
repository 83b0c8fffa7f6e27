"""Releases and where they stand. Works inside a transaction of the store; every change goes through `lifecycle.advance`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select, true

from coordinator.lifecycle.lifecycle import Event, advance, words
from coordinator.lifecycle.status import OPEN, Record, State
from coordinator.store.database import digest_prefix
from coordinator.store.dealt import Deals
from coordinator.store.history import History
from coordinator.store.tables import participants, parties, releases
from dprelease.errors import Conflict, InvalidInput, NotFound
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant, moment


@dataclass(frozen=True)
class Release:
    """A release as the coordinator keeps it.

    Attributes:
        digest: SHA-256 of the spec; the release's identity.
        title: of the spec.
        spec: its canonical bytes.
        created: when it was proposed.
        record: where it stands.
        approvals: canonical bytes of the signed approvals so far, in the spec's order.
    """

    digest: str
    title: str
    spec: bytes
    created: datetime
    record: Record
    approvals: tuple[bytes, ...]

    def read_spec(self) -> ReleaseSpec:
        """The spec as a value."""
        return ReleaseSpec.from_bytes(self.spec)


class Releases:
    """Releases, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._history = History(connection)

    def add(self, spec: ReleaseSpec, record: Record, now: datetime) -> Release:
        """Keep a fresh proposal.

        Raises:
            Conflict: the very same spec was proposed before. Only a mixing seed tells specs of one second apart.
        """
        digest = spec.digest()
        if self._load(releases.c.digest == digest):
            raise Conflict(f"release {digest[:12]} is exactly this one; to propose it again, do so a second later")
        self._insert(spec, record, now)
        self._history.note("proposed", now, release=digest)
        return self.get(digest)

    def get(self, digest: str) -> Release:
        """The release with this digest.

        Raises:
            NotFound: there is none.
        """
        found = self._load(releases.c.digest == digest)
        if not found:
            raise NotFound(f"no release {digest[:12]} is known here")
        return found[0]

    def find(self, prefix: str) -> Release:
        """The one release whose digest begins so.

        Args:
            prefix: at least 4 hexadecimal digits.

        Raises:
            InvalidInput: not hexadecimal, too short, or several releases begin so.
            NotFound: none does.
        """
        start = digest_prefix(prefix, "a release")
        found = self._load(releases.c.digest.startswith(start, autoescape=True))
        if not found:
            raise NotFound(f"no release begins with {start}; see: coordinator release list")
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} releases begin with {start}; give more digits")
        return found[0]

    def all(self) -> tuple[Release, ...]:
        """Every release, oldest first."""
        return self._load(true())

    def open(self) -> tuple[Release, ...]:
        """Releases that are not over, oldest first."""
        return self._load(releases.c.state.in_(OPEN))

    def of_party(
        self, party: str, ended_after: datetime, among: Collection[str] | None = None, after: str = ""
    ) -> Iterator[tuple[str, Release]]:
        """Releases in which a party takes part that are open or ended after a time, each with its place in the list.

        First come those that ended and are wanted by their names, then those under way, proposals, and others that ended; oldest
        first in each. So whoever sees the beginning only can take it off the list, and then sees the rest.

        Args:
            party: its name.
            ended_after: the time.
            among: those that ended and are wanted; all if None.
            after: the place in the list to go on from; any text will do.
        """
        ended = releases.c.since > ended_after
        wanted = ended if among is None else ended & releases.c.digest.in_(among)
        chosen = or_(releases.c.state.in_(OPEN), wanted) & releases.c.digest.in_(_digests_of(party))
        rows = self._connection.execute(select(releases.c.digest, releases.c.state, releases.c.created).where(chosen))
        last = 3 if among is None else 0
        places = sorted(f"{_ORDER.get(row.state, last)} {instant(row.created)} {row.digest}" for row in rows)
        further = [place for place in places if place > after]
        for start in range(0, len(further), _AT_ONCE):
            digests = {place.split()[-1]: place for place in further[start : start + _AT_ONCE]}
            loaded = {release.digest: release for release in self._load(releases.c.digest.in_(digests))}
            yield from ((place, loaded[digest]) for digest, place in digests.items())

    def parties(self, digest: str) -> tuple[str, ...]:
        """Parties of a release, in the spec's order; none if there is no such release."""
        chosen = select(participants.c.party).where(participants.c.release == digest)
        return tuple(self._connection.execute(chosen.order_by(participants.c.position)).scalars())

    def may_have_spent(self, party: str) -> bool:
        """Whether a party can have made a block: some release of its was approved by everybody."""
        return self._connection.execute(_complete(party).limit(1)).first() is not None

    def approved_by_all(self, party: str) -> tuple[Release, ...]:
        """A party's releases for which it can have made a block, whatever became of them, oldest first."""
        return self._load(releases.c.digest.in_(_complete(party)))

    def advance(self, digest: str, event: Event, now: datetime, approval: bytes | None = None) -> Release:
        """Let an event happen to a release, with the signed approval that it brings. A final state is final in the database itself.

        Args:
            digest: which release.
            event: what happened.
            now: when.
            approval: canonical bytes of the signed approval, with `Approved`.

        Raises:
            NotFound: there is no such release.
            Conflict: the event does not fit its state; nothing changes.
        """
        old = self.get(digest).record
        new = advance(old, event, now)
        if new == old:
            return self.get(digest)
        unchanged = (releases.c.digest == digest, releases.c.state == old.state, releases.c.state.in_(OPEN))
        if self._connection.execute(releases.update().where(*unchanged).values(_columns(new))).rowcount != 1:
            raise Conflict(f"release {digest[:12]} changed in the meantime")
        self._mark(digest, new.approved - old.approved, {"approved": now, "approval": approval})
        self._mark(digest, new.declined - old.declined, {"declined": now})
        self._mark(digest, new.received - old.received, {"received": now})
        if new.final:
            Deals(self._connection).forget(digest)
        self._history.note(words(event), now, release=digest)
        return self.get(digest)

    def take_back(self, spec: ReleaseSpec, record: Record, approvals: Mapping[str, bytes], now: datetime) -> Release:
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
        enrolled = set(self._connection.execute(select(parties.c.name)).scalars())
        unknown = [name for name in record.parties if name not in enrolled]
        if unknown:
            raise Conflict(f"release {digest[:12]}: {', '.join(unknown)} must enrol again first: coordinator invite")
        if not self._load(releases.c.digest == digest):
            self._insert(spec, record, moment(spec.created))
        self._connection.execute(releases.update().where(releases.c.digest == digest).values(_columns(record)))
        for party, approval in approvals.items():
            self._mark(digest, frozenset({party}), {"approved": now, "approval": approval})
        self._mark(digest, record.received, {"received": now})
        Deals(self._connection).forget(digest)
        self._history.note(f"taken back, it was forgotten in a restore: {record.explain()}", now, release=digest)
        return self.get(digest)

    def keep_approval(self, digest: str, party: str, approval: bytes, now: datetime) -> None:
        """Keep an approval of a release that is over: it says what a ledger was charged, and moves nothing."""
        self._mark(digest, frozenset({party}), {"approved": now, "approval": approval})
        self._history.note(f"{party} showed its approval, which was forgotten in a restore", now, release=digest)

    def _insert(self, spec: ReleaseSpec, record: Record, created: datetime) -> None:
        digest = spec.digest()
        identity = {"digest": digest, "title": spec.title, "spec": spec.to_bytes(), "created": created}
        self._connection.execute(releases.insert().values({**identity, **_columns(record)}))
        self._connection.execute(
            participants.insert(),
            [{"release": digest, "party": party, "position": place} for place, party in enumerate(record.parties)],
        )

    def _mark(self, digest: str, names: frozenset[str], values: dict[str, Any]) -> None:
        if names:
            chosen = (participants.c.release == digest, participants.c.party.in_(names))
            self._connection.execute(participants.update().where(*chosen).values(values))

    def _load(self, condition: ColumnElement[bool]) -> tuple[Release, ...]:
        found = self._connection.execute(select(releases).where(condition).order_by(*_OLDEST_FIRST)).all()
        chosen = select(participants).where(participants.c.release.in_([row.digest for row in found]))
        rows = self._connection.execute(chosen.order_by(participants.c.release, participants.c.position)).all()
        members = {digest: tuple(group) for digest, group in groupby(rows, key=lambda row: row.release)}
        return tuple(_release(row, members[row.digest]) for row in found)


_ORDER = {State.RUNNING: 1, State.APPROVED: 1, State.PROPOSED: 2}
_AT_ONCE = 50
"""Releases that are loaded together; they and their approvals have some hundred kilobytes."""

_OLDEST_FIRST = (releases.c.created, releases.c.digest)


def _digests_of(party: str) -> Any:
    return select(participants.c.release).where(participants.c.party == party)


def _complete(party: str) -> Any:
    return (
        select(participants.c.release)
        .where(participants.c.release.in_(_digests_of(party)))
        .group_by(participants.c.release)
        .having(func.count(participants.c.approved) == func.count())
    )


def _columns(record: Record) -> dict[str, Any]:
    return {
        "state": record.state.value,
        "since": record.since,
        "deadline": record.deadline,
        "joint": record.joint,
        "run_seconds": int(record.run_time.total_seconds()),
        "publishing": record.publishing,
        "manifest": record.manifest,
        "reason": record.reason,
    }


def _release(row: Row[Any], members: Iterable[Row[Any]]) -> Release:
    parties = tuple(members)
    record = Record(
        parties=tuple(member.party for member in parties),
        state=State(row.state),
        since=row.since,
        deadline=row.deadline,
        run_time=timedelta(seconds=row.run_seconds),
        approved=frozenset(member.party for member in parties if member.approved),
        declined=frozenset(member.party for member in parties if member.declined),
        received=frozenset(member.party for member in parties if member.received),
        publishing=row.publishing,
        manifest=row.manifest,
        reason=row.reason,
        joint=row.joint,
    )
    approvals = tuple(member.approval for member in parties if member.approval is not None)
    return Release(row.digest, row.title, row.spec, row.created, record, approvals)
