"""Methods `public_features` and `projected` on joint moments: exact where columns are public, projected where they bound.

Let P be public columns and z a private one, of which P^T z is seen with noise of variance sigma^2 in every entry. With the
means m of P known exactly, the constant is regressed out, which leaves noise of covariance sigma^2 Omega, Omega = I + m m^T =
L L^T. In whitened coordinates L^-1 P_c^T = V S U^T, and

    g = V^T L^-1 (P^T z - m sum z) = S t + noise of variance sigma^2,   t = U^T z.                                       (1)

The estimate of t is its posterior mean under an empirical-Bayes prior (`Vectors`). Rows within their bounds have
|t| <= sqrt(n) half-width. So no coordinate of the estimate is further from 0 than that of the projection onto this ball
(`PublicSide`, `clipped_to_feasible`), whose multiplier is the least ridge.

Features public (label privacy): P are the features and z an outcome. The weights are L^-T V S^-1 t, and the model that takes t'
for t lowers the squared error on the private rows by 2 t.t' - |t'|^2, so t is all there is to guess. How far it goes from the
constant predictor is decided as in `gain`. One factorisation for all outcomes: O(d^3 + l d^2).

Outcomes public, features private: the association of every private column with all public ones together is L V S t + m sum z,
with much less noise once public columns are many; noise is spread evenly over all directions, what bounded rows can give is not.
On these moments `spectral` fits as on others. Method `posterior` needs no such help: holding to the public entries, every draw is
positive semidefinite and within bounds, which is the same body and more. Nor is there any for a private
outcome beside private features: its association would be shrunken here and once more by the fit.

With outcome-only columns the public ones, Y, bound the association with the private features Z: it is projected onto {Y^T Z : |z_c|
<= sqrt(n)} by the singular value decomposition of Y, O(n l min(n, l)) for l public outcomes and O(n l d) for d private features
(docs/guarantees.md 16). A spectral ridge then serves all outcomes by one factorisation of the features' covariance.

Source: PRIMO (2023), Algorithms 1 to 3; docs/methods.md, "Fits on joint moments", for why a plain inverse will not do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.marginals import Marginals, pooled
from dprelease.estimators.moments.gain import Judged, cautious_step
from dprelease.estimators.moments.spectral_ridge import Slopes, beside_constant, determined
from dprelease.estimators.normal_equations import NormalEquations
from dprelease.estimators.quality import ScaledFit
from dprelease.mechanisms.moments.released import Moments, NoisyMoments, OutcomeMoments

_MOST_STEPS = 60
_CELLS = 1 << 17
"""Entries of (r, b) that are worked on at a time."""
_HUGE = 1e300
"""Noise beyond this many times the room leaves nothing."""
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PublicSide:
    """P = U S V^T without U, which no projection needs.

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
        return squared / (squared + multipliers)


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


