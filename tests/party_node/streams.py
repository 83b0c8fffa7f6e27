"""Streams between the two hospitals of a `World`: tables that grow by twenty patients a month, and checkpoints of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
from tests.party_node.joint_release import JOINT
from tests.party_node.world import Hospital, World, rows_of
from tests.support.specs import build_spec
from tests.support.streams import first_spec

MONTH = 20
MONTHS = 4
POLICY = """
[policy.auto_approve]
mechanisms = ["stream", "moments", "mixed"]
max_epsilon = 1.0
max_delta = 1e-4
"""


def lines_of(hospital: Hospital, months: int) -> list[str]:
    """The file of a hospital after some months, header first."""
    header, *lines = rows_of(hospital.member.name, MONTHS * MONTH)
    dated = [f"{line},{1 + int(line.split(',')[0][-4:]) // MONTH}" for line in lines]
    return [f"{header},month", *(line for line in dated if int(line.rsplit(",", 1)[1]) <= months)]


def grow(world: World, months: int, *names: str) -> None:
    """Bring hospitals' tables to some month, and let them say so."""
    for name in names or JOINT:
        hospital = getattr(world, name)
        if "month" not in hospital.config.read_text():
            hospital.edit('subject = "patient"', 'subject = "patient"\nbatch = "month"\nwhole_batches = true')
        hospital.source.write_text("\n".join(lines_of(hospital, months)) + "\n")
        hospital.hospital_state().make_catalogue()


def first(world: World, *names: str, of: str = "moments", checkpoints: int = 3, **options: Any) -> ReleaseSpec:
    """An honest proposal of a stream."""
    own = {name: getattr(world, name).hospital_state().catalogue().of_batch(1) for name in names or JOINT}
    agreed = next(iter(own.values()))
    now = datetime.now(UTC)
    base = build_spec(
        {name: catalogue.columns for name, catalogue in own.items()},
        rows=agreed.rows,
        keys={name: world.members[name].fingerprint for name in own},
        title="a stream",
        grid_bits=16,
    )
    facts = {
        "roster": "cohort",
        "alignment": agreed.alignment,
        "created": instant(now),
        "expires": instant(now + timedelta(hours=1)),
    }
    if of == "mixed":
        options = {"k": 4, **options}
    return first_spec(base.model_copy(update=facts), of=of, checkpoints=checkpoints, **options)


def following(world: World, previous: ReleaseSpec, number: int, **changed: Any) -> ReleaseSpec:
    """An honest proposal of a later checkpoint; `changed` fields are as they are given, honest or not."""
    name = previous.parties[0].party
    batch = getattr(world, name).hospital_state().catalogue().of_batch(number)
    now = datetime.now(UTC)
    fields = {
        "terms": previous.terms.following(previous, number, batch.rows),
        "rows": batch.rows,
        "alignment": batch.alignment,
        "created": instant(now),
        "expires": instant(now + timedelta(hours=1)),
    }
    return previous.model_copy(update=fields | changed)


def publish(world: World, spec: ReleaseSpec) -> str:
    """Offer a checkpoint, and let the hospitals of it go the whole way."""
    release = world.coordinator.propose(spec)
    hospitals = [getattr(world, part.party) for part in spec.parties]
    for _ in range(12):
        for hospital in hospitals:
            hospital.cycle()
        if all(hospital.status(release) == "delivered" for hospital in hospitals):
            world.coordinator.move(release, "PUBLISHED")
            for hospital in hospitals:
                hospital.cycle()
            return release
    raise AssertionError({hospital.member.name: hospital.record(release).note for hospital in hospitals})
