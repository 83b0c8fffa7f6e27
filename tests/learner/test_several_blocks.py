"""Two blocks of each party at the hub and at a learner: each has its place, and the release waits for all of them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dprelease.errors import Conflict, IntegrityError, InvalidInput, NotFound, TooManyRequests
from dprelease.release.block import SealedBlock
from dprelease.release.manifest import BlockEntry
from dprelease.release.spec import BlockKey
from learner.client.download import fetch
from learner.client.library import Library
from learner.client.pinned_roots import Trusted
from learner.client.sources import PublicHub
from learner.hub.intake import Intake
from learner.hub.publish import Signer, prepare, received
from learner.hub.published import Shelf
from learner.hub.server import Hub
from learner.hub.storage import PartyShare, Storage
from tests.learner.test_hub import Dial, Party, Start
from tests.learner.world import PARTIES, FakeCoordinator, Sealed, World, pieces, requests
from tests.support.several_blocks import ask_for_two, second_block


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for_two(monkeypatch)


Both = dict[str, tuple[bytes, bytes]]


@pytest.fixture
def both(two: None, sealed: Sealed) -> Both:
    return {party: (first, second_block(sealed.spec, party).to_bytes()) for party, first in sealed.blocks.items()}


@pytest.fixture
def seals(world: World, sealed: Sealed, both: Both) -> Callable[[str, int], SealedBlock]:
    return lambda party, at: world.seal(party, sealed.spec, both[party][at], at)


Seals = Callable[[str, int], SealedBlock]


@pytest.fixture
def intake(storage: Storage, world: World, sealed: Sealed) -> Intake:
    storage.keep_record(world.record(sealed))
    record = world.record(sealed)
    return Intake(storage, lambda *_: record, world.root.certificate, lambda _: None, lambda: datetime.now(UTC))


def bring(intake: Intake, world: World, seal: SealedBlock, data: bytes) -> None:
    member = world.parties[seal.party]
    intake.open_block(member.identity, member.certificate, seal.to_bytes())
    upload = intake.begin(member.identity, seal.spec, seal.sequence)
    for piece in pieces(data):
        upload.take(piece)
    upload.finish()


def test_a_party_has_delivered_when_all_its_blocks_are_here(
    intake: Intake, storage: Storage, world: World, sealed: Sealed, signer: Signer, both: Both, seals: Seals
) -> None:
    record = world.record(sealed)
    here = []
    for party, at in (("north", 1), ("south", 0), ("north", 0), ("south", 1)):
        with pytest.raises(Conflict, match="not complete"):
            prepare(storage, record, signer, datetime.now(UTC))
        bring(intake, world, seals(party, at), both[party][at])
        here.append(received(storage, record))
    assert here == [(), (), ("north",), ("north", "south")]
    prepare(storage, record, signer, datetime.now(UTC))
    storage.reveal(sealed.digest)
    shelf = Shelf(storage)
    for party, blocks in both.items():
        assert [shelf.block(sealed.key(party, at), 0).read_bytes() for at in range(2)] == list(blocks)
    with pytest.raises(NotFound):
        shelf.block(sealed.key("north", 2), 0)


def test_each_block_is_announced_and_sent_under_its_own_number(
    intake: Intake, storage: Storage, world: World, sealed: Sealed, both: Both, seals: Seals
) -> None:
    north = world.parties["north"]
    bring(intake, world, seals("north", 0), both["north"][0])
    with pytest.raises(Conflict, match="open the block"):
        intake.begin(north.identity, sealed.digest, 1)
    second = seals("north", 1)
    with pytest.raises(IntegrityError):  # signed as number 1
        intake.open_block(
            north.identity, north.certificate, second.model_copy(update={"sequence": 0, "size": 1}).to_bytes()
        )
    third = world.seal("north", sealed.spec, both["north"][1], 2)
    with pytest.raises(IntegrityError, match="has no block 2 of north"):
        intake.open_block(north.identity, north.certificate, third.to_bytes())
    bring(intake, world, second, both["north"][1])
    again = world.seal("north", sealed.spec, second_block(sealed.spec, "north", 8).to_bytes(), 1)
    with pytest.raises(Conflict, match="other bytes"):
        intake.open_block(north.identity, north.certificate, again.to_bytes())
    assert storage.held(sealed.key("north")) == len(both["north"][0])
    assert storage.held(sealed.key("north", 1)) == len(both["north"][1])


def test_bytes_of_one_block_do_not_become_another(
    intake: Intake, storage: Storage, world: World, sealed: Sealed, both: Both
) -> None:
    """Signed under the wrong number by its own party, and of the right size."""
    data = both["north"][1]
    turned = second_block(sealed.spec, "south").to_bytes()
    assert len(turned) == len(data)
    with pytest.raises(IntegrityError, match="block 1 of north does not have the shape"):
        bring(intake, world, world.seal("north", sealed.spec, turned, 1), turned)
    assert storage.entry(sealed.key("north", 1)) is None


def test_a_party_whose_name_has_dots_has_a_share_of_its_own(tmp_path: Path, world: World, sealed: Sealed) -> None:
    storage = Storage(tmp_path, 1 << 30, PartyShare(size=100))

    def announce(party: str, sequence: int = 0) -> None:
        seal = sealed.identities["north"].model_copy(update={"party": party, "sequence": sequence, "size": 60})
        storage.keep_entry(BlockEntry(sealed=seal, certificate=world.parties["north"].certificate))

    announce("north.0")
    announce("north")
    with pytest.raises(TooManyRequests, match="north has"):
        announce("north", 1)
    assert storage.entry(BlockKey(sealed.digest, "north.0")) is not None
    storage.close()


def test_from_two_blocks_of_each_party_to_a_release_that_was_fetched(
    start_hub: Start,
    dial: Dial,
    world: World,
    coordinator: FakeCoordinator,
    sealed: Sealed,
    trusted: Trusted,
    tmp_path: Path,
    both: Both,
    seals: Seals,
) -> None:
    coordinator.offer(sealed)
    hub: Hub = start_hub()
    for at in range(2):
        for name in PARTIES:
            party = Party(dial(hub.party_port, world.parties[name]), sealed, name)
            assert party.open(seals(name, at).to_bytes()) == 0
            messages = list(requests(sealed.digest, pieces(both[name][at])))
            messages[0].sequence = at
            assert party.send(iter(messages)) == seals(name, at).sha256
        assert coordinator.named("AuthorizePublication") == [] or at == 1
    coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))
    assert coordinator.named("ReportIntake")[-1] == (sealed.digest, PARTIES)
    told: set[BlockKey] = set()
    source, library = PublicHub(dial(hub.public_port)), Library(tmp_path / "home")
    kept = fetch(source, trusted, library, sealed.digest, lambda key, held, size: told.add(key))
    assert told == {sealed.key(party, at) for party in PARTIES for at in range(2)}
    for party, blocks in both.items():
        assert [kept.block(party, at).read_bytes() for at in range(2)] == list(blocks)


def test_one_upload_carries_one_block(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed, both: Both, seals: Seals
) -> None:
    coordinator.offer(sealed)
    party = Party(dial(start_hub().party_port, world.parties["north"]), sealed, "north")
    party.open()
    party.open(seals("north", 1).to_bytes())
    messages = list(requests(sealed.digest, pieces(both["north"][0])))
    messages[1].sequence = 1
    with pytest.raises(InvalidInput):
        party.send(iter(messages))
