"""A first round is read once by everybody who builds on it, and never taken for that of other blocks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dprelease.estimators.fitting import fit
from dprelease.mechanisms.base import FIRST_ROUND
from dprelease.mechanisms.ranges.mechanism import RangesMechanism
from dprelease.release.spec import ReleaseSpec
from tests.support.noise import SeededNoise
from tests.support.rounds import after, first_blocks, ranges_first
from tests.support.simulations import simulated
from tests.support.specs import build_spec, numeric

COLUMNS = {"north": (numeric("age", 0.0, 120.0),), "south": (numeric("weight", 30.0, 200.0),)}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[ReleaseSpec]:
    found: list[ReleaseSpec] = []
    read = RangesMechanism.read

    def counted(self: RangesMechanism, spec: ReleaseSpec, *more: Any) -> Any:
        found.append(spec)
        return read(self, spec, *more)

    monkeypatch.setattr(RangesMechanism, "read", counted)
    return found


@pytest.mark.parametrize("mechanism", ["moments", "mixed"])
def test_a_first_round_is_read_once(mechanism: str, reads: list[ReleaseSpec], tmp_path: Path) -> None:
    spec = ranges_first(build_spec(COLUMNS, mechanism=mechanism, grid_bits=16, epsilon=20.0))
    made = simulated(spec, "weight", tmp_path, SeededNoise(1))
    assert len(reads) == 1  # all hospitals of a simulation are one process, which verifies as well
    assert made.release.first_ranges is made.release.earlier.view
    assert len(reads) == 1
    stranger = replace(made.release, known=FIRST_ROUND)
    fit(stranger, ["weight"]).summary()
    assert stranger.first_ranges is not None
    assert len(reads) == 2


def test_what_is_known_of_other_blocks_is_read_again(reads: list[ReleaseSpec], tmp_path: Path) -> None:
    spec = ranges_first(build_spec(COLUMNS, mechanism="mixed", grid_bits=16, epsilon=20.0))
    made = simulated(spec, "weight", tmp_path, SeededNoise(1))
    other = after(made.spec, first_blocks(made.spec, made.rows, SeededNoise(2)))
    again = replace(made.release, known=other)
    assert again.earlier.view.ranges == made.release.earlier.view.ranges != other.view.ranges
    assert len(reads) == 3
