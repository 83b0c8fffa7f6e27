"""Tables give every key its value, are uniform where values are, and hardly ever fail."""

from itertools import combinations
from secrets import token_bytes

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.special import gammaln, logsumexp

from dprelease.errors import IntegrityError
from dprelease.intersection.key_value_store import KeyRows, decode, encode, labels_of, pseudorandom, rows_of, shares
from dprelease.intersection.ring import Ring
from dprelease.mpc.ring import Words


def segment_for(rows: int) -> int:
    return Ring("5e" * 32, {"a": rows, "b": 1}).segment


def random_words(generator: np.random.Generator, count: int) -> Words:
    return generator.integers(0, 2**64, count, np.uint64)


def random_rows(generator: np.random.Generator, count: int, segment: int) -> KeyRows:
    return rows_of(generator.integers(0, 256, (count, 64), np.uint8), segment)


@pytest.mark.parametrize(("count", "segment"), [(n, segment_for(n)) for n in (1, 2, 3, 9, 40, 20_000)] + [(300, 80)])
def test_every_row_finds_its_value(count: int, segment: int) -> None:
    """Whether rows peel or not: with fewer sparse cells than rows, almost all are solved by elimination."""
    generator = np.random.default_rng(count)
    rows, values = random_rows(generator, count, segment), random_words(generator, count)
    table = encode(rows, values, random_words(generator, 3 * segment + 128))
    assert (decode(table, rows) == values).all()


@pytest.mark.parametrize("count", [1, 6, 50, 400])
def test_a_table_of_uniform_values_is_uniform_whatever_its_keys(count: int) -> None:
    """Exactly: values and free cells map to tables one to one, so every table has as many ways to arise as any other.

    Any table at all is the encoding of the values that any rows find in it, and which cells are free depends on rows alone.
    """
    generator = np.random.default_rng(7 * count)
    segment = segment_for(count)
    rows, cells = random_rows(generator, count, segment), 3 * segment + 128
    filler = random_words(generator, cells)
    pivots = np.zeros(cells, bool)
    for _ in range(4):
        table = random_words(generator, cells)
        assert (encode(rows, decode(table, rows), table.copy()) == table).all()
        pivots |= encode(rows, random_words(generator, count), filler.copy()) != filler
    assert pivots.sum() == count


def test_other_keys_find_nothing_in_particular() -> None:
    generator = np.random.default_rng(11)
    rows, strangers = random_rows(generator, 200, segment_for(200)), random_rows(generator, 2000, segment_for(200))
    table = encode(rows, np.zeros(200, np.uint64), random_words(generator, 3 * segment_for(200) + 128))
    found = decode(table, strangers)
    assert found.all()
    ones = int(np.unpackbits(found.view(np.uint8)).sum())
    assert abs(ones - 64_000) < 6 * np.sqrt(2000 * 64 / 4)


def test_rows_that_depend_on_one_another_are_refused() -> None:
    generator = np.random.default_rng(13)
    rows = random_rows(generator, 20, segment_for(20))
    twice = KeyRows(
        np.concatenate([rows.cells, rows.cells[:1]]), np.concatenate([rows.dense, rows.dense[:1]]), rows.segment
    )
    with pytest.raises(IntegrityError, match="depend on one another"):
        encode(twice, random_words(generator, 21), random_words(generator, 3 * rows.segment + 128))


def test_labels_and_rows_share_no_byte() -> None:
    evaluations = np.arange(64, dtype=np.uint8)[None, :]
    assert labels_of(evaluations)[0].tolist() == list(range(40, 56))
    assert rows_of(evaluations, 5).dense[0].tolist() == list(range(24, 40))


@pytest.mark.parametrize(("count", "most"), [(9, 1.3), (2, 1.3), (30, 0.9), (100, 0.15), (1000, 0.01)])
def test_the_expected_number_of_even_sets_is_small(count: int, most: float) -> None:
    """E of the module's docstring: the probability of a failure is at most E 2^-128.

    A set of k rows names cells k times in each segment of M. All M numbers are even with probability
    2^-M sum over j of C(M, j) (1 - 2 j / M)^k, independently in the three segments.
    """
    size, even = segment_for(count), np.arange(2, count + 1, 2)
    j = np.arange(size + 1)
    binomial = gammaln(size + 1) - gammaln(j + 1) - gammaln(size - j + 1) - size * np.log(2)
    with np.errstate(divide="ignore"):
        base = np.log(np.abs(1 - 2 * j / size))
    segments = np.array([logsumexp(binomial + k * base) for k in even])
    sets = gammaln(count + 1) - gammaln(even + 1) - gammaln(count - even + 1)
    assert np.exp(logsumexp(sets + 3 * segments)) < most


def test_shares_of_all_parties_cancel_and_those_of_fewer_do_not() -> None:
    parties = range(4)
    seeds = {pair: token_bytes(32) for pair in combinations(parties, 2)}
    labels = np.frombuffer(token_bytes(16 * 50), np.uint8).reshape(50, 16)
    made = [shares([seed for pair, seed in seeds.items() if party in pair], labels) for party in parties]
    assert not np.bitwise_xor.reduce(made).any()
    for count in (1, 2, 3):
        for some in combinations(made, count):
            assert np.bitwise_xor.reduce(some).all()


def test_the_function_is_one_block_of_aes() -> None:
    seed, labels = token_bytes(32), np.arange(32, dtype=np.uint8).reshape(2, 16)
    cipher = Cipher(algorithms.AES256(seed), modes.CBC(labels[1].tobytes())).encryptor()
    block = cipher.update(bytes(16))  # of a zero block under this chaining value
    assert pseudorandom(seed, labels)[1] == int.from_bytes(block[:8], "little")
