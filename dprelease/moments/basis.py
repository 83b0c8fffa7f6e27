"""What a party multiplies: its variables, or, under label privacy by leverage, an orthonormal basis of the public features.

Let P = (1, X) be the constant and the public features of n patients and P = Q T with orthonormal columns of Q, the first of
them constant. Instead of P^T Y the release has Q^T Y, which one patient's outcomes move by 2 S sqrt(h) at most, h the largest
leverage max_i |q_i|^2, instead of 2 S max_i |p_i|. P^T Y = T^T Q^T Y, so a learner can go back, and the noise of the weights
has covariance sigma^2 (P^T P)^-1 instead of sigma'^2 (P^T P)^-2: where X is ill-conditioned, much less. The mean of an outcome
has sqrt(n h / |P row|^2) times the noise, at least as much as with columns, and far more where one patient's leverage is large.

Integers. The basis is L = round(G c Q), c = (1 - sqrt(r)/(2 G)) / sqrt(h), r columns. Rounding moves a row by sqrt(r)/2 at most,
so |L_i| <= G, as exact integers confirm: whatever rounding did, no patient moves L^T Y by more than 2 S G^2. A learner computes
L from X; on another machine an entry may differ by a grid unit, which is far below the noise. In a session it may not: its owner
keeps the one that it masked.

A category's first level follows from the others and the constant; its place in L is zero.

Source: privacy.md 2.3, label-DP, "better"; PRIMO (2023), Section 4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.bounding import BoundedRows, Codes
from dprelease.errors import InvalidInput
from dprelease.moments.layout import Layout, code
from dprelease.spec import ReleaseSpec

Floats = npt.NDArray[np.float64]


def coded(bounded: BoundedRows, spec: ReleaseSpec, party: str, basis: Codes | None = None) -> Codes:
    """A party's columns in the products of a release, (n, `Schedule.widths`), on the grid.

    The owner of an orthonormal basis has its constant element first, then its variables, features replaced.

    Args:
        bounded: the party's rows.
        spec: of mechanism ``moments``.
        party: name of the party in the spec.
        basis: from `basis_of`, where it was kept; it must be the same wherever a session uses it, to the last unit.

    Raises:
        InvalidInput: a basis is asked for, and features follow from others.
    """
    variables = code(bounded.codes, bounded.columns)
    if spec.basis_owner != party:
        return variables
    used = basis_of(bounded, spec) if basis is None else basis
    variables[:, ~Layout(bounded.columns, spec.layout.outcomes).outcome[1:]] = used[:, 1:]
    return np.ascontiguousarray(np.hstack([used[:, :1], variables]))


def basis_of(bounded: BoundedRows, spec: ReleaseSpec) -> Codes:
    """(n, d+1) the basis of its owner's features, on the grid.

    Args:
        bounded: the owner's rows.
        spec: with an orthonormal basis.

    Raises:
        InvalidInput: features follow from others.
    """
    layout = Layout(bounded.columns, spec.layout.outcomes)
    features = code(bounded.codes, bounded.columns)[:, ~layout.outcome[1:]]
    return Basis.of(layout, features, spec.grid_bits).codes


@dataclass(frozen=True, eq=False)
class Basis:
    """An orthonormal basis of the constant and d public features.

    Attributes:
        codes: (n, d+1) L on the grid; no row is longer than the grid unit.
        scale: c.
        coordinates: (d+1, d+1) Q^T (1, X), zero in the rows of first levels.
    """

    codes: Codes
    scale: float
    coordinates: Floats

    @classmethod
    def of(cls, layout: Layout, features: Codes, grid_bits: int) -> Basis:
        """From public features, O(n d^2).

        Args:
            layout: whose features, those that are no outcomes, these are.
            features: (n, d) on the grid.
            grid_bits: b.

        Raises:
            InvalidInput: features follow from others.
        """
        kept, unit = ~layout.first_level[~layout.outcome[1:]], 1 << grid_bits
        columns = 1 + int(kept.sum())
        if columns > most_columns(grid_bits):
            raise InvalidInput(
                f"a basis of {columns} columns is too fine for the grid of 2^-{grid_bits}; raise grid_bits"
            )
        values = np.column_stack([np.ones(len(features)), np.ldexp(features.astype(np.float64), -grid_bits)])
        q = orthonormal(values[:, 1:][:, kept])
        largest = math.sqrt(float((q**2).sum(axis=1).max()))
        scale = (1 - math.sqrt(columns) / (2 * unit)) / largest
        codes, coordinates = np.zeros(values.shape, np.int32), np.zeros((values.shape[1],) * 2)
        places = np.concatenate([[True], kept])
        codes[:, places] = np.rint(unit * scale * q)
        coordinates[places] = q.T @ values
        if int(np.einsum("ij,ij->i", codes, codes, dtype=np.int64).max()) > unit**2:
            raise InvalidInput("the basis of the public features is longer than the grid allows; raise grid_bits")
        return cls(codes, scale, coordinates)


def most_columns(grid_bits: int) -> int:
    """How many columns a basis may have at most on a grid: rounding then costs 1 % of a row's length and no more."""
    return (1 << (2 * grid_bits)) // 2500


def orthonormal(features: Floats) -> Floats:
    """(n, d+1) Q of (1, X) = Q T, T upper triangular with a positive diagonal; the first column is constant.

    Args:
        features: (n, d) X.

    Raises:
        InvalidInput: a column follows from the constant and the others.
    """
    count, width = features.shape
    centred = features - features.mean(axis=0)
    q, triangle = np.linalg.qr(centred)
    diagonal = np.diag(triangle)
    least = 64 * max(features.shape) * np.finfo(np.float64).eps * np.linalg.norm(features, axis=0)
    if count <= width or (np.abs(diagonal) <= least).any():
        raise InvalidInput(
            f"the {width} public features follow from one another and the constant, so they have no basis; leave out columns "
            "that follow from others"
        )
    return np.column_stack([np.full(count, 1 / math.sqrt(count)), q * np.sign(diagonal)])
