"""The one door to secret randomness.

Noise is discrete Gaussian on the integers, drawn by OpenDP's exact sampler (Canonne, Kamath, Steinke 2020) from the
operating system's entropy. There is no seed, no state and no argument that could replace the source; tests put a
recording source in its place through the `NoiseSource` protocol.
"""

from __future__ import annotations

from functools import lru_cache
from secrets import SystemRandom
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.errors import InvalidInput

Noise = npt.NDArray[np.int64]


class NoiseSource(Protocol):
    """Where a mechanism gets its secret noise."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        """Independent draws of N_Z(0, scale^2): P[X = x] proportional to exp(-x^2 / (2 scale^2)).

        Args:
            scale: sigma > 0; the variance parameter is the exact rational square of this double.
            shape: (rows, columns).
        """
        ...


class SecureNoise:
    """Production noise: OpenDP's vector measurement, on a vector of zeros."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        """See `NoiseSource.discrete_gaussian`.

        Raises:
            InvalidInput: `scale` is not positive and finite, or so large that 64-bit integers could saturate.
        """
        if not 0 < scale < 2.0**56:
            raise InvalidInput(f"the noise scale must be positive and below 2^56, not {scale}")
        size = shape[0] * shape[1]
        if size == 0:
            return np.zeros(shape, np.int64)
        drawn = _measurement(scale)([0] * size)
        return np.asarray(drawn, np.int64).reshape(shape)


def secret_part(count: int, size: int) -> npt.NDArray[np.int64]:
    """(size,) distinct row numbers below `count`, every set of them equally likely, from the operating system's entropy.

    Args:
        count: n.
        size: s, between 1 and n.

    Raises:
        InvalidInput: no such part.
    """
    if not 1 <= size <= count:
        raise InvalidInput(f"{size} of {count} rows cannot be drawn")
    return np.array(SystemRandom().sample(range(count), size), np.int64)


@lru_cache(maxsize=16)
def _measurement(scale: float) -> Any:
    # Imported here because only a party needs the sampler: a learner installs without it.
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)
