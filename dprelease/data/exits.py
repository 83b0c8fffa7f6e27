"""Levels of a column of exits: how and in which interval of time each patient was last seen.

K public cuts make K intervals, the first of which begins at 0. The levels are the intervals of each cause of an event, those in
which patients left without any, and `followed to` the last cut. Their names alone say all of it, so whoever reads a column's
public declaration can tell. Their meaning stands in docs/format.md 2, "Exits".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dprelease.data.column import NAME, number_text
from dprelease.errors import InvalidInput

LEFT = "left"
FOLLOWED = "followed"
MISSING = "missing"
"""The level of a patient whose cell is missing, in a column that has one for them."""

EVENT = "event"
"""The cause, where there is only one."""

DERIVED = re.compile(
    rf"exit by (?:(?P<unit>days|years) from {NAME} to )?(?P<time>{NAME}) and (?P<event>{NAME})(?: = (?P<levels>\".*\"))? at "
)
"""How the derivation of a column of exits begins; ``time`` is the later of two dates where ``unit`` is there."""


@dataclass(frozen=True)
class Exits:
    """Meaning of the levels of a column of exits.

    Attributes:
        cuts: (K,) ends of the intervals, increasing; the first begins at 0.
        causes: (C,) words of events; ``event`` where there is one.
        missing: whether the last level is of patients of whom this is not known.
    """

    cuts: tuple[float, ...]
    causes: tuple[str, ...] = (EVENT,)
    missing: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """((C + 1) K + 1,) names: place c K + k is cause c in interval k, C K + k who left in it; one more if `missing`."""
        intervals = [interval_text(*ends) for ends in pairwise((0.0, *self.cuts))]
        names = [f"{word} {interval}" for word in (*self.causes, LEFT) for interval in intervals]
        end = f"{FOLLOWED} to {number_text(self.cuts[-1])}"
        return (*names, end, *((MISSING,) if self.missing else ()))

    @property
    def followed(self) -> int:
        """The place of those who were followed to the last cut."""
        return (len(self.causes) + 1) * len(self.cuts)


def interval_text(start: float, end: float) -> str:
    """The name of an interval."""
    return f"{number_text(start)} to {number_text(end)}"


def read_exit(levels: Sequence[str]) -> Exits:
    """Cuts and causes from the levels of a declared column, in their order.

    Args:
        levels: as `Exits.levels` has them.

    Raises:
        InvalidInput: they are not those of a column of exits.
    """
    missing = bool(levels) and levels[-1] == MISSING
    words = [level.rsplit(" ", 3) for level in (levels[:-1] if missing else levels)]
    several = words[:-1]  # behind them is the level of who was followed
    try:
        causes = tuple(dict.fromkeys(word[0] for word in several))[:-1]
        cuts = tuple(float(word[3]) for word in several if word[0] == LEFT)
    except (IndexError, ValueError):
        causes, cuts = (), ()
    if causes and cuts and Exits(cuts, causes, missing).levels == tuple(levels):
        return Exits(cuts, causes, missing)
    raise InvalidInput(
        'these are not the levels of a column of exits; declare one, e.g. derived = { exit = ["followup", "died"], at = [1, 2] }'
    )
