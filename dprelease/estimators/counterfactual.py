"""Posterior of the path that a target would have taken without an intervention, from noisy weights and noisy donors.

The path of one hospital's donors is c_t = sum_i f_i x_it. With sums over donors and what is left of them apart,

    c_t = s m_t + h_t,    h_t = sum_i u_i e_it,    s = sum f,  m_t = mean of x_t,  u = f - s/n,  e_t = x_t - m_t.

Before the release s ~ N(1, 1), as of weights of donors that follow the target, m_t ~ N(0, 1/3), the variance of an even spread
over the public bounds, and h_t ~ N(0, U E), half of the variance shared by all times, with U >= |u|^2 and E >= |e_t|^2, as
h_t^2 <= |u|^2 |e_t|^2. U and E follow from the
released numbers, one standard error above what these say, and are at most |y|^2/(2 lambda) and n, which no donors exceed. Released
numbers say s, m and, as noises are independent, h without bias, with a covariance V of their noise. All are normal given what was
released, so that mean and covariance of c have closed forms. If noise is small they are those of the product of the released
numbers, if it is large those of the prior. Intervals hold privacy noise only: they are about the path without it.

Paths of several hospitals, whose donors are different people, are averaged with weights proportional to 1/tr V.

Source: docs/methods.md, "Synthetic control".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dprelease.arrays import Floats
from dprelease.data.columns import Number
from dprelease.errors import InvalidInput
from dprelease.mechanisms.synthetic_control.released import Panel, Sums, posterior
from dprelease.privacy.public_stream import PublicNormals

_LARGE = 1e4
_SEED = bytes(32)
_DRAWS = 4000  # of Laplace noise, always the same: errors of .008 in a share


@dataclass(frozen=True)
class Placebo:
    """The target's gap after the intervention among those of donors, which had none.

    Attributes:
        p_value: share of the units, the target among them, whose root mean square gap from the path is as large: each donor's as
            released, the target's with as much noise, on average over this noise.
        gap: the target's root mean square gap, half-widths of the bounds.
        donors_gap: the same of a donor, with what noise adds taken off; 0 where that leaves nothing.
        donors: how many there are.
    """

    p_value: float
    gap: float
    donors_gap: float
    donors: int


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """Path of the target without the intervention, in original units.

    Attributes:
        columns: all times.
        before: T0.
        target: (T,) observed.
        path: (T1,) posterior mean from the intervention on.
        covariance: (T1, T1) of what privacy noise leaves open.
        placebo: the target among donors.
        donors: of each hospital.
    """

    columns: tuple[Number, ...]
    before: int
    target: Floats
    path: Floats
    covariance: Floats
    placebo: Placebo
    donors: tuple[int, ...]

    @property
    def path_sd(self) -> Floats:
        """(T1,) posterior standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def effect(self) -> Floats:
        """(T1,) observed minus path; its standard deviations are those of the path."""
        return self.target[self.before :] - self.path

    @property
    def mean_effect(self) -> tuple[float, float]:
        """Mean of the effect over the times from the intervention on, and its standard deviation."""
        return float(self.effect.mean()), float(np.sqrt(self.covariance.mean()))

    def band(self, level: float) -> tuple[Floats, Floats]:
        """(T1,) ends of the path's intervals, cut at the public bounds, which no series leaves.

        Args:
            level: probability of each, in (0, 1).
        """
        low, high = self._bounds
        reach = ndtri((1 + level) / 2) * self.path_sd
        return np.clip(self.path - reach, low, high), np.clip(self.path + reach, low, high)

    def cut(self, level: float) -> int:
        """At how many times an end of the band of this level lies at a public bound."""
        (low, high), (least, most) = self._bounds, self.band(level)
        return int(np.sum((least <= low) | (most >= high)))

    @property
    def _bounds(self) -> tuple[Floats, Floats]:
        """(T1,) public bounds of the times from the intervention on."""
        ends = [(column.midpoint, column.half_width) for column in self.columns[self.before :]]
        middle, half = np.array(ends).T
        return middle - half, middle + half


