"""Public Gaussian and uniform numbers: expanded from a seed that everybody can recompute. Never a source of noise."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from dprelease.arrays import Floats
from dprelease.privacy.public_stream import BLOCK_BYTES, PublicStream


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
        numbers: Floats = ndtri(self.uniform(*shape))
        return numbers
