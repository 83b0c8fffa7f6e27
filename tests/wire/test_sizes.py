"""Messages are measured before anything is made of them: at every method of a server, in every answer to a client."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest

from dprelease.errors import InternalError, InvalidInput
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.dispatch import Methods
from dprelease.wire.limits import ANSWERS, LONG_BYTES, REQUESTS, SHORT_BYTES
from dprelease.wire.listener import listen
from dprelease.wire.transport import connect
from dprelease.wire.v1 import coordination_pb2, enrolment_pb2, intake_pb2, public_pb2, relay_pb2
from tests.support.certificates import HOST, Authority, Member

SECONDS = 20.0
MODULES = (coordination_pb2, enrolment_pb2, intake_pb2, public_pb2, relay_pb2)
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
HUB = {name for name in METHODS if "Intake" in name or "Relay" in name or "Public" in name}


class Everything:
    """Every method of ours, which notes how long each message is that it reads, and answers as long as it is told.

    Attributes:
        read: lengths, in their order.
        answer: bytes of the next answers.
    """

    def __init__(self) -> None:
        self.read: list[int] = []
        self.answer = 0

    def register(self, methods: Methods) -> None:
        methods.update({name: self._handler(method) for name, method in METHODS.items()})

    def _handler(self, method: Any) -> Any:
        codec = {"request_deserializer": self._note, "response_serializer": bytes}
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(self._taking, **codec)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._streaming, **codec)
        return grpc.unary_unary_rpc_method_handler(self._answering, **codec)

    def _note(self, data: bytes) -> bytes:
        self.read.append(len(data))
        return data

    async def _answering(self, request: bytes, call: Any) -> bytes:
        return bytes(self.answer)

    async def _taking(self, requests: AsyncIterator[bytes], call: Any) -> bytes:
        async for _ in requests:
            pass
        return bytes(self.answer)

    async def _streaming(self, request: bytes, call: Any) -> AsyncIterator[bytes]:
        yield bytes(self.answer)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return Everything()


@pytest.fixture(scope="module")
def channel(everything: Everything, server: Member, party: Member, authority: Authority) -> Iterator[grpc.Channel]:
    listener = listen(f"{HOST}:0", server.credentials(authority.root), [everything.register], mutual=True)
    with connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as made:
        yield made
    listener.stop()


def ask(channel: grpc.Channel, name: str, message: bytes) -> bytes:
    """What a method answers to one message, or the error that a client of ours raises."""
    method, options = METHODS[name], {"timeout": SECONDS, "metadata": VERSION}
    with translated("the server"):
        if method.client_streaming:
            return bytes(channel.stream_unary(name)(iter([message]), **options))
        if method.server_streaming:
            (answer,) = channel.unary_stream(name)(message, **options)
            return bytes(answer)
        return bytes(channel.unary_unary(name)(message, **options))


def test_the_tables_name_methods_that_exist() -> None:
    assert REQUESTS.keys() <= METHODS.keys()
    assert ANSWERS.keys() <= METHODS.keys()


def test_every_call_of_the_hub_is_short_but_streams_and_several_parcels() -> None:
    several = "/dprelease.wire.v1.RelayService/OpenParcels"
    assert HUB & REQUESTS.keys() == {several, *(name for name in HUB if METHODS[name].client_streaming)}
    assert REQUESTS[several] == 2 * SHORT_BYTES


@pytest.mark.parametrize("name", METHODS)
def test_a_server_reads_no_message_that_is_too_long(channel: grpc.Channel, everything: Everything, name: str) -> None:
    most = REQUESTS.get(name, SHORT_BYTES)
    everything.read.clear()
    everything.answer = 0
    assert ask(channel, name, bytes(most)) == b""
    longest = max(REQUESTS.values())
    with pytest.raises(InvalidInput if most < longest else InternalError):  # beyond all of them gRPC refuses by itself
        ask(channel, name, bytes(most + 1))
    assert everything.read == [most]


@pytest.mark.parametrize("name", METHODS)
def test_a_client_reads_no_answer_that_is_too_long(channel: grpc.Channel, everything: Everything, name: str) -> None:
    everything.answer = most = ANSWERS.get(name, SHORT_BYTES)
    assert len(ask(channel, name, b"")) == most
    everything.answer = most + 1
    with pytest.raises(InternalError, match=r"^the server sent an answer longer than any that is read here$"):
        ask(channel, name, b"")


def test_a_message_that_no_method_takes_is_refused_by_grpc(channel: grpc.Channel) -> None:
    name = next(name for name in METHODS if name.endswith("/Decline"))
    with pytest.raises(InternalError, match=r"^the server takes no message as long as ours$"):
        ask(channel, name, bytes(LONG_BYTES))