def counterfactual(panels: Sequence[Panel]) -> Counterfactual:
    """The path of one release, or of several whose donors are different people.

    Args:
        panels: of releases against the same target.

    Raises:
        InvalidInput: there is none, or targets, times or interventions differ.
    """
    if not panels:
        raise InvalidInput("a counterfactual needs a release")
    first = panels[0]
    for other in panels[1:]:
        if other.names != first.names or other.before != first.before:
            raise InvalidInput("the releases are not of the same times and intervention; name those that are")
        if not np.array_equal(other.target, first.target):
            raise InvalidInput("the releases are not against the same target; name those that are")
    paths, covariances = [], []
    for panel in panels:
        middle, half = panel.scale()
        mean, covariance = path_of(panel)
        paths.append(middle + half * mean)
        covariances.append(np.outer(half, half) * covariance)
    precision = np.array([1 / max(np.trace(each), np.finfo(float).tiny) for each in covariances])
    shares = precision / precision.sum()
    path = np.einsum("k,kt->t", shares, np.array(paths))
    return Counterfactual(
        columns=first.columns,
        before=first.before,
        target=first.target,
        path=path,
        covariance=np.einsum("k,kst->st", shares**2, np.array(covariances)),
        placebo=_placebo(panels, path),
        donors=tuple(len(panel.weights) for panel in panels),
    )


def path_of(panel: Panel) -> tuple[Floats, Floats]:
    """(T1,) posterior mean and (T1, T1) covariance of one hospital's path, scaled units."""
    means, total = panel.donors.mean(axis=0), float(panel.weights.sum())
    u, e = panel.weights - total / len(panel.weights), panel.donors - means
    return posterior(
        Sums(
            donors=len(u),
            total=total,
            means=means,
            u2=float(u @ u),
            gram=e.T @ e,
            product=u @ e,
            weight_sd=panel.weight_sd,
            donor_sd=panel.donor_sd,
            norm2_bound=panel.norm2_bound,
        )
    )


def _below(values: Floats, freedom: int, noncentrality: float) -> Floats:
    """P that a noncentral chi-square number lies below; by its root's normal law where the noncentrality is large (to 1e-4)."""
    if noncentrality > _LARGE:
        return np.asarray(ndtr(np.sqrt(values) - np.sqrt(noncentrality + freedom - 1)))
    from scipy.stats import ncx2  # slow to load, and few readers ask

    return np.asarray(ncx2.cdf(values, freedom, noncentrality))


def _shares_below(panel: Panel, others: Floats, own: float) -> Floats:
    """P that the target's sum of squares, with as much noise as a donor's values have, lies below each of the donors'."""
    noise, times = panel.donor_sd**2, panel.donors.shape[1]
    if panel.law == "gaussian":
        return _below(others / noise, times, own / noise)
    uniform = PublicNormals(_SEED).uniform(_DRAWS, times) - 0.5
    drawn = np.sqrt(own / times) - np.sqrt(noise / 2) * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return np.asarray(np.searchsorted(np.sort(np.sum(drawn**2, axis=1)), others) / _DRAWS)


def _placebo(panels: Sequence[Panel], path: Floats) -> Placebo:
    larger, squares, expected, donors = 0.0, 0.0, 0.0, 0
    for panel in panels:
        middle, half = panel.scale()
        scaled, noise, times = (path - middle) / half, panel.donor_sd**2, len(path)
        own = float(np.sum(((panel.target[panel.before :] - middle) / half - scaled) ** 2))
        others = np.sum((panel.donors - scaled) ** 2, axis=1)
        larger += float(np.sum(_shares_below(panel, others, own)))
        squares, expected = squares + float(others.sum()), expected + len(others) * times * noise
        donors += len(others)
    middle, half = panels[0].scale()
    gap = (panels[0].target[panels[0].before :] - path) / half
    spread = max(squares - expected, 0.0) / (donors * len(path))
    return Placebo((1 + larger) / (1 + donors), float(np.sqrt(np.mean(gap**2))), float(np.sqrt(spread)), donors)
