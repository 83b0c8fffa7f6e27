"""Rows in whole ranges, of equal weights and without norms, are the rows of public bounds: every number is the same, bit by bit.

Public columns must not outweigh the private ones (P2 <= gamma, docs/guarantees.md 17): otherwise claim 17 asks for more noise.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.arrays import Integers
from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipped_sensitivity import Rows
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.clipping_rule import Situation, choose_clipping
from dprelease.mechanisms.moments.parameters import least_noise, sensitivity_of
from dprelease.mechanisms.moments.privatize import coded
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.support.joint import compute
from tests.support.noise import RecordingNoise, SeededNoise
from tests.support.specs import build_spec, categorical, numeric, one_block_each, random_rows, with_terms

PARTIES: dict[str, tuple[Column, ...]] = {
    "north": (numeric("age", 18, 104), categorical("smoker", "yes"), numeric("bmi", 11, 70)),
    "south": (
        categorical("ward", "a", "b", "c", exhaustive=True, fill="a"),
        numeric("year", 1990, 2020, public=True),
        numeric("dose", 0, 7),
    ),
}
NAMES = tuple(name for own in PARTIES.values() for name in numbers_of(own))


def in_whole_ranges(spec: ReleaseSpec) -> ReleaseSpec:
    """The spec with clipping that changes no row."""
    layout, terms = layout_of(spec), joint_moments(spec)
    unit = 1 << spec.grid_bits
    clipping = Clipping(
        constant=unit,
        weights=(unit,) * len(spec.columns),
        ranges=tuple(map(Range.whole, NAMES)),
        square_weight="1/2",
    )
    weight = Rows.of(layout, clipping).best_weight()
    clipping = clipping.model_copy(update={"square_weight": str(weight)})
    shape = len(spec.parties), terms.curious, terms.dealer, spec.grid_bits, spec.rows_per_subject
    found = least_noise(layout, budget(spec.target), *shape, clipping=clipping)
    return with_terms(spec, **{name: getattr(found, name) for name in ("scale", "diagonal_scale", "clipping", "mu2")})


def released(spec: ReleaseSpec) -> tuple[Integers, NoisyMoments, list[RecordingNoise]]:
    """The released integers, what a learner reads in them, and the noise of each party."""
    rows = {part.party: random_rows(spec, part.party, 4) for part in spec.parties}
    noise = {party: RecordingNoise(SeededNoise(seed)) for seed, party in enumerate(rows)}
    blocks = compute(spec, rows, noise).blocks
    read = one_block_each(spec, blocks).moments()
    largest = limits(layout_of(spec), spec.rows, spec.grid_bits, joint_moments(spec).scales, len(rows))
    return add_up([block.values for block in blocks.values()], largest), read, list(noise.values())


@pytest.mark.parametrize(("grid_bits", "rows_per_subject"), [(8, 1), (16, 3), (24, 1)])
def test_every_number_is_that_of_public_bounds(grid_bits: int, rows_per_subject: int) -> None:
    bounds = build_spec(PARTIES, mechanism="moments", grid_bits=grid_bits, rows_per_subject=rows_per_subject)
    whole = in_whole_ranges(bounds)
    assert joint_moments(whole).scales == joint_moments(bounds).scales
    assert check_spec(whole) == check_spec(bounds)
    moved = [sensitivity_of(layout_of(spec), joint_moments(spec).clipping, grid_bits) for spec in (bounds, whole)]
    assert moved[0] == moved[1]
    for party in PARTIES:
        rows = random_rows(bounds, party, 4)
        assert np.array_equal(coded(rows, whole), coded(rows, bounds))
    (values, read, noise), (others, again, drawn) = map(released, (bounds, whole))
    for one, two in zip(noise, drawn, strict=True):
        assert [draw.scale for draw in one.draws] == [draw.scale for draw in two.draws]
        assert all(np.array_equal(a.values, b.values) for a, b in zip(one.draws, two.draws, strict=True))
    assert np.array_equal(values, others)
    assert read.gram.tobytes() == again.gram.tobytes()
    assert read.noise_sd.tobytes() == again.noise_sd.tobytes()


def test_a_request_without_norms_weighs_columns_without_tails_less() -> None:
    found = choose_clipping(PARTIES, list(map(Range.whole, NAMES)), Situation(0.2, 2000, 2, 1, 16), {}, math.inf)
    assert not found.norms
    assert found.weights[0] == 1 << 16
    assert found.constant == found.weights[1] == found.weights[3] < found.weights[0]
