"""Power cuts and lost disks at every step of a session: it ends in the same moments, and nothing of ours goes out twice.

Steps are counted in a clean run: calls to the relay and the coordinator, files that are written, deals that are drawn, chunks
that are masked, seeds, charge and rows. Then the process ends before the first of them, before the second, and so on; between
three hospitals the first of each kind is enough.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import Conflict, IntegrityError
from dprelease.files import durable
from dprelease.mpc import exchange as exchange_module
from dprelease.mpc.messages import MessageHeader
from dprelease.mpc.schedule import seed_digest
from party_node.state import session as folder_module
from party_node.state.transactions import transaction
from tests.party_node.joint_world import MADE, JointWorld, Site, joint_spec
from tests.party_node.world import PowerCut
from tests.support.joint import entries, exact_gram

CASES = [(2, "a", "ab", False), pytest.param(3, "b", "cab", False, marks=pytest.mark.slow), (2, "b", "ab", True)]
"""Hospitals, whose process ends, who looks in which order, and whether ranges came first. One of three that dies while it deals is
killed every time in `tests/end_to_end/test_moments_crashes.py`."""


@contextmanager
def steps_on_disk(world: JointWorld) -> Iterator[None]:
    """Count a step before every file that is written, every deal that is drawn and every chunk that is masked."""
    write, deal_, masked = folder_module.write_secret, exchange_module.deal, exchange_module.masked
    rmtree = durable.shutil.rmtree

    def tick(what: str) -> None:
        if world.current is not None:
            world.current.tick(what)

    def writing(path: Path, pieces: Iterable[bytes]) -> None:
        tick(f"write {path.name}")
        write(path, pieces)

    def removing(path: Path) -> None:
        tick(f"remove {path.name}")
        rmtree(path)

    def dealing(*arguments: Any) -> Any:
        tick("deal")
        return deal_(*arguments)

    def masking(*arguments: Any) -> Iterator[Any]:
        for chunk in masked(*arguments):
            tick("mask")
            yield chunk

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_module, "write_secret", writing)
        patch.setattr(durable.shutil, "rmtree", removing)
        patch.setattr(exchange_module, "deal", dealing)
        patch.setattr(exchange_module, "masked", masking)
        yield


def exact(world: JointWorld) -> bool:
    return world.released() == entries(world.spec, exact_gram(world.known, world.tables))


def steps_of(folder: Path, count: int, name: str, order: str, *, two_rounds: bool = False) -> list[str]:
    """What a hospital does in a clean run."""
    world = JointWorld(folder, joint_spec(count, rows=4, two_rounds=two_rounds))
    with steps_on_disk(world):
        world.run(order=order)
    assert exact(world)
    return world[name].steps


def cut(world: JointWorld, name: str, order: str, step: int) -> Site:
    """A run in which a hospital's process ends before a step."""
    site = world[name]
    site.fault = step
    with steps_on_disk(world), pytest.raises(PowerCut):
        world.run(order=order)
    assert len(site.steps) == step
    assert site.block is None
    return site


def sent(world: JointWorld, name: str) -> list[MessageHeader]:
    return [message.header for party, message, _ in world.post.given if party == name]


@pytest.mark.parametrize(("count", "name", "order", "two_rounds"), CASES)
def test_a_cut_at_any_step_ends_in_the_same_moments(
    folder: Path, count: int, name: str, order: str, two_rounds: bool
) -> None:
    steps = steps_of(folder / "clean", count, name, order, two_rounds=two_rounds)
    assert {"list", "send hello", "use seeds", "charge", "mask", "send columns", "send transcript"} <= set(steps)
    for step in range(1, len(steps) + 1) if count == 2 and not two_rounds else distinct(steps):
        world = JointWorld(folder / str(step), joint_spec(count, rows=4, two_rounds=two_rounds))
        site = cut(world, name, order, step)
        before = sent(world, name)
        world.run(order=order)
        assert exact(world), steps[step - 1]
        given = [message.header for _, message, _ in world.post.given]
        assert {header.round for header in given} == {1}
        # Whatever was sent is sent again unchanged, and no place ever held another message.
        assert set(before) <= set(sent(world, name))
        assert len(set(given)) == len({header.place for header in given})
        first_columns = site.steps.index("send columns")
        assert "charge" in site.steps[:first_columns]


def seeds_noted(site: Site) -> list[tuple[str, str, str]]:
    with transaction(site.folder / "seeds.sqlite") as db:
        return list(db.execute("SELECT digest, session, dealer FROM seeds"))


def distinct(steps: Sequence[str]) -> list[int]:
    """Numbers of the steps, each kind of step once."""
    return [number for number, what in enumerate(steps, 1) if what not in steps[: number - 1]]


@pytest.mark.parametrize(
    ("count", "name", "order"), [(2, "b", "ab"), pytest.param(3, "c", "abc", marks=pytest.mark.slow)]
)
def test_a_disk_lost_at_any_step_begins_the_next_round(folder: Path, count: int, name: str, order: str) -> None:
    """How a third hospital follows into the next round, `test_a_cut_while_following_into_the_next_round_is_no_lost_state`
    sees every time.
    """
    steps = steps_of(folder / "clean", count, name, order)
    again = 0
    for step in distinct(steps):
        world = JointWorld(folder / str(step), joint_spec(count, rows=4))
        site = cut(world, name, order, step)
        old = [message for _, message, _ in world.post.given]
        lost = any(message.header.sender == name for message in old)
        session, dealt = world.post.session(1), seeds_noted(site)
        site.lose()
        if any(message.header.kind == "transcript" for message in old if message.header.sender == name):
            check_refused(site)
            continue
        world.post.lists = lambda party, messages, old=tuple(old): (*old, *messages)  # which a party must not mind
        site.look()  # before any peer has made its block
        world.run(order=order)
        assert exact(world), steps[step - 1]
        assert site.state.round == (2 if lost else 1)
        assert {each.state.round for each in world.sites.values()} == {site.state.round}
        again += lost
        if lost:
            check_rounds_apart(world, session, dealt)
            for message in old:
                with pytest.raises(Conflict):
                    world.post.take(message.header.sender, message, b"")
    assert again > 10


