"""Sums that a release holds of a column of exits: its margins, its products with a group, and what an indicator of the event adds.

Every table that contains a level contains its margin: summed over the levels of another category, a level's products are its
number of patients again, under other noise. All of these are pooled by their precision. An indicator of the event is +1 or -1 in
every event and every loss, so its products with these levels are their numbers once more. Events after the last cut are its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dprelease.analyses.draws import CLEAR, levels
from dprelease.analyses.missing_cells import made_of
from dprelease.arrays import Floats
from dprelease.data.exits import DERIVED, Exits, read_exit
from dprelease.errors import InvalidInput
from dprelease.estimators.piecewise_exponential import (
    CALM,
    LEAST_EVENTS,
    CellSums,
    Exponential,
    ExponentialFit,
    fit_exponential,
)
from dprelease.mechanisms.moments.released import Moments
from dprelease.release.release import Release

SMALLEST = 5.0
"""Noise standard deviations of a cell that a group has at least."""
AGREES, OFF = 5.0, 0.01
"""Standard deviations, and a share, by which an indicator may miss the events that it should tell."""
DECIDES = "{name} decides {exit}, so no hazard ratio of it means anything; leave it out, or name it by --event if it is the event"
OF_ONE_CAUSE = (
    "A hazard ratio of one cause is not a ratio of its cumulative incidences, which other causes change, too."
)
LESS_NOISE = "An indicator of the event, declared beside the exits and named by --event, leaves less noise."


@dataclass(frozen=True, eq=False)
class ExitSums:
    """A column of exits by groups, as released.

    Attributes:
        exits: what its levels are.
        groups: (G,) released names, as declared; one empty name without groups.
        told: (G,) whether a group is one to tell of: not what is left beside declared levels, if that is nobody.
        order: (G,) places of the groups in the model, the largest first.
        model: cells of the model, not proportional.
        sums: of them.
        patients: n.
        margin: (levels,) patients at each level.
        shares: (G,) of the groups, in the model's order.
        later: share with an event among those who were followed to the end.
        read: (C + 1,) what the indicator's variable is at an event of each cause and at a loss; empty without an indicator.
        noise: standard deviation of the noise of a cell, patients.
        unit: of times; empty where the release does not say it.
    """

    exits: Exits
    groups: tuple[str, ...]
    told: tuple[bool, ...]
    order: tuple[int, ...]
    model: Exponential
    sums: CellSums
    patients: int
    margin: Floats
    shares: Floats
    later: float
    read: tuple[float, ...]
    noise: float
    unit: str

    def fit(self, *, proportional: bool) -> ExponentialFit:
        """The model's fit."""
        model = replace(self.model, proportional=proportional)
        return fit_exponential(model, self.sums, self.patients, self.margin, self.shares, self.later)


