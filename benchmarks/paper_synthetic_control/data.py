"""Panels for `paper_synthetic_control`: the paper's synthetic ones, and three that the literature starts from, with public bounds.

    synthetic    donors theta_i t + noise, theta_i normal (4, 1) cut to [3, 5], noise of variance 1/10 cut to [-1, 1], three times
                 after; all of it lies within the public bounds -1 and 5 T + 1, T the number of times
    California   cigarette packs per head in 39 states, Proposition 99 from 1989 (Abadie, Diamond and Hainmueller 2010)
    Basque       income per head in 17 Spanish regions, terrorism from 1970 (Abadie and Gardeazabal 2003)
    Germany      income per head in 17 countries, reunification from 1990 (Abadie, Diamond and Hainmueller 2015)

The paper runs its algorithms on the synthetic values themselves, though their noise is for values in [-1, 1]. Files are looked for
where `common.paper_data` looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import truncnorm

from benchmarks.common.files import FOLDER
from benchmarks.paper_synthetic_control.published import Pool
from dprelease.arrays import Floats

AFTER = 3
SETTINGS = ((10, 10), (10, 100), (100, 10), (100, 100))
"""T0 and n of the paper's four data sets."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A target and donors in original units.

    Attributes:
        name: of the data.
        donors: (n, T).
        target: (T,) observed.
        before: T0.
        bounds: public, of every value.
        truth: (T1,) what is to be predicted; empty where that is unknown.
        times: labels.
    """

    name: str
    donors: Floats
    target: Floats
    before: int
    bounds: tuple[float, float]
    truth: Floats
    times: tuple[int, ...] = ()

    @property
    def middle(self) -> float:
        """Of the bounds."""
        return (self.bounds[0] + self.bounds[1]) / 2

    @property
    def half(self) -> float:
        """Half the distance of the bounds."""
        return (self.bounds[1] - self.bounds[0]) / 2

    def raw(self) -> Pool:
        """As the paper has it, whatever the noise is meant for."""
        return Pool(self.donors[:, : self.before], self.target[: self.before], self.donors[:, self.before :])

    def scaled(self) -> Pool:
        """In half-widths of the bounds from their midpoint."""
        donors, target = (self.donors - self.middle) / self.half, (self.target - self.middle) / self.half
        return Pool(donors[:, : self.before], target[: self.before], donors[:, self.before :])


def synthetic(before: int, donors: int, rng: np.random.Generator) -> Panel:
    """One of the paper's data sets.

    Args:
        before: T0.
        donors: n.
        rng: source.
    """
    times = before + AFTER
    slopes = truncnorm.rvs(-1, 1, loc=4, scale=1, size=donors + 1, random_state=rng)
    signal = np.outer(slopes, np.arange(1, times + 1))
    sd = np.sqrt(0.1)
    values = signal + truncnorm.rvs(-1 / sd, 1 / sd, scale=sd, size=signal.shape, random_state=rng)
    return Panel(
        f"T0 = {before}, n = {donors}", values[1:], values[0], before, (-1.0, 5.0 * times + 1), signal[0, before:]
    )


def panels() -> list[Panel]:
    """California, the Basque Country and West Germany; none where the files are missing."""
    folder = FOLDER / "synthetic_control"
    if not folder.exists():
        return []
    basque = pd.read_csv(folder / "basque.csv.gz")
    basque = basque[basque["regionname"] != "Spain (Espana)"]
    return [
        _panel(
            "California", pd.read_csv(folder / "california_prop99.csv.gz"), "state", "cigsale", "California", 1989, 300
        ),
        _panel("Basque Country", basque, "regionname", "gdpcap", "Basque Country (Pais Vasco)", 1970, 14),
        _panel(
            "West Germany",
            pd.read_csv(folder / "german_reunification.csv.gz"),
            "country",
            "gdp",
            "West Germany",
            1990,
            40_000,
        ),
    ]


def _panel(name: str, table: Any, unit: str, value: str, treated: str, first: int, upper: float) -> Panel:
    wide = table.astype({"year": int}).pivot_table(index=unit, columns="year", values=value)
    years = tuple(int(year) for year in wide.columns)
    donors = wide.drop(index=treated).to_numpy(np.float64)
    target = wide.loc[treated].to_numpy(np.float64)
    return Panel(name, donors, target, years.index(first), (0.0, float(upper)), np.zeros(0), years)
