"""Proposals that wait for a person: no more than somebody reads, each looked at again only where the answer may be another.

Whatever a coordinator offers, a round costs what few proposals cost, and those that go on are not held up.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from datetime import UTC, datetime

from dprelease.errors import IntegrityError, InvalidInput, SpecRefused
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import moment
from party_node.hospital import HospitalState
from party_node.outgoing.office import Pending, left_alone
from party_node.state.journal import MOST_UNDECIDED, UNDER_WAY, Proposed, Record, Status

log = logging.getLogger(__name__)


class Undecided:
    """The proposals of one kind that wait for a person."""

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
