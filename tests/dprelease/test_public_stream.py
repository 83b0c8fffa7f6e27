"""The public stream is AES-256 in counter mode, to the bit, from any position."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import InvalidInput
from dprelease.privacy.public_stream import PublicStream

# NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt), with its counter block as the stream's position.
NIST_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
NIST_COUNTER = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
NIST_KEYSTREAM = "0bdf7df1591716335e9a8b15c860c502"


def test_published_vector_of_counter_mode() -> None:
    assert PublicStream(NIST_KEY).read(NIST_COUNTER * 16, 16).hex() == NIST_KEYSTREAM


def test_first_bytes_of_a_fixed_seed() -> None:
    assert PublicStream(bytes(range(32))).read(0, 32).hex() == (
        "f29000b62a499fd0a9f39a6add2e7780f05d76ae4ab99fe5a6f69b3148c2363d"
    )


@given(st.integers(0, 1 << 40), st.integers(0, 100))
def test_every_block_is_the_encrypted_counter(block: int, size: int) -> None:
    seed = bytes(range(32))
    encrypt = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()  # noqa: S305 - the definition of counter mode
    blocks = b"".join(encrypt.update((block + i).to_bytes(16, "big")) for i in range(size // 16 + 1))
    assert PublicStream(seed).read(block * 16, size) == blocks[:size]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_reading_in_parts_is_reading_at_once(start: int, first: int, second: int) -> None:
    stream = PublicStream(bytes(32))
    whole = stream.read(16 * start, 16 * (first + second))
    assert stream.read(16 * start, 16 * first) + stream.read(16 * (start + first), 16 * second) == whole


def test_seeds_give_different_streams() -> None:
    assert PublicStream(bytes(32)).read(0, 16) != PublicStream(bytes(31) + b"\x01").read(0, 16)


@pytest.mark.parametrize("seed", [b"", bytes(16), bytes(31), bytes(33)])
def test_seed_of_another_length_is_refused(seed: bytes) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        PublicStream(seed)


@pytest.mark.parametrize(("offset", "size"), [(1, 16), (15, 1), (-16, 16), (0, -1)])
def test_positions_between_blocks_are_refused(offset: int, size: int) -> None:
    with pytest.raises(InvalidInput):
        PublicStream(bytes(32)).read(offset, size)
