"""A mixture of products, P(x) = sum_k w_k prod_a theta_ka(x_a): every table of a few columns, rows, and the moments of it.

With Z = theta C', C the coding of `Entries`, its second moments are Z' diag(w) Z: one product of small matrices gives every
table of two columns. Nothing grows with the product of levels. Rows are drawn without rejection.

Source: mixtures fitted to noisy marginals, Aydore et al. (2021) and Liu, Vietri and Wu (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.errors import InvalidInput
from dprelease.estimators.joint.coding import Attribute, Entries
from dprelease.privacy.public_stream import PublicNormals

MOST_CELLS = 10**6
"""Cells of a table of a few columns."""
_ROWS = 1 << 14


class Residuals(NamedTuple):
    """How well a model gives the released entries.

    Attributes:
        entries: E, released ones.
        chi2: mean of squared residuals over the variance of their noise: about 1 of the truth, a little below of a good fit.
        largest: the largest residual, in standard deviations of its noise.
    """

    entries: int
    chi2: float
    largest: float


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint distribution of all columns of a release: post-processing, with the release's guarantee and no more.

    Attributes:
        entries: what it was fitted to.
        weights: (K,) w, which add up to 1.
        shares: (K, P) theta, the values of all columns side by side; those of one column add up to 1.
        price: of what components know about columns, in units of the loss.
        steps: how many the fit took.
    """

    entries: Entries
    weights: Floats
    shares: Floats
    price: float
    steps: int

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The columns and their values."""
        return self.entries.attributes

    @property
    def patients(self) -> int:
        """n."""
        return self.entries.rows

    def attribute(self, name: str) -> Attribute:
        """The column of that name.

        Raises:
            InvalidInput: there is none.
        """
        return self.attributes[self.entries.place(name)]

    def of(self, place: int) -> Floats:
        """(K, L) theta of one column."""
        first, last = self.entries.offsets[place : place + 2]
        return self.shares[:, first:last]

    def table(self, names: Sequence[str]) -> Floats:
        """(L_1, L_2, ...) probabilities of the values of a few columns, in the order of `Attribute.values`.

        Raises:
            InvalidInput: an unknown name, a name twice, none, or a table of more than `MOST_CELLS` cells.
        """
        places = [self.entries.place(name) for name in names]
        if not places or len(set(places)) < len(places):
            raise InvalidInput("a table needs at least one column, and each once")
        shape = [len(self.attributes[place].values) for place in places]
        if np.prod(shape, dtype=float) > MOST_CELLS:
            raise InvalidInput(f"a table of {' x '.join(map(str, shape))} cells is too large; name fewer columns")
        found = self.weights[:, None]
        for place in places[:-1]:
            found = (found[:, :, None] * self.of(place)[:, None, :]).reshape(len(found), -1)
        return (found.T @ self.of(places[-1])).reshape(shape)

    def moments(self) -> Floats:
        """(q, q) means of products, as `Entries.sums` has their sums over patients."""
        coded = self.shares @ self.entries.codes.T
        return (coded * self.weights[:, None]).T @ coded

    def residuals(self) -> Residuals:
        """How well it gives the released entries."""
        entries, (rows, columns) = self.entries, self.entries.released
        off = (entries.rows * self.moments() - entries.sums)[rows, columns] / entries.noise[rows, columns]
        return Residuals(len(off), float(np.mean(off**2)), float(np.abs(off).max()))

    def draw(self, count: int, stream: PublicNormals) -> Integers:
        """(count, A) values of made-up patients, as places in `Attribute.values`; they are nobody's.

        Args:
            count: rows.
            stream: public randomness; the same stream gives the same rows.
        """
        component = _chosen(np.cumsum(self.weights)[None], np.zeros(count, np.int64), stream.uniform(count))
        found = np.empty((count, len(self.attributes)), np.int64)
        for place in range(len(self.attributes)):
            found[:, place] = _chosen(np.cumsum(self.of(place), axis=1), component, stream.uniform(count))
        return found


def _chosen(cumulated: Floats, component: Integers, uniform: Floats) -> Integers:
    """(n,) values by the inverse of each row's distribution function, (K, L)."""
    found = np.empty(len(component), np.int64)
    for first in range(0, len(component), _ROWS):
        piece = slice(first, first + _ROWS)
        own = cumulated[component[piece]]
        found[piece] = (uniform[piece, None] * own[:, -1:] > own[:, :-1]).sum(axis=1)
    return found
