"""Prior on correlation matrices by a triangular root with Cauchy entries: the part of `density`'s prior that has no bounds.

In standard deviations from their means, and in the order of the list, variable i is

    x_i = (sum_{j < i} psi_ij x_j + T_ii e_i) / length,    e_i of variance 1 and unrelated to x_1, ..., x_(i-1),

psi_ij of Cauchy's law. Most pairs hardly depend on each other once the others are known, yet no single strong relation is
ruled out, and, as in a ridge, one by way of a direction in which the earlier variables hardly vary is unlikely.

The density is wanted in T. With U the root of the correlation matrix whose rows are those of T at length 1, and F the part
of T below its diagonal, row i of F is psi_i times the root of the first i - 1 variables: Psi = F U^(-1), and the
determinant of that root divides the density:

    -log p = sum_ij log(1 + psi_ij^2) + sum_k (q - k) log U_kk.
"""

from __future__ import annotations

import numpy as np

from dprelease.release.release import Floats


def dependence(free: Floats, u: Floats) -> tuple[Floats, Floats, Floats]:
    """-log p, (J,), and its gradients by F and by U, each held without the other, (J, q, q).

    Args:
        free: (J, q, q) F, 0 on and above the diagonal.
        u: (J, q, q) U, lower triangular.
    """
    size = u.shape[1]
    later = np.arange(size - 1.0, -1.0, -1.0)
    inverse = _inverse(u)
    psi = free @ inverse
    turned = inverse.transpose(0, 2, 1)
    by_free = np.tril((2 * psi / (1 + psi**2)) @ turned, -1)
    by_u = np.tril(-turned @ free.transpose(0, 2, 1) @ by_free)
    diagonal = np.einsum("jaa->ja", u)
    np.einsum("jaa->ja", by_u)[:] += later / diagonal
    value = np.log1p(psi**2).sum(axis=(1, 2)) + np.log(diagonal) @ later
    return value, by_free, by_u


def bend(free: Floats, u: Floats) -> Floats:
    """How sharply -log p bends along each row of F, on average over the points, (q, q, q), with U held.

    It is that of a normal law of psi that has Cauchy's slope on average, so it is positive definite.

    Args:
        free: (J, q, q) F.
        u: (J, q, q) U.
    """
    inverse = _inverse(u)
    size = u.shape[1]
    precision = (2 / (1 + (free @ inverse) ** 2)).mean(axis=(1, 2))
    whole = np.einsum("j,jac,jbc->ab", precision, inverse, inverse, optimize=True) / len(u)
    earlier = np.tril(np.ones((size, size)), -1)
    blocks: Floats = whole * earlier[:, :, None] * earlier[:, None, :]
    return blocks


def _inverse(u: Floats) -> Floats:
    """By forward substitution: unlike a general routine it has no error to raise where a wild trajectory made U singular."""
    found = np.zeros_like(u)
    for row in range(u.shape[1]):
        found[:, row, row] = 1.0
        found[:, row, :row] = -(u[:, row, None, :row] @ found[:, :row, :row])[:, 0]
        found[:, row] /= u[:, row, row, None]
    return found