EXPLAINED = np.geomspace(1e-2, 0.99, 12)
"""e."""
_LEAST = 1e-12
"""Least V: one millionth of a range for a standard deviation."""
_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Vectors:
    """Noisy coordinates of l vectors.

    Observed of t, r numbers, is g_i = s_i t_i + noise of variance sigma^2. t is the part U^T z of a column z of n numbers with
    variance V, U the left singular vectors of the public side and s its singular values, so before g is seen

        t_i ~ N(0, v_i),   v_i = V [(1 - e) + e n s_i^2 / sum s^2]:                                                         (1)

    a column of which the public side explains the part e by weights all of one size, and whose rest has no direction. e is
    log-uniform on `EXPLAINED`, unless many columns together tell more of its law (`pooled`); V takes a few values that its own
    noisy square leaves likely. Given both, t_i is normal with mean v_i s_i g_i / (v_i s_i^2 + sigma^2); means are averaged by how
    likely e and V make g. Without noise t = g / s.

    Attributes:
        singular: (r,) s, positive.
        seen: (r, l) g.
        noise: (l,) sigma.
        spread: (k, l) equally likely values of V.
        rows: n.
    """

    singular: Floats
    seen: Floats
    noise: Floats
    spread: Floats
    rows: int

    @classmethod
    def of(cls, singular: Floats, seen: Floats, noise: Floats, spread: Floats, rows: int) -> Vectors:
        """With a variance of at least `_LEAST`."""
        return cls(singular, seen, noise, np.maximum(spread, _LEAST), rows)

    def take(self, places: npt.NDArray[np.int64]) -> Vectors:
        """The same of some of the vectors."""
        return replace(self, seen=self.seen[:, places], noise=self.noise[places], spread=self.spread[:, places])

    def explained(self) -> Floats:
        """(12, l) logarithm of how likely each e makes g, up to a constant for each vector."""
        found = np.empty((len(EXPLAINED), self.seen.shape[1]))
        for places, chunk in self._chunks():
            found[:, places] = logsumexp(chunk._cases(), axis=0)
        return found

    def posterior(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of t given g, each (r, l).

        Args:
            shares: (12, l) how likely each e is before g is seen; equally unless told.
        """
        mean, variance = np.empty_like(self.seen), np.empty_like(self.seen)
        for places, chunk in self._chunks():
            cases = chunk._cases()
            log = cases if shares is None else cases + np.log(shares[:, places])
            mean[:, places], variance[:, places] = chunk._average(np.exp(log - log.max(axis=(0, 1))))
        return mean, variance

    def _chunks(self) -> Iterator[tuple[npt.NDArray[np.int64], Vectors]]:
        count, step = self.seen.shape[1], max(1, _AT_ONCE // max(1, len(self.singular)))
        for start in range(0, count, step):
            places = np.arange(start, min(start + step, count))
            yield places, self.take(places)

    def _shapes(self) -> Floats:
        """(12, r) v / V for each e."""
        squares = self.singular**2
        found: Floats = 1 - EXPLAINED[:, None] + EXPLAINED[:, None] * (self.rows * squares / squares.sum())
        return found

    def _cases(self) -> Floats:
        """(k, 12, l) logarithms of how likely V and e make g."""
        energies, energy, s2 = self.singular[:, None] ** 2, self.seen**2, self.noise**2
        found = np.empty((len(self.spread), len(EXPLAINED), len(s2)))
        for place, v in enumerate(self.spread):
            for index, shape in enumerate(self._shapes()):
                expected = shape[:, None] * energies * v + s2
                found[place, index] = -0.5 * (np.log(expected) + energy / expected).sum(axis=0)
        return found

    def _average(self, weight: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of t over the cases, which weigh so much, (k, 12, l)."""
        gains, s2 = self.singular[:, None], self.noise**2
        weight = weight / weight.sum(axis=(0, 1))
        first, second = np.zeros_like(self.seen), np.zeros_like(self.seen)
        for place, v in enumerate(self.spread):
            for index, shape in enumerate(self._shapes()):
                prior, share = np.outer(shape, v), weight[place, index]
                expected = prior * gains**2 + s2
                posterior_mean = prior * gains * self.seen / expected
                first += share * posterior_mean
                second += share * (prior * s2 / expected + posterior_mean**2)
        return first, np.maximum(second - first**2, 0.0)


def clipped_to_feasible(side: PublicSide, seen: Floats, posterior_mean: Floats, radius: Floats) -> Floats:
    """The posterior mean, no coordinate further out than in the nearest feasible t, (r, l); hence feasible itself.

    Args:
        side: whose singular values are s.
        seen: (r, l) g.
        posterior_mean: (r, l) from `Vectors.posterior`.
        radius: (l,) bounds of |t|.
    """
    limit = side.shrinkage(side.multipliers(seen, radius)) * np.abs(seen) / side.singular[:, None]
    return np.clip(posterior_mean, -limit, limit)


def fit_public_features(moments: Moments, features: list[int], targets: list[int], *, intercept: bool) -> ScaledFit:
    """Fit all targets on the same public features; together they give what they give one by one.

    Arguments as of `fit_spectral`.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    layout, rows = moments.layout, moments.rows
    wanted, places = np.unique([*targets, *np.flatnonzero(layout.outcome & ~layout.public)], return_inverse=True)
    places = places[: len(targets)]
    alone = Marginals.of(moments, wanted)
    outcomes = alone.take(places)
    whitened = _Whitened.of(moments, features, wanted.tolist(), intercept=intercept)
    side, variances = (
        whitened.side,
        np.array([alone.harmonic_variance, alone.variance] if intercept else [alone.square]),
    )
    if not side.full_rank:
        raise determined(len(features))
    evidence = Vectors.of(side.singular, whitened.seen, whitened.noise_sd, variances, rows)
    law = pooled(evidence, len(EXPLAINED), layout.outcome[wanted] & ~layout.public[wanted])
    posterior_mean, posterior_variance = evidence.take(places).posterior(law[:, places])
    t = clipped_to_feasible(side, whitened.seen[:, places], posterior_mean, whitened.radius[places])
    alpha = cautious_step(t, posterior_mean, posterior_variance)
    # A posterior mean moves with what is seen by its variance over that of the noise; t is S^-1 times what is seen.
    noise = whitened.noise_sd[places]
    rate = rows * np.divide(
        posterior_variance,
        noise**2,
        out=side.singular[:, None] ** -2.0 + np.zeros_like(posterior_variance),
        where=noise > 0,
    )
    exact = np.zeros(len(alpha))
    slopes = Slopes(whitened.across, alpha * t / side.singular[:, None], alpha * rate, exact, whitened.centre)
    curved = np.linalg.eigvalsh(whitened.moments)
    problem = Judged(moments, moments, features, targets)
    return beside_constant(problem, outcomes, slopes, alpha, (curved[0], curved[-1]), intercept=intercept)


def associated(moments: NoisyMoments, *, intercept: bool) -> NoisyMoments:
    """The same with every private column's association with the public ones as it is believed, and its remaining noise.

    Args:
        moments: as released.
        intercept: whether it is for a fit with one, which takes the means' noise into account by itself.
    """
    public = np.flatnonzero(moments.layout.public)[1:]
    private = np.flatnonzero(~moments.layout.public)
    if not len(private):
        return moments
    rows, alone = moments.rows, Marginals.of(moments, private)
    whitened = _Whitened.of(moments, list(public), list(private), intercept=True)
    variances = np.array([alone.harmonic_variance, alone.variance])
    singular, noise_sd = whitened.side.singular, moments.noise_sd[0, private]
    posterior_mean, posterior_variance = Vectors.of(singular, whitened.seen, noise_sd, variances, rows).posterior()
    back = whitened.root @ whitened.side.right * whitened.side.singular
    association = back @ clipped_to_feasible(whitened.side, whitened.seen, posterior_mean, whitened.radius)
    association += rows * np.outer(whitened.centre, alone.mean)
    left = back**2 @ posterior_variance
    if not intercept:
        left += rows**2 * np.outer(whitened.centre**2, alone.mean_sd**2)
    gram, sd = moments.gram.copy(), moments.noise_sd.copy()
    for matrix, block in ((gram, association), (sd, np.sqrt(left))):
        matrix[np.ix_(public, private)] = block
        matrix[np.ix_(private, public)] = block.T
    return replace(moments, gram=gram, noise_sd=sd)


def projected(moments: OutcomeMoments, public: Floats) -> OutcomeMoments:
    """The same with the association of private features with public outcomes as it is believed, and its remaining noise.

    Args:
        moments: as released.
        public: (n, a) the public variables, in scaled units, in their order.
    """
    layout = moments.layout
    private, outcomes = np.flatnonzero(~layout.public & ~layout.outcome), np.flatnonzero(layout.public & layout.outcome)
    side = PublicSide.of_rows(public[:, layout.outcome[layout.public][1:]])
    noise_sd = moments.noise_between(outcomes, private)[0]
    seen = side.right.T @ moments.between(outcomes, private)
    spread = Marginals.of(moments, private).square[None]
    posterior_mean, posterior_variance = Vectors.of(side.singular, seen, noise_sd, spread, moments.rows).posterior()
    back = side.right * side.singular
    association = back @ clipped_to_feasible(side, seen, posterior_mean, np.full(len(private), np.sqrt(moments.rows)))
    across, across_sd = moments.across.copy(), moments.across_sd.copy()
    rows = layout.feature_place[private]
    across[np.ix_(rows, outcomes)] = association.T
    across_sd[np.ix_(rows, outcomes)] = np.sqrt(back**2 @ posterior_variance).T
    return replace(moments, across=across, across_sd=across_sd)


@dataclass(frozen=True, eq=False)
class _Whitened:
    """Formula (1) for a public and l private columns.

    Attributes:
        moments: (a, a) of the public columns about `centre`, per patient.
        centre: (a,) their means; 0 without an intercept.
        root: (a, a) L.
        side: S and V.
        seen: (r, l) g.
        noise_sd: (l,) of g.
        radius: (l,) bounds of |t|.
    """

    moments: Floats
    centre: Floats
    root: Floats
    side: PublicSide
    seen: Floats
    noise_sd: Floats
    radius: Floats

    @classmethod
    def of(cls, moments: Moments, public: list[int], private: list[int], *, intercept: bool) -> _Whitened:
        rows = moments.rows
        equations, centre, _ = NormalEquations.of_released(moments, public, private, intercept=intercept)
        root = np.linalg.cholesky(np.eye(len(public)) + np.outer(centre, centre))
        inverse = np.linalg.inv(root)
        uncentred = float(moments.own(public).max())
        side = PublicSide.of_gram(rows * inverse @ equations.xx @ inverse.T, uncentred)
        return cls(
            moments=equations.xx,
            centre=centre,
            root=np.asarray(root, np.float64),
            side=side,
            seen=side.right.T @ (inverse @ (rows * equations.xy)),
            noise_sd=moments.noise_between([0], private)[0],
            radius=_radius(moments, private, intercept=intercept),
        )

    @property
    def across(self) -> Floats:
        """L^-T V, (a, r)."""
        return np.asarray(np.linalg.solve(self.root.T, self.side.right), np.float64)


def _radius(moments: Moments, private: list[int], *, intercept: bool) -> Floats:
    """(l,) bounds of |t|: sqrt(n) half-widths."""
    halves = np.where(moments.layout.level[private], 0.5 if intercept else 1.0, 1.0)
    bounds: Floats = np.sqrt(moments.rows) * halves
    return bounds
