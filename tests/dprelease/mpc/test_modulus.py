"""The field of sessions beside the ring: its arithmetic against Python's integers, its streams, and words that are no elements."""

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import product as pairs
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dprelease.arrays import Integers
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import new_private_key
from dprelease.mpc import exchange
from dprelease.mpc.encryption import derive_again
from dprelease.mpc.exchange import masked
from dprelease.mpc.in_memory import multiply
from dprelease.mpc.modulus import FIELD, MODULI, RING, Field, Modulus, P
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.schedule import COORDINATOR, Schedule, deal, read_randomness
from tests.support.range_proofs import CONTEXT

ONES = (1 << 64) - 1
WORD_ROWS = 1 << 13
"""Rows of words whose sums are exact at once."""
NAMES = ("amber", "birch", "cedar", "delta", "ember", "fjord")
BOTH = pytest.mark.parametrize("modulus", MODULI.values(), ids=["ring", "field"])
EDGES = [0, 1, 2, P - 1, P - 2, P >> 1, (P >> 1) + 1, (1 << 20) - 1, 1 << 20, (1 << 41) - 1, 1 << 41, 1 << 42, 1 << 60]
elements = st.one_of(st.integers(0, P - 1), st.sampled_from(EDGES))


def by_python(left: npt.NDArray[np.integer], right: npt.NDArray[np.integer]) -> list[list[int]]:
    """left^T right mod p in unbounded integers."""
    columns = [[int(v) for v in column] for column in left.T], [[int(v) for v in column] for column in right.T]
    return [[sum(a * b for a, b in zip(x, y, strict=True)) % P for y in columns[1]] for x in columns[0]]


def extreme(sign: int) -> int:
    """An element whose lower limbs are odd and nearly as large as they can be, on one side of zero."""
    limb = sign * ((1 << 20) - 1)
    return (limb + (limb << 21) + (((1 << 19) - 1) << 42)) % P


def test_p_is_prime() -> None:
    """Lucas and Lehmer: 2^61 - 1 divides the 60th of 4, 14, 194, ..., each the square of the one before less 2."""
    value = 4
    for _ in range(59):
        value = (value * value - 2) % P
    assert value == 0
    assert P == 2**61 - 1


@given(st.integers(-(2**63), 2**63 - 1), elements, elements, st.integers(1 - (1 << 30), (1 << 30) - 1))
def test_arithmetic_is_that_of_integers_mod_p(number: int, left: int, right: int, weight: int) -> None:
    x, y = (np.array([each], np.uint64) for each in (left, right))
    assert FIELD.elements(np.array([number], np.int64)).tolist() == [number % P]
    assert FIELD.add(x, y).tolist() == [(left + right) % P]
    assert FIELD.subtract(x, y).tolist() == [(left - right) % P]
    assert FIELD.scaled(weight, x).tolist() == [weight * left % P]
    assert RING.scaled(weight, x).tolist() == [weight * left % (1 << 64)]
    assert FIELD.elements(x.view(np.int64)).tolist() == [left]
    lifted = int(FIELD.signed(x)[0])
    assert (lifted % P, abs(lifted) < FIELD.reach) == (left, True)


@pytest.mark.parametrize("number", [0, 1, P - 1, P, P + 1, 4 * P, 2**63 - 1, 1 << 61, 1 << 60])
def test_integers_at_the_corners_become_elements(number: int) -> None:
    for value in (number, -number, -(2**63)):
        assert FIELD.elements(np.array([value], np.int64)).tolist() == [value % P]
    codes = np.array([-(2**31), -1, 0, 2**31 - 1], np.int32)
    assert FIELD.elements(codes).tolist() == [int(each) % P for each in codes]


@given(st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 4)), st.integers(0, 24), st.data())
def test_products_of_elements_and_small_integers(shape: tuple[int, int, int], bits: int, data: st.DataObject) -> None:
    rows, d, e = shape
    bound = 1 << bits
    left = data.draw(arrays(np.uint64, (rows, d), elements=elements))
    right = data.draw(arrays(np.uint64, (rows, e), elements=elements))
    codes = data.draw(arrays(np.int32, (rows, e), elements=st.integers(-bound, bound)))
    assert FIELD.product(left, right).tolist() == by_python(left, right)
    assert FIELD.product(left, codes, right_bits=bits).tolist() == by_python(left, codes)
    assert FIELD.product(codes, left, left_bits=bits).tolist() == by_python(codes, left)
    assert FIELD.product(codes, codes, left_bits=bits, right_bits=bits).tolist() == by_python(codes, codes)


