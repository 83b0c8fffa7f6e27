"""The entries that a joint distribution is fitted to: values of each column, their codes, and released sums with their noise.

A category is its values, and its variables are those of the release: an indicator for each, or +1 and -1 of two. A number is
`POINTS` values about its released mean, and an ordered category its scores. The square of a number is one more variable,
of which only the sum is released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.released import Moments
from dprelease.one_line import listed

Ends = Mapping[str, tuple[float, float]]
NO_ENDS: Ends = MappingProxyType({})
POINTS = 15
"""Values of a number, evenly spaced over `REACH` released standard deviations on either side of its released mean."""
REACH = 3.0
MOST_VALUES = 1000
"""Values of all columns together of which a fit ends within a minute or two."""
EXACT = 0.1
"""Noise that an exact entry counts with, as a part of that of others; nobody could fit without any."""
FLOOR = 0.3
"""Least share of a value at the start of a fit, in standard deviations of an entry's noise."""

_BITS = 24


@dataclass(frozen=True, eq=False)
class Attribute:
    """The values that one declared column can have.

    Attributes:
        column: the declaration, with the bounds that cells were scaled by.
        values: (L,) texts, as people write them; of a number decimals in its unit.
        start: (L,) shares that its own released sums suggest, positive.
        codes: (v, L) scaled value of each of its variables, and of a number its square as well.
        places: (v,) the rows that these take in all codes.
    """

    column: Column
    values: tuple[str, ...]
    start: Floats
    codes: Floats
    places: tuple[int, ...]

    @property
    def name(self) -> str:
        """The declared column's name."""
        return self.column.name

    @property
    def scored(self) -> bool:
        """Says whether its values are numbers or scores, of which the release has only mean, variance and products."""
        return not self.column.indicators


@dataclass(frozen=True, eq=False)
class Entries:
    """Released sums of products as a joint distribution has to give them.

    Attributes:
        attributes: A columns, in the release's order.
        rows: n, patients.
        sums: (q, q) symmetric, in patients: of the constant, the variables and the squares of numbers.
        noise: (q, q) standard deviations of their noise in patients; infinite where nothing is released.
        typical: s, noise of an entry that carries as much information as noisy ones do on average; 1 where all are exact.
        share: part of the products of two columns that are released.
    """

    attributes: tuple[Attribute, ...]
    rows: int
    sums: Floats
    noise: Floats
    typical: float
    share: float

    @classmethod
    def of(cls, moments: Moments, ends: Ends = NO_ENDS) -> Entries:
        """The entries of a release, of a checkpoint of a stream, in ranges or not, with outcome-only and public columns.

        Args:
            moments: as released.
            ends: name of a number to the least and the largest value that rows have, where coded bounds are wider.

        Raises:
            InvalidInput: too many values, or a single patient.
        """
        sums, noise = _placed(moments)
        typical = _typical(noise)
        attributes = tuple(_attributes(moments, sums, noise, typical, ends))
        values = sum(len(each.values) for each in attributes)
        if values > MOST_VALUES:
            raise InvalidInput(
                f"a joint distribution takes up to {MOST_VALUES} values of all columns together, not {values}; ask for fewer "
                "levels or fewer columns"
            )
        if moments.rows < 2 * typical:
            raise InvalidInput(
                f"noise hides every table: the release has {moments.rows} patients, and the noise of a sum has a standard "
                f"deviation of {typical:.3g}; ask for fewer columns, more patients or a larger epsilon"
            )
        return cls(attributes, moments.rows, sums, np.maximum(noise, EXACT * typical), typical, _share(moments))

    @cached_property
    def offsets(self) -> Integers:
        """(A + 1,) where the values of each column begin among all P."""
        return np.concatenate([[0], np.cumsum([len(each.values) for each in self.attributes])]).astype(np.int64)

    @cached_property
    def owners(self) -> Floats:
        """(P, A) 1 where a value is one of a column."""
        sizes = np.diff(self.offsets)
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @cached_property
    def codes(self) -> Floats:
        """(q, P) what each value adds to each variable; the constant is 1 for all values of a column together."""
        found = np.zeros((len(self.sums), int(self.offsets[-1])))
        found[0] = 1 / len(self.attributes)
        for each, start in zip(self.attributes, self.offsets, strict=False):
            found[list(each.places), start : start + len(each.values)] = each.codes
        return found

    @cached_property
    def start(self) -> Floats:
        """(P,) shares of all values that columns by themselves suggest."""
        return np.concatenate([each.start for each in self.attributes])

    @cached_property
    def released(self) -> Integers:
        """(2, E) places above the diagonal that have a released sum."""
        return np.array(np.nonzero(np.triu(np.isfinite(self.noise), 1)))

    def released_table(self, first: int, second: int) -> tuple[Floats, Floats]:
        """(L, M) patients of each pair of values as released, and the standard deviations of their noise.

        Args:
            first: place of a category.
            second: place of another.

        Raises:
            InvalidInput: one is a number, or their products are not released.
        """
        pair = self.attributes[first], self.attributes[second]
        at = np.ix_([0, *pair[0].places], [0, *pair[1].places])
        sums, noise = self.sums[at].copy(), self.noise[at].copy()
        sums[0, 0], noise[0, 0] = self.rows, 0.0
        if np.isinf(noise).any() or any(each.scored for each in pair):
            raise InvalidInput(f"there is no released table of {pair[0].name} and {pair[1].name}")
        left, right = map(_from_variables, pair)
        return left @ sums @ right.T, np.sqrt(left**2 @ noise**2 @ (right**2).T)

    @cached_property
    def level_noise(self) -> Floats:
        """(l,) standard deviations of the noise of the patients of each private level, as released."""
        told = [each for each in self.attributes if not (each.scored or each.column.public)]
        own = ((_from_variables(each)[:, 1:], self.noise[0, list(each.places)]) for each in told)
        return np.concatenate([np.empty(0), *(np.sqrt(each**2 @ noise**2) for each, noise in own)])

    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(each.name for each in self.attributes)

    def place(self, name: str) -> int:
        """Which column has this name.

        Raises:
            InvalidInput: none has.
        """
        if name not in self.names():
            raise InvalidInput(f"not a column of this release: {name}; it has {listed(self.names())}")
        return self.names().index(name)


