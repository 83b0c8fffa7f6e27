"""Categories made of numbers by public cuts: bands of one, and exits, which are intervals of a time beside what ended it."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, StrictBool

from dprelease.arrays import Floats
from dprelease.data.column import level_text, number_text
from dprelease.data.columns import Name
from dprelease.data.exits import EVENT, FOLLOWED, LEFT, MISSING, Exits, interval_text
from dprelease.one_line import listed
from party_node.declarations.formula import CategoryFormula, Number, Source, check_date, check_parts, ends_of

A_YEAR = 365.25
"""Days of a year, where a time between two dates is in years."""


def _rising(cuts: tuple[float, ...]) -> tuple[float, ...]:
    for before, cut in pairwise(cuts):
        if not before < cut:
            raise ValueError(f"{cut:g} comes after {before:g}; cuts rise")
    return cuts


Cuts = Annotated[tuple[Number, ...], Field(min_length=1, max_length=300), AfterValidator(_rising)]


class _Cut(CategoryFormula, ABC):
    """A formula with cuts.

    Attributes:
        at: the cuts.
        missing: whether a cell that is missing or unreadable has a level of its own.
    """

    at: Cuts
    missing: StrictBool = False

    @property
    def fill_level(self) -> str:
        return MISSING if self.missing else ""

    @property
    def _cuts(self) -> str:
        return f"at {', '.join(map(number_text, self.at))}"


class Bands(_Cut):
    """Bands of a number: the band of level k holds what is at least cut k and less than cut k + 1."""

    key = "bands"

    bands: Name

    @property
    def text(self) -> str:
        return f"{self.bands} cut {self._cuts}"

    @property
    def levels(self) -> tuple[str, ...]:
        between = [interval_text(*ends) for ends in pairwise(self.at)]
        ends = f"< {number_text(self.at[0])}", f">= {number_text(self.at[-1])}"
        return (ends[0], *between, ends[1], *((MISSING,) if self.missing else ()))

    def check(self, sources: Sequence[Source]) -> None:
        ends_of("bands", sources[0])
        for cut in self.at:
            check_parts("at", cut, sources[0])

    def values(self, *sources: Floats) -> Floats:
        cells = sources[0]
        return np.where(np.isnan(cells), np.nan, np.searchsorted(self.at, cells, side="right"))


class Exit(_Cut):
    """Intervals of a time beside what ended it: an event, of one or several causes, or that the patient left without one.

    The time is a number of the source, or lies between two dates of it. Interval k ends with cut k: an event at a cut is in
    the interval that ends there. A patient who left at a cut was followed to it, and so is in the next interval. Source: the
    order of ties of Kaplan and Meier (1958).

    Attributes:
        exit: the time, or two dates, and the column of the event.
        events: levels of the event's column that are events; those of a column of one level need not be named.
        unit: of the time between two dates.
    """

    key = "exit"
    words: ClassVar[tuple[str, ...]] = (LEFT, FOLLOWED, MISSING)

    exit: tuple[Name, Name] | tuple[Name, Name, Name]
    events: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=20)] = ()
    unit: Literal["days", "years"] | None = None

    @property
    def text(self) -> str:
        *dates, event = self.exit
        time = dates[0] if len(dates) == 1 else f"{self.unit} from {dates[0]} to {dates[1]}"
        ended = f" = {' or '.join(map(level_text, self.events))}" if self.events else ""
        return f"exit by {time} and {event}{ended} {self._cuts}"

    @property
    def exits(self) -> Exits:
        """Meaning of the levels: one event is called ``event``, several by their levels."""
        return Exits(self.at, self.events if len(self.events) > 1 else (EVENT,), self.missing)

    @property
    def levels(self) -> tuple[str, ...]:
        return self.exits.levels

    def entering(self, source: Source) -> tuple[str, ...]:
        return self.events or source.values[:1]

    def check(self, sources: Sequence[Source]) -> None:
        *times, event = sources
        self._check_events(event)
        if not self.at[0] > 0:
            raise ValueError(f"at: {self.at[0]:g} is not above 0, where the time begins")
        if len(times) == 1:
            self._check_time(times[0])
            return
        for source in times:
            check_date("exit", source)
        if self.unit is None:
            raise ValueError('unit: say "days" or "years", in which the time between two dates is cut')

    def _check_time(self, time: Source) -> None:
        lower, upper = ends_of("exit", time)
        if self.unit is not None:
            raise ValueError(f"unit: the cuts are in the unit of {time.name}; leave unit out")
        if time.bounded and lower < 0:
            raise ValueError(f"exit: {time.name} has the lower bound {lower:g}, and no time is negative; declare 0")
        if self.at[-1] > upper:
            raise ValueError(f"at: {self.at[-1]:g} is above the upper bound of {time.name}, {upper:g}")

    def _check_events(self, event: Source) -> None:
        if not event.values:
            raise ValueError(f"exit: {event.name} is no category; it says what ended the time")
        if not self.events and len(event.vocabulary) > 1:
            raise ValueError(f"events: name those of {listed(event.vocabulary)} that are events, e.g. events = ['1']")
        for level in self.events:
            if level not in event.vocabulary:
                raise ValueError(f"events: {event.name} has no level {level!r}, only {listed(event.vocabulary)}")
        if len(set(self.events)) < len(self.events):
            raise ValueError("events: names one twice")
        if len(self.events) > 1 and (clash := {*self.events} & {*self.words}):
            raise ValueError(f"events: {listed(sorted(clash))} has a meaning of its own here; spell it in another way")

    def values(self, *sources: Floats) -> Floats:
        *times, ended = sources
        time = times[0] if len(times) == 1 else (times[1] - times[0]) / (A_YEAR if self.unit == "years" else 1.0)
        exits, count = self.exits, len(self.at)
        happened = ended > 0
        interval = np.where(
            happened, np.searchsorted(self.at, time, side="left"), np.searchsorted(self.at, time, side="right")
        )
        cause = np.where(happened, ended - 1, len(exits.causes))
        place = np.where(interval < count, cause * count + interval, exits.followed)
        unknown = np.isnan(time) | np.isnan(ended) | (time < 0)
        return np.where(unknown, math.nan, place)
