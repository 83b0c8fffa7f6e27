"""The running server: health, reflection, restarts, overdue releases, and what it refuses to start with.

What one caller may ask of the coordinator: how often, how often to enrol, and how long.

2,000 open releases, which are more than one message holds: everybody is told of all of them, or of what comes first.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from sqlalchemy import Connection, create_engine, delete, insert, select, text, update

from coordinator.lifecycle import Approved
from coordinator.service import server
from coordinator.service.server import Server
from coordinator.settings import CallLimits
from coordinator.store.database import Database
from coordinator.store.tables import agreements, consents
from dprelease.canonical import sha256
from dprelease.catalogue import Catalogue
from dprelease.data.columns import NumericColumn
from dprelease.errors import InvalidInput, TooManyRequests, Unauthenticated
from dprelease.identity.certificates import signing_request
from dprelease.identity.signing import new_private_key
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import ACCEPTED_VERSIONS, PROTOCOL_VERSION, VERSION_KEY, translated
from dprelease.wire.limits import Limiter
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import AgreementRecord, ReleaseState
from party_node.identity import Enrolment, KeyFolder
from party_node.outgoing import joining
from party_node.outgoing.office import Coordinator
from tests.coordinator.office import catalogue
from tests.coordinator.world import SECONDS, Stub, World, ask, listed, report, until


def test_health_says_whether_the_store_answers(world: World) -> None:
    stubs = [
        health_pb2_grpc.HealthStub(world.channel(world.hub)),
        health_pb2_grpc.HealthStub(world.channel(Credentials(world.root), enrolment_port=True)),
    ]
    for stub in stubs:
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with closing(Database(world.settings.database)) as database, database.writing() as connection:
        connection.execute(text("DROP TABLE meta"))
    for stub in stubs:
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


def services_offered(world: World) -> list[str]:
    return list(ProtoReflectionDescriptorDatabase(world.channel(world.hub)).get_services())


def test_reflection_is_off_unless_asked_for(world: World) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        services_offered(world)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    world.stop()
    world.settings = world.settings.model_copy(update={"reflection": True})
    world.start()
    assert "dprelease.wire.v1.CoordinationService" in services_offered(world)


def test_a_restart_continues_where_it_was(world: World, two: tuple[Stub, Stub]) -> None:
    digest = world.propose()
    late = world.propose(expires_hours=1)
    ask(two[0].Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "north")))
    world.stop()
    world.clock.now += timedelta(hours=1)
    world.start()
    south = world.as_party("south")
    assert dict(listed(south)) == {
        digest: ReleaseState.RELEASE_STATE_PROPOSED,
        late: ReleaseState.RELEASE_STATE_EXPIRED,
    }
    ask(south.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "south")))
    assert dict(listed(south))[digest] == ReleaseState.RELEASE_STATE_APPROVED


def test_the_clockwork_ends_what_is_overdue_while_serving(world: World) -> None:
    world.join("north")
    report(world.as_party("north"), "north")
    digest = world.propose(parties={"north": "*"}, epsilon=0.5, expires_hours=1)
    world.stop()
    world.settings = world.settings.model_copy(update={"tick_seconds": 0.02})
    world.start()
    assert listed(world.as_party("north")) == [(digest, ReleaseState.RELEASE_STATE_PROPOSED)]
    world.clock.now += timedelta(hours=1)
    north = world.as_party("north")
    until(lambda: listed(north) == [(digest, ReleaseState.RELEASE_STATE_EXPIRED)])


def test_a_server_refuses_another_consortiums_settings_and_a_taken_port(world: World) -> None:
    assert world.server is not None
    with pytest.raises(InvalidInput, match="belongs to Trio"):
        Server(world.settings.model_copy(update={"consortium": "Quartet"}))
    taken = world.settings.model_copy(update={"listen": f"127.0.0.1:{world.server.port}"})
    with pytest.raises(InvalidInput, match="cannot listen"):
        Server(taken)
    with pytest.raises(InvalidInput, match="cannot read"):
        Server(world.settings.model_copy(update={"certificate": Path("/nowhere/coordinator.pem")}))


def limit(world: World, **limits: float) -> None:
    world.stop()
    world.settings = world.settings.model_copy(update={"limits": CallLimits.model_validate(limits)})
    world.start()


def test_a_party_that_calls_too_often_is_told_and_another_is_not(world: World) -> None:
    limit(world, calls_per_second=0.001)  # a burst of one, then none for a while
    north, south = world.join("north"), world.join("south")
    assert listed(north) == []
    with pytest.raises(TooManyRequests):
        listed(north)
    with pytest.raises(TooManyRequests):
        listed(world.as_party("north"))  # on another connection
    assert listed(south) == []


def test_secrets_are_not_guessed_at_leisure(world: World) -> None:
    limit(world, enrolments_per_minute=3)
    request = signing_request("north", new_private_key())
    invite = world.invite("north")
    for secret in ("one", "two", "three"):
        with pytest.raises(Unauthenticated):
            world.enrol(secret, request)
    with pytest.raises(TooManyRequests):  # whether the secret is right is not looked at
        world.enrol(invite.secret, request)


@dataclass
class Waited:
    """A clock that goes on only while somebody waits by it."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    clock = Waited()
    monkeypatch.setattr(server, "Limiter", partial(Limiter, clock=lambda: clock.now))
    monkeypatch.setattr(joining, "sleep", clock.sleep)
    return clock


