"""Posterior density of the true moments given a noisy Gram matrix, over every matrix that bounded rows can have.

Unknown is S = (1/n) sum of x x^T over the patients, x = (1, z). Released is S + N, N Gaussian (it is a sum of discrete
Gaussians on a grid far finer than its scale) with known standard deviations. Every S that comes from rows has the form

    S = [1 m^T; m  m m^T + C],   C = D R D,   d_c^2 = (m_c - l_c)(1 - m_c) g_c,   0 < g_c <= 1,

with means m within the range [l, 1] of each variable, R a correlation matrix, and g the part of the largest variance that a
variable of this mean can have in its range: g = 1 for an indicator, which takes only the ends of its range. A prior over
(m, g, R), vague and the same for every table, makes S + N a Bayesian problem:

    (m_c - l_c)/(1 - l_c) ~ Beta(EDGE, EDGE)    a number crowds near an end of wide bounds, so near ends is likely
                          ~ Beta(SHARE, SHARE)  of an indicator: Jeffreys' prior of a share
    g_c ~ Beta(SPREAD, 1)                       nearly flat in log g: a variable may fill any part of its range
    R   = T T^T scaled to ones on its diagonal, T lower triangular, below it as in `Dependence`, and on it
          T_ii^2 ~ TIGHTNESS (p + 1) chi^2_ROOM / ROOM: a variable that the others determine (T_ii near 0) is
          never ruled out, as it would be were T T^T Wishart

For an indicator i the density is multiplied by unit_ij (see below) for every other variable j. Its d follows from its mean, and
without this factor each covariance that is seen to be near 0, as the zeros within its group, would say by 1/d_i that its share is
small: rare levels would vanish. So a share is known from its own sums, from what its group leaves, and from covariances that are
too large for a smaller one.

The means of what is drawn from the posterior are positive semidefinite and within all bounds by construction, they fall
to "no correlation" where noise hides it, and the noise of one entry is reduced by all others: a variable that spreads over
1 % of its range at an end of it has z^2 = 1 - 2|z - l| nearly, so its square and its products tell its mean.

Coordinates without bounds, for a sampler: for each variable a row of its place a and spread b, the logits of (m - l)/(1 - l)
and of g, and its row of T, lower triangular with a positive diagonal, kept as its logarithm t, and below it as f_ij = T_ij
unit_ij, unit_ij = sqrt(d_i^2 + h_ij^2). Rows of T scaled to length 1 are a root of R. A sampler has to follow what the data
hold still. If a relation is seen, that is the covariance and not the correlation, which has to grow as d_i falls: f_ij is
the former as long as d_i is above h_ij, the spread at which noise hides a relation of the usual size, and the latter below it.
For the same reason variables come in the order of their spread, those that are seen worst last. (In the correlations alone
chains fall to small spreads on their way from the start and need thousands of turns to leave them.) An outcome that is to be
predicted comes last of all: then it is its own regression on all others that has few strong slopes. If an outcome came before
them, the prior would say so of the regressions of its causes on it and on each other. It would shrink whatever several
features explain together.

All levels of a one-hot group but the commonest have coordinates. The commonest is the constant minus their sum, and its noisy
entries are observations of that; were it rare, the others would nearly determine each other. The zeros within a group,
and the entries between public columns, are observations with little noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dtrtri
from scipy.special import log_expit

from dprelease.arrays import Floats
from dprelease.mechanisms.moments.released import NoisyMoments


@dataclass(frozen=True, eq=False)
class Dependence:
    """The prior (1) at J roots T.

    In standard deviations from their means, and in the order of the list, variable i is

        x_i = (sum_{j < i} psi_ij x_j + T_ii e_i) / length,    e_i of variance 1 and unrelated to x_1, ..., x_(i-1),

    psi_ij of Cauchy's law. Most pairs hardly depend on each other once the others are known, yet no single strong relation is
    ruled out, and, as in a ridge, one by way of a direction in which the earlier variables hardly vary is unlikely.

    The density is wanted in T. With U the root of the correlation matrix, whose rows are those of T at length 1, and F the part
    of T below its diagonal, row i of F is psi_i times the root of the first i - 1 variables: Psi = F U^(-1), and the
    determinant of that root divides the density:

        -log p = sum_ij log(1 + psi_ij^2) + sum_k (q - k) log U_kk,        psi_ij = -T_ii (T^(-1))_ij length_j.             (1)

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
    found: Floats = matrices.diagonal(0, 1, 2)
    found.flags.writeable = True  # the view of np.einsum in less than half the time
    return found


