"""Intake: what is accepted, what is refused, and that a refusal changes nothing."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError
from dprelease.identity.certificates import Identity
from dprelease.wire.v1 import release_pb2
from learner.hub.approved import ApprovedRelease
from learner.hub.intake import Intake
from learner.hub.storage import Storage
from tests.learner.world import Sealed, World, pieces, publish_to
from tests.support.certificates import Member, mint
from tests.support.together import together


class Door:
    """An intake on its own storage, and what it told the publisher."""

    def __init__(self, storage: Storage, world: World, sealed: Sealed) -> None:
        self.storage, self.world, self.sealed = storage, world, sealed
        self.completed: list[str] = []
        self.asked: list[str] = []
        self.now = datetime.now(UTC)
        self.intake = Intake(storage, self.find_record, world.root.certificate, self.completed.append, lambda: self.now)

    def find_record(self, digest: str, party: str) -> ApprovedRelease:
        self.asked.append(digest)
        return self.world.record(self.sealed)

    def open(self, party: str = "north", *, member: Member | None = None, sealed: bytes | None = None) -> int:
        caller = member or self.world.parties[party]
        return self.intake.open_block(
            caller.identity, caller.certificate, sealed or self.sealed.identities[party].to_bytes()
        )

    def send(self, chunks: Iterable[release_pb2.Chunk], party: str = "north") -> str:
        upload = self.intake.begin(self.caller(party), self.sealed.digest)
        for piece in chunks:
            upload.take(piece)
        return upload.finish()

    def caller(self, party: str) -> Identity:
        return self.world.parties[party].identity

    def stored(self, party: str = "north") -> bytes:
        return self.storage.release(self.sealed.digest).block(party).read_bytes()


@pytest.fixture
def door(storage: Storage, world: World, sealed: Sealed) -> Door:
    return Door(storage, world, sealed)


def test_a_break_between_the_last_byte_and_the_answer_costs_nothing(door: Door) -> None:
    block = door.sealed.blocks["north"]

    def broken() -> Iterator[release_pb2.Chunk]:
        yield from pieces(block)
        raise ConnectionError

    door.open()
    with pytest.raises(ConnectionError):
        door.send(broken())
    assert door.completed == []
    assert door.open() == len(block)
    assert door.stored() == block
    door.send(pieces(block))  # again, as often as its sender likes, and told once
    assert door.completed == [door.sealed.digest]


def test_damaged_bytes_of_full_length_are_asked_for_again(door: Door) -> None:
    block = door.sealed.blocks["north"]
    door.open()
    door.storage.put(door.sealed.key("north"), 0, flipped(block, 200))
    assert door.open() == 0
    assert door.send(pieces(block)) == door.sealed.identities["north"].sha256
    assert door.stored() == block


def test_an_upload_may_start_before_what_is_held(door: Door) -> None:
    block = door.sealed.blocks["north"]
    door.open()
    with pytest.raises(IntegrityError, match="go on from there"):
        door.send(pieces(block)[:3])
    door.send(pieces(block, size=70, start=140))
    assert door.stored() == block


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_the_same_bytes_again_are_welcome(door: Door) -> None:
    block = door.sealed.blocks["north"]
    door.open()
    first = door.send(pieces(block))
    assert door.open() == len(block)
    assert door.send(pieces(block, size=64)) == first
    assert door.send([]) == first
    assert door.stored() == block


@pytest.mark.parametrize("when", ["announced", "complete", "published"])
def test_other_bytes_are_refused_and_nothing_changes(door: Door, when: str) -> None:
    block = door.sealed.blocks["north"]
    if when == "published":
        publish_to(door.storage, door.world, door.sealed)
    else:
        door.open()
    if when == "complete":
        door.send(pieces(block))
    other = door.world.sealed(noise_seed=8)
    assert other.digest == door.sealed.digest
    assert other.blocks["north"] != block
    with pytest.raises(Conflict, match="other bytes"):
        door.open(sealed=other.identities["north"].to_bytes())
    with pytest.raises(IntegrityError):
        door.send(pieces(other.blocks["north"]))
    if when == "announced":
        door.send(pieces(block, start=door.open()))
    assert door.stored() == block


def test_a_published_block_is_acknowledged_without_the_coordinator(door: Door) -> None:
    publish_to(door.storage, door.world, door.sealed)
    assert door.open() == len(door.sealed.blocks["north"])
    assert door.send(pieces(door.sealed.blocks["north"])) == door.sealed.identities["north"].sha256
    assert door.asked == []


def test_the_newest_upload_wins(door: Door) -> None:
    block = door.sealed.blocks["north"]
    door.open()

    def overtaken() -> Iterator[release_pb2.Chunk]:
        yield from pieces(block)[:2]
        door.send(pieces(block, start=door.open()))
        yield from pieces(block)[2:]

    with pytest.raises(Conflict, match="newer upload"):
        door.send(overtaken())
    assert door.stored() == block
    assert len(door.completed) == 1


def test_an_overtaken_upload_writes_nothing_more(door: Door) -> None:
    block = door.sealed.blocks["north"]
    door.open()

    def newer() -> Iterator[release_pb2.Chunk]:
        yield from pieces(block, start=200)[:2]
        raise ConnectionError

    def overtaken() -> Iterator[release_pb2.Chunk]:
        yield from pieces(block)[:2]
        with pytest.raises(ConnectionError):
            door.send(newer())
        yield pieces(block)[2]

    with pytest.raises(Conflict, match="newer upload"):
        door.send(overtaken())
    assert door.open() == 400


def test_many_uploads_at_once_never_mix_bytes(door: Door) -> None:
    block = door.sealed.blocks["north"]
    door.open()

    def upload(size: int) -> str | DpReleaseError:
        try:
            return door.send(pieces(block, size=size))
        except DpReleaseError as error:
            return error

    results = together(upload, (7, 11, 13, 17, 19, 23))
    assert door.sealed.identities["north"].sha256 in results
    assert all(isinstance(each, str | Conflict) for each in results), results
    assert door.stored() == block


def test_uploads_of_two_parties_do_not_disturb_each_other(door: Door) -> None:
    north, south = door.sealed.blocks["north"], door.sealed.blocks["south"]
    door.open("north")
    door.open("south")

    def interrupted() -> Iterator[release_pb2.Chunk]:
        yield from pieces(north)[:1]
        door.send(pieces(south), "south")
        yield from pieces(north)[1:]

    door.send(interrupted())
    assert (door.stored("north"), door.stored("south")) == (north, south)


def test_a_block_is_opened_before_it_is_sent(door: Door) -> None:
    with pytest.raises(Conflict, match="open"):
        door.send(pieces(door.sealed.blocks["north"]))


def test_only_with_the_key_that_the_spec_names(door: Door) -> None:
    other_key = mint("north", "party", door.world.root)
    with pytest.raises(AccessDenied):
        door.open("north", member=other_key)
    door.open("north")
    with pytest.raises(AccessDenied):
        door.intake.begin(other_key.identity, door.sealed.digest)
    assert door.storage.held(door.sealed.key("north")) == 0


def test_a_party_outside_the_release_may_not_send(door: Door) -> None:
    stranger = mint("east", "party", door.world.root)
    identity = door.sealed.identities["north"].model_copy(update={"party": "east"})
    with pytest.raises(AccessDenied):
        door.open("north", member=stranger, sealed=identity.to_bytes())
    with pytest.raises(AccessDenied):
        door.intake.begin(stranger.identity, door.sealed.digest)


def test_an_expired_certificate_is_refused(door: Door) -> None:
    door.now += timedelta(days=60)
    with pytest.raises(IntegrityError, match="not valid at"):
        door.open()


def test_a_renewed_certificate_takes_the_place_of_the_old_one(door: Door) -> None:
    door.open()
    renewed = mint("north", "party", door.world.root, key=door.world.parties["north"].key, days=60)
    door.open(member=renewed)
    entry = door.storage.entry(door.sealed.key("north"))
    assert entry is not None
    assert entry.certificate == renewed.certificate


def test_a_party_is_told_which_blocks_of_its_own_are_known_here(door: Door) -> None:
    """Also before a byte of them came, and to nobody else: its books may have forgotten them."""
    digest, north, south = door.sealed.digest, door.caller("north"), door.caller("south")
    assert door.intake.announced(north, digest) == ()
    door.open()
    known = (door.sealed.identities["north"],)
    assert door.intake.announced(north, digest) == known
    assert door.intake.announced(south, digest) == ()
    door.send(pieces(door.sealed.blocks["north"]))
    assert door.intake.announced(north, digest) == known
    with pytest.raises(AccessDenied):
        door.intake.announced(door.world.hub.identity, digest)
