"""Calls to the hub for what it holds of a release: blocks of earlier rounds, on which the next one builds, and our own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.release.block import SealedBlock
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc
from party_node.outgoing.calls import received

PEER = "the hub"


@dataclass(frozen=True)
class Held:
    """Blocks that the hub holds of a release, unchecked.

    Attributes:
        earlier: sealed blocks of all rounds before the last that are whole there, in its order.
        own: ours of any round of which it was told; none from a hub of before that tells.
    """

    earlier: tuple[SealedBlock, ...]
    own: tuple[SealedBlock, ...]


def held_blocks(channel: grpc.Channel, release: str) -> Held:
    """Blocks that the hub holds.

    Args:
        channel: to the hub's listener for parties.
        release: digest of the spec.

    Raises:
        IntegrityError: one cannot be read.
        PeerUnavailable, NotFound, ...: as the hub answers.
    """
    request = intake_pb2.ListEarlierBlocksRequest(spec_digest=bytes.fromhex(release))
    answer = ask(PEER, intake_pb2_grpc.IntakeServiceStub(channel).ListEarlierBlocks, request)
    try:
        return Held(*(tuple(map(SealedBlock.from_bytes, listed)) for listed in (answer.sealed, answer.own)))
    except InvalidInput as error:
        raise IntegrityError(f"{PEER} lists a block that cannot be read: {error.message}") from error


def fetch_block(channel: grpc.Channel, sealed: SealedBlock, stall_seconds: float) -> bytes:
    """The bytes of one of these blocks, as many as were announced; their digest is the caller's to check.

    Args:
        channel: to the hub's listener for parties.
        sealed: the block's identity, of a size that the spec calls for.
        stall_seconds: longest stand-still before the attempt is given up.

    Raises:
        IntegrityError: a chunk is not the next one, or is damaged.
        PeerUnavailable, NotFound, ...: as the hub answers.
    """
    return b"".join(_stream(channel, sealed, stall_seconds))


def _stream(channel: grpc.Channel, sealed: SealedBlock, stall_seconds: float) -> Iterator[bytes]:
    request = intake_pb2.FetchEarlierBlockRequest(
        spec_digest=bytes.fromhex(sealed.spec), party=sealed.party, sequence=sealed.sequence
    )
    stub = intake_pb2_grpc.IntakeServiceStub(channel)
    with translated(PEER):
        yield from received(stub.FetchEarlierBlock(request, metadata=VERSION), 0, sealed.size, stall_seconds)
