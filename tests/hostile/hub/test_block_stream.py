"""A party that sends something else than the block it sealed: one status, nothing published, and the right bytes welcome."""

from collections.abc import Callable
from itertools import product
from typing import Any

from dprelease.errors import (
    AccessDenied,
    Conflict,
    IntegrityError,
    InternalError,
    InvalidInput,
    NotFound,
    VersionMismatch,
)
from dprelease.release.block import BlockHeader
from dprelease.wire.boundary import translated
from dprelease.wire.chunks import MAX_CHUNK_BYTES
from dprelease.wire.v1 import intake_pb2, public_pb2, release_pb2
from learner.hub.server import Hub
from tests.hostile.faults import VERSIONS, Fault, Kind, each
from tests.learner.test_hub import Dial, Party, Public
from tests.learner.world import PATIENCE_SECONDS, Sealed, World, chunk, pieces, requests

WELCOME = "nothing published; the right bytes are still welcome"


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


Chunks = list[release_pb2.Chunk]


def stream(what: str, act: Callable[[Chunks], Chunks], error: Any = IntegrityError, words: str = "") -> Fault:
    return Fault(f"the block's stream: {what}", "hub", Kind.ANSWERED, error, WELCOME, act, words)


STREAMS = [
    stream("truncated", lambda good: good[:-1]),
    stream("a chunk twice", lambda good: [*good[:2], good[1], *good[2:]]),
    stream("chunks in another order", lambda good: [good[0], good[2], good[1], *good[3:]]),
    stream("a chunk left out", lambda good: [*good[:2], *good[3:]]),
    stream("an empty chunk", lambda good: [good[0], chunk(b"", 100), *good[1:]]),
    stream("bytes past the end", lambda good: [*good, chunk(b"more", good[-1].offset + len(good[-1].data))]),
    stream("an oversized chunk", lambda good: [chunk(bytes(MAX_CHUNK_BYTES + 1), 0)]),
    stream(
        "a message beyond gRPC's limit",
        lambda good: [chunk(bytes(5 << 20), 0)],
        InternalError,
        "RESOURCE_EXHAUSTED, by gRPC",
    ),
    stream(
        "a bit flipped on the way",
        lambda good: [good[0], chunk(flipped(good[1].data, 5), 100, good[1].crc32), *good[2:]],
    ),
    stream("a bit flipped before it was sent", lambda good: [good[0], chunk(flipped(good[1].data, 5), 100), *good[2:]]),
    stream(
        "other bytes of the same length", lambda good: [chunk(bytes(len(piece.data)), piece.offset) for piece in good]
    ),
    stream("an offset of 2^63", lambda good: [chunk(b"x", 1 << 63)]),
    stream("nothing at all", lambda good: [], InvalidInput),
]


@each(STREAMS)
def test_a_stream_of_other_bytes(north: Party, check: Callable[[], None], fault: Fault) -> None:
    north.open()
    with fault.refused() as caught:
        north.send(requests(north.sealed.digest, fault.act(pieces(north.block))))
    fault.check_answer(caught)
    if "on the way" in fault.what:
        assert north.open() == 100  # what came before the damaged chunk is kept
    check()


def wrong_shape(world: World, sealed: Sealed) -> tuple[bytes, bytes]:
    block = sealed.blocks["north"]
    header = BlockHeader(spec=sealed.digest, party="north", rows=9, columns=4).to_bytes()
    wrong = block.replace(header, header.replace(b'"rows":9', b'"rows":8'))
    assert len(wrong) == len(block) != 0
    return world.seal("north", sealed.spec, wrong).to_bytes(), wrong


def changed(**fields: object) -> Callable[[World, Sealed], tuple[bytes, bytes]]:
    def act(world: World, sealed: Sealed) -> tuple[bytes, bytes]:
        return sealed.identities["north"].model_copy(update=fields).to_bytes(), sealed.blocks["north"]

    return act


