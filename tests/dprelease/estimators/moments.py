"""Noisy moments for estimator tests: any kinds of columns, exact rows in, noise of a chosen scale on every noisy entry."""

from functools import lru_cache

import numpy as np

from dprelease.data.columns import Column
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.support.specs import categorical, numeric

MIXED = (
    numeric("wide"),
    numeric("tight"),
    categorical("smoker", "yes"),
    categorical("ward", "north", "south", "west"),
    numeric("outcome"),
)
"""Every kind of column; x is (1, wide, tight, smoker=yes, ward=north, south, west, other, outcome)."""

layout_of = lru_cache(maxsize=16)(Layout)
"""The layout of columns, made once for thousands of releases."""


def mixed_rows(rows: int, seed: int = 0) -> np.ndarray:
    """Coded rows of `MIXED`, (n, 8); `outcome` depends on the others."""
    generator = np.random.default_rng(seed)
    wide, tight = generator.uniform(-1, 1, rows), -1 + 0.1 * generator.uniform(0, 1, rows) ** 2
    smoker = np.where(generator.uniform(size=rows) < 0.3, 1.0, -1.0)
    ward = np.eye(4)[generator.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])]
    outcome = 0.4 * wide + 0.2 * smoker + 0.2 * ward[:, 1] + generator.uniform(-0.2, 0.2, rows)
    return np.column_stack([wide, tight, smoker, ward, outcome])


def noisy_moments(
    columns: tuple[Column, ...], rows: np.ndarray, sd: float, generator: np.random.Generator | None = None
) -> NoisyMoments:
    """Moments of coded rows.

    Args:
        columns: declarations.
        rows: (n, p) coded.
        sd: of the noise of an entry per patient; squares of numbers get half of it.
        generator: of the noise; none is added without one, though it is declared.
    """
    layout, count = layout_of(columns), len(rows)
    x = np.column_stack([np.ones(count), rows])
    scale = count * np.where(layout.diagonal, sd / 2, sd)
    drawn = scale * generator.normal(size=layout.entries) if generator else 0.0
    values = (x.T @ x)[layout.rows, layout.cols] + drawn
    return NoisyMoments(layout, layout.matrix(values, float(count)), layout.matrix(scale, 0.0), count)
