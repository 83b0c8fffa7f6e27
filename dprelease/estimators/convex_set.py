"""Convex sets that weights may be kept within, and Euclidean projections onto them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

Kind = Literal["l2", "l1", "simplex"]


@dataclass(frozen=True)
class ConvexSet:
    """A set of weights of one model, in scaled units.

    Attributes:
        kind: ``l2`` of weights with |w|_2 <= radius, ``l1`` of those with |w|_1 <= radius, ``simplex`` of those with
            w >= 0 and sum w = radius.
        radius: positive and finite.

    Raises:
        InvalidInput: no such kind, or a radius that is not positive and finite.
    """

    kind: Kind
    radius: float

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"no convex set {self.kind!r}; choose one of {', '.join(get_args(Kind))}")
        if not 0 < self.radius < math.inf:
            raise InvalidInput(f"the radius of a set must be positive and finite, not {self.radius:g}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The set that ``KIND:RADIUS`` names, as ``l1:2``.

        Raises:
            InvalidInput: it names none.
        """
        kind, _, radius = text.partition(":")
        try:
            return cls(kind, float(radius))  # type: ignore[arg-type]
        except ValueError:
            raise InvalidInput(f"give a set as KIND:RADIUS, for example l2:1, and not {text!r}") from None

    def __str__(self) -> str:
        return f"{self.kind}:{self.radius!r}"

    def project(self, point: Floats) -> Floats:
        """Nearest point of the set, (d,); a point of a ball stays what it is, to the last bit.

        O(d log d).

        Source: Duchi, Shalev-Shwartz, Singer and Chandra (2008), Efficient projections onto the l1-ball, figure 1.
        """
        if self.kind == "simplex":
            return np.maximum(point - self._threshold(point), 0.0)
        size = np.abs(point)
        length = float(np.linalg.norm(point) if self.kind == "l2" else size.sum())
        if length <= self.radius:
            return point
        if self.kind == "l2":
            return point * (self.radius / length)
        return np.sign(point) * np.maximum(size - self._threshold(size), 0.0)

    def _threshold(self, values: Floats) -> float:
        """theta with sum max(values - theta, 0) = radius."""
        falling = np.sort(values)[::-1]
        thresholds = (np.cumsum(falling) - self.radius) / np.arange(1, len(values) + 1)
        return float(thresholds[np.flatnonzero(falling > thresholds)[-1]])

    def face(self, point: Floats) -> Floats:
        """(d, f) orthonormal basis of the directions in which a point of the set may move, to first order, and stay on its face.

        Inside a ball these are all directions, on the sphere those along it, on an L1 sphere or a simplex those that keep
        sum |w| among the weights that are not 0.
        """
        on_support = point != 0
        if self.kind == "l2":
            inside, normal = float(np.linalg.norm(point)) < self.radius * (1 - _ROUNDING), point
            on_support = np.ones_like(on_support)
        else:
            total = float(np.abs(point).sum())
            inside, normal = self.kind == "l1" and total < self.radius * (1 - _ROUNDING), np.sign(point)
        identity = np.eye(len(point))
        if inside:
            return identity
        basis = identity[:, on_support]
        around = np.linalg.svd(normal[None, on_support])[2][1:]
        found: Floats = basis @ around.T
        return found


_ROUNDING = 1e-12
