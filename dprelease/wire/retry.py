"""Retry as data: exponential waits with full jitter, for calls that are safe to repeat."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Waiting times between attempts.

    Attributes:
        first_seconds: upper end of the first wait.
        longest_seconds: upper end of any wait.
        factor: growth from one wait to the next.
    """

    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    factor: float = 2.0

    def waits(self, uniform: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Endless waiting times in seconds: each uniform between half its upper end and the upper end.

        Args:
            uniform: source of jitter; it spreads reconnects and is no secret.
        """
        upper = min(self.longest_seconds, self.first_seconds)
        while True:
            yield uniform(upper / 2, upper)
            upper = min(self.longest_seconds, upper * self.factor)
