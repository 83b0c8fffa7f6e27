"""Rows that declarations make impossible: values of two columns of which one follows from the other, or both from a third.

Formulas of derived columns are public (docs/format.md 2). These tie columns of one release together: an indicator and its source,
two indicators of one source, a column of exits and its event, and a band that is `missing` and an indicator of that. A missing
cell is the column's own fill, so pairs of fills are possible too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from dprelease.arrays import Mask
from dprelease.data.column import QUOTED
from dprelease.data.columns import Column
from dprelease.data.exits import DERIVED, EVENT, FOLLOWED, LEFT, MISSING
from dprelease.estimators.joint.coding import Attribute

_INDICATOR = re.compile(r'(?P<source>[A-Za-z_][\w.-]*) = (?P<level>".*")')
_MISSING = re.compile(r"(?P<source>[A-Za-z_][\w.-]*) is missing")
_BAND = re.compile(r"(?P<source>[A-Za-z_][\w.-]*) cut at ")


class Tie(NamedTuple):
    """Two columns that go together.

    Attributes:
        first: place of one.
        second: place of the other.
        possible: (L, M) whether a row may have these two values.
    """

    first: int
    second: int
    possible: Mask


def ties(attributes: Sequence[Attribute]) -> tuple[Tie, ...]:
    """All pairs of columns of which the declarations make some values impossible.

    Args:
        attributes: the columns of a release.
    """
    found = []
    for first, second in permutations(range(len(attributes)), 2):
        one, other = attributes[first], attributes[second]
        if one.scored or other.scored:
            continue
        for rule in (_of_source, _of_one_source, _of_exit, _of_missing):
            possible = rule(one.column, other.column)
            if possible is not None and not possible.all():
                found.append(Tie(first, second, possible))
    return tuple(found)


def possible_rows(tied: Sequence[Tie], rows: np.ndarray) -> Mask:
    """(n,) whether rows, (n, A) places of values, break no tie."""
    found = np.ones(len(rows), np.bool_)
    for each in tied:
        found &= each.possible[rows[:, each.first], rows[:, each.second]]
    return found


def _matrix(one: Column, other: Column, rule: Callable[[str, str], bool], *, fills: bool = True) -> Mask:
    found = np.array([[rule(a, b) for b in other.values] for a in one.values], np.bool_)
    if fills:
        found[one.values.index(one.fill_text), other.values.index(other.fill_text)] = True
    return found


def _of_source(indicator: Column, source: Column) -> Mask | None:
    """An indicator of a level of the other column."""
    read = _INDICATOR.fullmatch(indicator.derivation)
    if read is None or read["source"] != source.name:
        return None
    level = json.loads(read["level"])
    return _matrix(indicator, source, lambda said, value: (said == indicator.values[0]) == (value == level))


def _of_one_source(one: Column, other: Column) -> Mask | None:
    """Two indicators of different levels of one column."""
    both = _INDICATOR.fullmatch(one.derivation), _INDICATOR.fullmatch(other.derivation)
    if both[0] is None or both[1] is None or both[0]["source"] != both[1]["source"] or one.name > other.name:
        return None
    same = both[0]["level"] == both[1]["level"]
    yes = one.values[0], other.values[0]
    return _matrix(one, other, lambda a, b: (a == yes[0]) == (b == yes[1]) if same else (a, b) != yes)


def _of_exit(exits: Column, event: Column) -> Mask | None:
    """An exit, and its event or an indicator of it. Any event may stand beside the fill of exits."""
    read = DERIVED.match(exits.derivation)
    if read is None:
        return None
    shown = _INDICATOR.fullmatch(event.derivation)
    if event.name != read["event"] and (shown is None or shown["source"] != read["event"]):
        return None
    level = event.vocabulary[0] if shown is None else json.loads(shown["level"])
    events = tuple(json.loads(each) for each in re.findall(QUOTED, read["levels"] or "")) or (level,)

    def rule(exit_: str, value: str) -> bool:
        word = exit_.rsplit(" ", 3)[0]
        if exit_ == exits.fill_text or word in {FOLLOWED, MISSING}:
            return True
        cause = None if word == LEFT else events[0] if word == EVENT and len(events) == 1 else word
        if shown is None:
            return value not in events if cause is None else value == cause
        told = value == event.values[0]
        return not (told and level in events) if cause is None else told == (cause == level)

    return _matrix(exits, event, rule, fills=False)


def _of_missing(indicator: Column, other: Column) -> Mask | None:
    """An indicator that a cell is missing, and a band of it that is `missing` then."""
    read, band = _MISSING.fullmatch(indicator.derivation), _BAND.match(other.derivation)
    if read is None or band is None or read["source"] != band["source"] or other.values[-1] != MISSING:
        return None
    return _matrix(
        indicator, other, lambda said, value: (said == indicator.values[0]) == (value == MISSING), fills=False
    )