def _from_variables(attribute: Attribute) -> Floats:
    """(L, 1 + v) indicators of a category's values from the constant and its variables."""
    if len(attribute.places) == 1:
        return np.array([[0.5, 0.5], [0.5, -0.5]])
    size = len(attribute.values)
    return np.hstack([np.zeros((size, 1)), np.eye(size)])


def _placed(moments: Moments) -> tuple[Floats, Floats]:
    """Sums and noise, (q, q): variables first, squares of numbers behind."""
    layout = moments.layout
    measured = np.flatnonzero(layout.measured)
    size = len(layout.outcome)
    sums, noise = np.zeros((size + len(measured),) * 2), np.full((size + len(measured),) * 2, np.inf)
    features, every = np.flatnonzero(~layout.outcome), np.arange(size)
    across, across_sd = moments.between(features, every), moments.noise_between(features, every)
    owner = np.array([-1, *(each.column for each in layout.variables)])
    across_sd = np.where(owner[features][:, None] == owner, np.inf, across_sd)
    for rows, columns, found, spread in (
        (features, every, across, across_sd),
        (every, features, across.T, across_sd.T),
    ):
        sums[np.ix_(rows, columns)], noise[np.ix_(rows, columns)] = found, spread
    squares = np.arange(size, size + len(measured))
    sums[0, squares] = sums[squares, 0] = moments.own(measured)
    noise[0, squares] = noise[squares, 0] = moments.noise_own(measured)
    return sums, noise


def _typical(noise: Floats) -> float:
    finite = noise[np.isfinite(noise) & (noise > 0)]
    return float(np.mean(finite**-2.0) ** -0.5) if len(finite) else 1.0


def _share(moments: Moments) -> float:
    layout = moments.layout
    owner, outcome = np.array([each.column for each in layout.variables]), layout.outcome[1:]
    across = owner[:, None] != owner
    return 1.0 - float((across & outcome[:, None] & outcome).sum()) / max(1, int(across.sum()))


def _attributes(moments: Moments, sums: Floats, noise: Floats, typical: float, ends: Ends) -> Sequence[Attribute]:
    layout, size = moments.layout, len(moments.layout.outcome)
    squares = {int(place): size + number for number, place in enumerate(np.flatnonzero(layout.measured))}
    own: list[list[int]] = [[] for _ in layout.columns]
    for place, variable in enumerate(layout.variables, 1):
        own[variable.column].append(place)
    mean, least = sums[0] / moments.rows, FLOOR * typical / moments.rows + 1e-4
    found = []
    for column, places in zip(layout.columns, own, strict=True):
        first = places[0]
        if not column.indicators:
            square = squares[first]
            spread = np.sqrt(max(mean[square] - mean[first] ** 2, noise[0, square] / moments.rows, 1e-6))
            points = _points(column, float(mean[first]), float(spread), ends)
            share = np.exp(-0.5 * ((points - mean[first]) / spread) ** 2)
            values = column.values or tuple(f"{column.midpoint + column.half_width * x:.6g}" for x in points)
            codes, places = np.array([points, points**2]), [first, square]
        elif len(places) == 1:
            share, values = np.array([1 + mean[first], 1 - mean[first]]) / 2, column.values
            codes = np.array([[1.0, -1.0]])
        else:
            share, values, codes = mean[places], column.values, np.eye(len(places))
        share = np.maximum(share, least)
        found.append(Attribute(column, values, share / share.sum(), codes, tuple(places)))
    return found


def _points(column: Column, mean: float, spread: float, ends: Ends) -> Floats:
    """(L,) scaled values of a number: scores of its levels, or evenly about its mean and within what rows have."""
    if column.values:
        return np.ldexp(column.code(column.values, _BITS)[:, 0].astype(np.float64), -_BITS)
    told = np.array(ends[column.name]) if column.name in ends else None
    low, high = (-1.0, 1.0) if told is None else np.clip((told - column.midpoint) / column.half_width, -1, 1)
    middle = min(max(mean, low), high)
    return np.linspace(max(low, middle - REACH * spread), min(high, middle + REACH * spread), POINTS)
