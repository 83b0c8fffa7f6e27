"""Posterior means of columns under an even prior on their public ranges: means of truncated normal laws."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx

from dprelease.arrays import Floats, RowTable
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.mechanisms.noisy_rows.released import turns

_FLAT = 1e-4


def range_means(rows: RegressionRows, values: RowTable, noise: Floats, lower: Floats) -> tuple[Floats, Floats]:
    """(means, standard deviations of their noise before they are brought into range), scaled units, each (q,).

    The prior is uniform on the range. The mean of the rows follows from the public constant column v as v.column / |v|^2;
    beside privacy noise it carries what a random mixing matrix makes of the column's spread, which the anchor does not.
    Source: docs/methods.md, "Calibrated ridge", step 1.

    Args:
        rows: all released rows; only their constant column is used.
        values: (r, q) released columns.
        noise: (q,) noise variance of an entry.
        lower: (q,) lower ends of the ranges; the upper ends are 1.
    """
    weight = float(rows.ones @ rows.ones)
    if not weight:  # one or two mixing rows may cancel; then the release says nothing about means
        return (lower + 1) / 2, np.full(len(lower), np.inf)
    sums = (rows.ones[some] @ values[some] for some in turns(*values.shape))
    found: Floats = sum(sums, np.zeros(len(noise))) / weight
    variance = noise / weight
    if rows.mixed:
        square = np.zeros(len(noise))
        for some in turns(*values.shape):
            centred = values[some] - np.outer(rows.ones[some], found)
            square += np.einsum("rq,rq->q", centred, centred)
        spread = np.maximum(square / max(len(rows.ones) - 1, 1) - noise, 0)
        mixing = rows.ones[1:] if rows.anchor else rows.ones
        variance = variance + spread * float(mixing @ mixing) / weight**2
    return truncated_mean(found, np.sqrt(variance), lower), np.sqrt(noise / weight)


def truncated_mean(mean: Floats, sd: Floats, lower: Floats) -> Floats:
    """Mean of N(mean, sd^2) restricted to [lower, 1], elementwise.

    With a <= b the ends of the range in standard deviations from the mean, |a| <= |b| after a reflection, and R the upper
    tail of N(0, 1) over its density, the mean is off by sd (1 - e^-D) / (R(a) - e^-D R(b)), D = (b^2 - a^2)/2: a form that
    loses no digits in either tail.
    """
    middle, half = (lower + 1) / 2, (1 - lower) / 2
    offset, side = np.abs(mean - middle), np.sign(mean - middle)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        decay = 2 * offset * half / sd**2
        near, far = (math.sqrt(math.pi / 2) * erfcx(end / sd / math.sqrt(2)) for end in (offset - half, offset + half))
        pull = sd * -np.expm1(-decay) / (near - np.exp(-decay) * far)
    # Without noise only the range pulls; a density that is flat over the range has its middle for a mean.
    pulled = np.where(sd > 0, offset - pull, offset)
    inside = np.where(half < _FLAT * sd, 0.0, np.clip(pulled, 0, half))
    found: Floats = middle + side * inside
    return found
