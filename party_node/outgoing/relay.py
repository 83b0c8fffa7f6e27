"""Calls to the hub's relay: our messages of a session that it lacks, all that it lists, and bodies that are for us."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence

import grpc

from dprelease.errors import IntegrityError, PeerUnavailable, VersionMismatch, refused_as
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.wire.boundary import OUR_METHODS, VERSION, ask, translated
from dprelease.wire.chunks import received
from dprelease.wire.retry import PROGRESS_BYTES
from dprelease.wire.v1 import relay_pb2, relay_pb2_grpc
from party_node.outgoing.hub import bring
from party_node.state.session import SHORT_BODY, Outgoing

RELAY = "the hub's relay"

MOST_SHORT, MOST_ASKED = 1 << 20, 1000
"""Most bytes, and bodies, of one call for short ones."""

MOST_ANNOUNCED, FRAME_BYTES = 112 << 10, 16
"""Most bytes of one call that announces several, and what each takes in it beside its signed header and its body."""

MOST_MESSAGES = 50_000
"""Most messages of one release or run that are read: a hundred hospitals that deal to one another send 20,000 in a round."""


class RelayCalls:
    """Calls over one channel.

    Args:
        channel: to the hub's listener for parties.
        release: digest of the release or run.
        stall_seconds: longest stand-still before an attempt is given up.
    """

    def __init__(self, channel: grpc.Channel, release: str, stall_seconds: float) -> None:
        self.channel, self.stall_seconds = channel, stall_seconds
        self._listed: dict[Message, None] = {}
        self._after, self._mark = 0, b""
        self._answers_short = True
        self._stub = relay_pb2_grpc.RelayServiceStub(channel)
        self._send = channel.stream_unary(
            f"{OUR_METHODS}v1.RelayService/SendParcel", None, relay_pb2.SendParcelResponse.FromString
        )
        self._release = bytes.fromhex(release)

    def messages(self) -> tuple[Message, ...]:
        """All messages of the release that are there now, unchecked; of a list with a mark only new ones are asked for.

        Raises:
            IntegrityError: one cannot be read.
            PeerUnavailable, NotFound, ...: as the relay answers.
        """
        count = 0
        if not self._mark:
            self._listed, self._after = {}, 0
        while True:
            request = relay_pb2.ListParcelsRequest(spec_digest=self._release, after=self._after, mark=self._mark)
            answer = ask(RELAY, self._stub.ListParcels, request)
            if answer.mark != self._mark:
                self._listed, self._after, self._mark = {}, 0, answer.mark
            if answer.parcels and answer.last <= self._after:
                raise IntegrityError(f"{RELAY} lists the same messages again and again")
            count += len(answer.parcels)  # as they come: one that is listed twice counts twice
            if max(count, len(self._listed)) > MOST_MESSAGES:
                raise IntegrityError(f"{RELAY} lists more messages than a session has")
            with refused_as(IntegrityError, f"{RELAY} holds a message that cannot be read"):
                self._listed |= dict.fromkeys(map(Message.from_bytes, answer.parcels))
            self._after = max(self._after, answer.last)
            if answer.whole or not answer.parcels:
                return tuple(self._listed)

    def put(self, outgoing: Iterable[Outgoing], there: Iterable[Message]) -> bool:
        """Send every frozen message that is not among those that are there; say whether there was one."""
        known = {message.header for message in there}
        lacking = [each for each in outgoing if each.message.header not in known]
        for together in _calls(lacking):
            self.send(*together)
        return bool(lacking)

    def send(self, *together: Outgoing) -> None:
        """Put frozen messages there, several only if their bodies are short; goes on where an earlier attempt stopped.

        Raises:
            PeerUnavailable: the relay is away, or the stream stood still; try again.
            IntegrityError: the relay claims other bytes than ours.
            Conflict, AccessDenied, ...: as it answers.
        """
        bodies = [each.read() if each.message.header.size <= SHORT_BODY else b"" for each in together]
        for each, body, held in zip(together, bodies, self._announce(together, bodies), strict=True):
            if each.body is not None:
                header = each.message.header
                digest = bytes.fromhex(header.digest())
                first = relay_pb2.SendParcelRequest(header_digest=digest, spec_digest=self._release)
                bring(RELAY, "message", self._send, first, body or each.body, header, held, self.stall_seconds)

    def _announce(self, together: Sequence[Outgoing], bodies: Sequence[bytes]) -> list[int]:
        """How much of each the relay holds once it knows of all; a hub of the version before is told of one at a time."""
        requests = [
            relay_pb2.OpenParcelRequest(parcel=each.message.to_bytes(), body=body)
            for each, body in zip(together, bodies, strict=True)
        ]
        if len(requests) > 1 and self._answers_short:
            try:
                held = ask(RELAY, self._stub.OpenParcels, relay_pb2.OpenParcelsRequest(parcels=requests)).offsets
            except VersionMismatch:
                self._answers_short = False
            else:
                if len(held) != len(requests):
                    raise IntegrityError(f"{RELAY} answers about other messages than those that were sent")
                return list(held)
        return [ask(RELAY, self._stub.OpenParcel, request).offset for request in requests]

    def fetch_short(
        self, party: str, wanted: MessageHeader, known: Container[MessageHeader]
    ) -> dict[MessageHeader, bytes]:
        """The body of a message for us, and with it other short ones of its round, as many as fit one call.

        Returns:
            Bodies, checked; none from a hub of the version before, which has no such call.

        Raises:
            IntegrityError: one is not what its sender signed.
            PeerUnavailable, ...: as the relay answers.
        """
        if not self._answers_short:
            return {}
        room, asked = MOST_SHORT - wanted.size, [wanted]
        for header in (message.header for message in self._listed if message.header.round == wanted.round):
            fits = 0 < header.size <= min(SHORT_BODY, room) and len(asked) < MOST_ASKED
            if fits and party in header.receivers and header != wanted and header not in known:
                room -= header.size
                asked.append(header)
        request = relay_pb2.FetchShortParcelsRequest(
            spec_digest=self._release, header_digests=[bytes.fromhex(header.digest()) for header in asked]
        )
        try:
            bodies = ask(RELAY, self._stub.FetchShortParcels, request).bodies
        except VersionMismatch:
            self._answers_short = False
            return {}
        if len(bodies) != len(asked):
            raise IntegrityError(f"{RELAY} answers with other bodies than those that were asked for")
        for header, body in zip(asked, bodies, strict=True):
            _check_body(header, len(body), hashlib.sha256(body))
        return dict(zip(asked, bodies, strict=True))

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
        _check_body(header, position, digest)

    def _stream(self, header: MessageHeader, position: int) -> Iterator[bytes]:
        request = relay_pb2.FetchParcelRequest(
            spec_digest=self._release, header_digest=bytes.fromhex(header.digest()), offset=position
        )
        with translated(RELAY):
            call = self._stub.FetchParcel(request, metadata=VERSION)
            yield from received(call, position, header.size, self.stall_seconds)


def _calls(lacking: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """The same in their order, together as far as they fit one call."""
    group, room = list[Outgoing](), 0
    for each in lacking:
        header = each.message.header
        alone = header.size > SHORT_BODY or header.kind == "hello"  # which lets in all that follows
        takes = MOST_ANNOUNCED + 1 if alone else len(each.message.to_bytes()) + header.size + FRAME_BYTES
        if group and takes > room:
            yield group
            group = []
        room = (room if group else MOST_ANNOUNCED) - takes
        group.append(each)
    if group:
        yield group


def _check_body(header: MessageHeader, size: int, digest: hashlib._Hash) -> None:
    if size != header.size or digest.hexdigest() != header.sha256:
        raise IntegrityError(f"{RELAY} handed out a {header.kind} of {header.sender} that it did not sign")