def check_refused(site: Site) -> None:
    """Once a transcript of ours is out our block may be, too: who has lost what it knew of it makes no other."""
    for _ in range(2):
        with pytest.raises(IntegrityError, match="our state is older than what we have sent"):
            site.look()
    assert site.session.state() is None
    assert {message.header.round for message in site.world.post.messages.values()} == {1}


def check_rounds_apart(world: JointWorld, session: str | None, dealt: list[tuple[str, str, str]]) -> None:
    """No seed of the round that was abandoned serves in the next, and no message of its session is listed."""
    for site in world.sites.values():
        noted = seeds_noted(site)
        sessions = {each[1] for each in noted}
        assert sessions <= {session, world.post.session(2)}
        assert len({digest for digest, _, _ in noted}) == len(noted)
    opened = {seed_digest(each.mask) for site in world.sites.values() for each in site.dealt().values()}
    assert opened.isdisjoint({digest for digest, _, _ in dealt})
    assert {message.header.round for message in world.post.messages.values()} == {2}
    given = [message.header for _, message, _ in world.post.given]
    assert len(set(given)) == len({header.place for header in given})


def test_a_cut_while_following_into_the_next_round_is_no_lost_state(folder: Path) -> None:
    """A hospital that has confirmed the round before, and is to follow a peer that lost its disk."""

    transcript = steps_of(folder / "of c", 3, "c", "abc").index("send transcript") + 1

    def behind(name: str) -> JointWorld:
        world = JointWorld(folder / name, joint_spec(3, rows=4))
        cut(world, "c", "abc", transcript)
        world["b"].look()
        assert "send transcript" in world["b"].steps
        world["c"].lose()
        world["c"].fault = 0
        for site in world.sites.values():
            site.steps.clear()
        with steps_on_disk(world):
            world["c"].look()
        return world

    clean = behind("clean")
    with steps_on_disk(clean):
        clean["b"].look()
    steps = clean["b"].steps
    assert {"remove in", "remove out", "write session.json"} <= set(steps)
    for step in distinct(steps):
        world = behind(str(step))
        world["b"].fault = step
        with steps_on_disk(world), pytest.raises(PowerCut):
            world["b"].look()
        world.run(order="abc")
        assert exact(world), steps[step - 1]
        assert {site.state.round for site in world.sites.values()} == {2}


def test_whoever_has_made_its_block_never_computes_again(folder: Path) -> None:
    """A peer that comes back with another key finds nobody: a release that is lost so has failed, and its charge stands."""
    world = JointWorld(folder, joint_spec(3, rows=4))
    while world["c"].block is None:
        for name in "abc":
            world[name].look()
    assert world["a"].block is None
    block, steps = world["c"].block, len(world["c"].steps)
    world["a"].offer(2)
    for _ in range(3):
        assert world["b"].look().startswith("waits for c to join the computation, round 2")
        assert world["c"].look() == MADE
    assert world["c"].block is block
    assert len(world["c"].steps) == steps
    assert (world["c"].state.round, world["b"].state.round) == (1, 2)


@pytest.mark.parametrize("lost", [True, False])
def test_a_disk_that_forgot_its_block_makes_no_other_whatever_round_a_peer_begins(folder: Path, lost: bool) -> None:
    """Everything of a hospital is put back as it was before, its list of blocks too; a peer begins the next round."""
    world = JointWorld(folder, joint_spec(3, rows=4))
    site, backup = world["c"], folder / "backup"
    for name in "abcab":
        world[name].look()
    shutil.copytree(site.folder, backup)
    world.run(order="abc")
    site.block = None
    shutil.rmtree(site.folder)
    shutil.copytree(backup, site.folder)
    if lost:
        site.lose()
    for number in (1, 2, 3):
        with pytest.raises(IntegrityError, match="a block may exist already, and no other is made"):
            site.look()
        world["a"].offer(number + 1)
    assert site.block is None


def test_an_offer_that_reappears_after_our_disk_was_lost_begins_the_next_round(folder: Path) -> None:
    """The relay did not show it while we began anew, so that our key is not the one that the peers know."""
    world = JointWorld(folder, joint_spec(3, rows=4))
    for name in "abc":
        world[name].look()
    world["a"].lose()
    lists, world.post.lists = world.post.lists, lambda party, messages: ()
    with pytest.raises(Conflict):
        world["a"].look()
    assert world["a"].state.round == 1
    world.post.lists = lists
    world.run(order="abc")
    assert exact(world)
    assert {site.state.round for site in world.sites.values()} == {2}


def test_two_disks_lost_at_once_begin_one_round_together(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(3, rows=4))
    for name in "abca":
        world[name].look()
    world["a"].lose()
    world["c"].lose()
    world.run(order="bca")
    assert exact(world)
    assert {site.state.round for site in world.sites.values()} == {2}


def test_a_disk_lost_in_every_round_is_no_end_of_rounds(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(2, rows=4))
    for _ in range(4):
        for name in "ab":
            world[name].look()
        world["b"].lose()
    world.run(order="ba")
    assert exact(world)
    assert world["a"].state.round == 5
    seeds = [digest for site in world.sites.values() for digest, _, _ in seeds_noted(site)]
    assert len(set(seeds)) == len(seeds)  # no seed was dealt twice, to anybody
