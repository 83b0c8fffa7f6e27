"""Survival on simulated releases: the log hazard ratio with its interval and test, bands of curves, and restricted means.

Events have an exponential time with mean 1 in the first group. Some 30 % of a mean time are lost, and follow-up ends at 1.5
means unless it says otherwise. Cuts are at equal shares of all exits before the end. Further columns have four levels and
depend on nothing. A release on which nothing is told counts as not answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.analyses import survival
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import released_sd, share_scales
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.privacy.gaussian import mu_of
from tests.support.exits import BINARY, drawn_exits, exit_columns, exit_release, places_of

EPSILON, DELTA, HOSPITALS, CURIOUS, GRID_BITS = 1.0, 1e-5, 3, 1, 12
INTERVALS = 6
Z95 = 1.959964


@dataclass(frozen=True)
class Setting:
    """A population and a release of it.

    Attributes:
        n: patients.
        columns: of the release beside the indicator of the event.
        ratio: hazard ratio of each cause.
        event: whether the indicator is released, too.
        share: of the second group.
        lost: rates of losses in both groups.
        rate: of each cause.
        until: end of follow-up; the last cut is at 1.5 or there.
        turn: time from which the ratio is the other way round, so that hazards cross.
    """

    n: int
    columns: int = 6
    ratio: tuple[float, ...] = (0.7,)
    event: bool = True
    share: float = 0.5
    lost: tuple[float, float] = (0.3, 0.3)
    rate: tuple[float, ...] = (1.0,)
    until: float = 1.5
    turn: float = np.inf

    @property
    def crossing(self) -> bool:
        """Whether no single ratio describes the groups."""
        return self.turn < self.until

    def __str__(self) -> str:
        """What differs from the usual."""
        parts = [f"n = {self.n:,}, {self.columns} columns{' and event' if self.event else ''}"]
        parts += [f"ratio {', '.join(f'{each:g}' for each in self.ratio)}"]
        parts += [f"{self.share:.0%} in the group"] if self.share != 0.5 else []
        parts += [f"losses {self.lost[0]:g} and {self.lost[1]:g}"] if self.lost[0] != self.lost[1] else []
        parts += [f"rate {self.rate[0]:g}"] if self.rate[0] != 1 else []
        parts += ["events after the last cut"] if self.until > 1.5 else []
        parts += [f"hazards that cross at {self.turn:g}"] if self.crossing else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Found:
    """Over all releases of a setting; of each cause, where an array."""

    bias: list[float]
    spread: list[float]
    error: list[float]
    held: list[float]
    refused: list[float]
    bands: float
    restricted: float
    answered: float


def noise_of(columns: tuple[CategoricalColumn, ...]) -> float:
    """Standard deviation of the noise of an entry, patients."""
    least = sensitivity(Layout(columns).variables)
    scales = share_scales(least, Fraction(mu_of(EPSILON, DELTA)) ** 2, HOSPITALS, CURIOUS, GRID_BITS, 1)
    return released_sd(scales[EntryKind.PRODUCT], HOSPITALS) * 4.0**-GRID_BITS


def measure(setting: Setting, releases: int, seed: int = 1) -> Found:
    """Draw patients and a release of them, time and again."""
    random = np.random.default_rng([seed, setting.n, setting.columns, len(setting.rate)])
    whole = sum(setting.rate) + setting.lost[0]
    gone = -np.expm1(-whole * 1.5)
    cuts = (*(-np.log(1 - gone * np.arange(1, INTERVALS) / INTERVALS) / whole).tolist(), 1.5)
    exits = Exits(cuts, ("event",) if len(setting.rate) == 1 else ("death", "transplant"))
    levels: dict[str, tuple[str, ...]] = {"group": ("a", "b")}
    if setting.event:
        levels["died"] = BINARY
    for place in range(setting.columns - 2):
        levels[f"other{place}"] = ("p", "q", "r", "s")
    columns = exit_columns(exits, levels)
    noise, rows = noise_of(columns), []
    for _ in range(releases):
        group, time, cause = drawn_exits(
            random,
            setting.n,
            ratio=setting.ratio,
            rate=setting.rate,
            lost=setting.lost,
            share=setting.share,
            until=setting.until,
            turn=setting.turn,
        )
        places = {"exit": places_of(exits, time, cause), "group": group, "died": (cause == 0).astype(int)}
        places |= {f"other{place}": random.integers(0, 4, setting.n) for place in range(setting.columns - 2)}
        release = exit_release(columns, places, noise, random)
        try:
            found = survival(release, "exit", "group", "died" if setting.event else None)
        except InvalidInput:
            continue
        ratio = found.tables["hazard ratios"]
        away, error = ratio.location[0] - np.log(setting.ratio), ratio.standard_error
        free, mean = _truth(setting, np.array(cuts))
        curve, of = (
            ("survival", "survival time") if len(setting.rate) == 1 else ("free of events", "time free of events")
        )
        shown, restricted = found.tables[curve], found.tables[f"restricted mean {of}"]["group=b less group=a"]
        rows.append(
            [
                *away,
                *error,
                *(np.abs(away) < Z95 * error),
                *(ratio.p_value < 0.05),
                inside(shown.interval(), free),
                inside(restricted.interval(), mean),
            ]
        )
    table, q = np.array(rows, float), len(setting.rate)
    every = table.mean(axis=0).tolist()
    return Found(
        every[:q],
        table[:, :q].std(axis=0).tolist(),
        every[q : 2 * q],
        every[2 * q : 3 * q],
        every[3 * q : 4 * q],
        every[-2],
        every[-1],
        len(rows) / releases,
    )


def inside(ends: tuple[Floats, Floats], truth: Floats) -> float:
    """Share of true values that intervals hold."""
    return float(((ends[0] <= truth) & (truth <= ends[1])).mean())


def _truth(setting: Setting, cuts: Floats) -> tuple[Floats, Floats]:
    """Shares without an event at the cuts, and the difference of the restricted means."""
    rates = np.array(setting.rate), np.array(setting.ratio)
    early = rates[0].sum(), (rates[0] * rates[1]).sum()
    late = rates[0].sum(), (rates[0] / rates[1]).sum()
    free, mean, turn = [], [], min(setting.turn, cuts[-1])
    for before, after in zip(early, late, strict=True):
        free.append(np.exp(-before * np.minimum(cuts, turn) - after * np.maximum(cuts - turn, 0.0)))
        left = np.exp(-before * turn)
        mean.append(-np.expm1(-before * turn) / before - left * np.expm1(-after * (cuts[-1] - turn)) / after)
    return np.concatenate(free), np.array([mean[1] - mean[0]])
