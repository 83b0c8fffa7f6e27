"""Survival of two groups of four real tables: Cox and Kaplan-Meier on the whole table are the truth of patients drawn from it.

Data: SUPPORT2 (Knaus et al. 1995), and flchain, nafld1 and rotterdam of the R package survival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.common.files import FOLDER
from benchmarks.survival.simulated import Z95, inside, noise_of
from dprelease.analyses import survival
from dprelease.arrays import Floats, Integers
from dprelease.data.exits import Exits
from tests.support.exits import BINARY, exit_columns, exit_release, places_of

DAYS = 365.25
OTHERS = 5
"""Further columns of four levels that depend on nothing: eight columns in all."""


@dataclass(frozen=True)
class Table:
    """A file, its columns of time, event and group, and the cuts in years."""

    name: str
    time: str
    event: str
    group: str
    one: str
    cuts: tuple[float, ...]

    @property
    def path(self) -> str:
        """Below the folder of data."""
        return f"survival/{self.name}.csv.gz"

    def frame(self) -> pd.DataFrame:
        """The file, with a column of who is a case where it pairs patients."""
        found = pd.read_csv(FOLDER / self.path)
        return (
            found.assign(case=np.where(found["id"] == found["case_id"], "yes", "no")) if "case_id" in found else found
        )


TABLES = (
    Table("support2", "d_time", "death", "sex", "male", (15 / DAYS, 30 / DAYS, 90 / DAYS, 0.5, 1, 2, 5.6)),
    Table("flchain", "futime", "death", "sex", "M", (2, 4, 6, 8, 10, 12, 14.3)),
    Table("nafld1", "futime", "status", "case", "yes", (2, 4, 6, 9, 12, 20)),
    Table("rotterdam", "dtime", "death", "hormon", "1", (2, 4, 6, 8, 10, 20)),
)


@dataclass(frozen=True)
class FoundIn:
    """Over all releases of a table; `truth` is the log hazard ratio."""

    truth: float
    bias: float
    spread: float
    error: float
    held: float
    bands: float


def measure(table: Table, releases: int, seed: int = 1) -> FoundIn:
    """Draw patients of the table with replacement and a release of them, time and again."""
    time, event, group = read(table)
    random = np.random.default_rng([seed, len(time)])
    exits = Exits(tuple(map(float, table.cuts)))
    levels: dict[str, tuple[str, ...]] = {"group": BINARY, "died": BINARY} | {
        f"other{place}": ("p", "q", "r", "s") for place in range(OTHERS)
    }
    columns = exit_columns(exits, levels)
    noise, n = noise_of(columns), len(time)
    truth = log_ratio(np.minimum(time, exits.cuts[-1]), event * (time <= exits.cuts[-1]), group)
    # At its end few are left, and a curve of single patients is no truth to hold.
    curves = np.array([kaplan_meier(time[group == side], event[group == side], exits.cuts[:-1]) for side in (0, 1)])
    rows = []
    for _ in range(releases):
        at = random.integers(0, n, n)
        places = {"exit": places_of(exits, time[at], event[at] - 1), "group": group[at], "died": event[at]}
        places |= {f"other{place}": random.integers(0, 4, n) for place in range(OTHERS)}
        found = survival(exit_release(columns, places, noise, random), "exit", "group", "died")
        ratio = found.tables["hazard ratios"]
        away, error = ratio.location[0, 0] - truth, ratio.standard_error[0]
        low, high = (ends.reshape(2, -1)[:, :-1] for ends in found.tables["survival"].interval())
        rows.append([away, error, abs(away) < Z95 * error, inside((low, high), curves)])
    bias, error, held, bands = np.mean(rows, axis=0).tolist()
    return FoundIn(truth, bias, float(np.std([row[0] for row in rows])), error, held, bands)


def read(table: Table) -> tuple[Floats, Integers, Integers]:
    """(years, event, group) of every patient."""
    frame = table.frame()
    group = (frame[table.group].astype(str) == table.one).to_numpy().astype(np.int64)
    return frame[table.time].to_numpy() / DAYS, frame[table.event].to_numpy().astype(np.int64), group


def log_ratio(time: Floats, event: Integers, group: Integers, steps: int = 20) -> float:
    """Cox's estimate for one binary, ties as Breslow has them."""
    ends = np.unique(time[event == 1])
    risk = np.array(
        [len(own) - np.searchsorted(own, ends) for own in (np.sort(time[group == side]) for side in (0, 1))]
    )
    count = np.array([np.sum((time == end) & (event == 1)) for end in ends])
    found, exposed = 0.0, float(event[group == 1].sum())
    for _ in range(steps):
        part = risk[1] * np.exp(found) / (risk[0] + risk[1] * np.exp(found))
        found += (exposed - (count * part).sum()) / (count * part * (1 - part)).sum()
    return float(found)


def kaplan_meier(time: Floats, event: Integers, cuts: tuple[float, ...]) -> Floats:
    """Shares without an event at the cuts."""
    order = np.argsort(time, kind="stable")
    left = len(time) - np.arange(len(time))
    curve = np.cumprod(1 - event[order] / left)
    found: Floats = np.r_[1.0, curve][np.searchsorted(time[order], cuts, side="right")]
    return found
