"""The ring of the joint moments: its keystream to the bit, its products against Python's own integers."""

import ast
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dprelease.errors import InvalidInput
from dprelease.mpc import ring
from dprelease.mpc.ring import SecretStream, Words, chunk_rows, product
from dprelease.privacy.public_stream import PublicStream

# NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt), with its counter block as the stream's position.
NIST_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
NIST_COUNTER = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
NIST_KEYSTREAM = "0bdf7df1591716335e9a8b15c860c502"

SEED = bytes(range(32))
MODULUS = 1 << 64
TOP = MODULUS - 1
WORD_ROWS = 1 << (53 - 21 - 21)
"""Rows of words whose sums are exact at once."""


def stream_bytes(seed: bytes, offset: int, size: int) -> bytes:
    """The definition: every block is the encrypted counter."""
    encrypt = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()  # noqa: S305 - the definition of counter mode
    first = offset // 16
    blocks = b"".join(encrypt.update((first + i).to_bytes(16, "big")) for i in range(-(-size // 16)))
    return blocks[:size]


def by_python(left: npt.NDArray[np.integer], right: npt.NDArray[np.integer]) -> Words:
    """left^T right mod 2^64 in unbounded integers."""
    shape = left.shape[1], right.shape[1]
    columns = [[int(v) for v in column] for column in left.T], [[int(v) for v in column] for column in right.T]
    entries = [sum(a * b for a, b in zip(x, y, strict=True)) % MODULUS for x in columns[0] for y in columns[1]]
    return np.array(entries, np.uint64).reshape(shape)


def extreme(bits: int, sign: int) -> int:
    """A word whose balanced limbs of `bits` bits are all odd and nearly as large as they can be."""
    limb = sign * ((1 << (bits - 1)) - 1)
    return sum(limb << place for place in range(0, 64, bits)) % MODULUS


words = st.one_of(
    st.integers(0, TOP),
    st.sampled_from([0, 1, TOP, 1 << 63, (1 << 63) - 1, 1 << 21, (1 << 21) - 1, 1 << 43, (1 << 43) - 1, 1 << 44]),
)
shapes = st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 4))


def small(bits: int) -> st.SearchStrategy[int]:
    bound = 1 << bits
    return st.one_of(st.integers(-bound, bound), st.sampled_from([-bound, bound, bound - 1, 0]))


def test_published_vector_of_counter_mode() -> None:
    row = SecretStream(NIST_KEY).read_words(NIST_COUNTER, 1, 2)
    assert row.astype("<u8").tobytes().hex() == NIST_KEYSTREAM


def test_first_words_of_a_fixed_seed() -> None:
    read = SecretStream(SEED).read_words(0, 2, 2)
    assert read.dtype == np.uint64
    assert read.tolist() == [[0xD09F492AB60090F2, 0x80772EDD6A9AF3A9], [0xE59FB94AAE765DF0, 0x3D36C248319BF6A6]]


@given(st.integers(0, 1 << 40), st.integers(0, 9), st.integers(0, 9))
def test_words_are_little_endian_and_run_along_rows(share: int, rows: int, width: int) -> None:
    expected = np.frombuffer(stream_bytes(SEED, 16 * share * width, 8 * rows * width), "<u8").reshape(rows, width)
    read = SecretStream(SEED).read_words(2 * share, rows, width)
    assert read.dtype == np.uint64
    assert np.array_equal(read, expected)


@pytest.mark.parametrize("size", [8191, 8192, 8193, 16385, 40000])
def test_reads_longer_than_the_encrypted_pieces_are_one_stream(size: int) -> None:
    read = SecretStream(SEED).read_words(6, size, 1)[:, 0]
    assert read.astype("<u8").tobytes() == stream_bytes(SEED, 48, 8 * size)


def test_what_is_read_belongs_to_the_reader() -> None:
    stream = SecretStream(SEED)
    first = stream.read_words(0, 4, 3)
    kept = first.copy()
    first += np.uint64(1)
    assert np.array_equal(stream.read_words(0, 4, 3), kept)


@pytest.mark.parametrize("seed", [b"", bytes(16), bytes(31), bytes(33)])
def test_seed_of_another_length_is_refused(seed: bytes) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        SecretStream(seed)


@pytest.mark.parametrize(("first", "rows", "width"), [(-2, 1, 2), (0, -1, 2), (0, 1, -2)])
def test_negative_numbers_are_refused(first: int, rows: int, width: int) -> None:
    with pytest.raises(InvalidInput, match="negative"):
        SecretStream(SEED).read_words(first, rows, width)


def test_an_odd_first_row_is_refused_where_it_lies_inside_a_block() -> None:
    with pytest.raises(InvalidInput, match="even row"):
        SecretStream(SEED).read_words(3, 2, 5)
    assert np.array_equal(SecretStream(SEED).read_words(3, 2, 4), SecretStream(SEED).read_words(0, 5, 4)[3:])


def test_the_seed_is_not_shown() -> None:
    seed = b"a seed that nobody else may see!"
    stream = SecretStream(seed)
    shown = repr(stream) + str(stream) + f"{[stream]}{vars(stream)}"
    assert "nobody" not in shown
    assert seed.hex() not in shown


def test_secret_streams_are_not_public_streams_nor_noise() -> None:
    assert not issubclass(SecretStream, PublicStream)
    assert not hasattr(SecretStream, "read")
    tree = ast.parse(Path(ring.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("dprelease")} == {"dprelease.errors"}


@given(st.integers(1, 1 << 18))
def test_a_chunk_is_the_largest_even_number_of_rows_within_a_mebibyte(width: int) -> None:
    rows = chunk_rows(width)
    assert rows >= 2
    assert rows % 2 == 0
    assert rows == 2 or rows * width * 8 <= 1 << 20
    assert (rows + 2) * width * 8 > 1 << 20


@pytest.mark.parametrize("width", [0, -1])
def test_a_chunk_without_columns_is_refused(width: int) -> None:
    with pytest.raises(InvalidInput, match="at least one column"):
        chunk_rows(width)


@given(shapes, st.data())
def test_products_of_words(shape: tuple[int, int, int], data: st.DataObject) -> None:
    rows, d, e = shape
    left = data.draw(arrays(np.uint64, (rows, d), elements=words))
    right = data.draw(arrays(np.uint64, (rows, e), elements=words))
    result = product(left, right)
    assert result.dtype == np.uint64
    assert np.array_equal(result, by_python(left, right))


@given(shapes, st.integers(0, 24), st.sampled_from([np.int32, np.int64]), st.data())
def test_products_with_a_small_operand(shape: tuple[int, int, int], bits: int, kind: type, data: st.DataObject) -> None:
    rows, d, e = shape
    left = data.draw(arrays(np.uint64, (rows, d), elements=words))
    right = data.draw(arrays(kind, (rows, e), elements=small(bits)))
    expected = by_python(left, right)
    assert np.array_equal(product(left, right, right_bits=bits), expected)
    assert np.array_equal(product(right, left, left_bits=bits), expected.T)


@given(shapes, st.integers(0, 24), st.integers(0, 24), st.data())
def test_products_of_small_operands(
    shape: tuple[int, int, int], left_bits: int, right_bits: int, data: st.DataObject
) -> None:
    rows, d, e = shape
    left = data.draw(arrays(np.int32, (rows, d), elements=small(left_bits)))
    right = data.draw(arrays(np.int64, (rows, e), elements=small(right_bits)))
    result = product(left, right, left_bits=left_bits, right_bits=right_bits)
    assert np.array_equal(result, by_python(left, right))


@pytest.mark.parametrize("rows", [WORD_ROWS - 1, WORD_ROWS, WORD_ROWS + 1, 2 * WORD_ROWS - 1, 2 * WORD_ROWS + 1])
@pytest.mark.parametrize("word", [TOP, 1 << 63, (1 << 63) - 1, 0x8000020000200000 - (1 << 21), (1 << 64) - (1 << 21)])
def test_the_largest_words_in_every_row(word: int, rows: int) -> None:
    column = np.full((rows, 1), word, np.uint64)
    assert product(column, column).item() == rows * word * word % MODULUS


@pytest.mark.parametrize("rows", [WORD_ROWS - 1, 2 * WORD_ROWS - 1, 4 * WORD_ROWS - 1])
@pytest.mark.parametrize("bits", range(18, 28))
def test_words_whose_limbs_are_odd_and_large_for_any_choice_of_limbs(bits: int, rows: int) -> None:
    """An odd sum beyond 2^53 cannot be a float64: limbs one bit wider, or twice the rows, would be found here."""
    values = [extreme(bits, 1), extreme(bits, -1)]
    left = np.tile(np.array(values, np.uint64), (rows, 1))
    expected = [[rows * x * y % MODULUS for y in values] for x in values]
    assert product(left, left).tolist() == expected


@pytest.mark.parametrize("bits", range(8, 25))
def test_large_words_with_large_small_integers(bits: int) -> None:
    rows = (1 << (54 - 21 - max(bits, 20))) - 1
    values, codes = [extreme(22, 1), extreme(22, -1)], [1 << bits, -(1 << bits), (1 << bits) - 1, 1 - (1 << bits)]
    left = np.tile(np.array(values, np.uint64), (rows, 1))
    right = np.tile(np.array(codes, np.int32), (rows, 1))
    expected = [[rows * x * q % MODULUS for q in codes] for x in values]
    assert product(left, right, right_bits=bits).tolist() == expected
    assert product(right, left, left_bits=bits).T.tolist() == expected


@pytest.mark.parametrize("bits", range(20, 25))
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_large_small_integers(bits: int, more: int) -> None:
    rows = (1 << (54 - 2 * bits)) + more if bits < 24 else 64 + more
    codes = [1 << bits, -(1 << bits), (1 << bits) - 1, 1 - (1 << bits)]
    left = np.tile(np.array(codes, np.int64), (rows, 1))
    expected = [[rows * x * y % MODULUS for y in codes] for x in codes]
    assert product(left, left, left_bits=bits, right_bits=bits).tolist() == expected


def test_sums_of_small_products_wrap_at_the_top() -> None:
    column = np.full((1 << 15, 1), 1 << 24, np.int32)
    assert product(column, column, left_bits=24, right_bits=24).item() == 1 << 63
    twice = np.concatenate([column, column])
    assert product(twice, twice, left_bits=24, right_bits=24).item() == 0


@pytest.mark.parametrize(("d", "e"), [(34, 34), (1, 130), (130, 1), (65, 129), (64, 64), (3, 10)])
def test_matrices_of_many_columns_and_rows(d: int, e: int) -> None:
    rng = np.random.default_rng(7)
    rows = 2 * WORD_ROWS + 77
    left = rng.integers(0, MODULUS, (rows, d), np.uint64)
    right = rng.integers(0, MODULUS, (rows, e), np.uint64)
    codes = rng.integers(-(1 << 20), (1 << 20) + 1, (rows, e), np.int32)
    # NumPy's own product of integers wraps in the same ring; it is too slow to be used, not wrong.
    assert np.array_equal(product(left, right), left.T @ right)
    assert np.array_equal(product(left, codes, right_bits=20), left.T @ codes.astype(np.int64).view(np.uint64))


def test_operands_may_be_views_and_read_only() -> None:
    rng = np.random.default_rng(8)
    whole = rng.integers(0, MODULUS, (6, 500), np.uint64)
    whole.flags.writeable = False
    left, right = whole.T[::2, :4], whole.T[1::2, 2:]
    assert np.array_equal(product(left, right), by_python(left, right))


@pytest.mark.parametrize("shape", [(3, 2), (5, 2), (4,), (4, 2, 1)])
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="same rows"):
        product(np.zeros((4, 2), np.uint64), np.zeros(shape, np.uint64))


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32, np.float64])
def test_only_words_go_without_a_bound(kind: type) -> None:
    ones = np.ones((2, 2), np.uint64)
    with pytest.raises(InvalidInput, match="bound on its magnitude"):
        product(ones, ones.astype(kind))
    with pytest.raises(InvalidInput, match="bound on its magnitude"):
        product(ones.astype(kind), ones)


@pytest.mark.parametrize(("kind", "bits"), [(np.uint64, 20), (np.float64, 20), (np.int32, 25), (np.int32, -1)])
def test_bounds_are_for_signed_integers_up_to_24_bits(kind: type, bits: int) -> None:
    ones = np.ones((2, 2), np.uint64)
    with pytest.raises(InvalidInput, match="give signed integers"):
        product(ones, ones.astype(kind), right_bits=bits)


@pytest.mark.parametrize("value", [257, -257, -(1 << 31)])
def test_integers_beyond_their_bound_are_refused(value: int) -> None:
    ones, codes = np.ones((2, 1), np.uint64), np.array([[0], [value]], np.int32)
    with pytest.raises(InvalidInput, match="beyond its bound"):
        product(ones, codes, right_bits=8)
    with pytest.raises(InvalidInput, match="beyond its bound"):
        product(codes, ones, left_bits=8)
