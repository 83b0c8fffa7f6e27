"""Survival of groups out of a column of exits: curves with bands, hazard ratios and their test, restricted means, medians.

One piecewise exponential model with losses (`dprelease.estimators.piecewise_exponential`) is fitted to the released sums, once
with proportional hazards, for ratios and the test, and once without, for curves. Quantities of curves are worked out on draws of
the normal law of its parameters, so curves fall and lie between 0 and 1. With several causes curves are of patients without any
event, and each cause has its cumulative incidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from dprelease.analyses.draws import compared
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.exit_sums import LESS_NOISE, OF_ONE_CAUSE, ExitSums, exit_sums
from dprelease.analyses.joint_test import JointTest, joint_test
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.data.column import number_text
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from dprelease.estimators.piecewise_exponential import ExponentialFit
from dprelease.files.extras import imported
from dprelease.privacy.public_stream import PublicNormals
from dprelease.release.release import Release

DRAWS = 2000
HALF = np.log(2.0)
FINE = 10
"""Points of a plotted curve in each interval."""
LETTER = 0.015
"""Width of a digit under a plot, as a part of the axis."""


@dataclass(frozen=True, eq=False, repr=False)
class Survival(Analysis):
    """An analysis of exits.

    Attributes:
        curves: draws of the hazards.
        exits: cuts and causes.
        at_risk: group to numbers at risk at 0 and the cuts.
        unit: of times, in words.
    """

    curves: Curves = field(kw_only=True)
    exits: Exits = field(kw_only=True)
    at_risk: Mapping[str, Floats] = field(kw_only=True)
    unit: str = field(kw_only=True)

    @property
    def ticks(self) -> list[float]:
        """0 and the cuts."""
        return [0.0, *self.exits.cuts]

    @property
    def times(self) -> Floats:
        """(t,) of plotted curves."""
        return np.unique(np.concatenate([np.linspace(*ends, FINE) for ends in pairwise(self.ticks)]))

    def panels(self) -> dict[str, dict[str, Floats]]:
        """Plotted curves, survival or the incidence of each cause, to groups, to (3, t) lower end, estimate and upper end."""
        free, ended = self.curves.at(self.times)
        causes = self.exits.causes
        shown = {"Survival": free}
        if len(causes) > 1:
            shown = {f"Cumulative incidence: {cause}": ended[:, place] for place, cause in enumerate(causes)}
        return {
            title: {name: np.quantile(of[:, at], [0.025, 0.5, 0.975], axis=0) for at, name in enumerate(self.at_risk)}
            for title, of in shown.items()
        }

    def plot(self, path: Path) -> None:
        """Write curves with their bands, and numbers at risk under them; the ending of the file's name says in which format.

        Raises:
            InvalidInput: matplotlib is missing or does not know the format, or the file cannot be written.
        """
        figure_of = imported("matplotlib.figure").Figure
        ticks, groups, times = self.ticks, list(self.at_risk), self.times
        panels = self.panels()
        across = len(panels)
        size = 6.4 * across, 4.2 + 0.22 * len(groups)
        figure = figure_of(figsize=size, layout="constrained")
        for axis, (title, curves) in zip(figure.subplots(1, across, squeeze=False)[0], panels.items(), strict=True):
            for group, (lower, centre, upper) in curves.items():
                (line,) = axis.plot(times, centre, label=group or None)
                axis.fill_between(times, lower, upper, alpha=0.2, color=line.get_color(), linewidth=0)
            axis.set(ylim=(0, 1) if across == 1 else (0, None), xlim=(0, ticks[-1]))
            axis.set_title(title, fontsize="medium", parse_math=False)
            named = [
                "\n".join([number_text(at), *(f"{self.at_risk[group][place]:.0f}" for group in groups)])
                for place, at in enumerate(ticks)
            ]
            axis.set_xticks(ticks, _with_room(named, [at / ticks[-1] for at in ticks]))
            axis.set_xlabel(
                f"time {self.unit}; below: numbers at risk" + f" of {', '.join(groups)}" * any(groups), parse_math=False
            )
            if any(groups):
                for text in axis.legend().get_texts():
                    text.set_parse_math(False)
        try:
            figure.savefig(path, dpi=110)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"cannot write the plot {path}: {error}") from error


def _with_room(labels: Sequence[str], places: Sequence[float]) -> list[str]:
    """Labels that stand apart, the first and the last one among them, and empty ones for the others.

    Args:
        labels: from left to right, of one line or more.
        places: where their middles are, as parts of the axis.
    """
    half = [LETTER * (max(map(len, each.split("\n"))) + 1) / 2 for each in labels]
    found, free = list(labels), np.inf
    for at in range(len(labels) - 1, 0, -1):
        if places[0] + half[0] <= places[at] - half[at] and places[at] + half[at] <= free:
            free = places[at] - half[at]
        else:
            found[at] = ""
    return found


@repeatable
def survival(release: Release, exit: str, by: str | None = None, event: str | None = None) -> Survival:
    """Survival by group, out of a column of exits.

    Tables: ``survival`` (with several causes ``free of events`` and ``cumulative incidence``), ``hazard ratios`` to the first
    group, or to ``other`` of one declared level, ``restricted mean survival time`` up to the last cut, ``median survival`` (with
    several causes times ``free of events``); noise and sampling. ``numbers at risk`` and ``events``; noise only. Tests: ``the
    hazards of all groups are equal``, of each cause.

    Args:
        release: a verified release of joint moments.
        exit: a column that is declared with ``derived = { exit = [...] }``.
        by: a category to compare the groups of; one curve without it.
        event: an indicator of the event beside the exits, which leaves less noise.

    Raises:
        InvalidInput: as `exit_sums`.
    """
    found = exit_sums(release, exit, by, event)
    fit = found.fit(proportional=False)
    shown = [place for place, told in enumerate(found.told) if told]
    if by is not None:
        shown = [found.groups.index(name) for name in compared(release, tuple(found.groups[place] for place in shown))]
    at = [found.order.index(place) for place in shown]
    names = [found.groups[place] for place in shown]
    normals = PublicNormals(hashlib.sha256(f"{release.digest} {exit} {by}".encode()).digest())
    curves = Curves.of(fit, fit.parameters(normals.normal(DRAWS, fit.model.size)), at)
    tables = _curve_tables(found, curves, names)
    tests: dict[str, JointTest] = {}
    unit = f"in {found.unit or 'the unit of the cuts, which the release does not name'}"
    facts = {"times": unit}
    if len(names) > 1:
        ratios, tests = _ratios(found, at, names)
        tables = {"hazard ratios": ratios} | tables
    counts = _counts(found, fit, at, names, normals)
    medians, reached = curves.medians(), Curves.of(fit, fit.theta[None], at).medians()[0]
    seen = np.isfinite(reached) & np.isfinite(np.median(medians, axis=0))
    if seen.any():
        tables["median survival" if len(found.exits.causes) == 1 else "median time free of events"] = Estimates(
            tuple(np.array(names)[seen].tolist()), medians[:, seen], sampled=True, units=(found.unit,) * int(seen.sum())
        )
    late = [name or "half of the patients" for name, told in zip(names, seen, strict=True) if not told]
    if late:
        facts["median"] = f"not reached by {number_text(found.exits.cuts[-1])}: {', '.join(late)}"
    return Survival(
        f"Survival by {exit}" + (f" and {by}" if by else ""),
        release,
        tuple(name for name in (exit, by, event) if name),
        tables | counts,
        tests,
        _caveats(found, event, by),
        facts,
        of_counts=True,
        curves=curves,
        exits=found.exits,
        at_risk=dict(zip(names, np.split(counts["numbers at risk"].estimate, len(names)), strict=True)),
        unit=unit,
    )


@dataclass(frozen=True, eq=False)
class Curves:
    """Hazards of B draws: (B, C, G, K) of each cause, and the cuts."""

    hazard: Floats
    start: Floats

    @classmethod
    def of(cls, fit: ExponentialFit, theta: Floats, groups: list[int]) -> Curves:
        """Hazards of some groups, at parameters (B, size)."""
        rates = np.exp(fit.model.log_rates(theta)[:, : fit.model.causes])
        return cls(rates[:, :, groups], np.array([0.0, *fit.model.cuts]))

    def at(self, times: Floats) -> tuple[Floats, Floats]:
        """(B, G, t) shares without an event, and (B, C, G, t) with one of each cause."""
        width, whole = np.diff(self.start), self.hazard.sum(axis=1)
        place = np.clip(np.searchsorted(self.start, times, side="left") - 1, 0, len(width) - 1)
        free = np.exp(-_before(whole * width))
        ended = _before(self.hazard / whole[:, None] * (free * -np.expm1(-whole * width))[:, None])
        within = -np.expm1(-whole[..., place] * (times - self.start[place]))
        left = free[..., place]
        cause = ended[..., place] + (self.hazard / whole[:, None])[..., place] * (left * within)[:, None]
        return left * (1 - within), cause

    def restricted(self) -> Floats:
        """(B, G) mean times without an event, up to the last cut."""
        width, whole = np.diff(self.start), self.hazard.sum(axis=1)
        found: Floats = (np.exp(-_before(whole * width)) * -np.expm1(-whole * width) / whole).sum(axis=-1)
        return found

    def medians(self) -> Floats:
        """(B, G) times by which half have an event; infinite where that is after the last cut."""
        width, whole = np.diff(self.start), self.hazard.sum(axis=1)
        passed = np.cumsum(whole * width, axis=-1)
        place = (passed < HALF).sum(axis=-1, keepdims=True)
        last = np.minimum(place, len(width) - 1)
        left = HALF - np.take_along_axis(_before(whole * width), last, axis=-1)
        time = self.start[last] + left / np.take_along_axis(whole, last, axis=-1)
        return np.where(place < len(width), time, np.inf)[..., 0]


def _before(parts: Floats) -> Floats:
    """Sums of all parts before each one, along the last axis."""
    return np.cumsum(parts, axis=-1) - parts


def _named(group: str, told: str) -> str:
    return f"{group}, {told}" if group else told


def _curve_tables(found: ExitSums, curves: Curves, names: list[str]) -> dict[str, Estimates]:
    cuts = np.array(found.exits.cuts)
    free, ended = curves.at(cuts)
    count, until = len(free), [f"at {number_text(cut)}" for cut in cuts]
    rows = tuple(_named(name, at) for name in names for at in until)
    several = len(found.exits.causes) > 1
    tables = {"free of events" if several else "survival": Estimates(rows, free.reshape(count, -1), sampled=True)}
    if several:
        of_cause = tuple(f"{cause}: {row}" for cause in found.exits.causes for row in rows)
        tables["cumulative incidence"] = Estimates(of_cause, ended.reshape(count, -1), sampled=True)
    mean = curves.restricted()
    apart = [mean[:, [place]] - mean[:, [0]] for place in range(1, len(names))]
    means = tuple(name or f"up to {until[-1][3:]}" for name in names)
    differences = tuple(f"{name} less {names[0]}" for name in names[1:])
    tables[f"restricted mean {'time free of events' if several else 'survival time'}"] = Estimates(
        (*means, *differences),
        np.concatenate([mean, *apart], axis=1),
        sampled=True,
        units=(found.unit,) * len((*means, *differences)),
    )
    return tables


def _ratios(found: ExitSums, at: list[int], names: list[str]) -> tuple[Estimates, dict[str, JointTest]]:
    fit = found.fit(proportional=True)
    contrast = np.zeros((len(at) - 1, found.model.groups))
    contrast[np.arange(len(at) - 1), at[1:]] += 1.0
    contrast[:, at[0]] -= 1.0
    shown, logs, errors, noise, tests = [], [], [], [], {}
    for cause, word in enumerate(found.exits.causes):
        log, covariance, of_noise = fit.ratios(cause)
        value, spread = contrast[:, 1:] @ log, contrast[:, 1:] @ covariance @ contrast[:, 1:].T
        of = f"{word}: " if len(found.exits.causes) > 1 else ""
        shown += [f"{of}{name} to {names[0]}" for name in names[1:]]
        logs.append(value)
        errors.append(np.sqrt(np.diag(spread)))
        noise.append(np.sqrt(np.diag(contrast[:, 1:] @ of_noise @ contrast[:, 1:].T)))
        null = f"{of}the hazards of all groups are equal"
        tests[null] = joint_test(Estimates(tuple(names[1:]), value[None], sampled=True), spread[None])
    location, scale = (np.concatenate(each)[None] for each in (logs, errors))
    own = np.concatenate(noise)
    return Estimates(tuple(shown), location, scale, link="log", tested=True, sampled=True, noise=own), tests


def _counts(
    found: ExitSums, fit: ExponentialFit, at: list[int], names: list[str], normals: PublicNormals
) -> dict[str, Estimates]:
    """Numbers at risk at 0 and at each cut, and events of each cause; of these patients."""
    count, causes, model = len(found.exits.cuts), len(found.exits.causes), fit.model
    values, vectors = np.linalg.eigh(fit.count_covariance)
    errors = normals.normal(DRAWS, len(values)) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    cells = np.maximum(fit.count.ravel() + errors, 0.0).reshape(DRAWS, model.rows, model.groups)[:, :, at]
    cells = model.levels @ cells
    gone = cells[:, : (causes + 1) * count].reshape(DRAWS, causes + 1, count, len(at))
    leaving = np.concatenate([gone.sum(axis=1), cells[:, found.exits.followed, None]], axis=1)
    risk = np.cumsum(leaving[:, ::-1], axis=1)[:, ::-1].transpose(0, 2, 1)
    times = [number_text(each) for each in (0.0, *found.exits.cuts)]
    rows = tuple(_named(name, f"at {time}") for name in names for time in times)
    events = gone[:, :causes].sum(axis=2).reshape(DRAWS, -1)
    words = tuple(_named(name, cause) for cause in found.exits.causes for name in names)
    unit = ("patients",)
    return {
        "numbers at risk": Estimates(rows, risk.reshape(DRAWS, -1), units=unit * len(rows)),
        "events": Estimates(words, events, units=unit * len(words)),
    }


def _caveats(found: ExitSums, event: str | None, by: str | None) -> tuple[str, ...]:
    left_out = [name for name, told in zip(found.groups, found.told, strict=True) if not told]
    told = [f"Not told of, for noise does not tell its patients from none: {', '.join(left_out)}."] if left_out else []
    if by is not None:
        told.append("Hazard ratios and their test take hazards to be proportional; curves do not.")
    told += [
        "Patients who left are taken to have the hazards of those who stayed in their group. No data show that.",
        "Times within an interval are not seen: hazards are constant there, and a curve between two cuts is the model's.",
        f"The noise of a cell has a standard deviation of {found.noise:.3g} patients.",
    ]
    told += [OF_ONE_CAUSE] * (len(found.exits.causes) > 1 and by is not None)
    if found.exits.missing:
        told.append("Patients whose exit is missing are taken to be like the others of their group.")
    return (*told, *[LESS_NOISE] * (event is None and by is not None))
