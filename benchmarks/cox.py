"""Hazard ratios of several covariates of four real tables: Cox on the whole table is the truth of patients drawn from it.

Tables, their times, events and cuts are those of `benchmarks.survival.real`. Eight columns are released, numbers in bands.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import pandas as pd
from statsmodels.duration.hazard_regression import PHReg

from benchmarks.common.files import at_hand
from benchmarks.common.report import Results, main
from benchmarks.survival.real import DAYS, TABLES, Table
from benchmarks.survival.simulated import noise_of
from dprelease.analyses import hazards
from dprelease.arrays import Floats
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from tests.support.exits import BINARY, exit_columns, exit_release, places_of

COLUMNS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "support2": {
        "age": (50, 60, 70, 80),
        "sex": (),
        "dzclass": (),
        "num_co": (1, 2, 3, 4),
        "ca": (),
        "meanbp": (60, 75, 100, 115),
    },
    "flchain": {
        "age": (55, 60, 65, 70, 75, 80),
        "sex": (),
        "flc_grp": (4, 7, 9, 10),
        "creatinine": (0.9, 1.1, 1.3),
        "mgus": (),
        "sample_yr": (1997,),
    },
    "nafld1": {
        "age": (40, 50, 60, 70),
        "male": (),
        "bmi": (25, 30, 35),
        "case": (),
        "weight": (90,),
        "height": (160, 170, 180),
    },
    "rotterdam": {
        "age": (45, 55, 65, 75),
        "size": (),
        "grade": (),
        "nodes": (1, 4, 10),
        "hormon": (),
        "chemo": (),
    },
}
"""Table to its columns beside exit and event, and the bounds of bands of a number; what has none has levels."""
ASKED = {
    "support2": ("age", "sex", "dzclass", "num_co", "ca"),
    "flchain": ("age", "sex", "flc_grp", "creatinine"),
    "nafld1": ("age", "male", "bmi", "case"),
    "rotterdam": ("age", "size", "grade", "nodes", "hormon"),
}
RELEASES, QUICK = 20, ("nafld1",)
"""Releases of a table; and tables of a quick run, of one release each."""


def run(quick: bool) -> Results:
    """Coverage of intervals of log hazard ratios, and their slope on those of Cox, for (epsilon, delta) = (1, 1e-5)."""
    results = Results()
    tables = [each for each in TABLES if at_hand(each.name, each.path) and not (quick and each.name not in QUICK)]
    many = [1 if quick else RELEASES for _ in tables]
    with ProcessPoolExecutor() as pool:
        for name, found in zip((each.name for each in tables), pool.map(measure, tables, many), strict=True):
            results.details[name] = asdict(found)
            results.add(f"{name}: share of releases that are answered", found.answered)
            results.add(f"{name}: root mean squared error of log ratios, in standard errors of Cox", found.error)
            results.add(f"{name}: slope of log ratios on those of Cox", found.slope, None if quick else 0.88, ">=")
            results.add(f"{name}: coverage of 95 % intervals", found.held, None if quick else 0.9, ">=")
    return results


@dataclass(frozen=True)
class FoundOn:
    """Over all releases of a table, and all of their ratios.

    Attributes:
        held: share of intervals that hold the truth.
        slope: of estimated log ratios on true ones.
        error: mean root of squared errors, in standard errors of Cox on as many rows.
        answered: share of releases that are not refused.
    """

    held: float
    slope: float
    error: float
    answered: float


def measure(table: Table, releases: int, seed: int = 1) -> FoundOn:
    """Draw patients of a table with replacement and a release of them, time and again."""
    frame, levels = _read(table)
    exits, random = Exits(tuple(map(float, table.cuts))), np.random.default_rng(seed)
    columns = exit_columns(exits, levels | {"died": BINARY})
    noise, n = noise_of(columns), len(frame)
    time, event = frame[table.time].to_numpy() / DAYS, frame[table.event].to_numpy().astype(np.int64)
    seen = event * (time <= exits.cuts[-1])
    codes = {each: np.array([levels[each].index(cell) for cell in frame[each]]) for each in levels}

    @cache
    def truth(ratios: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Log ratios to all levels that are not named, and their standard errors."""
        pairs = (each.split("=", 1) for each in ratios)
        design = np.column_stack([codes[column] == levels[column].index(level) for column, level in pairs])
        model = PHReg(np.minimum(time, exits.cuts[-1]), design.astype(float), status=seen, ties="breslow")
        fitted = model.fit(method="bfgs", disp=0)  # Newton's steps diverge where a band has hardly an event
        return np.asarray(fitted.params), np.asarray(fitted.bse)

    rows: list[Floats] = []
    answered = 0
    for _ in range(releases):
        at = random.integers(0, n, n)
        places = {"exit": places_of(exits, time[at], event[at] - 1), "died": event[at]}
        places |= {each: of[at] for each, of in codes.items()}
        try:
            found = hazards(exit_release(columns, places, noise, random), "exit", ASKED[table.name], "died")
        except InvalidInput:
            continue
        answered, ratios = answered + 1, found.tables["hazard ratios"]
        true, error = truth(ratios.names)
        low, high = ratios.interval()
        held = (low <= np.exp(true)) & (np.exp(true) <= high)
        rows.append(np.column_stack([held, ratios.location[0], true, (ratios.location[0] - true) / error]))
    held, estimate, true, away = np.vstack(rows).T if rows else np.zeros((4, 1))
    slope = float(np.polyfit(true, estimate, 1)[0]) if rows else 0.0
    return FoundOn(float(held.mean()), slope, float(np.sqrt(np.mean(away**2))), answered / releases)


def _read(table: Table) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """The table, cells as levels and missing numbers as the median, and the levels of each column."""
    frame = table.frame()
    levels: dict[str, tuple[str, ...]] = {}
    for column, bounds in COLUMNS[table.name].items():
        if bounds:
            band = np.searchsorted(bounds, frame[column].fillna(frame[column].median()), side="right")
            frame[column] = [f"band {place}" for place in band]
        else:
            frame[column] = frame[column].astype(str)
        levels[column] = tuple(sorted(set(frame[column])))
    return frame, levels


if __name__ == "__main__":
    main("cox", run)