_EXACT = 0.25
"""Standard deviation, in that of the least noisy entry, at which an exact entry counts as observed."""


def precisions(
    noise_sd: Floats,
    level: npt.NDArray[np.bool_],
    left_out: npt.NDArray[np.bool_],
    owner: npt.NDArray[np.int64],
    public: npt.NDArray[np.bool_],
) -> Floats:
    """1/variance of every entry that is an observation of its own, (p+1, p+1); 0 for the others."""
    positive = noise_sd > 0
    weight = np.divide(1.0, noise_sd**2, out=np.zeros_like(noise_sd), where=positive)
    exact = 1 / (_EXACT * noise_sd[positive].min()) ** 2
    weight[np.ix_(public, public)] = exact
    weight[0, 0] = 0.0  # the constant's square is no observation
    inside = level[:, None] & (owner[:, None] == owner) & ~left_out[:, None] & ~left_out
    weight[1:, 1:][inside] = exact
    weight[1:, 1:][np.diag(level)] = 0.0  # a level's own entry repeats its entry with the constant
    return weight


def commonest(mean: Floats, level: npt.NDArray[np.bool_], owner: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """(p,) whether a variable is that level of its category whose released mean is the largest.

    Args:
        mean: (p,) released.
        level: (p,) whether a variable is a level.
        owner: (p,) position of its declared column.
    """
    found = np.zeros(len(mean), np.bool_)
    for column in np.unique(owner[level]):
        group = np.flatnonzero(level & (owner == column))
        found[group[mean[group].argmax()]] = True
    return found


EDGE = 0.2
SHARE = 0.5
SPREAD = 0.5
TIGHTNESS = 6.0
ROOM = 2.0
FADED, MOST_FADED = 0.02, 40
"""Entries fade until the least eigenvalue at the start is this, so many times at most."""
_ROUNDING = 1e-9
"""Part by which a mass on the diagonal is raised."""


@dataclass(frozen=True, eq=False)
class _Parts:
    """Intermediate arrays of J points, named as in the module's text.

    Attributes:
        logs: (J, q, 2) logarithms of (m - l)/(1 - l) and of g.
        beside: (J, q, 2) logarithms of 1 less these.
        x: (J, p + 1, q + 1) a root of S: the constant, and of every variable m and D u; last those that follow from others.
        d: (J, q).
        squared: (J, q, q) unit_ij^2.
        by_unit: (J, q, q) 1/unit_ij below the diagonal.
        triangle: (J, q, q) T.
        difference: (J, p + 1, p + 1) of S from what is observed.
        related: the prior of T.
    """

    logs: Floats
    beside: Floats
    x: Floats
    d: Floats
    squared: Floats
    by_unit: Floats
    triangle: Floats
    difference: Floats
    related: Dependence


class Density:
    """The negative logarithm of the posterior, and its gradient, at J points at once.

    A point is a (q, q + 2) array, one row for each variable: a, b, and its row of T with t on the diagonal; unused
    coordinates stay 0.

    Args:
        moments: of which at least one entry is noisy.
        outcome: index in the matrix of the variable that comes last; None for the order of spread alone.

    Attributes:
        used: (q, q + 2) which coordinates there are.
    """

    def __init__(self, moments: NoisyMoments, outcome: int | None = None) -> None:
        owner = np.array([variable.column for variable in moments.layout.variables])
        level = moments.layout.level[1:]
        observed = moments.gram / moments.rows
        mean = observed[0, 1:]
        variance = np.diag(observed)[1:] - mean**2
        last = commonest(mean, level, owner)
        order = np.argsort(-variance, kind="stable")
        if outcome is not None:
            order = np.append(order[order != outcome - 1], outcome - 1)
        kept, others = order[~last[order]], np.flatnonzero(last)
        self._order = np.concatenate([[0], kept + 1, others + 1])
        self._rows = q = len(kept)
        self._others = np.zeros((len(others), q + 1))  # rows of x from those of the coordinates
        self._others[:, 0] = 1.0
        self._others[:, 1:] = np.where(level[kept] & (owner[kept] == owner[others, None]), -1.0, 0.0)
        weight = precisions(moments.noise_sd / moments.rows, level, last, owner, moments.layout.public)
        self._observed, self._weight = (each[np.ix_(self._order, self._order)] for each in (observed, weight))
        self._doubled = self._weight + np.diag(np.diag(self._weight))
        self._lower = np.where(level, 0.0, -1.0)[kept]
        self._width = 1.0 - self._lower
        self._numeric = moments.layout.measured[1:][kept]
        self._scale2 = TIGHTNESS * (q + 1)
        self._edge = np.where(self._numeric, EDGE, SHARE)
        self._below = np.tril(np.ones((q, q)), -1)
        self._per_unit = self._below - ~self._numeric[:, None] * (1 - np.eye(q))
        typical = np.maximum(variance[kept], 1 / np.sqrt(weight.max()))
        clear = typical * self._together()[1:, 1:] / self._scale2
        self._hazy = np.divide(1.0, clear, out=np.ones_like(clear), where=clear > 0)
        self.used = np.column_stack([np.ones(q, bool), self._numeric, np.tril(np.ones((q, q), bool))])

    def matrices(self, theta: Floats) -> Floats:
        """S of each point, (J, p+1, p+1)."""
        x, back = self._parts(theta).x, np.argsort(self._order)
        return (x @ x.mT)[:, back[:, None], back]

    def potential(self, theta: Floats) -> tuple[Floats, Floats]:
        """Minus the log-density, (J,), up to a constant, and its gradient, of theta's shape."""
        parts = self._parts(theta)
        value = 0.25 * (self._doubled * parts.difference**2).sum(axis=(1, 2)) + parts.related.value()
        value -= (parts.logs[:, :, 0] + parts.beside[:, :, 0]) @ self._edge
        value -= (SPREAD * parts.logs[:, :, 1] + parts.beside[:, :, 1]) @ self._numeric
        diagonal = parts.related.diagonal
        value += ROOM * (0.5 * diagonal**2 / self._scale2 - np.log(diagonal)).sum(axis=1)
        return value + 0.5 * (self._per_unit * np.log(parts.squared)).sum(axis=(1, 2)), self._slope(parts)

    def slope(self, theta: Floats) -> Floats:
        """The gradient alone, which takes two thirds of the time of both."""
        return self._slope(self._parts(theta))

    def _slope(self, parts: _Parts) -> Floats:
        related, d, size = parts.related, parts.d, self._rows + 1
        to_x = (self._doubled * parts.difference) @ parts.x
        to_x = to_x[:, :size] + self._others.T @ to_x[:, size:] if len(self._others) else to_x
        to_root = to_x[:, 1:, 1:]
        to_log_d = np.vecdot(to_root, parts.x[:, 1:size, 1:])
        by_t, by_diagonal, by_length = related.slope()
        to_t = by_t + to_root * (d / related.length)[:, :, None]
        to_t += parts.triangle * ((by_length - to_log_d) / related.length**2)[:, :, None]
        part = (d * d)[:, :, None] / parts.squared
        to_log_d = to_log_d + np.vecdot(part, self._per_unit - self._below * to_t * parts.triangle)
        inside, outside = np.exp(parts.logs), np.exp(parts.beside)
        inner, outer = inside[:, :, 0], outside[:, :, 0]
        gradient = np.empty((*d.shape, size + 1))
        gradient[:, :, 0] = to_x[:, 1:, 0] * self._width * inner * outer + (to_log_d / 2 - self._edge) * (outer - inner)
        gradient[:, :, 1] = self._numeric * ((to_log_d / 2 - SPREAD) * outside[:, :, 1] + inside[:, :, 1])
        gradient[:, :, 2:] = to_t * parts.by_unit
        diagonal_of(gradient[:, :, 2:])[:] = (
            diagonal_of(to_t) * related.diagonal + by_diagonal + ROOM * (related.diagonal**2 / self._scale2 - 1)
        )
        return gradient

    def metric(self, theta: Floats) -> Floats:
        """How sharply the density bends along the coordinates of each variable, on average: (q, q + 2, q + 2).

        Gauss and Newton's matrix of the data for one variable's row, all others held, plus the prior's curvature. An
        entry is the product X_i X_k^T of rows X_i = (m_i, d_i u_i), so that matrix is J_i^T (sum_k w_ik X_k X_k^T) J_i.
        """
        parts, size, each = self._parts(theta), self._rows, np.arange(self._rows)
        related, d = parts.related, parts.d
        inside, outside = np.exp(parts.logs), np.exp(parts.beside)
        weight = self._together()
        weight = weight + 3 * np.diag(np.diag(weight))  # a square changes twice as fast as a product
        rows = parts.x[:, : size + 1]
        bends = np.einsum("ik,jka,jkb->jiab", weight[1:], rows, rows, optimize=True)
        jacobian = np.zeros((*rows.shape[:1], size, size + 1, size + 2))  # of X_i by the coordinates of row i
        jacobian[:, :, 0, 0] = self._width * inside[:, :, 0] * outside[:, :, 0]
        u = parts.triangle / related.length[:, :, None]
        across = np.eye(size) - u[:, :, :, None] * u[:, :, None, :]
        across /= related.length[:, :, None, None]
        moved = (d[:, :, None] * parts.by_unit) ** 2 * parts.triangle  # of F by the logarithm of d
        by_log_d = rows[:, 1:, 1:] - (across @ moved[..., None])[..., 0] * d[:, :, None]
        jacobian[:, :, 1:, 0] = by_log_d * ((outside[:, :, 0] - inside[:, :, 0]) / 2)[:, :, None]
        jacobian[:, :, 1:, 1] = by_log_d * (outside[:, :, 1] / 2 * self._numeric)[:, :, None]
        lengths = parts.by_unit.copy()
        diagonal_of(lengths)[:] = related.diagonal
        jacobian[:, :, 1:, 2:] = across * (d[:, :, None] * lengths)[:, :, None, :]
        jacobian *= self.used[:, None, :]
        blocks: Floats = np.einsum("jica,jicd,jidb->iab", jacobian, bends, jacobian, optimize=True) / len(theta)
        inverse = parts.by_unit.mean(axis=0)
        blocks[:, 2:, 2:] += related.bend() * (inverse[:, :, None] * inverse[:, None, :])
        prior = np.zeros((size, size + 2))
        prior[:, 0] = 2 * self._edge * (inside[:, :, 0] * outside[:, :, 0]).mean(axis=0)
        prior[:, 1] = (1 + SPREAD) * (inside[:, :, 1] * outside[:, :, 1]).mean(axis=0) + 0.02
        prior[each, 2 + each] = 2 * ROOM * (related.diagonal**2).mean(axis=0) / self._scale2
        prior[~self.used] = 1.0
        # The length of a row of T is free of data; beside very sharp data its curvature would drown in rounding.
        np.einsum("iaa->ia", blocks)[:] *= 1 + _ROUNDING
        np.einsum("iaa->ia", blocks)[:] += prior
        return blocks

    def _together(self) -> Floats:
        """1/variance of all that is seen of each entry of the coordinates' x, (q+1, q+1)."""
        expand = np.abs(np.vstack([np.eye(self._rows + 1), self._others]))
        found: Floats = expand.T @ self._weight @ expand
        return found

    def start(self, chains: int) -> Floats:
        """A point whose moments are near the released ones, (J, q, q + 2).

        Chains are short, and do not come down in time from where something clearly seen is hundreds of standard deviations off.
        """
        known = slice(1, self._rows + 1)
        observed, released = self._observed[known, known], self._observed[0, known]
        seen = self._together()
        noise2 = np.divide(1.0, seen, out=np.zeros_like(seen), where=seen > 0)
        edge = np.clip(np.sqrt(noise2[0, 1:]), 1e-6 * self._width, 0.01 * self._width)
        mean = np.clip(released, self._lower + edge, 1 - edge)
        most = (mean - self._lower) * (1 - mean)
        least = np.minimum(1 / np.sqrt(self._weight.max()), most / 2)
        variance = np.where(self._numeric, np.clip(np.diag(observed) - released**2, least, 0.98 * most), most)
        d = np.sqrt(variance)
        between = np.clip((observed - np.outer(mean, mean)) / np.outer(d, d), -1, 1)
        # Entries that are mostly noise would make no correlation matrix, and its repair would harm those that are clear.
        own = np.outer(noise2[0, 1:], mean**2)
        hidden = (noise2[1:, 1:] + own + own.T) / np.outer(variance, variance)
        clear = between**2 / np.maximum(between**2 + hidden, 1e-12)
        for _ in range(MOST_FADED):
            np.fill_diagonal(between, 1.0)
            values, vectors = np.linalg.eigh(between)
            if values[0] > FADED:
                break
            between *= clear
        noise = float(np.median(1 / np.outer(d, d))) / np.sqrt(self._weight.max())
        correlation = (vectors * np.maximum(values, min(0.05, np.sqrt(len(d)) * noise))) @ vectors.T
        scale = np.sqrt(np.diag(correlation))
        root = np.linalg.cholesky(correlation / np.outer(scale, scale)) * np.sqrt(self._scale2)
        part = np.where(self._numeric, variance / most, 0.5)
        root = np.tril(root, -1) * np.sqrt(d[:, None] ** 2 + self._hazy) + np.diag(np.log(np.diag(root)))
        point = np.column_stack([np.log((mean - self._lower) / (1 - mean)), np.log(part / (1 - part)), root])
        return np.tile(point, (chains, 1, 1))

    def reordered(self, theta: Floats, before: Density) -> Floats:
        """Points of the same moments as these of a density that has the variables in another order, (J, q, q + 2).

        Args:
            theta: points of the latter.
            before: the latter, of the same release.
        """
        own = slice(1, self._rows + 1)
        place = np.argsort(before._order[own])[np.argsort(np.argsort(self._order[own]))]
        parts, point = before._parts(theta), theta[:, place].copy()
        u, d = (parts.triangle / parts.related.length[:, :, None])[:, place], parts.d[:, place]
        root = np.asarray(np.linalg.qr(u.mT)[1], np.float64).mT
        root = root * np.where(diagonal_of(root) < 0, -1.0, 1.0)[:, None, :] * np.sqrt(self._scale2)
        point[:, :, 2:] = root * self._below * np.sqrt(d[:, :, None] ** 2 + self._hazy)
        diagonal_of(point[:, :, 2:])[:] = np.log(np.maximum(diagonal_of(root), _ROUNDING))
        return point

    def _parts(self, theta: Floats) -> _Parts:
        ends, size = theta[:, :, :2], self._rows + 1
        logs = log_expit(ends)
        beside = logs - ends
        d = self._width * np.exp((logs[:, :, 0] + beside[:, :, 0] + self._numeric * logs[:, :, 1]) / 2)
        squared = (d * d)[:, :, None] + self._hazy
        by_unit = self._below / np.sqrt(squared)
        triangle = theta[:, :, 2:] * by_unit
        diagonal_of(triangle)[:] = np.exp(diagonal_of(theta[:, :, 2:]))
        length = np.sqrt(np.vecdot(triangle, triangle))
        x = np.zeros((len(theta), size, size))
        x[:, 0, 0] = 1.0
        x[:, 1:, 0] = self._lower + self._width * np.exp(logs[:, :, 0])
        x[:, 1:, 1:] = triangle * (d / length)[:, :, None]
        if len(self._others):
            x = np.concatenate([x, self._others @ x], axis=1)
        difference = x @ x.mT - self._observed
        return _Parts(logs, beside, x, d, squared, by_unit, triangle, difference, Dependence.of(triangle, length))
