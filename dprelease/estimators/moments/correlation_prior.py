"""Prior on correlation matrices by a triangular root with Cauchy entries: the part of `density`'s prior that has no bounds.

In standard deviations from their means, and in the order of the list, variable i is

    x_i = (sum_{j < i} psi_ij x_j + T_ii e_i) / length,    e_i of variance 1 and unrelated to x_1, ..., x_(i-1),

psi_ij of Cauchy's law. Most pairs hardly depend on each other once the others are known, yet no single strong relation is
ruled out, and, as in a ridge, one by way of a direction in which the earlier variables hardly vary is unlikely.

The density is wanted in T. With U the root of the correlation matrix, whose rows are those of T at length 1, and F the part
of T below its diagonal, row i of F is psi_i times the root of the first i - 1 variables: Psi = F U^(-1), and the
determinant of that root divides the density:

    -log p = sum_ij log(1 + psi_ij^2) + sum_k (q - k) log U_kk,        psi_ij = -T_ii (T^(-1))_ij length_j.             (1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtrtri

from dprelease.arrays import Floats


@dataclass(frozen=True, eq=False)
class Dependence:
    """The prior (1) at J roots T.

    Attributes:
        diagonal: (J, q) of T.
        length: (J, q) of the rows of T.
        inverse: (J, q, q) of T.
        part: (J, q, q) T_ii (T^(-1))_ij, ones on its diagonal.
        psi: (J, q, q), 0 on and above the diagonal.
    """

    diagonal: Floats
    length: Floats
    inverse: Floats
    part: Floats
    psi: Floats

    @classmethod
    def of(cls, triangle: Floats, length: Floats) -> Dependence:
        """At lower triangular T, (J, q, q).

        Args:
            triangle: T.
            length: (J, q) of its rows.
        """
        diagonal, inverse = diagonal_of(triangle), triangle.copy()
        for each in inverse.transpose(0, 2, 1):  # a wild trajectory may have made T singular, which is no error
            dtrtri(each, overwrite_c=1)
        part = diagonal[:, :, None] * inverse
        psi = part * -length[:, None, :]
        diagonal_of(psi)[:] = 0.0
        return cls(diagonal, length, inverse, part, psi)

    def value(self) -> Floats:
        """-log p, (J,)."""
        found: Floats = np.log1p(self.psi**2).sum(axis=(1, 2)) + np.log(self.diagonal / self.length) @ self._later
        return found

    def slope(self) -> tuple[Floats, Floats, Floats]:
        """Gradient of -log p by T, (J, q, q), by the logarithms of its diagonal and by those of its lengths, (J, q).

        Each is without the others: T stands for its inverse in (1) alone. Entries above the diagonal mean nothing.
        """
        bent, size = 1 / (1 + self.psi**2), self.psi.shape[1]
        each = np.ones(size)
        lifted = (2 * self.psi * bent * self.length[:, None, :]) @ self.inverse.transpose(0, 2, 1)
        by_diagonal = 2 * (size - bent @ each) + self._later
        return self.part.transpose(0, 2, 1) @ lifted, by_diagonal, 2 * (size - each @ bent) - self._later

    def bend(self) -> Floats:
        """How sharply -log p bends along each row of F, on average over the points, (q, q, q), with U held.

        It is that of a normal law of psi that has Cauchy's slope on average, so it is positive definite.
        """
        root = self.inverse * self.length[:, None, :]
        size = root.shape[1]
        precision = (2 / (1 + self.psi**2)).mean(axis=(1, 2))
        whole = np.einsum("j,jac,jbc->ab", precision, root, root, optimize=True) / len(root)
        earlier = np.tril(np.ones((size, size)), -1)
        blocks: Floats = whole * earlier[:, :, None] * earlier[:, None, :]
        return blocks

    @property
    def _later(self) -> Floats:
        return np.arange(self.length.shape[1] - 1.0, -1.0, -1.0)


def diagonal_of(matrices: Floats) -> Floats:
    """(J, q) view of the diagonals of (J, q, q)."""
    found: Floats = np.einsum("jaa->ja", matrices)
    return found