def of_another_spec(world: World, sealed: Sealed) -> tuple[bytes, bytes]:
    other = world.sealed("a release that nobody approved")
    return other.identities["north"].to_bytes(), other.blocks["north"]


def signed_for_another_spec(world: World, sealed: Sealed) -> tuple[bytes, bytes]:
    other = world.sealed("another spec").identities["north"]
    return sealed.identities["north"].model_copy(update={"signature": other.signature}).to_bytes(), sealed.blocks[
        "north"
    ]


def number_one(world: World, sealed: Sealed) -> tuple[bytes, bytes]:
    return world.seal("north", sealed.spec, sealed.blocks["north"], 1).to_bytes(), sealed.blocks["north"]


def sealed_as(what: str, error: Any, act: Callable[[World, Sealed], tuple[bytes, bytes]]) -> Fault:
    return Fault(f"the sealed block: {what}", "hub", Kind.ANSWERED, error, WELCOME, act)


SEALS = [
    sealed_as("another shape, signed by its party", IntegrityError, wrong_shape),
    sealed_as("a wrong signature", IntegrityError, changed(signature="00")),
    sealed_as("a signature for another spec", IntegrityError, signed_for_another_spec),
    sealed_as("another size", IntegrityError, changed(size=1 << 40)),
    sealed_as("a spec that nobody knows", NotFound, of_another_spec),
    sealed_as("a sequence number that its spec does not ask for, signed by its party", IntegrityError, number_one),
    sealed_as("another sequence number than was signed", IntegrityError, changed(sequence=1)),
    sealed_as("a sequence number below 0", InvalidInput, changed(sequence=-1)),
    sealed_as("another party's name", AccessDenied, changed(party="south")),
    sealed_as("a party called ../x", InvalidInput, changed(party="../x")),
    sealed_as("a digest that is none", InvalidInput, changed(spec="../../etc")),
    sealed_as("no sealed block at all", InvalidInput, lambda world, sealed: (b"\xff{}", b"")),
]


def test_a_seal_that_does_not_fit(north: Party, check: Callable[[], None], world: World, sealed: Sealed) -> None:
    for fault in SEALS:
        announced, block = fault.act(world, sealed)
        with fault.refused() as caught:
            north.open(announced)
            north.send(requests(sealed.digest, pieces(block)))
        fault.check_answer(caught)
    check()


OTHER = Fault(
    "the sealed block: other bytes for a release that was sealed already", "hub", Kind.ANSWERED, Conflict,
    "the first bytes are the ones published", lambda world: world.sealed(noise_seed=8),
)  # fmt: skip


@each([OTHER])
def test_other_bytes_for_a_sealed_release(north: Party, check: Callable[[], None], world: World, fault: Fault) -> None:
    north.upload()
    other = fault.act(world)
    assert other.digest == north.sealed.digest
    with fault.refused() as caught:
        north.open(other.identities["north"].to_bytes())
    fault.check_answer(caught)
    check()


PROTOCOL = [
    Fault(
        f"the hub's caller: its protocol version is {what}",
        "hub",
        Kind.ANSWERED,
        VersionMismatch,
        WELCOME,
        lambda sent=sent: sent,
    )
    for what, sent in VERSIONS.items()
]


def test_another_protocol_version(north: Party, check: Callable[[], None], hub: Hub, dial: Dial) -> None:
    public = Public(dial(hub.public_port)).stub
    sealed = north.sealed.identities["north"].to_bytes()
    for fault, (method, message) in product(
        PROTOCOL,
        (
            (north.stub.OpenBlock, intake_pb2.OpenBlockRequest(sealed=sealed)),
            (north.stub.SendBlock, iter(())),
            (public.ListPublished, public_pb2.ListPublishedRequest()),
        ),
    ):
        with fault.refused() as caught, translated("the hub"):
            method(message, timeout=PATIENCE_SECONDS, metadata=fault.act())
        fault.check_answer(caught)
    check()


FAULTS = [*STREAMS, *SEALS, OTHER, *PROTOCOL]
