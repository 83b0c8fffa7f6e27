"""Streams at a hospital, over real TLS; every cycle is a fresh process."""

from itertools import pairwise

import numpy as np
import pytest

from dprelease.canonical import sha256
from dprelease.release.accounting import guarantee
from dprelease.release.block import read_block
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from party_node.state.books import mismatches
from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import JOINT
from tests.party_node.streams import MONTH, POLICY, first, following, grow, publish
from tests.party_node.world import World
from tests.support.noise import ZeroNoise


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    made = make_world(POLICY)
    grow(made, 1)
    return made


def opened(world: World, release: str) -> Release:
    """What a learner has of it."""
    spec = ReleaseSpec.from_bytes(world.coordinator.records[release].proposal)
    names = [part.party for part in spec.parties]
    return Release(spec, {name: (read_block(world.block(release, name), spec, name),) for name in names}, ())


def exact(world: World, release: str, months: int) -> None:
    """Without noise the moments are those of everybody so far."""
    grow(world, months)
    found = opened(world, release)
    whole = [np.ones((MONTH * months, 1))]
    for part in found.spec.parties:
        rows = getattr(world, part.party).hospital_state().read().bounded
        whole.append(rows.codes / 2.0**found.spec.grid_bits)
    moments = found.moments()
    rows = np.hstack(whole)
    shown = [found.spec.released.index(each.name) + 1 for each in moments.layout.variables]
    np.testing.assert_allclose(moments.gram, (rows.T @ rows)[np.ix_([0, *shown], [0, *shown])], atol=1e-8)


def kinds(world: World, release: str) -> dict[str, list[str]]:
    return {name: sorted(getattr(world, name).ledger_kinds(release)) for name in JOINT}


def test_every_checkpoint_is_everybody_so_far_and_the_first_alone_is_charged(world: World) -> None:
    for name in JOINT:
        getattr(world, name).noise = ZeroNoise()
    spec = first(world)
    releases = [publish(world, spec)]
    for month in (2, 3):
        grow(world, month)
        spec = following(world, spec, month)
        releases.append(publish(world, spec))
    for month, release in enumerate(releases, 1):
        exact(world, release, month)
        assert kinds(world, release) == {name: ["charge", "reserve", "send"] for name in JOINT}
    for name in JOINT:
        hospital_state = getattr(world, name).hospital_state()
        own = guarantee(world.north.record(releases[0]).spec)
        balance = hospital_state.ledger.balance("cohort")
        assert balance.charged == own.party(name).mu2
        assert balance.exposed == own.party(name).exposure
        assert mismatches(hospital_state.books) == []
        assert hospital_state.streams.folder.kept() == []  # the last one is public
        for earlier, later in pairwise(releases):
            values = [opened(world, each).blocks[name][0].values for each in (earlier, later)]
            assert np.array_equal(values[0], values[1][: len(values[0])])
            assert hospital_state.ledger.made("cohort")[later] == (sha256(world.block(later, name)),)
