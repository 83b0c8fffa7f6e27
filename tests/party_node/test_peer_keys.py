"""One file and one digest in place of a command for each pair of hospitals: all of it is pinned, or nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dprelease.errors import Conflict, DpReleaseError, InvalidInput
from dprelease.identity.peer_keys import LARGEST_BYTES, PeerKeys
from dprelease.wire.boundary import exit_code
from tests.party_node.world import World
from tests.support.specs import build_spec, numeric

EAST, OTHER = "ea" * 32, "07" * 32


def keys_of(world: World, **changed: str | None) -> PeerKeys:
    """What an honest office writes of three hospitals; a key that is None is left out."""
    honest = {name: world.members[name].fingerprint for name in ("north", "south")} | {"east": EAST}
    keys = {name: key for name, key in (honest | changed).items() if key is not None}
    return PeerKeys(consortium=world.authority.consortium, keys=keys)


def file_of(world: World, keys: PeerKeys) -> str:
    path = world.north.folder / "keys.json"
    keys.write(path)
    return str(path)


def unpinned(world: World) -> World:
    """Nothing is pinned at the north."""
    world.north.hospital_state().identity.forget("south")
    return world


def test_all_keys_are_pinned_by_one_digest(world: World) -> None:
    told = keys_of(unpinned(world))
    spoken = " ".join(told.digest()[at : at + 4].upper() for at in range(0, 64, 4))
    done = world.north.run("peers", "pin", "--from", file_of(world, told), "--digest", spoken)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "pinned east, south"
    assert world.north.hospital_state().identity.pins() == {"south": world.members["south"].fingerprint, "east": EAST}


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_says_that_the_digest_was_compared(world: World, answer: str) -> None:
    told, before = keys_of(world), world.north.hospital_state().identity.pins()
    done = world.north.run("peers", "pin", "--from", file_of(world, told), stdin=f"{answer}\n")
    assert f"digest {told.digest()}" in done.stdout
    assert f"south {world.members['south'].fingerprint} (pinned already)" in done.stdout
    assert f"east {EAST}\n" in done.stdout
    assert done.exit_code == (answer == "n")
    assert world.north.hospital_state().identity.pins() == before | ({"east": EAST} if answer == "y" else {})


REFUSED: dict[str, tuple[Callable[[World], PeerKeys], str]] = {
    "a pinned peer has another key": (
        lambda world: keys_of(world, south=OTHER),
        "another key is pinned for south; if it really changed: party-node peers forget south",
    ),
    "we have another key": (lambda world: keys_of(world, north=OTHER), "has another key for north than the one here"),
    "we are not in it": (lambda world: keys_of(world, north=None), "has no key for north"),
    "it is another consortium's": (
        lambda world: keys_of(world).model_copy(update={"consortium": "elsewhere"}),
        "keys of consortium elsewhere; this hospital is in trial",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_does_not_fit_pins_nobody(world: World, what: str) -> None:
    make, words = REFUSED[what]
    told, before = make(world), world.north.hospital_state().identity.pins()
    done = world.north.run("peers", "pin", "--from", file_of(world, told), "--digest", told.digest())
    assert done.exit_code == exit_code(Conflict(""))
    assert words in done.stderr
    assert world.north.hospital_state().identity.pins() == before


@pytest.mark.parametrize(("digest", "error"), [(OTHER, Conflict), ("beef", InvalidInput)])
def test_another_digest_than_the_files_pins_nobody(world: World, digest: str, error: type[DpReleaseError]) -> None:
    before = world.north.hospital_state().identity.pins()
    done = world.north.run("peers", "pin", "--from", file_of(world, keys_of(world)), "--digest", digest)
    assert done.exit_code == exit_code(error(""))
    assert world.north.hospital_state().identity.pins() == before


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("no keys"),
        lambda path: path.write_text('{"consortium":"trial","format":1,"keys":{"north":"beef"}}'),
        lambda path: path.write_text('{"consortium":"trial","format":1,"keys":{}}'),
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        large,
        lambda path: None,
    ],
    ids=["text", "no key", "nobody", "a folder", "a pipe", "zeros without end", "too large", "nothing"],
)
def test_what_is_no_file_of_keys_is_refused(world: World, make: Callable[[Path], object]) -> None:
    path = world.north.folder / "keys.json"
    make(path)
    done = world.north.run("peers", "pin", "--from", str(path), "--digest", OTHER)
    assert done.exit_code == 2
    assert str(path) in done.stderr


@pytest.mark.parametrize(
    "words",
    [(), ("south",), ("south", OTHER, "--digest", OTHER), ("south", OTHER, "--from", "keys.json"), ("--digest", OTHER)],
)
def test_either_a_hospital_or_a_file_is_named(world: World, words: tuple[str, ...]) -> None:
    done = world.north.run("peers", "pin", *words)
    assert done.exit_code == 2
    assert done.stderr == "error: name a hospital and its fingerprint, or a file with --from\n"


def test_a_hospital_does_not_pin_itself(world: World) -> None:
    done = world.north.run("peers", "pin", "north", OTHER)
    assert done.exit_code == 2
    assert done.stderr == "error: north is this hospital itself: name another one, and the key that it read out\n"
    assert "north" not in world.north.hospital_state().identity.pins()


def test_a_name_that_no_proposal_has_is_pointed_out(world: World) -> None:
    assert world.north.run("peers", "pin", "west", OTHER).stderr == ""  # nothing was offered yet
    world.north.hospital_state().journal.offer(build_spec({"north": (numeric("age"),), "south": (numeric("bmi"),)}))
    done = world.north.run("peers", "pin", "suoth", "cd" * 32)
    assert (done.exit_code, done.stdout) == (0, "pinned suoth\n")
    assert done.stderr == "nothing that was offered here names suoth, only north, south\n"


def test_a_hospital_writes_such_a_file_too(world: World) -> None:
    path = str(world.north.folder / "keys.json")
    written = world.north.run("peers", "export", path)
    digest = written.stdout.split()[-1]
    assert written.stdout == f"wrote the keys of 2 hospitals to {path}\ndigest {digest}\n"
    world.south.hospital_state().identity.forget("north")
    assert world.south.run("peers", "pin", "--from", path, "--digest", digest).exit_code == 0
    assert world.south.hospital_state().identity.pins() == {"north": world.members["north"].fingerprint}
    assert world.north.run("peers", "export", "/dev/null/keys.json").exit_code == 2
