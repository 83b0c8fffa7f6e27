"""Fields of proofs against Python's own integers, their one decoder, and their uniform streams."""

import random
from itertools import product as pairs

import numpy as np
import pytest

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mpc.proof.field import FIELD, MERSENNE, Field
from tests.support.range_proofs import CONTEXT

PRIMES = (3, 5, 7, 11, 67_108_859, MERSENNE)


def corners(p: int) -> list[int]:
    """Elements at which carries and halves turn over, and some that are drawn."""
    powers = [1 << bit for bit in range(p.bit_length())]
    drawn = [random.Random(p).randrange(p) for _ in range(20)]
    near = [power + change for power in powers for change in (-1, 0, 1)]
    return sorted({value % p for value in (*near, *drawn, -1, -2, p // 2)})


@pytest.mark.parametrize("p", PRIMES)
def test_arithmetic_at_its_corners(p: int) -> None:
    field, every = Field(p), list(pairs(corners(p), repeat=2))
    left, right = (np.array(side, np.uint64) for side in zip(*every, strict=True))
    assert field.add(left, right).tolist() == [(x + y) % p for x, y in every]
    assert field.subtract(left, right).tolist() == [(x - y) % p for x, y in every]
    assert field.multiply(left, right).tolist() == [x * y % p for x, y in every]
    assert field.scaled(-7 << 70, left).tolist() == [(-7 << 70) * x % p for x, _ in every]
    assert field.dot(left, right) == sum(x * y for x, y in every) % p
    assert field.total(np.stack([left, right]), 1).tolist() == [sum(map(int, side)) % p for side in (left, right)]
    signed = [-(1 << 63), -1, 0, 1, (1 << 63) - 1]
    assert field.integers(signed).tolist() == [value % p for value in signed]


@pytest.mark.parametrize("p", [3, 11, MERSENNE])
@pytest.mark.parametrize("rows", [1, 2047, 2048, 2049])
def test_products_of_the_largest_limbs(p: int, rows: int) -> None:
    """An odd sum beyond 2^53 cannot be a float64: limbs one bit wider, or twice the rows, are found here."""
    field, top = Field(p), p - 1
    left = np.full((rows, 2), top, np.uint64)
    left[:, 1] = (1 << 42) - 1 if p == MERSENNE else 1
    found = field.product(left, left[:, :1])
    assert found.tolist() == [[rows * top * top % p], [rows * int(left[0, 1]) * top % p]]


@pytest.mark.parametrize("p", [0, 1, 2, 4, 1 << 26, (1 << 61) + 1])
def test_other_moduli_are_refused(p: int) -> None:
    with pytest.raises(InvalidInput, match="2\\^61 - 1 or an odd prime"):
        Field(p)


def test_the_decoder_takes_exactly_what_the_encoder_makes() -> None:
    parts = np.array([[0, MERSENNE - 1], [1, 2]], np.uint64), np.array([5], np.uint64)
    data = FIELD.encode(parts)
    found = FIELD.decode(data, [(2, 2), (1,)], "it")
    assert all(np.array_equal(one, other) for one, other in zip(found, parts, strict=True))
    for bad in (data + bytes(8), data[:-1], data[:-8], b""):
        with pytest.raises(IntegrityError, match="bytes"):
            FIELD.decode(bad, [(2, 2), (1,)], "it")


@pytest.mark.parametrize("word", [MERSENNE, MERSENNE + 1, 1 << 63, (1 << 64) - 1])
def test_a_word_beyond_the_field_is_refused(word: int) -> None:
    with pytest.raises(IntegrityError, match="no element"):
        FIELD.decode(np.array([1, word], "<u8").tobytes(), [(2,)], "it")


@pytest.mark.parametrize("p", [3, 5, MERSENNE])
def test_streams_are_read_in_any_pieces_and_differ_by_purpose(p: int) -> None:
    field = Field(p)
    stream = field.uniform(bytes(32), CONTEXT)
    whole = stream(0, 200)
    assert whole.max() < p
    assert np.array_equal(np.concatenate([stream(0, 3), stream(3, 64), stream(67, 133)]), whole)
    assert not np.array_equal(field.uniform(bytes([1] * 32), CONTEXT)(0, 200), whole)


def test_a_place_takes_its_first_element_among_the_turns() -> None:
    """Words are cut to 61 bits; the one value that is no element is drawn again, at its own place alone."""
    turns = [[MERSENNE, 7, (1 << 64) - 1, 1 << 61], [(1 << 64) - 1, 100, 9, 100], [3, 200, 200, 200]]
    read = FIELD.first_elements(lambda turn: np.array(turns[turn], np.uint64))
    assert read.tolist() == [3, 7, 9, 0]
