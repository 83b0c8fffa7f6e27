"""2,000 open releases, which are more than one message holds: everybody is told of all of them, or of what comes first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import Connection, create_engine, delete, insert, select, update

from coordinator.lifecycle import Approved
from coordinator.store.tables import agreements, consents
from dprelease.canonical import sha256
from dprelease.data.columns import NumericColumn
from dprelease.wire.boundary import ACCEPTED_VERSIONS, PROTOCOL_VERSION, VERSION_KEY, translated
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import AgreementRecord, ReleaseState
from party_node.outgoing.calls import Coordinator
from tests.coordinator.world import SECONDS, Stub, World, report

OPEN = 2_000
MOST_BYTES = 4 << 20
COLUMNS = tuple(
    NumericColumn(name=f"measured_value_{at}", lower=0.0, upper=120.0, unit="mmol/l", fill=60.0) for at in range(19)
)


@contextmanager
def database(world: World) -> Iterator[Connection]:
    """A transaction of our own: to propose thousands of releases as one does takes minutes."""
    engine = create_engine(world.settings.database)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def offered(world: World, two: tuple[Stub, Stub]) -> list[str]:
    """Digests of 2,000 proposals, oldest first."""
    report(two[0], "north", columns=COLUMNS)
    world.propose(title="TITLE")
    with database(world) as db:
        (row,) = db.execute(select(agreements)).mappings()
        made = [row.proposal.replace(b"TITLE", f"Release {at}".encode()) for at in range(OPEN)]
        assert sum(map(len, made)) > MOST_BYTES
        digests = [sha256(data) for data in made]
        copies = [
            {**row, "digest": digest, "proposal": data, "created": row.created + timedelta(seconds=at)}
            for at, (digest, data) in enumerate(zip(digests, made, strict=True))
        ]
        members = [
            {"agreement": digest, "party": party, "position": at}
            for digest in digests
            for at, party in enumerate(("north", "south"))
        ]
        db.execute(delete(consents))
        db.execute(delete(agreements))
        db.execute(insert(agreements), copies)
        db.execute(insert(consents), members)
    return digests


def told(world: World, unsettled: tuple[str, ...] = ()) -> list[str]:
    """What a node of today is told, in order."""
    assert world.server is not None
    with Coordinator.dial(f"localhost:{world.server.port}", world.credentials("north")) as coordinator:
        return [pending.digest for pending in coordinator.releases.pending(unsettled)]


def told_before(world: World, version: int) -> list[AgreementRecord]:
    """What a node that knows no pages is told; no message may be larger than gRPC takes."""
    with translated("the coordinator"):
        answer = world.as_party("north").ListReleases(
            pb.ListAgreementsRequest(open_only=True), timeout=SECONDS, metadata=((VERSION_KEY, str(version)),)
        )
    assert answer.ByteSize() < MOST_BYTES
    return list(answer.agreements)


def end(world: World, digests: list[str]) -> None:
    """They are over."""
    ended = {"state": "CANCELLED", "since": world.clock(), "deadline": None, "reason": "wrong columns"}
    with database(world) as db:
        db.execute(update(agreements).where(agreements.c.digest.in_(digests)).values(ended))


def test_two_thousand_open_releases_hold_nobody_up(world: World, offered: list[str]) -> None:
    assert told(world) == offered
    with world.store().writing() as tx:
        for party in ("north", "south"):
            tx.releases.advance(offered[-1], Approved(party), world.clock(), b"an approval")
    end(world, offered[-2:-1])
    for version in ACCEPTED_VERSIONS:
        first, *others = told_before(world, version)
        assert (first.state, list(first.consents)) == (ReleaseState.RELEASE_STATE_APPROVED, [b"an approval"] * 2)
        assert OPEN / 4 < len(others) < OPEN / 2
        assert {each.state for each in others} == {ReleaseState.RELEASE_STATE_PROPOSED}
    assert told(world, (offered[-2], offered[0])) == [offered[-2], offered[-1], *offered[:-2]]
    seen = {offered[-2]}
    while page := {sha256(record.proposal) for record in told_before(world, PROTOCOL_VERSION)}:
        assert not page & seen  # what an older node has dealt with makes room for the others
        seen |= page
        end(world, sorted(page))
    assert seen == {*offered}
