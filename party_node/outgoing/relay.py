"""Calls to the hub's relay: put a frozen message there, look what is there, fetch what is for us. We dial; nothing listens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import grpc

from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.chunks import read_chunks
from dprelease.wire.retry import PROGRESS_BYTES
from dprelease.wire.v1 import relay_pb2, relay_pb2_grpc
from party_node.outgoing.calls import naming, received, stream
from party_node.state.session import Outgoing

PEER = "the hub's relay"

MOST_MESSAGES = 20_000
"""Most messages of one release or run that are read: ten hospitals that deal to one another send some 2,000 in a round."""


class Relay:
    """Calls over one channel.

    Args:
        channel: to the hub's listener for parties.
        release: digest of the release whose messages these are.
        stall_seconds: longest stand-still of a stream before it is given up.
    """

    def __init__(self, channel: grpc.Channel, release: str, stall_seconds: float) -> None:
        self._stub = relay_pb2_grpc.RelayServiceStub(channel)
        self._release = bytes.fromhex(release)
        self._stall_seconds = stall_seconds

    def messages(self) -> tuple[Message, ...]:
        """All messages of the release, unchecked.

        Raises:
            IntegrityError: one cannot be read.
            PeerUnavailable, NotFound, ...: as the relay answers.
        """
        found: list[Message] = []
        after = 0
        while True:
            request = relay_pb2.ListParcelsRequest(spec_digest=self._release, after=after)
            answer = ask(PEER, self._stub.ListParcels, request)
            if not answer.parcels:
                return tuple(found)
            if answer.last <= after:
                raise IntegrityError(f"{PEER} lists the same messages again and again")
            after = answer.last
            if len(found) + len(answer.parcels) > MOST_MESSAGES:
                raise IntegrityError(f"{PEER} lists more messages than a session has")
            try:
                found += [Message.from_bytes(data) for data in answer.parcels]
            except InvalidInput as error:
                raise IntegrityError(f"{PEER} holds a message that cannot be read: {error.message}") from error

    def put(self, outgoing: Iterable[Outgoing], there: Iterable[Message]) -> bool:
        """Send every frozen message that is not among those that are there; say whether there was one."""
        known = {message.header.digest() for message in there}
        lacking = [each for each in outgoing if each.message.header.digest() not in known]
        for each in lacking:
            self.send(each)
        return bool(lacking)

    def send(self, outgoing: Outgoing) -> None:
        """Put a frozen message there; goes on where an earlier attempt stopped.

        Raises:
            PeerUnavailable: the relay is away, or the stream stood still; try again.
            IntegrityError: the relay claims other bytes than ours.
            Conflict, AccessDenied, ...: as it answers.
        """
        header = outgoing.message.header
        request = relay_pb2.OpenParcelRequest(parcel=outgoing.message.to_bytes())
        held = ask(PEER, self._stub.OpenParcel, request).offset
        if outgoing.body is None or held == header.size:
            return
        if held > header.size:
            raise IntegrityError(f"{PEER} claims to hold more bytes of our message than there are")
        named = {"header_digest": bytes.fromhex(header.digest()), "spec_digest": self._release}
        requests = naming(read_chunks(outgoing.body, held, relay_pb2.SendParcelRequest), named)
        with translated(PEER):
            answer = stream(self._stub.SendParcel, requests, self._stall_seconds, f"{PEER}: a message")
        if answer.digest != bytes.fromhex(header.sha256):
            raise IntegrityError(f"{PEER} acknowledged other bytes than those that were sent")

    def fetch(self, header: MessageHeader) -> Iterator[bytes]:
        """The body of a message that is for us, in pieces; its length and digest are checked at the end.

        A stream that breaks is taken up where it broke, as long as every attempt moves it.

        Raises:
            IntegrityError: it is not what its sender signed.
            PeerUnavailable: the relay is away, or the stream stood still; try again.
        """
        digest, position = hashlib.sha256(), 0
        while True:
            begun = position
            try:
                for data in self._stream(header, begun):
                    digest.update(data)
                    position += len(data)
                    yield data
                break
            except PeerUnavailable:
                if position - begun < PROGRESS_BYTES:
                    raise
        if position != header.size or digest.hexdigest() != header.sha256:
            raise IntegrityError(f"{PEER} handed out a {header.kind} of {header.sender} that it did not sign")

    def _stream(self, header: MessageHeader, position: int) -> Iterator[bytes]:
        request = relay_pb2.FetchParcelRequest(
            spec_digest=self._release, header_digest=bytes.fromhex(header.digest()), offset=position
        )
        with translated(PEER):
            call = self._stub.FetchParcel(request, metadata=VERSION)
            yield from received(call, position, header.size, self._stall_seconds)
