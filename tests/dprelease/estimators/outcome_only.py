"""Moments with outcome-only columns, with the noise of a real release, from coded rows."""

from fractions import Fraction

import numpy as np

from benchmarks.paper_primo.calibration import entry_scales
from dprelease.data.columns import Column
from dprelease.mechanisms.moments.released import OutcomeMoments
from dprelease.mechanisms.moments.terms import least_noise
from dprelease.privacy.calibration import budget
from dprelease.spec_base import Target
from tests.dprelease.estimators.moments import layout_of
from tests.support.specs import numeric

BITS = 12


def sides(features: int, outcomes: int, public: str = "") -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Numbers, features first, and the names of the outcomes; ``public`` is "x", "y" or nothing."""
    x = tuple(numeric(f"x{place}", public=public == "x") for place in range(features))
    y = tuple(numeric(f"y{place}", public=public == "y") for place in range(outcomes))
    return (*x, *y), tuple(column.name for column in y)


def outcome_only_of(
    rows: np.ndarray,
    columns: tuple[Column, ...],
    outcomes: tuple[str, ...],
    generator: np.random.Generator | None = None,
    epsilon: float = 1.0,
) -> OutcomeMoments:
    """What one party releases of coded rows, (n, p), at (epsilon, 1e-5); without a generator the noise is declared only.

    Public cells are rounded to the grid.
    """
    layout = layout_of(columns, outcomes)
    codes = np.round(np.ldexp(rows, BITS)).astype(np.int32)
    rounded = np.column_stack([np.ones(len(rows)), np.ldexp(codes.astype(np.float64), -BITS)])
    mu2 = Fraction(budget(Target(scope="joint", epsilon=epsilon, delta=1e-5)))
    scales = least_noise(layout, mu2, 1, 0, "none", BITS, 1).scales
    exact = (rounded.T @ rounded)[layout.rows, layout.cols]
    values = np.ldexp(exact, 2 * BITS)
    if generator is not None:
        values = values + entry_scales(layout, scales) * generator.normal(size=layout.entries)
    shown = codes[:, layout.public[1:]]
    return OutcomeMoments.read(layout, np.round(values).astype(np.int64), len(rows), BITS, scales, 1, shown)