@pytest.mark.parametrize("rows", [WORD_ROWS - 1, WORD_ROWS, WORD_ROWS + 1, 2 * WORD_ROWS + 1])
def test_the_largest_limbs_of_one_sign_in_every_row(rows: int) -> None:
    """An odd sum beyond 2^53 cannot be a float64: limbs one bit wider, or twice the rows, would be found here."""
    values = [extreme(1), extreme(-1), P - 1, P >> 1, 1 << 60, (1 << 60) - 1]
    left = np.tile(np.array(values, np.uint64), (rows, 1))
    odd = left.copy()
    odd[1::2] -= np.uint64(1)  # sums of both parities
    for one, other in ((left, left), (odd, left), (odd, odd)):
        first, second = (
            [[int(v) for v in one[row]] for row in (0, 1)],
            [[int(v) for v in other[row]] for row in (0, 1)],
        )
        counts = -(-rows // 2), rows // 2
        expected = [
            [sum(n * first[at][i] * second[at][j] for at, n in enumerate(counts)) % P for j in range(len(values))]
            for i in range(len(values))
        ]
        assert FIELD.product(one, other).tolist() == expected


@pytest.mark.parametrize("bits", range(8, 25))
def test_the_largest_limbs_with_the_largest_small_integers(bits: int) -> None:
    rows = (1 << (54 - 20 - max(bits, 20))) - 1
    values, codes = [extreme(1), extreme(-1), P - 1], [1 << bits, -(1 << bits), (1 << bits) - 1]
    left, right = np.tile(np.array(values, np.uint64), (rows, 1)), np.tile(np.array(codes, np.int32), (rows, 1))
    expected = [[rows * x * q % P for q in codes] for x in values]
    assert FIELD.product(left, right, right_bits=bits).tolist() == expected
    assert FIELD.product(right, left, left_bits=bits).T.tolist() == expected


@pytest.mark.parametrize(("d", "e"), [(34, 34), (1, 130), (65, 129)])
def test_matrices_of_many_columns(d: int, e: int) -> None:
    """Against products of halves of 31 and 30 bits, in NumPy's own integers of any size."""
    generator = np.random.default_rng(7)
    left, right = (generator.integers(0, P, (300, width), np.uint64) for width in (d, e))
    assert (FIELD.product(left, right) == left.astype(object).T @ right.astype(object) % P).all()


def schedule_for(count: int, modulus: Modulus, rows: int = 9, rotating: bool = True, curious: int = 1) -> Schedule:
    widths = {name: place % 3 + 1 for place, name in enumerate(NAMES[:count])}
    return Schedule("5e" * 32, widths, rows, 12, curious, rotating and count > 2, modulus)


def test_an_element_is_61_bits_of_a_word_and_the_value_p_is_drawn_again() -> None:
    seed = bytes(range(32))
    words = SecretStream(seed).read_words(0, 4, 3)
    assert (FIELD.read(seed, 0, 4, 3) == words & np.uint64(P)).all()
    assert (RING.read(seed, 0, 4, 3) == words).all()
    turns = [[P, 7, ONES, 1 << 61], [ONES, 100, 9, 100], [3, 200, 200, 200]]
    assert FIELD.first_elements(lambda turn: np.array(turns[turn], np.uint64)).tolist() == [3, 7, 9, 0]


def test_small_fields_draw_again_from_seeds_of_the_first() -> None:
    """In a field of 5 elements three words in eight are none, so that further turns are read all the time."""
    seed, found = b"s" * 32, Field(5).read(b"s" * 32, 0, 3000, 2)
    turns = [
        SecretStream(derive_again(seed, turn) if turn else seed).read_words(0, 3000, 2) & np.uint64(7)
        for turn in range(40)
    ]
    expected = np.choose(np.argmax(np.array(turns) < 5, axis=0), [turn.astype(np.int64) for turn in turns[:32]])
    assert (found == expected).all()
    assert abs(np.bincount(found.reshape(-1).astype(int), minlength=5) - 1200).max() < 5 * (6000 * 0.16) ** 0.5
    assert (Field(5).read(seed, 10, 7, 2) == found[10:17]).all()


def products(schedule: Schedule, matrices: dict[str, npt.NDArray[np.int32]]) -> list[tuple[Integers, Integers]]:
    """What the sessions of all parties in one process give for each pair, beside NumPy's integers."""
    keys, commitments = {name: new_private_key() for name in matrices}, dict.fromkeys(matrices, "11" * 32)
    made = multiply(schedule, matrices, keys, commitments, lambda _: nullcontext())
    modulus, found = schedule.modulus, []
    for pair in schedule.pairs:
        halves = [made[name].shares[pair] for name in (pair.first, pair.second)]
        whole = matrices[pair.first].astype(np.int64).T @ matrices[pair.second].astype(np.int64)
        assert all((modulus.signed(half) != whole).all() for half in halves)
        assert all((modulus.canonical(half, "a share") == half).all() for half in halves)
        found.append((modulus.signed(modulus.add(*halves)), whole))
    return found


@BOTH
@pytest.mark.parametrize(("count", "rotating", "curious"), [(2, False, 1), (3, False, 2), (6, True, 1)])
def test_sessions_give_the_integer_products(modulus: Modulus, count: int, rotating: bool, curious: int) -> None:
    schedule, generator = schedule_for(count, modulus, 9, rotating, curious), np.random.default_rng(count)
    matrices = {
        name: generator.integers(-4096, 4097, (9, width)).astype(np.int32) for name, width in schedule.widths.items()
    }
    for place, matrix in enumerate(matrices.values()):
        matrix[:, 0] = 4096 * (-1) ** place  # whole columns at either bound
    for found, whole in products(schedule, matrices):
        assert (found == whole).all()


Door = Callable[[Schedule, npt.NDArray[np.uint64]], Any]


def correction(schedule: Schedule, words: npt.NDArray[np.uint64]) -> object:
    data = deal(schedule, COORDINATOR)["birch"]
    return read_randomness(data[:32] + words[:2].tobytes(), schedule, "birch", COORDINATOR)


@pytest.mark.parametrize("word", [P, P + 1, 1 << 61, 1 << 63, ONES])
def test_words_that_are_no_elements_are_refused_of_a_dealer(word: int) -> None:
    schedule = schedule_for(2, FIELD)
    good = np.array([P - 1, 0], np.uint64)
    correction(schedule, good)
    for place in (0, 1):
        bad = good.copy()
        bad[place] = word
        with pytest.raises(IntegrityError, match="what the coordinator dealt has a number that is no element"):
            correction(schedule, bad)
        assert RING.canonical(bad, "it") is bad  # there every word is an element


def test_words_that_are_no_elements_are_refused_in_masked_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same elements, each written as a word beyond p: two kinds of arithmetic could read two numbers in it."""
    schedule = schedule_for(2, FIELD)
    matrices = {name: np.ones((9, width), np.int32) for name, width in schedule.widths.items()}

    def beyond(codes: npt.NDArray[np.int32], mask: bytes, own: Schedule) -> Iterator[Words]:
        yield from (chunk + np.uint64(P) for chunk in masked(codes, mask, own))

    monkeypatch.setattr(exchange, "masked", beyond)
    with pytest.raises(IntegrityError, match="masked columns of birch has a number that is no element"):
        products(schedule, matrices)


PRIMES = (3, 5, 7, 11, 67_108_859, P)


def corners(p: int) -> list[int]:
    """Elements at which carries and halves turn over, and some that are drawn."""
    powers = [1 << bit for bit in range(p.bit_length())]
    drawn = [random.Random(p).randrange(p) for _ in range(20)]
    near = [power + change for power in powers for change in (-1, 0, 1)]
    return sorted({value % p for value in (*near, *drawn, -1, -2, p // 2)})


def field_of(p: int) -> Field:
    return FIELD if p == P else Field(p)


@pytest.mark.parametrize("p", PRIMES)
def test_arithmetic_at_its_corners(p: int) -> None:
    field, every = field_of(p), list(pairs(corners(p), repeat=2))
    left, right = (np.array(side, np.uint64) for side in zip(*every, strict=True))
    assert field.add(left, right).tolist() == [(x + y) % p for x, y in every]
    assert field.subtract(left, right).tolist() == [(x - y) % p for x, y in every]
    assert field.multiply(left, right).tolist() == [x * y % p for x, y in every]
    assert field.scaled(-7 << 70, left).tolist() == [(-7 << 70) * x % p for x, _ in every]
    assert field.dot(left, right) == sum(x * y for x, y in every) % p
    assert field.total(np.stack([left, right]), 1).tolist() == [sum(map(int, side)) % p for side in (left, right)]
    signed = [-(1 << 63), -1, 0, 1, (1 << 63) - 1]
    assert field.elements(np.array(signed)).tolist() == [value % p for value in signed]


@pytest.mark.parametrize("p", [0, 1, 2, 4, 1 << 26, (1 << 61) + 1])
def test_other_moduli_are_refused(p: int) -> None:
    with pytest.raises(InvalidInput, match="an odd prime"):
        Field(p)


def test_the_decoder_takes_exactly_what_the_encoder_makes() -> None:
    parts = np.array([[0, P - 1], [1, 2]], np.uint64), np.array([5], np.uint64)
    data = FIELD.encode(parts)
    found = FIELD.decode(data, [(2, 2), (1,)], "it")
    assert all(np.array_equal(one, other) for one, other in zip(found, parts, strict=True))
    for bad in (data + bytes(8), data[:-1], data[:-8], b""):
        with pytest.raises(IntegrityError, match="bytes"):
            FIELD.decode(bad, [(2, 2), (1,)], "it")


@pytest.mark.parametrize("p", [3, 5, P])
def test_streams_are_read_in_any_pieces_and_differ_by_purpose(p: int) -> None:
    field = field_of(p)
    stream = field.uniform(bytes(32), CONTEXT)
    whole = stream(0, 200)
    assert whole.max() < p
    assert np.array_equal(np.concatenate([stream(0, 3), stream(3, 64), stream(67, 133)]), whole)
    assert not np.array_equal(field.uniform(bytes([1] * 32), CONTEXT)(0, 200), whole)