def trade(world: World, name: str, folder: Path) -> Enrolment:
    """A hospital enrols, as `party-node enrol` does."""
    assert world.server is not None
    invite = world.invite(name).model_copy(update={"address": f"localhost:{world.server.enrolment_port}"})
    return joining.trade(invite, KeyFolder(folder / name), name)


def test_whoever_enrols_from_a_busy_address_waits_for_its_turn(world: World, waited: Waited, tmp_path: Path) -> None:
    limit(world, enrolments_per_minute=2)
    for name in ("one", "two", "three"):
        enrolled = trade(world, name, tmp_path)
        assert enrolled.party == name
    assert 30 < waited.now < 60  # a third attempt is due after half a minute


@pytest.mark.usefixtures("waited")
def test_an_address_that_stays_busy_is_told(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(world, enrolments_per_minute=1)
    with pytest.raises(Unauthenticated):
        world.enrol("a wrong secret", signing_request("north", new_private_key()))
    monkeypatch.setattr(joining, "sleep", lambda seconds: None)  # others are always first
    with pytest.raises(TooManyRequests):
        trade(world, "north", tmp_path)


@pytest.mark.parametrize("room", [0, -1])
def test_a_catalogue_has_a_longest_size(world: World, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(Catalogue, "most_bytes", len(catalogue("north").to_bytes()) + room)
    north = world.join("north")
    if room < 0:
        with pytest.raises(InvalidInput):
            report(north, "north")
    else:
        report(north, "north")
    with world.store().reading() as tx:
        assert set(tx.members.catalogues()) == (set() if room < 0 else {"north"})


def test_a_spec_that_nobody_would_read_is_not_offered(
    world: World, two: tuple[Stub, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReleaseSpec, "most_bytes", 1000)
    with pytest.raises(InvalidInput, match=r"at most 1,000 are read; release fewer columns or levels$"):
        world.propose()
    with world.store().reading() as tx:
        assert list(tx.releases.open()) == []


def test_of_a_reason_only_so_much_is_kept(world: World, two: tuple[Stub, Stub]) -> None:
    limit(world, longest_reason=40)
    digest = world.propose()
    ask(
        world.as_party("north").Decline,
        pb.DeclineRequest(digest=digest, reason="not now, " + "and " * 999 + "not ever"),
    )
    with world.store().reading() as tx:
        assert (
            tx.history.of_agreement(digest.hex())[-1].what == "north declined: not no [... 4,013 characters ...] t ever"
        )


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
