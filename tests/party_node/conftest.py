"""A fresh consortium for each test, in its own folder; keys are made once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.party_node.world import WITHIN_LIMITS, World
from tests.support.certificates import Authority, Member

MakeWorld = Callable[[str], World]


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("trial")


@pytest.fixture(scope="session")
def members(authority: Authority) -> dict[str, Member]:
    roles = {"north": "party", "south": "party", "office": "coordinator", "shelf": "hub"}
    return {name: authority.member(name, role) for name, role in roles.items()}


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, in memory where the machine has one: the party syncs every step, and tests take many."""
    memory = Path("/dev/shm")  # noqa: S108 - a fresh folder of our own within it
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def make_world(folder: Path, authority: Authority, members: dict[str, Member]) -> Iterator[MakeWorld]:
    """Makes a consortium whose hospitals have a given policy (TOML)."""
    made: list[World] = []

    def make(policy: str) -> World:
        made.append(World(folder / f"world-{len(made)}", authority, members, policy))
        return made[-1]

    yield make
    for world in made:
        world.stop()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Hospitals that approve by policy."""
    return make_world(WITHIN_LIMITS)


@pytest.fixture
def careful(make_world: MakeWorld) -> World:
    """Hospitals where a person approves every release."""
    return make_world("")
