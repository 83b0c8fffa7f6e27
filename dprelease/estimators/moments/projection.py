"""The coordinates of an association of public with private columns, shrunk to what rows within their bounds can give.

Let P (n, a) be public and Z (n, b) private, and C = P^T Z. Privacy noise leaves C where no Z within its public bounds can
have brought it. The Euclidean projection onto {P^T Z : |z_c| <= radius_c} is never further from C, and much closer once
there is more noise than room: noise grows with the number of its entries, the room does not. It is post-processing.

With P = U S V^T and g = V^T C~, a column's nearest feasible point is

    V S t,   t_i = s_i g_i / (s_i^2 + lambda),   lambda >= 0 with |t| = radius, or 0 if |t| is no longer than that.     (1)

1/|t(lambda)| increases and is concave, so Newton's method on 1/|t| = 1/radius never steps past the root from its left,
where lambda_0 = max(0, |S g|/radius - s_1^2, max_i |s_i g_i|/radius - s_i^2) lies: there |t| <= sqrt(r) radius. One
decomposition of P serves all columns: O(n a min(n, a)) for it, O(r b) for the columns, and no (n a) x (n b) matrix (nor any
other of the Kronecker kind) is ever formed.

Source: PRIMO (2023), Algorithms 2 and 3 and Theorem 4.4. Secular equation: Hager 2001, Lemma 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

_MOST_STEPS = 60
_CELLS = 1 << 17
"""Entries of (r, b) that are worked on at a time."""
_HUGE = 1e300
"""Noise beyond this many times the room leaves nothing."""
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PublicSide:
    """P = U S V^T without U, which no projection needs.

    Attributes:
        singular: (r,) the diagonal of S, falling, all of it positive: r is the rank of P.
        right: (a, r) V.
    """

    singular: Floats
    right: Floats

    @classmethod
    def of_rows(cls, values: npt.ArrayLike) -> PublicSide:
        """From the public rows, O(n a min(n, a)); rows are read block by block when there are more of them than columns.

        Args:
            values: (n, a) P.

        Raises:
            InvalidInput: not a matrix of finite numbers with at least one row and one column.
        """
        rows = _finite(values)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InvalidInput(f"a public side is a matrix with rows and columns, not of shape {rows.shape}")
        count, width = rows.shape
        if count < width:
            right, singular, _ = np.linalg.svd(rows.T, full_matrices=False)
        else:
            _, singular, across = np.linalg.svd(_triangle(rows), full_matrices=False)
            right = across.T
        kept = singular > max(count, width) * _EPS * singular[0]
        return cls(singular[kept], right[:, kept])

    @classmethod
    def of_gram(cls, gram: npt.ArrayLike, uncentred: float = 0.0) -> PublicSide:
        """From P^T P, O(a^3): where only public moments are at hand. Directions below 1e-7 of the largest are lost.

        Args:
            gram: (a, a) symmetric.
            uncentred: largest entry of what it was before the constant was regressed out, which decides what is rounding.

        Raises:
            InvalidInput: not a square matrix of finite numbers.
        """
        matrix = _finite(gram)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
            raise InvalidInput(f"a Gram matrix is square, not of shape {matrix.shape}")
        values, vectors = np.linalg.eigh(matrix)
        kept = np.flatnonzero(values > 64 * len(values) * _EPS * max(values[-1], uncentred))[::-1]
        return cls(np.sqrt(values[kept]), vectors[:, kept])

    @property
    def full_rank(self) -> bool:
        """Tells whether no column of P follows from the others."""
        return len(self.singular) == len(self.right)

    def multipliers(self, along: Floats, radius: Floats) -> Floats:
        """lambda of formula (1) for each column, (b,); infinite where only zero is feasible.

        Args:
            along: (r, b) g = V^T C~.
            radius: (b,) bounds of |t|.
        """
        found = np.zeros(along.shape[1])
        if not len(self.singular):
            return found
        relative = self.singular / self.singular[0]
        block = max(1, _CELLS // len(self.singular))
        for start in range(0, along.shape[1], block):
            part = slice(start, start + block)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                sizes = np.abs(along[:, part]) / (self.singular[0] * radius[part])
            sizes[:, ~along[:, part].any(axis=0)] = 0.0  # nothing to project, whatever the radius
            found[part] = _secular(relative[:, None] * sizes, relative**2)
        multipliers: Floats = found * self.singular[0] ** 2
        return multipliers

    def shrinkage(self, multipliers: Floats) -> Floats:
        """s_i^2 / (s_i^2 + lambda_c), (r, b): what a projection leaves of each coordinate."""
        squared = self.singular[:, None] ** 2
        left: Floats = squared / (squared + multipliers)
        return left


def _secular(weights: Floats, squares: Floats) -> Floats:
    """The least lambda >= 0 with sum_i (weights_i / (squares_i + lambda))^2 <= 1 for each column of (r, b) weights."""
    found, largest, bends = np.zeros(weights.shape[1]), weights.max(axis=0), squares[:, None]
    possible = largest < _HUGE  # False for what is not a number
    found[~possible] = np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        outside = np.flatnonzero(possible & (np.linalg.norm(weights / bends, axis=0) > 1))
    if not len(outside):
        return found
    w, largest = weights[:, outside], largest[outside]
    length = largest * np.linalg.norm(w / largest, axis=0)
    root = np.maximum(np.maximum(length - squares[0], (w - bends).max(axis=0)), 0.0)
    most = np.maximum(length - squares[-1], root)
    for _ in range(_MOST_STEPS):
        below = bends + root
        t = w / below
        square = (t * t).sum(axis=0)
        step = square / (t * t / below).sum(axis=0) * (np.sqrt(square) - 1)
        root = np.minimum(root + np.maximum(step, 0.0), most)
        if not (step > 4 * _EPS * root).any():
            break
    found[outside] = root
    return found


def _triangle(rows: Floats) -> Floats:
    """R of P = Q R, (a, a), by blocks of rows, so that no copy of P is made."""
    count, width = rows.shape
    block = max(4 * width, _CELLS // width)
    triangle: Floats = np.zeros((0, width))
    for start in range(0, count, block):
        stacked = np.vstack([triangle, rows[start : start + block]])
        triangle = np.asarray(np.linalg.qr(stacked, mode="r"), np.float64)
    return triangle


def _finite(values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InvalidInput("every number given to a projection must be finite")
    return array
