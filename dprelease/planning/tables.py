"""The worth of a release of joint moments as tables: noise of a cell, cost of a column, and survival. Never from data.

The error of a log hazard ratio is that of a release with a column of exits. Guesses: hazards of the event and of leaving are
constant, the second 0.3 of the first. Both groups are equally large and have the same hazards, which the estimator does not
know. The released numbers are the margin of exits, its table with the group, and the sum of the group. With a binary of the
event beside it, this one's sum and its product with the group come to them. The error is that of generalised least squares on
them, sampling and privacy noise together: the inverse Fisher information of a normal law with their means and covariance.
Source: Friedman (1982), piecewise exponential models; Holford (1980).
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from dprelease.arrays import Floats
from dprelease.data.columns import Column
from dprelease.data.exits import Exits, read_exit
from dprelease.document.cells import Said
from dprelease.document.document import Heading, Table
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Scenario
from dprelease.planning.forecast import proposed

EVENTS = (0.1, 0.3, 0.6)
"""Shares of patients with an event that are assumed."""

_HIDDEN = 2.0
"""Standard deviations of its noise below which a number of patients is not told from 0."""
_POWER = 1.959964 + 0.841621
"""Standard errors of an effect that a test at 5 % finds four times in five."""

_CELLS = (
    ("level of a category", 1.0, ("category",)),
    ("value of a binary", 1 / 2, ("binary",)),
    ("category by category", 1.0, ("category", "category")),
    ("category by binary", math.sqrt(1 / 2), ("category", "binary")),
    ("binary by binary", math.sqrt(3) / 4, ("binary", "binary")),
)
"""Number of patients that is read from a release, its noise in that of an entry, and the kinds of columns that it needs.

With values +-1 for a binary, a cell with a category is (level + product)/2, and one of two binaries (n + sum + sum + product)/4.
"""

_LOST = ((28, 0.13, 0.52), (85, 0.02, 0.27), (230, 0.01, 0.13), (530, 0.02, 0.03))
"""Patients for each patient of noise, and which part of its distance from 1/2 the AUC of logistic models lost: least and most.

