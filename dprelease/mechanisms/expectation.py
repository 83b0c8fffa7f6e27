"""What to expect of a release on which no regression is fitted, for who plans one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Expectation:
    """What a release would be worth, from public numbers and guesses alone.

    Attributes:
        lines: the same as text.
        figures: for JSON.
    """

    lines: tuple[str, ...]
    figures: Mapping[str, object]
