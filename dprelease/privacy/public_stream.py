"""The public stream: bits that everybody can expand from a shared seed. It is never a source of secrets.

The stream is AES-256 in counter mode over zeros, key = the 32-byte seed, counter starting at 0 (big endian, 128 bits).
It is specified to the bit, seekable (block = byte offset / 16) and the same on every machine. `dprelease.privacy.noise` is the
other kind of randomness; the two share no type and no code.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

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
