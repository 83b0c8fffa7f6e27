"""Some of a hospital's stores come back from older backups, at any moment of a release: no second block ever leaves it.

The hub keeps what it has. Office and peers say that the release is running, and nobody looks at the books first.
"""

import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from party_node.state.books import mismatches
from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import JOINT, approved
from tests.party_node.streams import POLICY, first, grow
from tests.party_node.world import World

TOGETHER = ("ledger.sqlite", "journal.sqlite", "sealed")
"""What a backup that was restored together has, all of it from one moment; `streams/` with it where there is a stream."""

STORES = (*TOGETHER, "streams", "joint", "rounds", "seeds.sqlite")


STEPS = (
    "party_node.state.vault.Vault.seal",
    "party_node.state.ledger.Ledger.make",
    "party_node.state.ledger.Ledger.charge",
    "party_node.state.ledger.Ledger.send",
    "party_node.outgoing.hub.upload",
)


@dataclass(frozen=True)
class Moment:
    """Everything, at one moment.

    Attributes:
        folder: copies of both hospitals' state.
        memory: what office, hub and relay remember.
        known: digest of every block of the north's of which the hub was told.
    """

    folder: Path
    memory: dict[str, Any]
    known: frozenset[str]


def state_of(world: World, name: str) -> Path:
    return Path(getattr(world, name).folder) / "state"


def copied(source: Path, target: Path) -> None:
    """Bring a file or folder back as it was; what was not there then is gone."""
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copy(source, target)


def told(world: World) -> frozenset[str]:
    return frozenset(sealed.sha256 for sealed in world.hub.sealed if sealed.party == "north")


def remembered(world: World) -> dict[str, Any]:
    """What office, hub and relay remember, as it is now."""
    records = {release: record.SerializeToString() for release, record in world.coordinator.records.items()}
    posts = {release: {**vars(post)} for release, post in world.relay.posts.items()}
    kept = {release: {key: copy.copy(value) for key, value in post.items()} for release, post in posts.items()}
    hub = {"sealed": list(world.hub.sealed), "blocks": copy.deepcopy(world.hub.blocks)}
    return {"records": records, "posts": kept, "hub": hub}


def remind(world: World, memory: dict[str, Any]) -> None:
    """Let them remember just that."""
    for release, data in memory["records"].items():
        world.coordinator.records[release].ParseFromString(data)
    world.hub.sealed[:], world.hub.blocks = memory["hub"]["sealed"], copy.deepcopy(memory["hub"]["blocks"])
    for release in [*world.relay.posts]:
        if release not in memory["posts"]:
            del world.relay.posts[release]
    for release, post in memory["posts"].items():
        vars(world.relay.posts[release]).update({key: copy.copy(value) for key, value in post.items()})
    world.relay.offices.clear()
    world.relay.open.clear()
    world.relay.partial.clear()


def moments_of(world: World, cycles: int = 6) -> list[Moment]:
    """A release that all approved, step by step, to its delivery; also after what is done within a step of the north's."""
    found: list[Moment] = []

    def note() -> None:
        folder = world.north.folder.parent / f"moment-{len(found)}"
        for name in JOINT:
            shutil.copytree(state_of(world, name), folder / name)
        found.append(Moment(folder, remembered(world), told(world)))

    def and_noted(done: Callable[..., Any]) -> Callable[..., Any]:
        def act(*given: Any, **named: Any) -> Any:
            said = done(*given, **named)
            note()
            return said

        return act

    note()
    for _ in range(cycles):
        with pytest.MonkeyPatch.context() as patch:
            for step in STEPS:
                patch.setattr(step, and_noted(resolve_name(step)))
            world.north.cycle()
        note()
        world.south.cycle()
    note()
    return found


def restored(world: World, now: Moment, older: Callable[[str], Moment | None]) -> None:
    """The world of one moment, in which the north has some stores of earlier ones."""
    remind(world, now.memory)
    for name in JOINT:
        copied(now.folder / name, state_of(world, name))
    for store in STORES:
        then = older(store)
        if then is not None:
            copied(then.folder / "north" / store, state_of(world, "north") / store)


