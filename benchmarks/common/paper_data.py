"""The five tables of the paper's Table 1: the files where they are at hand, generated tables of the same shape elsewhere.

As in the paper attributes are brought to [0, 1] by their least and largest value (which is not private; a release proper takes
public bounds), split 4 : 1 into rows to train and to test on, and dealt out evenly to the parties, the outcome last.

    Insurance        the file: age, sex, bmi, children, smoker, four regions
    Bike             the file, hourly: season to windspeed, and the day of the month, which makes the paper's 13
    Superconductor   only 1,472 of its rows are at hand: a smoothed bootstrap of these, z = (x - m + h e)/sqrt(1 + h^2) + m with
                     e normal with the covariance of x, within the ranges at hand: means and correlations stay about the same
    GPU, Music Song  generated

Generated tables have three common factors behind uniform, skewed and binary features. The outcome has a beta law with the
mean and variance of the public table, in the order of a linear function of the features plus as much noise as
makes least squares err as it does in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import beta

from benchmarks.common.files import FOLDER
from dprelease.arrays import Floats

SMOOTHING = 0.3
TUNED = 20_000
"""Rows that the noise of a generated outcome is tuned on."""
_BIKE = [
    "season",
    "yr",
    "mnth",
    "hr",
    "holiday",
    "weekday",
    "workingday",
    "weathersit",
    "temp",
    "atemp",
    "hum",
    "windspeed",
]


@dataclass(frozen=True)
class PaperTable:
    """One row of Table 1.

    Attributes:
        name: as in the paper.
        rows: n, to train on.
        features: d.
        parties: m.
        mean: of the outcome, where it is generated.
        variance: of the outcome, the same.
        ols: the paper's test loss of least squares.
        published: the paper's test losses of RMGM at epsilon = 1, 0.3 and 0.1.
        highest: the outcome's largest value in the whole table, where only a part of it is at hand.
        load: every row at hand, (rows, d + 1), in the file's units; None where there is no file.
    """

    name: str
    rows: int
    features: int
    parties: int
    mean: float
    variance: float
    ols: float
    published: tuple[float, float, float]
    load: Callable[[], Floats] | None = None
    highest: float | None = None

    @property
    def widths(self) -> list[int]:
        """Columns of each party: d + 1 of them dealt out evenly, the first parties one more."""
        return [len(part) for part in np.array_split(np.arange(self.features + 1), self.parties)]

    @property
    def file(self) -> Floats | None:
        """Every row of the file, None where there is none."""
        try:
            return self.load() if self.load else None
        except FileNotFoundError:
            return None

    @property
    def source(self) -> str:
        """Where the rows come from, in words."""
        whole = self.file
        if whole is None:
            return "generated"
        if len(whole) < self.rows:
            return f"generated: a smoothed bootstrap of {len(whole):,} rows of the file"
        return f"the file, {len(whole):,} rows"

    def draw(self, seed: int) -> tuple[Floats, Floats]:
        """(train, test) rows in [0, 1], the outcome last; n and n/4 of them.

        Args:
            seed: of the split, and of the rows where they are generated.
        """
        random = np.random.default_rng([seed, self.rows])
        whole, size = self.file, self.rows + round(self.rows / 4)
        if whole is None:
            generated = self._generated(size, random)
            return generated[: self.rows], generated[self.rows :]
        if len(whole) < self.rows:
            whole = _smoothed(whole, size, random)
        low, high = whole.min(axis=0), whole.max(axis=0)
        if self.highest is not None:
            high[-1] = self.highest
        scaled = (whole - low) / np.where(high > low, high - low, 1)
        order = random.permutation(len(scaled))
        return scaled[order[: self.rows]], scaled[order[self.rows :]]

    def _generated(self, size: int, random: np.random.Generator) -> Floats:
        factors, loadings = random.normal(size=(size, 3)), random.normal(size=(3, self.features)) / 2
        alone = 1 / np.sqrt(1 + (loadings**2).sum(axis=0))
        x = ndtr((factors @ loadings + random.normal(size=(size, self.features))) * alone)
        x[:, 1::3] = np.square(np.square(x[:, 1::3]))
        x[:, 2::3] = x[:, 2::3] > 0.5
        linear, noise = x @ random.normal(size=self.features), random.normal(size=size)
        linear = (linear - linear.mean()) / linear.std()
        basis = np.linalg.qr(np.column_stack([np.ones(size), x])[:TUNED])[0]
        low, high = 0.0, 1.0
        for _ in range(12):
            share = (low + high) / 2
            y = self._outcome(math.sqrt(share) * linear[:TUNED] + math.sqrt(1 - share) * noise[:TUNED])
            loss = np.mean(y**2) - np.sum((basis.T @ y) ** 2) / len(y)
            low, high = (share, high) if loss > self.ols else (low, share)
        return np.column_stack([x, self._outcome(math.sqrt(share) * linear + math.sqrt(1 - share) * noise)])

    def _outcome(self, order: Floats) -> Floats:
        """Outcomes with the table's mean and variance, of a beta law, in the order of some numbers."""
        concentration = self.mean * (1 - self.mean) / self.variance - 1
        law = beta(self.mean * concentration, (1 - self.mean) * concentration)
        ranks = (order.argsort().argsort() + 0.5) / len(order)
        levels = np.linspace(0, 1, 4001)
        return np.asarray(np.interp(ranks, levels, law.ppf(levels)), np.float64)


def _smoothed(rows: Floats, size: int, random: np.random.Generator) -> Floats:
    mean = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(rows, rowvar=False))
    noise = random.normal(size=(size, len(mean))) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    picked = rows[random.integers(len(rows), size=size)] - mean
    smoothed = mean + (picked + SMOOTHING * noise) / math.sqrt(1 + SMOOTHING**2)
    found: Floats = np.clip(smoothed, rows.min(axis=0), rows.max(axis=0))
    return found


@lru_cache
def _insurance() -> Floats:
    table = pd.read_csv(FOLDER / "insurance" / "insurance.csv.gz")
    regions = [table["region"] == name for name in sorted(set(table["region"]))]
    columns = [
        table["age"],
        table["sex"] == "female",
        table["bmi"],
        table["children"],
        table["smoker"] == "yes",
        *regions,
    ]
    return np.column_stack([*columns, table["charges"]]).astype(np.float64)


@lru_cache
def _bike() -> Floats:
    table = pd.read_csv(FOLDER / "bike_sharing" / "hour.csv.gz")
    day = pd.to_datetime(table["dteday"]).dt.day
    return np.column_stack([day, table[_BIKE], table["cnt"]]).astype(np.float64)


@lru_cache
def _superconductor() -> Floats:
    folder = FOLDER / "superconductivity_sample"
    parts = [pd.read_csv(folder / f"sample_{size}.csv.gz") for size in (1000, 500)]
    return pd.concat(parts).drop_duplicates().to_numpy(np.float64)


TABLES = (
    PaperTable("Insurance", 1070, 9, 5, 0.21, 0.037, 0.008, (0.0791, 0.0782, 0.0793), _insurance),
    PaperTable("Bike", 13903, 13, 5, 0.19, 0.035, 0.017, (0.0581, 0.0711, 0.0700), _bike),
    PaperTable("Superconductor", 17010, 81, 10, 0.19, 0.034, 0.009, (0.0659, 0.0707, 0.0699), _superconductor, 185.0),
    PaperTable("GPU", 193280, 14, 5, 0.063, 0.012, 0.007, (0.0137, 0.0160, 0.0165)),
    PaperTable("Music Song", 412276, 90, 10, 0.858, 0.015, 0.011, (0.0202, 0.1039, 0.5654)),
)