Models were trained on synthetic rows of simulated releases and tested on real rows, beside models of real rows. Ten times an
outcome of Adult, SUPPORT2, CPS 1988 or a table of a hospital was measured, with 7 to 15 columns and 2,000 to 36,000 patients; at
530 once. `benchmarks.losses` measured six of them again, with three releases each. All 18 are within, as the least and most are of
single releases: means at 28 lost at most 43 %.
"""


def kind_of(column: Column) -> str:
    """A word for the coding of a column in joint moments."""
    return ("binary" if len(column.values) == 2 else "category") if column.indicators else "number"


def tables(scenario: Scenario) -> tuple[Table, ...]:
    """Tables of the noise of cells, the cost of columns, and hazard ratios; none without a private category.

    Args:
        scenario: of joint moments, or of a stream of them, in public bounds.
    """
    kinds = [kind_of(column) for column in scenario.draft.everything if not column.public]
    if not {"category", "binary"} & {*kinds}:
        return ()
    noise = _entry_sd(scenario)
    return tuple(filter(None, (_cells(kinds, noise, scenario), _costs(scenario, noise), *_survival(scenario, noise))))


def _entry_sd(scenario: Scenario) -> float:
    """Standard deviation of a product that is released, in patients; the larger one where outcomes have another."""
    noise = proposed(scenario).noise
    return math.sqrt(max(*noise.variance.values(), *noise.columns.values())) * scenario.draft.agreed.rows


def _cells(kinds: list[str], noise: float, scenario: Scenario) -> Table:
    headings = ("cell", Heading("noise_sd", "noise sd, patients"), Heading("hidden", "share that noise hides"))
    rows = []
    for name, times, needed in _CELLS:
        if all(kinds.count(kind) >= needed.count(kind) for kind in needed):
            hidden = _HIDDEN * times * noise / scenario.draft.agreed.rows
            rows.append((name, Said(times * noise, f"{times * noise:.1f}"), Said(hidden, f"below {hidden:.2%}")))
    told = "A share of patients that noise hides is below two standard deviations of it."
    return Table.of("cells", headings, rows, below=(told, _lost(scenario.draft.agreed.rows / noise)))


def quoted_loss(ratio: float) -> tuple[float, float, float]:
    """Row of `_LOST` that is nearest to so many patients for each of noise."""
    return min(_LOST, key=lambda row: abs(math.log(row[0] / ratio)))


def _lost(ratio: float) -> str:
    """A sentence on the worth of models of tables, as measured at the nearest ratio of patients to noise."""
    at, least, most = quoted_loss(ratio)
    lost = f"{least:.0%} to {most:.0%}" if most > least else f"{least:.0%}"
    beyond = " Expect to lose more here." if ratio < _LOST[0][0] / 2 else ""
    return (
        f"There are {ratio:.3g} patients for each patient of noise. At some {at}, logistic models of synthetic rows of four tables "
        f"lost {lost} of how far their AUC is from 1/2.{beyond}"
    )


def _costs(scenario: Scenario, noise: float) -> Table:
    """The noise of all entries without each column."""
    rows = []
    for party, columns in scenario.draft.columns.items():
        for column in columns:
            without = None if column.public else _without(scenario, column)
            shown = ("", "") if without is None else (f"{without:.1f}", f"{noise / without - 1:+.1%}")
            more = None if without is None else noise / without - 1
            rows.append((column.name, party, kind_of(column), Said(without, shown[0]), Said(more, shown[1])))
    headings = (
        "column",
        "hospital",
        "kind",
        Heading("without", "noise sd without it"),
        Heading("raises", "it raises all noise by"),
    )
    return Table.of("columns", headings, rows)


def _without(scenario: Scenario, column: Column) -> float | None:
    """Noise of an entry without a column; None where there is no such release.

    It depends on all columns together, and not on which hospital has them, so every hospital gets one that is left.
    """
    left = [each for each in scenario.draft.everything if each.name != column.name]
    names = [*scenario.draft.columns]
    if len(left) < len(names) or scenario.asked.get("outcomes") or scenario.asked.get("weights"):
        return None
    columns: dict[str, tuple[Column, ...]] = {name: (each,) for name, each in zip(names, left, strict=False)}
    columns[names[-1]] = tuple(left[len(names) - 1 :])
    try:
        return _entry_sd(replace(scenario, draft=replace(scenario.draft, columns=columns)))
    except InvalidInput:
        return None


def _survival(scenario: Scenario, noise: float) -> list[Table]:
    outcomes, found = {*(scenario.asked.get("outcomes") or ())}, []
    for column in scenario.draft.everything:
        exits = _exits(column)
        apart = outcomes if column.name in outcomes else ()  # their products with the exits are not released
        binaries = [each for each in scenario.draft.everything if kind_of(each) == "binary" and each.name not in apart]
        events = [each for each in binaries if exits and _tells(each, column)]
        if exits is not None and len(binaries) > len(events):
            found.append(_hazards(column.name, exits, scenario.draft.agreed.rows, noise, event=bool(events)))
    return found


def _exits(column: Column) -> Exits | None:
    try:
        return read_exit(column.values)
    except InvalidInput:
        return None


def _tells(binary: Column, exits: Column) -> bool:
    """Tells whether a binary is the event of a column of exits, by their public formulas."""
    event = re.search(r' and ([^ ]+)( = ".*)? at ', exits.derivation)
    return event is not None and (binary.name == event[1] or binary.derivation.startswith(f"{event[1]} = "))


def _hazards(name: str, exits: Exits, rows: int, noise: float, *, event: bool) -> Table:
    headings = (
        Heading("share", "patients with an event"),
        "events",
        Heading("without_privacy", "sd without privacy"),
        Heading("sd", "sd of log hazard ratio"),
        Heading("found", "hazard ratio found 4 times in 5"),
    )
    lines = []
    for share in EVENTS:
        sd, events = log_hazard_ratio_sd(exits.cuts, share, rows, noise, event=event), round(share * rows)
        plain, ratio = 2 / math.sqrt(max(events, 1)), math.exp(-_POWER * sd)
        shown = Said(sd, f"{sd:.3f}"), Said(ratio, f"{ratio:.2f} or less")
        lines.append((Said(share, f"{share:.0%}"), events, Said(plain, f"{plain:.3f}"), *shown))
    beside = "" if event else f" Declare the event of {name} as a binary beside it: the error is then smaller."
    told = f"Two groups of equal size by a binary, constant hazards, and 0.3 patients lost for each event.{beside}"
    return Table.of(f"hazard ratio by {name}", headings, lines, below=(told,))


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