def exit_sums(release: Release, exit: str, by: str | None, event: str | None, on: Iterable[str] = ()) -> ExitSums:
    """Released sums of exits by groups.

    Args:
        release: a verified release of joint moments.
        exit: a column of exits.
        by: a category to compare the groups of.
        event: a binary that indicates the event, or some of the causes.
        on: released names of covariates.

    Raises:
        InvalidInput: an unknown name, no exits, no moments, products that are not released, a group of too few patients, no events
            that noise tells from none, an indicator of something else, or a group or covariate that is made of the event or the
            time.
    """
    named = [name for name in (exit, by, event) if name is not None]
    if len(set(named)) < len(named):
        raise InvalidInput("exits, groups and the event need different columns")
    products, column = release.products, release.column(release.expand((exit,), reference=False)[0])
    try:
        exits = read_exit(column.values)
    except InvalidInput as error:
        raise InvalidInput(f"{exit}: {error}") from error
    unit = column.unit
    if formula := DERIVED.match(column.derivation):
        clock, dead = formula["time"], formula["event"]
        unit = unit or formula["unit"] or (release.column(clock).unit if clock in release.columns else "")
        made = made_of([each for part in release.spec.parties for each in part.columns])
        for other in dict.fromkeys(release.column(name) for name in (*on, *(levels(release, by) if by else ()))):
            if other != column and made[other.name] & {clock, dead}:
                raise InvalidInput(DECIDES.format(name=other.name, exit=exit))
    view = _View(products, {name: _Coded.of(products, levels(release, name)) for name in named})
    places = view.coded[exit].places
    margin, spread = view.pooled(places, named)
    noise = float(products.noise_between([0], places).max())
    groups: tuple[str, ...] = ("",)
    told: tuple[bool, ...] = (True,)
    order: tuple[int, ...] = (0,)
    shares = np.ones(1)
    if by is not None:
        groups, told, shares = _groups(release, view, by, named, noise)
        order = tuple(np.argsort(-shares, kind="stable").tolist())
        shares = shares[list(order)]
    model = Exponential(exits.cuts, len(exits.causes), len(groups), False, exits.missing, event is not None)
    sums, later, ones = CellSums(), 0.0, np.ones(len(groups))
    read: tuple[float, ...] = ()
    if event is not None:
        signs, turn = _signs(view, exit, event, exits, margin, spread)
        read = (*(turn * sign for sign in signs), -turn)
        entry, sd = view.cells(places, view.coded[event].places[0])
        known = np.arange(len(places)) < exits.followed
        of_level = model.levels @ model.signs(signs)
        margin[known], spread[known] = _pool(
            [margin[known], (entry * turn * of_level)[known]], [spread[known], sd[known]]
        )
        for place in range(exits.followed, len(places)):
            sums.add(model.levels[place] * model.signs(signs), ones, turn * entry[place], sd[place])
        followed = exits.followed
        later = float((margin[followed] + turn * entry[followed]) / (2 * max(margin[followed], 1.0)))
        _add_column(sums, view, model.signs(signs) * turn, view.coded[event].places[0], named, by, order)
    for place, row in enumerate(model.levels):
        sums.add(row, ones, margin[place], spread[place])
    if by is not None:
        coded = view.coded[by]
        for code, at in zip(coded.codes, coded.places, strict=True):
            (value,), (sd,) = view.pooled([at], named)
            sums.add(np.ones(model.rows), code[list(order)], value, sd)
            cell, cell_sd = view.cells(places, at)
            for place, row in enumerate(model.levels):
                sums.add(row, code[list(order)], cell[place], cell_sd[place])
    _check_events(exits, margin, spread)
    return ExitSums(exits, groups, told, order, model, sums, products.rows, margin, shares, later, read, noise, unit)


def _add_column(
    sums: CellSums,
    view: _View,
    of_rows: Floats,
    place: int,
    named: Iterable[str],
    by: str | None,
    order: tuple[int, ...],
) -> None:
    """Add the event's sum and its products with the groups."""
    (value,), (sd,) = view.pooled([place], named)
    sums.add(of_rows, np.ones(len(order)), value, sd)
    if by is not None:
        coded = view.coded[by]
        values, spread = view.cells(coded.places, place)
        for code, cell, cell_sd in zip(coded.codes, values, spread, strict=True):
            sums.add(of_rows, code[list(order)], cell, cell_sd)


@dataclass(frozen=True, eq=False)
class _Coded:
    """A category as variables of the Gram matrix: (v,) places, and (v, levels) their values at each level."""

    places: tuple[int, ...]
    codes: Floats

    @classmethod
    def of(cls, products: Moments, names: tuple[str, ...]) -> _Coded:
        read = [products.lookup(name) for name in names]
        places = tuple(dict.fromkeys(at for at, _, _ in read))
        codes = np.zeros((len(places), len(names)))
        for level, (at, middle, half) in enumerate(read):
            codes[places.index(at), level] = (1 - middle) / half
        return cls(places, codes)


@dataclass(frozen=True, eq=False)
class _View:
    """Released sums, and the columns that were asked for."""

    products: Moments
    coded: dict[str, _Coded]

    def cells(self, places: tuple[int, ...], other: int) -> tuple[Floats, Floats]:
        """Sums of products of variables with another one, and their noise."""
        return self.products.between(places, [other])[:, 0], self.products.noise_between(places, [other])[:, 0]

    def pooled(self, places: Iterable[int], apart: Iterable[str]) -> tuple[Floats, Floats]:
        """Sums of variables out of all tables that contain them but those of some columns, and their noise."""
        layout, out = self.products.layout, {at for name in apart for at in self.coded[name].places}
        level: dict[int, list[int]] = {}
        for at, variable in enumerate(layout.variables, 1):
            if variable.level and at not in out:
                level.setdefault(variable.column, []).append(at)
        found = []
        for place in places:
            tables = [
                [0],
                *(each for each in level.values() if not (layout.outcome[place] and layout.outcome[each[0]])),
            ]
            values = [self.products.between([place], each).sum() for each in tables]
            spread = [np.sqrt((self.products.noise_between([place], each) ** 2).sum()) for each in tables]
            found.append(_pool(values, spread))
        value, sd = np.array(found).T
        return value, sd


