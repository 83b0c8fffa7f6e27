"""Noise sources for tests. They satisfy `dprelease.privacy.noise.NoiseSource`; none of them is secret."""

from dataclasses import dataclass, field

import numpy as np

from dprelease.privacy.noise import Noise, NoiseSource

SMALLEST_ROUNDED = 50.0
"""Scale above which a rounded normal stands for the discrete Gaussian: its variance is larger by 1/12, so by < 4e-5 of it."""


class ZeroNoise:
    """No noise at all: what is released is the exact query."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        assert scale > 0
        return np.zeros(shape, np.int64)

    def discrete_laplace(self, scale: int, shape: tuple[int, int]) -> Noise:
        return self.discrete_gaussian(scale, shape)


class SeededNoise:
    """Repeatable noise for tests with derived standard errors: a rounded normal, for scales above `SMALLEST_ROUNDED`."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        assert scale >= SMALLEST_ROUNDED, scale
        return np.rint(self._generator.normal(0.0, scale, shape)).astype(np.int64)

    def discrete_laplace(self, scale: int, shape: tuple[int, int]) -> Noise:
        assert scale >= SMALLEST_ROUNDED, scale
        return np.rint(self._generator.laplace(0.0, scale, shape)).astype(np.int64)


@dataclass(frozen=True)
class ScaledNoise:
    """Another source at a wrong scale."""

    source: NoiseSource
    factor: float

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return self.source.discrete_gaussian(scale * self.factor, shape)

    def discrete_laplace(self, scale: int, shape: tuple[int, int]) -> Noise:
        return self.source.discrete_laplace(round(scale * self.factor), shape)


@dataclass(frozen=True)
class Draw:
    """One call: the scale that was asked for and what was handed out."""

    scale: float
    values: Noise


@dataclass
class RecordingNoise:
    """Passes another source on and keeps every draw."""

    source: NoiseSource = field(default_factory=lambda: SeededNoise(20260301))
    draws: list[Draw] = field(default_factory=list)

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return self._kept(scale, self.source.discrete_gaussian(scale, shape))

    def discrete_laplace(self, scale: int, shape: tuple[int, int]) -> Noise:
        return self._kept(scale, self.source.discrete_laplace(scale, shape))

    def _kept(self, scale: float, drawn: Noise) -> Noise:
        self.draws.append(Draw(scale, drawn.copy()))
        return drawn
