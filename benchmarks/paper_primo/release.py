"""What knowing the outcomes' means is worth: a release as the library makes it, fitted with an intercept.

Curves in `curves` are of outcomes whose mean is known to be 0. Here nothing is known of it: alleles are numbers within
[-1, 1] beside the constant that every release has, sums and squares of private outcomes are released as well, the latter for a
part of the budget, and `fit_moments` fits an intercept. Noise is continuous and in double precision, for simulations only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from benchmarks.common.fits import fit_moments
from benchmarks.paper_primo.calibration import entry_scales
from benchmarks.paper_primo.curves import Target
from benchmarks.paper_primo.data import Features, Single
from dprelease.arrays import Floats
from dprelease.data.columns import Column, NumericColumn
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import OutcomeMoments
from dprelease.mechanisms.moments.terms import least_noise

Public = Literal["features", "outcomes"]
BITS = 12
"""Of the grid."""


def explained(
    features: Features, outcomes: Single, public: Public, target: Target, random: np.random.Generator
) -> float:
    """Mean R^2 of one release of one party.

    Args:
        features: in a box, the constant first.
        outcomes: (n, l) within [-1, 1].
        public: which side is.
        target: of all outcomes together.
        random: of the noise.
    """
    alleles, y = features.x[:, 1:] / features.bound, outcomes.astype(np.float64)
    width, count = alleles.shape[1], y.shape[1]
    declared = (_numbers("x", width, public == "features"), _numbers("y", count, public == "outcomes"))
    layout = Layout(declared[0] + declared[1], tuple(column.name for column in declared[1]))
    codes = np.round(np.ldexp(np.hstack([alleles, y]), BITS)).astype(np.int32)
    moments = _released(layout, codes, width, target, random)
    shown = np.ldexp(codes[:, layout.public[1:]].astype(np.float64), -BITS)
    x, of = list(range(1, width + 1)), list(range(width + 1, width + count + 1))
    found = fit_moments(moments, x, of, shown, intercept=True)
    residual: Floats = y - alleles @ found.weights - found.offsets
    return float((1 - (residual**2).mean(axis=0) / y.var(axis=0)).mean())


def _released(
    layout: Layout, codes: npt.NDArray[np.int32], width: int, target: Target, random: np.random.Generator
) -> OutcomeMoments:
    """What one party releases of its codes, features first."""
    longest = int((codes[:, width:].astype(np.int64) ** 2).sum(axis=1).max())  # counts where outcomes are public
    norm2 = None if layout.public[1] else Fraction(longest, 4**BITS)
    scales = least_noise(layout, Fraction(target.mu) ** 2, 1, 0, "none", BITS, 1, norm2).scales
    rows = np.column_stack([np.full(len(codes), 2**BITS), codes]).astype(np.float64)
    inner = ~layout.outcome  # the constant and the features come first
    exact, place = rows[:, inner].T @ rows, np.cumsum(inner) - 1
    squares = (rows**2).sum(axis=0)
    first = np.where(inner[layout.rows], layout.rows, layout.cols)
    second = np.where(inner[layout.rows], layout.cols, layout.rows)
    values = np.where(inner[first], exact[place[first], second], squares[second])
    values = values + entry_scales(layout, scales) * random.normal(size=layout.entries)
    shown = codes[:, layout.public[1:]]
    released = np.round(values).astype(np.int64)
    return OutcomeMoments.read(layout, released, len(codes), BITS, scales, 1, shown)


def _numbers(letter: str, count: int, public: bool) -> tuple[Column, ...]:
    return tuple(
        NumericColumn.model_validate({"name": f"{letter}{place}", "lower": -1.0, "upper": 1.0, "public": public})
        for place in range(count)
    )
