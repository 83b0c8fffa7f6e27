"""The nearest association that rows within their bounds can give, as PRIMO projects.

Formula (1) of `dprelease.estimators.moments.public_columns`; components of C~ outside the span of V are noise, and go.

Source: PRIMO (2023), Algorithms 2 and 3 and Theorem 4.4, with the radius sqrt(n) R of its proof, not n R^2 of its box; a
box column c lies in radius sqrt(n) b_c by itself, a smaller body (docs/guarantees.md, "Where the papers differ").
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.moments.public_columns import PublicSide, _finite


def project(side: PublicSide, noisy: npt.ArrayLike, radius: npt.ArrayLike) -> Floats:
    """The nearest P^T Z with every column of Z within its own radius, (a, b): independent ellipsoids.

    Args:
        side: P.
        noisy: (a, b) C~.
        radius: (b,) or one number: bounds of |z_c|; sqrt(n) b_c for a column within [-b_c, b_c].

    Raises:
        InvalidInput: shapes that do not fit, numbers that are not finite, or a negative radius.
    """
    given, bounds = _checked(side, noisy, radius)
    along = side.right.T @ given
    return _back(side, given, along, side.shrinkage(side.multipliers(along, np.broadcast_to(bounds, given.shape[1:]))))


def project_jointly(side: PublicSide, noisy: npt.ArrayLike, radius: float) -> Floats:
    """The nearest P^T Z with |Z|_F <= radius, (a, b): the paper's body, rows within an L2 ball, radius sqrt(n) R.

    Args:
        side: P.
        noisy: (a, b) C~.
        radius: bound of |Z|_F.

    Raises:
        InvalidInput: as `project`.
    """
    given, bound = _checked(side, noisy, float(radius))
    along = side.right.T @ given
    scale = np.abs(along).max(axis=1, initial=0.0, keepdims=True)
    unit = np.divide(along, scale, out=np.zeros_like(along), where=scale > 0)
    lengths = scale * np.linalg.norm(unit, axis=1, keepdims=True)
    return _back(side, given, along, side.shrinkage(side.multipliers(lengths, bound.reshape(1))))


def _back(side: PublicSide, given: Floats, along: Floats, shrunk: Floats) -> Floats:
    projected: Floats = side.right @ (shrunk * along)
    if side.full_rank:  # what is feasible stays what it is, to the last bit
        untouched = (shrunk == 1.0).all(axis=0)
        projected = np.where(untouched, given, projected)
    return projected


def _checked(side: PublicSide, noisy: npt.ArrayLike, radius: npt.ArrayLike) -> tuple[Floats, Floats]:
    given, bounds = _finite(noisy), _finite(radius)
    if given.ndim != 2 or len(given) != len(side.right):
        raise InvalidInput(f"the association has {len(side.right)} rows, one for each public column, not {given.shape}")
    if bounds.shape not in {(), (given.shape[1],)} or (bounds < 0).any():
        raise InvalidInput("give one radius, or one for each private column, none of them negative")
    return given, bounds
