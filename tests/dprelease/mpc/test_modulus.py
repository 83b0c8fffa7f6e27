"""The field of sessions beside the ring: its arithmetic against Python's integers, its streams, and words that are no elements."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dprelease.arrays import Integers
from dprelease.errors import IntegrityError
from dprelease.identity.signing import new_private_key
from dprelease.mpc.correlated_randomness import deal, read_randomness
from dprelease.mpc.encryption import derive_again
from dprelease.mpc.in_memory import multiply
from dprelease.mpc.matrix_product import first_share, masked
from dprelease.mpc.modulus import FIELD, MODULI, RING, Modulus, P, Redraw
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.schedule import COORDINATOR, Schedule

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


class Stream(SecretStream):
    """A keystream whose word `at` has 61 ones, the value that is no element."""

    def __init__(self, seed: bytes, at: int) -> None:
        super().__init__(seed)
        self._at = at

    def read_words(self, first_row: int, rows: int, width: int) -> Words:
        words = super().read_words(first_row, rows, width).reshape(-1)
        if 0 <= (place := self._at - first_row * width) < words.size:
            words[place] |= np.uint64(P)
        return words.reshape(rows, width)


def bad_first(calls: list[bytes], at: int) -> Callable[[bytes], SecretStream]:
    """Streams of which the first that is asked for has a word that is no element."""

    def stream(seed: bytes) -> SecretStream:
        calls.append(seed)
        return Stream(seed, at) if len(calls) == 1 else SecretStream(seed)

    return stream


def schedule_for(count: int, modulus: Modulus, rows: int = 9, rotating: bool = True, curious: int = 1) -> Schedule:
    widths = {name: place % 3 + 1 for place, name in enumerate(NAMES[:count])}
    return Schedule("5e" * 32, widths, rows, 12, curious, rotating and count > 2, modulus)


def test_an_element_is_61_bits_of_a_word_and_the_value_p_is_none() -> None:
    seed = bytes(range(32))
    words = SecretStream(seed).read_words(0, 4, 3)
    assert (FIELD.read(SecretStream(seed), 0, 4, 3) == words & np.uint64(P)).all()
    assert (RING.read(SecretStream(seed), 0, 4, 3) == words).all()
    for at in (0, 11):
        with pytest.raises(Redraw, match="no element"):
            FIELD.read(Stream(seed, at), 0, 4, 3)
    assert FIELD.read(Stream(seed, 12), 0, 4, 3).shape == (4, 3)
    assert RING.read(Stream(seed, 0), 0, 4, 3).shape == (4, 3)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("place", [0, 2])
def test_a_dealer_draws_all_again_where_a_stream_has_no_element(at: int, place: int) -> None:
    """The first mask's stream, or that of the pair's r, which is the third seed that it draws."""
    schedule, calls, drawn = schedule_for(2, FIELD), list[bytes](), list[bytes]()

    def draw(size: int) -> bytes:
        drawn.append(bytes([len(drawn)]) * size)
        return drawn[-1]

    def stream(seed: bytes) -> SecretStream:
        calls.append(seed)
        return Stream(seed, at) if len(calls) == place + 1 else SecretStream(seed)

    dealt = deal(schedule, COORDINATOR, draw, stream)
    assert dealt["amber"][:32] == drawn[2 + bool(place)]  # the second round's first seed
    made = {name: read_randomness(data, schedule, name, COORDINATOR) for name, data in dealt.items()}
    (pair,) = schedule.pairs
    masks = [FIELD.read(SecretStream(made[name].mask), 0, 9, schedule.widths[name]) for name in ("amber", "birch")]
    total = FIELD.add(made["amber"].shares[pair], made["birch"].shares[pair])
    assert total.tolist() == by_python(*masks)


def test_two_parties_take_the_same_next_seed_where_a_mask_has_no_element() -> None:
    seed, calls = b"s" * 32, list[bytes]()
    found = FIELD.read_agreed(seed, 2, 3, bad_first(calls, 5))
    assert calls == [seed, derive_again(seed, 1)]
    assert (found == FIELD.read(SecretStream(derive_again(seed, 1)), 0, 2, 3)).all()
    assert derive_again(seed, 1) not in (derive_again(seed, 2), seed)
    assert (FIELD.read_agreed(seed, 2, 3) == FIELD.read(SecretStream(seed), 0, 2, 3)).all()


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
@pytest.mark.parametrize(
    ("count", "rotating", "curious"),
    [(2, False, 1), (3, True, 1), (3, False, 2), (4, True, 1), (5, False, 3), (6, True, 1)],
)
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


def test_a_share_of_masked_columns_is_uniform_below_p() -> None:
    """The same pad whatever the cells, and never a word from p on."""
    schedule = schedule_for(2, FIELD, rows=400)
    tables = [np.full((400, 1), value, np.int32) for value in (-4096, 4096)]
    low, high = (np.vstack(list(masked(table, b"m" * 32, schedule))) for table in tables)
    assert max(low.max(), high.max()) < P
    assert (FIELD.subtract(high, low) == 8192).all()
    share = first_share(1, b"m" * 32, np.array([[P - 1, 0]], np.uint64), [np.zeros((400, 2), np.uint64)], schedule)
    assert share.tolist() == [[P - 1, 0]]
