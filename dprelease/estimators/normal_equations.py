"""From released rows to normal equations: the arrays that every method starts from, in scaled units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dprelease.arrays import Floats, RowTable
from dprelease.errors import InvalidInput
from dprelease.estimators.by_dask import products_by_dask
from dprelease.mechanisms.moments.released import Moments
from dprelease.mechanisms.noisy_rows.released import BlockRows, Engine, NoisyRows, turns
from dprelease.threads import for_product


@dataclass(frozen=True)
class NormalEquations:
    """Second moments of l regressions that share their d features, per patient.

    Attributes:
        xx: (d, d) Gram matrix of the noisy features, the paper's (1/n) X^T X; the intercept, if any, regressed out.
        xy: (d, l) the same for features and outcomes.
        noise: (d,) what the privacy noise is expected to add to the diagonal of `xx`.
    """

    xx: Floats
    xy: Floats
    noise: Floats

    @classmethod
    def of_moments(
        cls, matrix: Floats, features: list[int], targets: list[int], *, intercept: bool
    ) -> tuple[NormalEquations, Floats, Floats]:
        """The equations out of second moments per patient, and the means that the intercept takes off: (d,) and (l,).

        Args:
            matrix: (p+1, p+1), index 0 the constant.
            features: d indices in it.
            targets: l indices in it.
            intercept: whether to centre; the means are zero without.
        """
        xx, xy = matrix[np.ix_(features, features)], matrix[np.ix_(features, targets)]
        return cls._centred(xx, xy, matrix[0, features], matrix[0, targets], intercept=intercept)

    @classmethod
    def of_released(
        cls, moments: Moments, features: list[int], targets: list[int], *, intercept: bool
    ) -> tuple[NormalEquations, Floats, Floats]:
        """The same out of released moments.

        Raises:
            InvalidInput: products of these are not released.
        """
        xx, xy = moments.between(features, features), moments.between(features, targets)
        means = (moments.between([0], chosen)[0] for chosen in (features, targets))
        return cls._centred(*(part / moments.rows for part in (xx, xy, *means)), intercept=intercept)

    @classmethod
    def _centred(
        cls, xx: Floats, xy: Floats, centre: Floats, outcome: Floats, *, intercept: bool
    ) -> tuple[NormalEquations, Floats, Floats]:
        if not intercept:
            centre, outcome = np.zeros_like(centre), np.zeros_like(outcome)
        equations = cls(xx - np.outer(centre, centre), xy - np.outer(centre, outcome), np.zeros(len(centre)))
        return equations, centre, outcome


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Sums over released rows, whose constant column is regressed out where there is an intercept.

    Attributes:
        xx: (d, d) X^T X.
        xy: (d, l) X^T Y.
        yy: (l,) squared lengths of the outcomes.
        whole: (d,) squared lengths of the features before the constant column was regressed out.
        means: (d,) and (l,) what was taken off, times the constant column.
    """

    xx: Floats
    xy: Floats
    yy: Floats
    whole: Floats
    means: tuple[Floats, Floats]