def go_on(world: World) -> None:
    with world.north.running() as north, world.south.running() as south:
        for _ in range(3):
            north()
            south()


def mixed(make_world: MakeWorld) -> tuple[World, str]:
    world = make_world(POLICY)
    release = world.coordinator.propose(world.spec())
    for hospital in (world.north, world.south):
        hospital.cycle()
    return world, release


def moments(make_world: MakeWorld) -> tuple[World, str]:
    world = make_world(POLICY)
    return world, approved(world)


def two_rounds(make_world: MakeWorld) -> tuple[World, str]:
    world = make_world(
        '[policy.auto_approve]\nmechanisms = ["ranges", "moments"]\nmax_epsilon = 1.0\nmax_delta = 1e-4\n'
    )
    return world, approved(world, two_rounds=True, range_proofs=False)


def stream(make_world: MakeWorld) -> tuple[World, str]:
    world = make_world(POLICY)
    grow(world, 1)
    release = world.coordinator.propose(first(world, of="mixed"))
    for hospital in (world.north, world.south):
        hospital.cycle()
    return world, release


KINDS = (mixed, moments, two_rounds, stream)


def check_restores(world: World, release: str, cases: int, seed: int) -> tuple[int, int]:
    """Restore at random; how many cases the books alone would have stopped, and in how many the hub knew of a forgotten block."""
    random, known = np.random.default_rng(seed), moments_of(world)
    spec = ReleaseSpec.from_bytes(world.coordinator.records[release].proposal)
    price, stopped, forgotten = guarantee(spec).party("north").mu2, 0, 0
    assert known[-1].known
    for _ in range(cases):
        at = int(random.integers(1, len(known)))
        now, once = known[at], known[int(random.integers(0, at)) if random.random() < 0.5 else 0]
        how = random.integers(0, 3)
        chosen = {store for store in STORES if random.random() < 0.5}
        if how == 0:  # just what belongs together
            chosen = {*TOGETHER, "streams"}
        if how == 1:  # and some of the rest
            chosen |= {*TOGETHER, "streams"}
        each = {store: known[int(random.integers(0, at))] if how == 2 else once for store in STORES}
        restored(world, now, lambda store: each[store] if store in chosen else None)  # noqa: B023 - called at once
        stopped += bool(mismatches(world.north.hospital_state().books))
        draws = len(world.north.noise.draws)
        go_on(world)
        blocks = {(sealed.key, sealed.sha256) for sealed in world.hub.sealed if sealed.party == "north"}
        assert len({key for key, _ in blocks}) == len(blocks), (at, chosen)
        assert now.known <= told(world)
        if len(now.known) == spec.rounds()[-1].stop:
            assert len(world.north.noise.draws) == draws, (at, chosen)
        hospital_state = world.north.hospital_state()
        if hospital_state.ledger.stage("cohort", release) == "close":
            forgotten += 1
            assert hospital_state.ledger.balance("cohort").charged == price
            world.coordinator.move(release, "FAILED")
            world.north.cycle()
            assert world.north.hospital_state().ledger.balance("cohort").charged == price
    return stopped, forgotten


@pytest.mark.parametrize("kind", KINDS)
def test_no_second_block_leaves_after_a_partial_restore(
    make_world: MakeWorld, kind: Callable[[MakeWorld], tuple[World, str]]
) -> None:
    _, forgotten = check_restores(*kind(make_world), cases=8, seed=5)
    assert forgotten


def test_a_hub_of_before_says_nothing_of_our_blocks_and_is_served_as_ever(make_world: MakeWorld) -> None:
    world, release = mixed(make_world)
    world.hub.owns = lambda _: ()
    go_on(world)
    assert [hospital.status(release) for hospital in (world.north, world.south)] == ["delivered", "delivered"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nor_after_any_of_many(make_world: MakeWorld, kind: Callable[[MakeWorld], tuple[World, str]]) -> None:
    stopped, forgotten = check_restores(*kind(make_world), cases=150, seed=6)
    assert forgotten
    assert stopped
