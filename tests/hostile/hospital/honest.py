"""After every attack: the hospital still makes an honest release, and what it sent is what it sealed."""

from itertools import count

from dprelease.canonical import sha256
from tests.party_node.world import Hospital, World

_OUTPUTS = count(9)


def honest_release(world: World) -> str:
    """A release of other content, by policy or by a person, all the way; its digest."""
    release = world.propose("an honest release", next(_OUTPUTS) % 20 + 9)
    world.north.cycle()
    if world.north.status(release) == "waiting":
        world.north.hospital_state().accept(world.north.record(release))
        world.north.cycle()
    world.south_approves(release)
    world.north.cycle()
    check_delivered(world, release)
    return release


def check_delivered(world: World, release: str) -> None:
    """Sealed, charged and sent once; the hub holds the bytes that were sealed."""
    assert world.north.status(release) == "delivered"
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    (sealed,) = world.north.hospital_state().vault.find(release)
    assert sha256(world.block(release, "north")) == sealed.sha256


def check_untouched(north: Hospital, release: str, kinds: list[str], draws: int = 0) -> None:
    """No noise, no block, no bytes; the ledger says so."""
    assert len(north.noise.draws) == draws
    assert north.ledger_kinds(release) == kinds
    assert north.hospital_state().vault.find(release) == ()
    assert not any(sealed.spec == release for sealed in north.world.hub.sealed)


def steps(north: Hospital) -> list[type[BaseException]]:
    """One round of the daemon, with what each release's step raised instead of where it was noted."""
    raised: list[type[BaseException]] = []
    daemon = north.daemon()
    with north.dialled() as coordinator:
        for offer in coordinator.releases.pending():
            try:
                daemon._step(coordinator, *daemon._works[1], offer)
            except Exception as error:
                raised.append(type(error))
    return raised
