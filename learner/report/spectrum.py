"""How much of a released feature matrix stands clear of the noise: its eigenvalues, and those of noise alone.

Rows: S^-1/2 X^T X S^-1/2 / r, X being r released rows of d features in scaled units with the public constant column regressed
out, and S the diagonal matrix of their noise variances. The eigenvalues of noise alone lie about 1, nearly all within

    [(1 - sqrt(d/r))^2, (1 + sqrt(d/r))^2]   (Marchenko and Pastur).

Joint moments: the released covariance matrix in scaled units. Noise alone is a symmetric matrix of independent entries with
standard deviations s_ij, whose eigenvalues lie nearly all within

    +- 2 max_i sqrt(sum_j s_ij^2)   (Wigner; Bandeira and van Handel 2016 for unequal entries).

With means m_i, clipped to their range, a centred entry has s_ij^2 = sd_ij^2 + m_j^2 sd_0i^2 + m_i^2 sd_0j^2, each noise being
per patient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.release.release import Release

IN_NOISE = "eigenvalue, noise variance = 1"
IN_RANGE = "eigenvalue of the covariance, scaled units"


@dataclass(frozen=True, eq=False)
class FeatureSpectrum:
    """Eigenvalues of d features.

    Attributes:
        features: (d,) released names; those without noise are left out.
        values: (d,) descending.
        noise: ends of the interval in which noise alone would put them.
        unit: what the numbers are.
    """

    features: tuple[str, ...]
    values: Floats
    noise: tuple[float, float]
    unit: str

    @property
    def clear(self) -> int:
        """Directions that stand clear of the noise."""
        return int((self.values > self.noise[1]).sum())


def spectrum(release: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    """Eigenvalues of released columns against the noise; None where no feature has noise, or no rows are left."""
    return _of_rows(release, features) if isinstance(release.regressable, NoisyRows) else _of_moments(release, features)


def _of_rows(release: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    scaled = release.scaled()
    index = [place for place, *_ in map(scaled.lookup, features) if scaled.noise_sd[place] > 0]
    x, ones = scaled.values[:, index] / scaled.noise_sd[index], scaled.ones
    degrees, weight = len(ones), float(ones @ ones)
    if weight:
        x, degrees = x - np.outer(ones, ones @ x / weight), degrees - 1
    if not index or not degrees:
        return None
    edge = np.sqrt(len(index) / degrees)
    values = np.linalg.eigvalsh(x.T @ x / degrees)[::-1].astype(np.float64)
    noise = (max(1 - edge, 0.0) ** 2, (1 + edge) ** 2)
    return FeatureSpectrum(
        tuple(scaled.names[place] for place in index), values, (float(noise[0]), float(noise[1])), IN_NOISE
    )


def _of_moments(release: Release, features: Sequence[str]) -> FeatureSpectrum | None:
    moments = release.moments()
    index = [moments.lookup(name)[0] for name in features]
    matrix, variance = moments.gram / moments.rows, (moments.noise_sd / moments.rows) ** 2
    mean, of_mean, pairs = np.clip(matrix[0, index], -1, 1), variance[0, index], np.ix_(index, index)
    spread = variance[pairs] + np.outer(of_mean, mean**2) + np.outer(mean**2, of_mean)
    edge = 2 * float(np.sqrt(spread.sum(axis=1).max()))
    if not edge:
        return None
    values = np.linalg.eigvalsh(matrix[pairs] - np.outer(mean, mean))[::-1].astype(np.float64)
    return FeatureSpectrum(tuple(features), values, (-edge, edge), IN_RANGE)
