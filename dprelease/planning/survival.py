"""The error of a log hazard ratio to expect of a release with a column of exits, from public numbers and guesses alone.

Guesses: hazards of the event and of leaving are constant, the second 0.3 of the first. Both groups are equally large and have the
same hazards, which the estimator does not know. The released numbers are the margin of exits, its table with the group, and the sum
of the group. With a binary of the event beside it, this one's sum and its product with the group come to them. The error is that of
generalised least squares on them, sampling and privacy noise together: the inverse Fisher information of a normal law with their
means and covariance.
Source: Friedman (1982), piecewise exponential models; Holford (1980).
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

LOST = 0.3
"""Hazard of leaving in parts of the hazard of the event."""

MOST_EVENTS = 0.75
"""Largest share of patients with an event that goes with this guess."""

_WALK = 0.7
"""Standard deviation of a step of a log hazard between intervals, which keeps an interval without events from having none."""
_VAGUE = 0.25
"""Information on every parameter beforehand: a standard deviation of 2, as of log hazard ratios."""

_STEP = 1e-5


def cell_shares(cuts: Floats, events: Floats, losses: Floats, ratios: tuple[float, float], group: float) -> Floats:
    """(2, 2K + 1) shares of patients by group and exit: events, losses, followed.

    Args:
        cuts: (K,) ends of the intervals, from 0 on.
        events: (K,) hazards of the event in the first group.
        losses: (K,) hazards of leaving.
        ratios: of the second group's hazards to the first one's, of the event and of leaving.
        group: its share of patients.
    """
    widths, found = np.diff(cuts, prepend=0.0), []
    for share, (event, loss) in ((1 - group, (1.0, 1.0)), (group, ratios)):
        hazard = event * events + loss * losses
        there = np.exp(-np.concatenate([[0.0], np.cumsum(hazard * widths)]))
        gone = there[:-1] - there[1:]
        found.append(
            share * np.concatenate([gone * event * events / hazard, gone * loss * losses / hazard, there[-1:]])
        )
    return np.array(found)


def hazard_of(share: float, end: float) -> float:
    """The constant hazard with which a share of patients has the event by the last cut."""
    if not 0 < share <= MOST_EVENTS:
        raise InvalidInput(f"a share of events lies above 0 and is at most {MOST_EVENTS}, not {share:g}")
    return -math.log1p(-(1 + LOST) * share) / ((1 + LOST) * end)


def released_numbers(intervals: int, *, event: bool) -> Floats:
    """(entries, 2 (2K + 1)) the released numbers as sums over cells of (group, exit); a binary is +1 or -1."""
    levels = 2 * intervals + 1
    one, sign = np.ones(levels), np.repeat([-1.0, 1.0], levels)
    margins = np.hstack([np.eye(levels)] * 2)
    rows = [margins, margins * sign, sign[None]]
    if event:
        happened = np.tile(np.where(np.arange(levels) < intervals, one, -one), 2)
        rows += [happened[None], (happened * sign)[None]]
    return np.vstack(rows)


def log_hazard_ratio_sd(cuts: tuple[float, ...], share: float, rows: int, noise: float, *, event: bool) -> float:
    """Standard deviation of an estimated log hazard ratio.

    Args:
        cuts: (K,) ends of the intervals.
        share: of patients with an event by the last cut, a guess.
        rows: n.
        noise: standard deviation of a released number, in patients.
        event: whether the event is a binary of the release as well.

    Raises:
        InvalidInput: `share` is not in (0, `MOST_EVENTS`].
    """
    count, ends = len(cuts), np.array(cuts)
    reads, start = released_numbers(count, event=event), math.log(hazard_of(share, cuts[-1]))

    def shares(place: Floats) -> Floats:
        events, losses = np.exp(place[:count]), np.exp(place[count : 2 * count])
        ratios = math.exp(place[-3]), math.exp(place[-2])
        return cell_shares(ends, events, losses, ratios, 1 / (1 + math.exp(-place[-1]))).ravel()

    place = np.concatenate([np.full(count, start), np.full(count, start + math.log(LOST)), np.zeros(3)])
    steps = _STEP * np.eye(len(place))
    slopes = np.stack([(shares(place + step) - shares(place - step)) / (2 * _STEP) for step in steps], axis=1)
    cells = shares(place)
    spread = rows * (reads * cells @ reads.T - np.outer(reads @ cells, reads @ cells))
    moves = rows * reads @ slopes
    information = moves.T @ np.linalg.solve(spread + noise**2 * np.eye(len(spread)), moves)
    for first in (0, count):
        for step in range(first, first + count - 1):
            pair = np.ix_([step, step + 1], [step, step + 1])
            information[pair] += np.array([[1.0, -1.0], [-1.0, 1.0]]) / _WALK**2
    information[np.diag_indices(len(place))] += _VAGUE
    return math.sqrt(float(np.linalg.inv(information)[-3, -3]))
