"""Axes of the report's plots: where a number stands in a picture, and which round numbers are marked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 5.0, 10.0)
_MARKS = 6
_FEW_DECADES = 2


@dataclass(frozen=True)
class Axis:
    """A straight or logarithmic scale.

    Attributes:
        ticks: round numbers from one end to the other.
        near: place of the first tick, in the picture's units.
        far: place of the last tick.
        log: whether equal ratios are equally long.
    """

    ticks: tuple[float, ...]
    near: float
    far: float
    log: bool

    @classmethod
    def covering(cls, values: Iterable[float], near: float, far: float, *, log: bool = False) -> Axis:
        """An axis on which all of some finite numbers have room; positive ones if it is logarithmic."""
        low, high = min(values := list(values)), max(values)
        return cls(_decades(low, high) if log else _round(low, high), near, far, log)

    def at(self, value: float) -> float:
        """Place of a number; one beyond the ends stands at the end."""
        first, last, here = (self._along(each) for each in (self.ticks[0], self.ticks[-1], value))
        return self.near + (self.far - self.near) * min(max((here - first) / (last - first), 0.0), 1.0)

    def _along(self, value: float) -> float:
        if not self.log:
            return value
        return math.log(value) if value > 0 else -math.inf


def _round(low: float, high: float) -> tuple[float, ...]:
    if not low < high:
        low, high = low - (abs(low) or 1.0), high + (abs(high) or 1.0)
    rough = (high - low) / _MARKS
    decade = 10.0 ** math.floor(math.log10(rough))
    step = decade * next(each for each in _STEPS if each * decade >= rough * (1 - 1e-9))
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(number * step for number in range(first, last + 1))


def _decades(low: float, high: float) -> tuple[float, ...]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    first, last = first - (10.0**first > low), max(last + (10.0**last < high), first + 1)  # logarithms are rounded
    if last - first <= _FEW_DECADES:
        marks = (*(10.0**power * step for power in range(first, last) for step in _STEPS[:3]), 10.0**last)
        start = max(mark for mark in marks[:-1] if mark <= low)
        end = min(mark for mark in marks if mark > start and mark >= high)
        return tuple(mark for mark in marks if start <= mark <= end)
    every = -(-(last - first) // _MARKS)
    return tuple(10.0**power for power in range(first, last + every, every))
