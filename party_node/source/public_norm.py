"""How long a patient's public outcomes are at most: what the one party that has them states of them in public."""

from __future__ import annotations

import math

import numpy as np

from dprelease.data.bounding import BoundedRows
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.outcome_calibration import public_outcomes
from dprelease.one_line import listed


def public_norm2(bounded: BoundedRows, columns: tuple[str, ...]) -> float:
    """The largest squared norm of a patient's public columns in scaled units, rounded up to a multiple of 1/1000.

    A little more than it is on this grid, as another release may have a finer one.

    Args:
        bounded: our rows.
        columns: names of public columns.

    Raises:
        InvalidInput: one of them is not public here.
    """
    shown = {column.name for column in bounded.columns if column.public}
    unknown = [name for name in columns if name not in shown]
    if unknown:
        raise InvalidInput(f"{listed(unknown)} is not public here; party-node public list shows what is")
    layout = Layout(bounded.columns, columns)
    codes = public_outcomes(bounded.public, layout).astype(np.float64)
    longest = float(((np.abs(codes) + 0.5) ** 2).sum(axis=1).max()) / 4.0**bounded.grid_bits
    return math.ceil(1000 * longest) / 1000
