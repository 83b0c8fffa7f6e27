"""Bits of declared columns: every bit string is a value in bounds, every value has one, and units hold them in order."""

from itertools import product

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.mpc.modulus import Field
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm, bit_weights
from tests.support.range_proofs import plan_of

LEVEL = GridInterval(0, 4, 4)
MIXED = Claim(
    (GridInterval(-5, 9), GridInterval(-4, 4, 8), LEVEL, LEVEL, LEVEL, GridInterval(7, 7), GridInterval(-1000, 999)),
    (OneHot((2, 3), 4), OneHot((4,), 4, open=True)),
    (RowNorm((0, 1), 70), RowNorm((6,), 10**12)),
)
ROWS = np.array([[-5, -4, 4, 0, 0, 7, -1000], [6, 4, 0, 4, 4, 7, 999], [-1, 4, 4, 0, 4, 7, 0]])


@pytest.mark.parametrize("span", [*range(1, 130), 255, 256, 299, 511, 512])
def test_sums_of_weights_are_exactly_the_range(span: int) -> None:
    weights = np.array(bit_weights(span))
    strings = np.arange(1 << len(weights))[:, None] >> np.arange(len(weights)) & 1
    assert np.array_equal(np.unique(strings @ weights), np.arange(span + 1))


def test_usual_numbers_of_bits() -> None:
    sizes = [len(bit_weights(interval.span)) for interval in (GridInterval(-1024, 1024), GridInterval(-4, 4, 8), LEVEL)]
    assert sizes == [12, 1, 1]
    assert bit_weights(0) == ()


@pytest.mark.parametrize("unit", [1, 2, 7, 32])
def test_bits_say_the_numbers(unit: int) -> None:
    """Read back by the definition: bit j of a row is bit j mod unit of unit j / unit."""
    steps = MIXED.steps(ROWS)
    packed = MIXED.packed(steps, unit)
    assert packed.shape == (3, MIXED.units(unit))
    at = np.arange(len(MIXED.weights))
    bits = packed[:, at // unit] >> (at % unit).astype(np.uint32) & 1
    values = np.zeros((3, len(MIXED.numbers)), np.int64)
    np.add.at(values, (slice(None), MIXED.number_of), bits * MIXED.weights)
    values += [number.lower for number in MIXED.numbers]
    squares = ROWS**2
    expected = [*ROWS.T, [4, 0, 0], 70 - squares[:, 0] - squares[:, 1], 10**12 - squares[:, 6]]
    assert values.T.tolist() == np.array(expected).tolist()
    assert int(packed.max()) < 1 << unit


@pytest.mark.parametrize("span", range(1, 34))
def test_every_value_of_small_ranges(span: int) -> None:
    claim = Claim((GridInterval(-3, span - 3),))
    values = np.arange(-3, span - 2)[:, None]
    bits = claim.packed(claim.steps(values))[:, 0]
    read = [sum(weight for k, weight in enumerate(bit_weights(span)) if bit >> k & 1) for bit in bits.tolist()]
    assert read == list(range(span + 1))


@pytest.mark.parametrize(
    ("place", "value"), [(0, 10), (0, -6), (1, 0), (1, 12), (2, 0), (3, 4), (4, 2), (4, 8), (5, 6), (6, 10**6), (0, 9)]
)
def test_an_honest_party_has_no_row_beyond_the_claim(place: int, value: int) -> None:
    rows = ROWS.copy()
    rows[0, place] = value
    with pytest.raises(InvalidInput):
        MIXED.steps(rows)


def test_two_levels_of_an_open_group_are_refused() -> None:
    claim = Claim((LEVEL, LEVEL), (OneHot((0, 1), 4, open=True),))
    for row, right in zip(product((0, 4), repeat=2), (True, True, True, False), strict=True):
        if right:
            claim.steps(np.array([row]))
        else:
            with pytest.raises(InvalidInput, match="two levels"):
                claim.steps(np.array([row]))


@pytest.mark.parametrize(
    ("columns", "groups", "norms"),
    [
        ((LEVEL,), (OneHot((1,), 4),), ()),
        ((LEVEL,), (OneHot((), 4),), ()),
        ((LEVEL, LEVEL), (OneHot((0, 0), 4),), ()),
        ((LEVEL, GridInterval(0, 4)), (OneHot((0, 1), 4),), ()),
        ((LEVEL,), (OneHot((0,), 8),), ()),
        ((LEVEL,), (), (RowNorm((0,), -1),)),
        ((LEVEL,), (), (RowNorm((0, 1), 1),)),
    ],
)
def test_claims_that_contradict_themselves(
    columns: tuple[GridInterval, ...], groups: tuple[OneHot, ...], norms: tuple[RowNorm, ...]
) -> None:
    with pytest.raises(InvalidInput):
        Claim(columns, groups, norms)


@pytest.mark.parametrize(("lower", "upper", "step"), [(1, 0, 1), (0, 3, 2), (0, 1, 0), (0, 1, -1)])
def test_intervals_of_whole_steps(lower: int, upper: int, step: int) -> None:
    with pytest.raises(InvalidInput, match="no range"):
        GridInterval(lower, upper, step)


@pytest.mark.parametrize(
    "claim",
    [
        Claim((GridInterval(0, 7),)),
        Claim((GridInterval(-4, 4),)),
        Claim((GridInterval(0, 2),), (), (RowNorm((0,), 3),)),
        Claim((GridInterval(0, 3, 3),) * 4, (OneHot((0, 1, 2, 3), 3),)),
        Claim((GridInterval(0, 1),), (), (RowNorm((0,), 7),)),
    ],
)
def test_a_field_that_is_too_small_is_refused(claim: Claim) -> None:
    with pytest.raises(InvalidInput, match="too much modulo 7"):
        plan_of(claim, 1, Field(7))


@pytest.mark.parametrize(("claim", "rows"), [(Claim(()), 1), (Claim((LEVEL,)), 0)])
def test_a_proof_of_nothing_is_refused(claim: Claim, rows: int) -> None:
    with pytest.raises(InvalidInput, match="one row or more"):
        plan_of(claim, rows)
