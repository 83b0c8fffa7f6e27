"""Sets that rows are clipped to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dprelease.data.ranges import REACH
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.entries import Layout


@dataclass(frozen=True)
class Ball:
    """The largest norm of some numbers of a patient that are clipped together, in scaled units.

    Attributes:
        places: (d,) of these numbers in x = (1, z).
        radii: (d,) how far each reaches where the others are 0; a published standard deviation is 1/(3 t).
    """

    places: tuple[int, ...]
    radii: tuple[float, ...]


def balls(clipping: Clipping, layout: Layout) -> tuple[Ball, ...]:
    """Sets that rows are clipped to: a ball for each norm, and a range for each private number that no norm is about."""
    weights = clipping.number_weights(layout.columns)
    place = {variable.name: index for index, variable in enumerate(layout.variables, 1)}
    found = [
        Ball(
            tuple(place[name] for name in norm.columns),
            tuple(math.sqrt(norm.squared) / weights[name] for name in norm.columns),
        )
        for norm in clipping.norms
    ]
    together = {name for norm in clipping.norms for name in norm.columns}
    return (*found, *(Ball((place[name],), (1.0,)) for name in weights if name not in together))


def radius2_of(clipping: Clipping, place: int, weights: dict[str, int]) -> tuple[float, float]:
    """(r^2, k) of a norm, for numbers of weight 1 on average."""
    norm = clipping.norms[place]
    squares = [(weights[name] / REACH) ** 2 for name in norm.columns]
    k = (norm.squared - sum(squares)) / math.sqrt(2 * sum(square**2 for square in squares))
    return norm.squared * len(squares) / sum(squares), k
