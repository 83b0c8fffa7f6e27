"""The public mixing matrix: published vectors, an independent slow reading of its layout, and exact products."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import InvalidInput
from dprelease.mechanisms.noisy_rows import mixing as mixing_module
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing, BucketMixing, MixingMatrix
from dprelease.privacy.public_stream import PublicStream
from tests.support.specs import SEED

# Published in docs/format.md: seed 00 01 .. 1f. Another implementation must give these signs.
VECTOR_5_BY_20 = """
+-++----++++----+---
++++-++--+---+-+++--
+++++++++--+---+-+-+
+--+--+-+---+-+-+---
+-+-+-+++-+-++-+-+-+
"""
ROW_SUMS_5_BY_20 = [-4, 2, 6, -6, 4]

# k = 17 needs two AES blocks for each group of eight columns, n = 9 a second group of one column.
VECTOR_17_BY_9 = """
+-++----+
++++-++-+
++++++++-
+--+--+-+
+-+-+-++-
-++-++-++
-----++--
++++-+---
-++-+-+-+
--++----+
+-+--++--
+-+-+--+-
-+---+--+
+---+-+++
---+---+-
+++++++--
++++----+
"""


KINDS = {"bernoulli": BernoulliMixing, "buckets": BucketMixing}
kinds = st.sampled_from(list(KINDS))
every_kind = pytest.mark.parametrize("kind", KINDS)


def mixing(outputs: int, rows: int, seed: bytes = SEED, kind: str = "bernoulli") -> MixingMatrix:
    return KINDS[kind](PublicStream(seed), outputs, rows)


def drawn(signs: npt.NDArray[np.int8]) -> str:
    return "\n" + "".join("".join("+" if sign == 1 else "-" for sign in row) + "\n" for row in signs)


def slow_signs(seed: bytes, outputs: int, rows: int) -> list[list[int]]:
    """B by the words of docs/format.md, one entry at a time, counter mode written out on single AES blocks."""
    encrypt = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()  # noqa: S305 - the definition of counter mode
    stride = (outputs + 15) // 16 * 16
    matrix = []
    for r in range(outputs):
        row = []
        for i in range(rows):
            position = (i // 8) * stride + r
            keystream = encrypt.update((position // 16).to_bytes(16, "big"))
            row.append(-1 if keystream[position % 16] >> (i % 8) & 1 else 1)
        matrix.append(row)
    return matrix


def test_published_vectors() -> None:
    assert drawn(mixing(5, 20).signs(0, 20)) == VECTOR_5_BY_20
    assert drawn(mixing(17, 9).signs(0, 9)) == VECTOR_17_BY_9
    assert mixing(5, 20).row_sums().tolist() == ROW_SUMS_5_BY_20


@given(st.binary(min_size=32, max_size=32), st.integers(1, 40), st.integers(1, 40))
def test_agrees_with_the_independent_reading(seed: bytes, outputs: int, rows: int) -> None:
    assert mixing(outputs, rows, seed).signs(0, rows).tolist() == slow_signs(seed, outputs, rows)


@given(kinds, st.integers(1, 20), st.integers(1, 60), st.data())
def test_any_range_of_columns_can_be_addressed(kind: str, outputs: int, rows: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows))
    whole = mixing(outputs, rows, kind=kind)
    assert np.array_equal(whole.signs(start, stop), whole.signs(0, rows)[:, start:stop])


@given(kinds, st.integers(1, 20), st.integers(1, 70), st.integers(1, 3), st.data())
def test_product_is_the_product_with_the_signs_in_any_chunking(
    kind: str, outputs: int, rows: int, columns: int, data: st.DataObject
) -> None:
    largest = data.draw(st.sampled_from([1, (1 << 21) - 1, 1 << 21, (1 << 31) - 1]))
    codes = np.array(
        data.draw(st.lists(st.integers(-largest, largest), min_size=rows * columns, max_size=rows * columns)), np.int32
    ).reshape(rows, columns)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=4)))
    chunks = np.split(codes, cuts)
    matrix = mixing(outputs, rows, kind=kind)
    expected = matrix.signs(0, rows).astype(np.int64) @ codes.astype(np.int64)
    product = matrix.apply(chunks)
    assert product.dtype == np.int64
    assert np.array_equal(product, expected)


@every_kind
@pytest.mark.parametrize(("groups", "entries"), [(8, 1), (16, 100), (128, 1 << 22)])
def test_product_does_not_depend_on_the_working_size(
    groups: int, entries: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = np.random.default_rng(3).integers(-1000, 1001, (1333, 2)).astype(np.int32)
    matrix = mixing(5, 1333, kind=kind)
    expected = matrix.signs(0, 1333).astype(np.int64) @ codes
    monkeypatch.setattr(mixing_module, "MOST_GROUPS", groups)
    monkeypatch.setattr(mixing_module, "_WORKING_ENTRIES", entries)
    monkeypatch.setattr(mixing_module, "_WORKING_PATIENTS", entries)
    assert np.array_equal(matrix.apply([codes[:77], codes[77:]]), expected)


@every_kind
def test_product_is_exact_just_below_two_to_the_53(kind: str) -> None:
    rows = 1 << 12
    codes = np.full((rows, 1), (1 << 41) - 1, np.int64)
    codes[1::2] = -codes[1::2] + 1
    matrix = mixing(3, rows, kind=kind)
    expected = matrix.signs(0, rows).astype(object) @ codes.astype(object)
    assert matrix.apply([codes]).tolist() == expected.tolist()


@given(kinds, st.integers(1, 20), st.integers(1, 200))
def test_row_sums_are_the_mixed_ones(kind: str, outputs: int, rows: int) -> None:
    matrix = mixing(outputs, rows, kind=kind)
    assert np.array_equal(matrix.row_sums(), matrix.signs(0, rows).sum(axis=1, dtype=np.int64))


def test_every_column_has_squared_norm_k() -> None:
    signs = mixing(13, 500).signs(0, 500).astype(int)
    assert set(np.unique(signs)) == {-1, 1}
    assert set((signs**2).sum(axis=0)) == {13}


@pytest.mark.parametrize("seed", [SEED, bytes(32), bytes([7]) * 32])
def test_signs_are_balanced_and_uncorrelated(seed: bytes) -> None:
    outputs, rows = 48, 20_000
    signs = mixing(outputs, rows, seed).signs(0, rows).astype(np.float64)
    # A mean of N independent +-1 has standard error 1/sqrt(N); so has a mean of products of two of them.
    assert abs(signs.mean()) < 5 / np.sqrt(outputs * rows)
    assert np.abs(signs.mean(axis=1)).max() < 5 / np.sqrt(rows)
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(outputs)
    gram = signs @ signs.T / rows
    assert np.abs(gram[~np.eye(outputs, dtype=bool)]).max() < 5 / np.sqrt(rows)
    assert abs((signs[:, 1:] * signs[:, :-1]).mean()) < 5 / np.sqrt(outputs * (rows - 1))


@given(st.binary(min_size=32, max_size=32), st.integers(1, 30), st.integers(1, 200))
def test_every_patient_enters_one_bucket_and_buckets_have_equal_sizes(seed: bytes, outputs: int, rows: int) -> None:
    entered = mixing(outputs, rows, seed, "buckets").signs(0, rows) != 0
    assert entered.sum(axis=0).tolist() == [1] * rows
    assert {int(size) for size in entered.sum(axis=1)} <= {rows // outputs, rows // outputs + 1}


@every_kind
def test_second_moments_vary_over_seeds_as_derived(kind: str) -> None:
    """docs/methods.md, "Two mixings": mean x'y, and the variance of all pairs, or of those of different groups."""
    outputs, rows, seeds = 6, 30, 6000
    random = np.random.default_rng(5)
    x, y = random.normal(1.0, 1.0, rows), np.repeat(random.normal(size=3), 10)
    pairs = (np.outer(x, y) + np.outer(y, x)) ** 2 / outputs
    if kind == "buckets":
        pairs[np.equal.outer(np.arange(rows) // outputs, np.arange(rows) // outputs)] = 0
    variance = np.triu(pairs, 1).sum()
    found = []
    for seed in range(seeds):
        signs = mixing(outputs, rows, seed.to_bytes(32, "big"), kind).signs(0, rows).astype(np.float64)
        found.append((signs @ x) @ (signs @ y) / (outputs if kind == "bernoulli" else 1))
    off = np.array(found) - x @ y
    assert abs(off.mean()) < 5 * np.sqrt(variance / seeds)
    assert abs((off**2).mean() - variance) < 5 * np.std(off**2) / np.sqrt(seeds)


@pytest.mark.parametrize("sizes", [(), (9,), (11,), (5, 4), (5, 5, 1)])
def test_another_number_of_rows_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="B was made for"):
        mixing(2, 10).apply(np.zeros((size, 1), np.int32) for size in sizes)


def test_chunks_of_different_widths_are_refused() -> None:
    with pytest.raises(InvalidInput):
        mixing(2, 10).apply([np.ones((5, 2), np.int32), np.ones((5, 1), np.int32)])


def test_codes_whose_product_could_be_inexact_are_refused() -> None:
    with pytest.raises(InvalidInput, match="2\\^53"):
        mixing(2, 1 << 12).apply([np.full((1 << 12, 1), 1 << 41, np.int64)])
