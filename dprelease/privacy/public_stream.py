"""The public stream: bits that everybody can expand from a shared seed. It is never a source of secrets.

The stream is AES-256 in counter mode over zeros, key = the 32-byte seed, counter starting at 0 (big endian, 128 bits).
It is specified to the bit, seekable (block = byte offset / 16) and the same on every machine. `dprelease.privacy.noise` is the
other kind of randomness; the two share no type and no code.
"""

from __future__ import annotations

import math

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

SEED_BYTES = 32
BLOCK_BYTES = 16


class PublicStream:
    """Keystream of a public 32-byte seed.

    Args:
        seed: 32 bytes, agreed in public.

    Raises:
        InvalidInput: the seed has another length.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise InvalidInput(f"a public seed has {SEED_BYTES} bytes, not {len(seed)}")
        self._key = algorithms.AES256(seed)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes [offset, offset + size) of the stream; `offset` is a multiple of 16.

        Raises:
            InvalidInput: `offset` is not a multiple of 16, or either number is negative.
        """
        if offset < 0 or size < 0 or offset % BLOCK_BYTES:
            raise InvalidInput(f"offset {offset} must be a non-negative multiple of {BLOCK_BYTES}")
        counter = (offset // BLOCK_BYTES).to_bytes(BLOCK_BYTES, "big")
        return Cipher(self._key, modes.CTR(counter)).encryptor().update(bytes(size))


class PublicNormals:
    """One sequence of numbers, taken in order.

    Args:
        seed: 32 public bytes.

    Raises:
        InvalidInput: the seed has another length.
    """

    def __init__(self, seed: bytes) -> None:
        self._stream = PublicStream(seed)
        self._offset = 0

    def uniform(self, *shape: int) -> Floats:
        """Numbers of (0, 1), the ends excluded: (i + 1/2) / 2^53 from the upper 53 bits of each 64-bit word."""
        count = math.prod(shape)
        size = -(-8 * count // BLOCK_BYTES) * BLOCK_BYTES
        words = np.frombuffer(self._stream.read(self._offset, size), dtype="<u8", count=count)
        self._offset += size
        numbers: Floats = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return numbers.reshape(shape)

    def normal(self, *shape: int) -> Floats:
        """Standard Gaussian numbers, by the inverse of their distribution function."""
        from scipy.special import ndtri  # slow to load, and most who read a stream ask for no numbers

        numbers: Floats = ndtri(self.uniform(*shape))
        return numbers
