"""The one door to secret randomness.

Noise is discrete Gaussian on the integers, or discrete Laplace where a request asks for pure epsilon, sampled exactly
(`dprelease.privacy.discrete_gaussian`, `dprelease.privacy.discrete_laplace`). For each draw the operating
system's kernel is asked for a new key, at that moment; its keystream makes that one draw, and neither outlives it. So two
copies of a process, such as a machine's memory that was restored from a snapshot, draw different noise, unless the copy was
made in the middle of a draw. No argument could replace the source; tests put a recording source in its place through the
`NoiseSource` protocol.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.errors import InvalidInput
from dprelease.privacy.discrete_gaussian import Words, discrete_gaussian
from dprelease.privacy.discrete_laplace import discrete_laplace

Noise = npt.NDArray[np.int64]


class NoiseSource(Protocol):
    """Source of a mechanism's secret noise."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        """Independent draws of N_Z(0, scale^2): P[X = x] proportional to exp(-x^2 / (2 scale^2)).

        Args:
            scale: sigma > 0; the variance parameter is the exact rational square of this double.
            shape: (rows, columns).
        """
        ...

    def discrete_laplace(self, scale: int, shape: tuple[int, int]) -> Noise:
        """Independent draws with P[X = x] proportional to exp(-|x|/scale).

        Args:
            scale: t, a positive integer.
            shape: (rows, columns).
        """
        ...


class SecureNoise:
    """Production noise: every draw under a key of its own, fresh from the kernel."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        """See `NoiseSource.discrete_gaussian`.

        Raises:
            InvalidInput: `scale` is not positive and finite, or so large that 64-bit integers could saturate.
        """
        if not 0 < scale < 2.0**56:
            raise InvalidInput(f"the noise scale must be positive and below 2^56, not {scale}")
        return discrete_gaussian(scale, shape[0] * shape[1], _FreshKeystream()).reshape(shape)

    def discrete_laplace(self, scale: int, shape: tuple[int, int]) -> Noise:
        """See `NoiseSource.discrete_laplace`; raises as `discrete_gaussian`."""
        if not 0 < scale < 1 << 50:
            raise InvalidInput(f"the noise scale must be positive and below 2^50, not {scale}")
        return discrete_laplace(scale, shape[0] * shape[1], _FreshKeystream()).reshape(shape)


class _FreshKeystream:
    """Bits for one draw: AES-256 in counter mode over zeros, under a key that nobody else has had or will have."""

    def __init__(self) -> None:
        self._encryptor = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> Words:
        """(count,) uniform 64-bit words."""
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), np.uint64)