@dataclass(frozen=True)
class RegressionRows:
    """Released rows of one set of regressions: [v X Y] = A [1 D_x D_y] + [0 noise].

    They may be larger than memory: sums over rows are taken over some rows after the other. Rounding of such a sum depends on
    how many rows these are, so that a fit on many rows has other last digits than one whose rows are all at hand.

    Attributes:
        ones: (r,) v = A 1, exact.
        x: (r, d) features.
        y: (r, l) outcomes.
        x_variance: (d,) noise variance of each entry of a feature.
        y_variance: (l,) noise variance of each entry of an outcome.
        patients: E|A e|^2 / (mean square of e) for a column e of one value per patient: n, or n (1 - rho) for mixing rows.
        anchor: whether row 0 is the anchor.
        mixed: whether A is a random mixing matrix rather than the identity.
        engine: what takes sums of products.
    """

    ones: Floats
    x: RowTable
    y: RowTable
    x_variance: Floats
    y_variance: Floats
    patients: float
    anchor: bool
    mixed: bool
    engine: Engine = "local"

    @classmethod
    def of(
        cls, scaled: NoisyRows, features: list[int], targets: list[int], *, mixed: bool, engine: Engine = "local"
    ) -> RegressionRows:
        """The rows of the given released columns."""
        return cls(
            ones=scaled.ones,
            x=_some(scaled.table, features),
            y=_some(scaled.table, targets),
            x_variance=scaled.noise_sd[features] ** 2,
            y_variance=scaled.noise_sd[targets] ** 2,
            patients=float(scaled.rows),
            anchor=scaled.anchor,
            mixed=mixed,
            engine=engine,
        )

    def mixing_only(self) -> RegressionRows:
        """Without the anchor row. The anchor's v is sqrt(rho) n, which is where rho is read from."""
        if not self.anchor:
            return self
        weight = (self.ones[0] / self.patients) ** 2
        return replace(
            self,
            ones=self.ones[1:],
            x=_behind(self.x),
            y=_behind(self.y),
            patients=self.patients * float(1 - weight),
            anchor=False,
        )

    def check_enough(self, *, anchored: bool, intercept: bool) -> None:
        """Refuse more features than rows.

        Raises:
            InvalidInput: there are more.
        """
        features, held = self.x.shape[1], len(self.ones) - (1 if self.anchor and not anchored else 0)
        needed = features + (1 if intercept else 0)
        if held < needed:
            raise InvalidInput(
                f"{features} features are too many for {held} released rows, so their Gram matrix is singular; "
                f"fit at most {max(held - needed + features, 0)}, or ask for a release with more mixing rows"
            )

    def singular(self) -> InvalidInput:
        """The refusal of features whose Gram matrix is singular."""
        return InvalidInput(
            f"the Gram matrix of {self.x.shape[1]} features over {len(self.ones)} released rows is singular; "
            "fit fewer features, and none that repeats others"
        )

    def normal_equations(self, *, intercept: bool) -> NormalEquations:
        """Second moments per patient, O(r d (d + l)).

        With an intercept, the public exact column v is regressed out of the features (docs/methods.md), row by row, because
        the anchor's entry of v is so large that a difference of moments would lose digits. One degree of freedom of the
        noise goes with it.

        Raises:
            InvalidInput: v is zero throughout, as it may be on one or two mixing rows, so that no intercept can be fitted.
        """
        products, degrees = self.products(intercept=intercept), len(self.ones) - int(intercept)
        return NormalEquations(
            xx=products.xx / self.patients,
            xy=products.xy / self.patients,
            noise=degrees * self.x_variance / self.patients,
        )

    def products(self, *, intercept: bool) -> RowProducts:
        """Sums of products of features and outcomes, O(r d (d + l)).

        Args:
            intercept: whether the constant column is regressed out of them.

        Raises:
            InvalidInput: as `normal_equations`; or the package of the engine is not installed.
            PeerUnavailable: the engine did not take the sums.
        """
        if intercept and not self.ones.any():
            raise InvalidInput("the constant column of these mixing rows is zero; fit without an intercept")
        if self.engine == "dask":
            return RowProducts(*products_by_dask(self.ones, self.x, self.y, intercept=intercept))
        (count, d), targets = self.x.shape, self.y.shape[1]
        means = self.means() if intercept else (np.zeros(d), np.zeros(targets))
        xx, xy, yy, whole = np.zeros((d, d)), np.zeros((d, targets)), np.zeros(targets), np.zeros(d)
        with for_product(count * d * (d + targets)):
            for ones, x, y in self.pieces():
                whole += (x * x).sum(axis=0)
                if intercept:
                    x -= np.outer(ones, means[0])
                    y -= np.outer(ones, means[1])
                xx += x.T @ x
                xy += x.T @ y
                yy += np.einsum("rl,rl->l", y, y)
        return RowProducts(xx, xy, yy, whole, means)

    def means(self) -> tuple[Floats, Floats]:
        """(d,) v^T X / |v|^2 and (l,) v^T Y / |v|^2 of a constant column that is not zero."""
        mean_x, mean_y, square = np.zeros(self.x.shape[1]), np.zeros(self.y.shape[1]), float(self.ones @ self.ones)
        for ones, x, y in self.pieces():
            mean_x += ones @ x
            mean_y += ones @ y
        return mean_x / square, mean_y / square

    def pieces(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """v, X and Y of some rows after the other; X and Y are the caller's to change."""
        for rows in turns(len(self.ones), self.x.shape[1] + self.y.shape[1]):
            yield self.ones[rows], _own(self.x, rows), _own(self.y, rows)

    def offsets(self, weights: Floats) -> Floats:
        """The intercepts, (l,), that go with weights found after v was regressed out."""
        sums: Floats = sum((ones @ (y - x @ weights) for ones, x, y in self.pieces()), np.zeros(weights.shape[1]))
        return sums / float(self.ones @ self.ones)

    def residual_squares(self, weights: Floats, offsets: Floats, constant: Floats) -> Floats:
        """(3, l) |e|^2, |f|^2 and e.f of e = y - v b0 - x w and f = y - v c.

        Args:
            weights: (d, l) w.
            offsets: (l,) b0.
            constant: (l,) c.
        """
        found = np.zeros((3, len(offsets)))
        for ones, x, y in self.pieces():
            e, f = y - (x @ weights + np.outer(ones, offsets)), y - np.outer(ones, constant)
            found += [(one * other).sum(axis=0) for one, other in ((e, e), (f, f), (e, f))]
        return found


def _own(table: RowTable, rows: slice) -> Floats:
    """Some rows that may be changed."""
    found = table[rows]
    return found.copy() if isinstance(table, np.ndarray) else found


def _some(table: RowTable, places: list[int]) -> RowTable:
    return table.some(places) if isinstance(table, BlockRows) else table[:][:, places]


def _behind(table: RowTable) -> RowTable:
    return table.part(slice(1, None)) if isinstance(table, BlockRows) else table[1:]


SINGULAR = 1e-12
"""A direction counts as null when its curvature is at most this part of what its columns would have there one by one."""


@dataclass(frozen=True)
class Solution:
    """Result of a solve.

    Attributes:
        weights: (d, l), one column for each right-hand side.
        inverse: (d, d), the inverse that was applied.
        smallest_eigenvalue: of the matrix that was inverted, ridge included; negative when it is indefinite.
        condition_number: largest over smallest |eigenvalue| of that matrix; infinite when one is zero.
        singular: whether the matrix was numerically singular before the ridge.
    """

    weights: Floats
    inverse: Floats
    smallest_eigenvalue: float
    condition_number: float
    singular: bool

    @property
    def indefinite(self) -> bool:
        """Tells whether the inverted matrix has a direction without curvature, or curved downwards."""
        return self.smallest_eigenvalue <= 0


def solve(matrix: Floats, right: Floats, ridge: float = 0.0) -> Solution:
    """Solve (matrix + ridge I) W = right by one symmetric eigendecomposition, O(d^3 + l d^2).

    An eigendecomposition serves definite and indefinite matrices alike, and shows the small eigenvalues that other
    factorisations hide. A direction z (|z| = 1) with eigenvalue c is null when |c| <= `SINGULAR` sum_i z_i^2 |a_ii|, a
    comparison in which the scale of the columns cancels: a column that fills a small part of its public range is
    small, not singular. Directions that are null even after the ridge get weight zero. `Solution.singular` tells of
    null directions, and the caller decides whether they are an error.

    Args:
        matrix: (d, d) symmetric.
        right: (d, l).
        ridge: added to every diagonal entry.
    """
    values, vectors = np.linalg.eigh(matrix)
    inverted = values + ridge
    threshold = SINGULAR * (np.abs(np.diag(matrix)) @ vectors**2)
    null = np.abs(values) <= threshold
    usable = np.abs(inverted) > threshold
    reciprocal = np.divide(1.0, inverted, out=np.zeros_like(inverted), where=usable)
    inverse = (vectors * reciprocal) @ vectors.T
    sizes = np.abs(inverted)
    return Solution(
        weights=inverse @ right,
        inverse=inverse,
        smallest_eigenvalue=float(inverted.min()),
        condition_number=float(sizes.max() / sizes.min()) if sizes.min() else float("inf"),
        singular=bool(null.any()),
    )


@dataclass(frozen=True)
class Diagnostics:
    """Numerical health of a fit.

    Attributes:
        smallest_eigenvalue: of the per-patient Hessian that was inverted, scaled units.
        condition_number: of that Hessian; infinite if it was singular.
        indefinite: whether it was not positive definite (``dgm``, and ``ols`` on moments).
        warnings: sentences for whoever reads the fit.
    """

    smallest_eigenvalue: float
    condition_number: float
    indefinite: bool
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, solution: Solution, warnings: tuple[str, ...]) -> Diagnostics:
        """The diagnostics of a solved regression."""
        return cls(solution.smallest_eigenvalue, solution.condition_number, solution.indefinite, warnings)
