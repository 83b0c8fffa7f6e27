"""How far numbers reach in their ranges: what is known before anybody has counted a row.

A number is coded in units of its *reach*, t published standard deviations, t = 1.25^j. Each hospital chooses t of each of its
columns from its own published counts (`dprelease.mechanisms.ranges.reach`) and keeps its d numbers of a patient within

    r^2 = d,        4 where d = 1,

in squares of these units. A larger t clips less, and multiplies the noise of the column's products by t. The noise of others
has to be guessed before: t_0 is the one t that would suit exponential columns. With f columns besides numbers and the
constant, R^2 the sum of r^2 over hospitals, D numbers in all, and c the noise of a correlation for each unit of Delta,

    nu(t) = c (f q^2 + R^2) t^2,     q^2 = sqrt(R^2 / D) / t,     lost(t) = E max(x - a, 0) x = e^(-a - 1) (a + 2)

for x exponential less 1 and a = t max(3/2, sqrt(R^2 / D)), and t_0 makes (`EFFECT` lost)^2 + nu^2 least: clipping takes that part
of a correlation. The constant, categories and public columns weigh q reach units, which for numbers that all reach t_0 makes the
noise of all products together least.

Source: docs/methods.md, "Reach".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

REACHES = 17
"""Powers of 1.25 that are tried, from the 0th."""
ALONE = 4.0
"""r^2 of a hospital with one number: kept below two units, its tail would be cut off for nothing."""
EFFECT = 0.3
"""A correlation as it is guessed, of which clipping takes a part."""


class Guess(NamedTuple):
    """Other columns, as they are guessed.

    Attributes:
        reach: t_0.
        noise: of a product of two numbers in their own units, per patient: c (f q^2 + R^2).
    """

    reach: float
    noise: float


def reach_of(step: int) -> float:
    """t of j."""
    return 1.25**step


def radius2(numbers: int) -> float:
    """r^2 of a hospital with so many numbers, in squares of its units."""
    return float(numbers) if numbers > 1 else ALONE


def guess(numbers: Sequence[int], others: int, noise: float) -> Guess:
    """t_0 and the noise at it.

    Args:
        numbers: of each hospital that has some; without any, t_0 is 1.
        others: f, all other columns and the constant.
        noise: c.
    """
    if not numbers:
        return Guess(1.0, noise * others)
    squares, all_numbers = sum(map(radius2, numbers)), sum(numbers)
    mean = math.sqrt(squares / all_numbers)

    def judged(reach: float) -> tuple[float, Guess]:
        end = reach * max(1.5, mean)
        found = Guess(reach, noise * (others * mean / reach + squares))
        return (EFFECT * math.exp(-end - 1) * (end + 2)) ** 2 + (found.noise * reach**2) ** 2, found

    return min(judged(reach_of(step)) for step in range(REACHES))[1]
