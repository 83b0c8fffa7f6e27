"""Releases of joint moments between the two hospitals of a `World`, and what became of them."""

from datetime import UTC, datetime, timedelta

import numpy as np

from dprelease.mechanisms.moments.terms import layout_of
from dprelease.release.block import read_block
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
from party_node.state.journal import FINAL, Status
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, ROWS, Hospital, World
from tests.support.joint import entries, exact_gram, summed
from tests.support.rounds import in_published_ranges, ranges_first
from tests.support.specs import build_spec, with_terms

JOINT = ("north", "south")
SETTLED = FINAL | {Status.DELIVERED}


def joint_spec(
    world: World,
    *names: str,
    title: str = "moments",
    outcomes: tuple[str, ...] = (),
    guarantee: str | None = None,
    two_rounds: bool = False,
    range_proofs: bool = True,
) -> ReleaseSpec:
    """An honest proposal of joint moments over the hospitals' tables; of two rounds it has ranges in the first."""
    own = {name: getattr(world, name).hospital_state().catalogue() for name in names or JOINT}
    now = datetime.now(UTC)
    honest = build_spec(
        {name: catalogue.columns for name, catalogue in own.items()},
        mechanism="moments",
        rows=ROWS,
        keys={name: world.members[name].fingerprint for name in own},
        title=title,
        outcomes=outcomes,
        guarantee=guarantee,
        grid_bits=16 if two_rounds else 10,
    )
    facts = {
        "roster": "cohort",
        "alignment": next(iter(own.values())).alignment,
        "created": instant(now),
        "expires": instant(now + timedelta(hours=1)),
    }
    proofs = range_proofs and len(own) > 1
    spec = with_terms(honest.model_copy(update=facts), range_proofs=proofs)
    return ranges_first(spec, range_proofs=proofs) if two_rounds else spec


def approved(world: World, *names: str, two_rounds: bool = False, range_proofs: bool = True) -> str:
    """A release of joint moments that every hospital has approved; without proofs, in half the messages, a person may have to."""
    spec = joint_spec(world, *names, two_rounds=two_rounds, range_proofs=range_proofs)
    release = world.coordinator.propose(spec)
    for hospital in (getattr(world, name) for name in names or JOINT):
        hospital.cycle()
        if hospital.status(release) == "waiting":
            hospital.hospital_state().accept(hospital.record(release))
            hospital.cycle()
    assert world.coordinator.state(release) == "APPROVED"
    return release


def deliver(world: World) -> None:
    """Rounds of both hospitals: until nothing is under way, and one more, in which nothing may happen; 8 at the most."""
    hospitals, left = (world.north, world.south), 8
    with world.north.running() as north, world.south.running() as south:
        while left:
            north()
            south()
            records = [each for hospital in hospitals for each in hospital.books.journal.releases()]
            left = min(left, 2) - 1 if all(each.status in SETTLED for each in records) else left - 1


def kinds(world: World, release: str, sender: str = "north") -> list[str]:
    """What a hospital has sent through the relay."""
    post = world.relay.posts.get(release)
    return [message.header.kind for party, message, _ in post.given if party == sender] if post else []


def released_exactly(world: World, release: str, *names: str) -> bool:
    """Whether the blocks at the hub, less the noise that was drawn, add up to the Gram matrix."""
    spec = ReleaseSpec.from_bytes(world.coordinator.records[release].proposal)
    last = spec.rounds()[-1].start
    blocks, drawn = [], np.zeros(layout_of(spec).entries, np.int64)
    for name in names or JOINT:
        blocks.append(read_block(world.block(release, name, last), spec, name, last).values.reshape(-1))
        others, diagonal = getattr(world, name).noise.draws[-DRAWS_OF_ONE_BLOCK:]
        drawn[~layout_of(spec).diagonal] += others.values[0]
        drawn[layout_of(spec).diagonal] += diagonal.values[0]
    tables = {name: getattr(world, name).hospital_state().table(spec).bounded for name in names or JOINT}
    if last:
        first = {name: (read_block(world.block(release, name), spec, name),) for name in names or JOINT}
        spec = in_published_ranges(spec, first)
    return (summed(spec, blocks) - drawn).tolist() == entries(spec, exact_gram(spec, tables))


def session_folder(hospital: Hospital, release: str) -> list[str]:
    return [path.name for path in (hospital.folder / "state" / "joint" / release).rglob("*")]
