"""The running server: health, reflection, restarts, overdue releases, and what it refuses to start with."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from sqlalchemy import text

from coordinator.service.server import Server
from coordinator.store.database import Database
from dprelease.errors import InvalidInput
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import ReleaseState
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
    """Names that reflection lists."""
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