def _pool(values: list[Floats], spread: list[Floats]) -> tuple[Floats, Floats]:
    """The mean of the same numbers under noise, weighted by precision, and its noise."""
    weight = 1 / np.maximum(np.array(spread), CALM) ** 2
    whole = weight.sum(axis=0)
    return (weight * np.array(values)).sum(axis=0) / whole, 1 / np.sqrt(whole)


def _groups(
    release: Release, view: _View, by: str, named: list[str], noise: float
) -> tuple[tuple[str, ...], tuple[bool, ...], Floats]:
    names, coded, n = levels(release, by), view.coded[by], view.products.rows
    sums, _ = view.pooled(coded.places, named)
    count = sums if len(coded.places) > 1 else (n + coded.codes[0] * sums[0]) / 2
    least = max(SMALLEST * noise, SMALLEST)
    told = [bool(each >= least) for each in count]
    rest = len(names) > len(release.column(names[0]).vocabulary)
    for place, name in enumerate(names):
        if not told[place] and not (rest and place == len(names) - 1):
            raise InvalidInput(
                f"{name} has some {max(count[place], 0.0):.0f} patients, and a group needs {least:.0f}, {SMALLEST:g} times the "
                "noise of a cell; compare larger groups, or ask for a release of fewer columns or a larger epsilon"
            )
    if sum(told) < 2:
        raise InvalidInput(f"{by} has one group of patients only; leave out --by")
    return names, tuple(told), np.maximum(count, 1.0) / n


def _signs(
    view: _View, exit: str, event: str, exits: Exits, margin: Floats, spread: Floats
) -> tuple[list[float], float]:
    """(C,) values of the indicator at an event of each cause, where +1 is an event; and -1 where its own +1 is none."""
    coded = view.coded[event]
    if len(coded.places) > 1:
        raise InvalidInput(f"{event} has more than two levels; the event is a binary")
    entry, sd = view.cells(view.coded[exit].places, coded.places[0])
    kinds = [slice(at, at + len(exits.cuts)) for at in range(0, exits.followed, len(exits.cuts))]
    seen = np.array([entry[kind].sum() for kind in kinds])
    error = np.array([max(np.sqrt((sd[kind] ** 2).sum()), CALM) for kind in kinds])
    strongest = int(np.argmax(np.abs(seen) / error))
    lost = strongest == len(kinds) - 1
    turn = float(np.sign(seen[strongest])) * (-1.0 if lost else 1.0)
    if not lost and len(exits.causes) > 1 and abs(seen[-1]) > CLEAR * error[-1]:
        turn = -float(np.sign(seen[-1]))
    signs = [1.0] if len(exits.causes) == 1 else [float(np.sign(each * turn)) or 1.0 for each in seen[:-1]]
    if max(signs) < 0 or np.min(np.abs(seen[:-1]) / error[:-1]) < CLEAR:
        raise InvalidInput(f"noise hides which events of {exit} the column {event} tells; leave out --event")
    for kind, sign, sum_, err in zip(kinds, [*signs, -1.0], seen, error, strict=True):
        whole = margin[kind].sum()
        away = abs(turn * sum_ - sign * whole)
        if away > AGREES * np.hypot(err, np.sqrt((spread[kind] ** 2).sum())) + OFF * abs(whole):
            raise InvalidInput(f"{event} is not the event of {exit}: their tables do not agree; name its indicator")
    return signs, turn


def _check_events(exits: Exits, margin: Floats, spread: Floats) -> None:
    for place, cause in enumerate(exits.causes):
        kind = slice(place * len(exits.cuts), (place + 1) * len(exits.cuts))
        count, error = margin[kind].sum(), np.sqrt((spread[kind] ** 2).sum())
        if count < max(CLEAR * error, LEAST_EVENTS):
            raise InvalidInput(
                f"noise does not tell the patients with {cause} from none: they are {count:.0f}, give or take {error:.0f}"
            )
