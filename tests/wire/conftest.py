"""One small service for all tests of the boundary: coordination, with handlers that a test puts in."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from dprelease.wire.listener import Listener, listen
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, public_pb2, public_pb2_grpc
from tests.support.certificates import HOST, Authority, Member

CoordinationStub = coordination_pb2_grpc.CoordinationServiceStub


class Desk(coordination_pb2_grpc.CoordinationServiceServicer):
    """Answers Decline by calling `answer`."""

    def __init__(self) -> None:
        self.answer: Callable[[Any, Any], None] = lambda request, context: None

    def Decline(self, request: Any, context: Any) -> coordination_pb2.DeclineResponse:
        self.answer(request, context)
        return coordination_pb2.DeclineResponse()


class Shelf(public_pb2_grpc.PublicServiceServicer):
    """Streams what `chunks` yields."""

    def __init__(self) -> None:
        self.chunks: Callable[[], Iterator[public_pb2.DownloadBlockResponse]] = lambda: iter(())

    async def DownloadBlock(self, request: Any, context: Any) -> AsyncIterator[public_pb2.DownloadBlockResponse]:
        chunks = self.chunks()
        while (chunk := await context.work(next, chunks, None)) is not None:
            yield chunk


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def server(authority: Authority) -> Member:
    return authority.member("office", "coordinator")


@pytest.fixture(scope="session")
def party(authority: Authority) -> Member:
    return authority.member("north", "party")


@pytest.fixture
def hospital_state() -> Desk:
    return Desk()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def running(authority: Authority, server: Member, hospital_state: Desk, shelf: Shelf) -> Iterator[Listener]:
    """A listener for mutual TLS with both services."""
    register = [
        lambda to: coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(hospital_state, to),
        lambda to: public_pb2_grpc.add_PublicServiceServicer_to_server(shelf, to),
    ]
    listener = listen(f"{HOST}:0", server.credentials(authority.root), register, mutual=True)
    yield listener
    listener.stop()
