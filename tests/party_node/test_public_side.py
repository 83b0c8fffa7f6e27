"""What public columns of ours make of a proposal, and what their owner is told of them."""

import json

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.errors import InvalidInput
from party_node.source.public_columns import public_norm2
from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import joint_spec
from tests.party_node.test_public_columns import declare
from tests.party_node.world import WITHIN_LIMITS
from tests.support.specs import numeric

N = 60
BITS = 10


def test_it_is_declined_before_anything_is_reserved(make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(WITHIN_LIMITS + 'guarantees = ["DP", "label-DP"]\n')
    declare(world.north, "age", "sex")
    for hospital in (world.north, world.south):
        hospital.cycle()
    spec = joint_spec(world, "north", "south", outcomes=("glucose",), guarantee="label-DP")
    release = world.coordinator.propose(spec)
    world.north.cycle(2)
    assert world.north.status(release) == "declined"
    assert world.north.ledger_kinds(release) == []
    assert "follow from the others and the constant: sex=other" in caplog.text  # nobody's sex is another
    assert "sex" not in world.north.record(release).note


def test_the_norm_is_of_public_columns_and_a_little_more_than_it_is() -> None:
    random = np.random.default_rng(5)
    a, b = random.integers(-512, 512, (2, N)) / 1024
    columns = numeric("a", public=True), numeric("b", public=True), numeric("y")
    raw = {"a": a, "b": b, "y": random.uniform(-1, 1, N)}
    bounded, longest = BoundedRows(bound(raw, columns, BITS), columns, BITS), float((a**2 + b**2).max())
    assert longest < public_norm2(bounded, ("a", "b")) < longest + 0.01
    assert public_norm2(bounded, ("a",)) < public_norm2(bounded, ("a", "b"))
    with pytest.raises(InvalidInput, match="y is not public here"):
        public_norm2(bounded, ("a", "y"))


def test_the_owner_is_told_its_norm(make_world: MakeWorld) -> None:
    world = make_world(WITHIN_LIMITS)
    declare(world.north, "age")
    told = json.loads(world.north.run("public", "norm", "age", "--json").stdout)
    assert 0 < told["outcome_norm2"] <= told["bounds_allow"] == 1
    assert f"outcome_norm2 = {told['outcome_norm2']}" in world.north.run("public", "norm", "age").output
    assert "sex is not public here" in world.north.run("public", "norm", "sex").output
