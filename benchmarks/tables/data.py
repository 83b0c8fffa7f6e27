"""The tables of `tables` as codes: categories as they are, numbers in bands whose cuts were chosen beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from benchmarks.common.files import FOLDER
from dprelease.arrays import Floats, Integers
from dprelease.data.columns import CategoricalColumn, Column

STAYS = 60_000
"""Rows of the table that is made up."""
_ADULT: Mapping[str, tuple[float, ...]] = {
    "age": (20, 23, 26, 29, 32, 35, 38, 41, 45, 49, 54, 60, 67),
    "fnlwgt": (60e3, 100e3, 125e3, 155e3, 180e3, 205e3, 240e3, 300e3, 400e3),
    "capital_gain": (1, 3000, 5000, 7500, 10000, 20000),
    "capital_loss": (1, 1500, 1700, 1900, 2100),
    "hours_per_week": (15, 20, 25, 30, 35, 40, 41, 45, 50, 55, 60),
}
_SUPPORT2: Mapping[str, tuple[float, ...]] = {
    "age": (40, 50, 57, 63, 68, 73, 78, 83),
    "num_co": (1, 2, 3, 4, 5),
    "meanbp": (55, 65, 75, 85, 97, 108, 120),
    "hrt": (65, 77, 90, 101, 112, 122, 135),
    "resp": (12, 18, 22, 26, 30, 36),
    "temp": (36, 36.4, 36.7, 37, 37.6, 38.3, 38.9),
    "crea": (0.7, 0.9, 1.1, 1.4, 1.9, 3),
    "sod": (132, 135, 137, 139, 142),
    "adls": (1, 3, 5),
}


@dataclass(frozen=True, eq=False)
class Coded:
    """A table of categories.

    Attributes:
        name: for results.
        names: (A,) columns.
        sizes: (A,) values of each.
        codes: (n, A) values of all people.
        outcome: place of the binary that models predict.
    """

    name: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Integers
    outcome: int

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Declarations."""
        return tuple(
            CategoricalColumn(name=name, levels=tuple(f"v{at}" for at in range(size)), exhaustive=True, fill="v0")
            for name, size in zip(self.names, self.sizes, strict=True)
        )

    def coded(self, codes: Integers) -> Floats:
        """(n, p) variables of a release: an indicator for each value, or +1 and -1 of two."""
        parts = [
            1.0 - 2.0 * own[:, None] if size == 2 else indicators(own, size)
            for own, size in zip(codes.T, self.sizes, strict=True)
        ]
        return np.hstack(parts)

    def permuted(self, random: np.random.Generator) -> Coded:
        """The same columns, of which none goes with another."""
        codes = np.column_stack([random.permutation(own) for own in self.codes.T])
        return Coded(f"{self.name}, permuted", self.names, self.sizes, codes, self.outcome)


def indicators(own: Integers, size: int) -> Floats:
    """(n, L) one in the column of each value."""
    found = np.zeros((len(own), size))
    found[np.arange(len(own)), own] = 1.0
    return found


def _banded(cells: pd.Series, cuts: tuple[float, ...]) -> Integers:
    values = cells.to_numpy(np.float64)
    found = np.searchsorted(cuts, values, side="right")
    missing = np.isnan(values)
    return np.where(missing, len(cuts) + 1, found) if missing.any() else found


def _table(name: str, path: str, names: tuple[str, ...], cuts: Mapping[str, tuple[float, ...]], outcome: str) -> Coded:
    frame = pd.read_csv(FOLDER / path)
    codes, sizes = [], []
    for column in names:
        if column in cuts:
            own = _banded(frame[column], cuts[column])
            sizes.append(int(own.max()) + 1)
        else:
            levels, own = np.unique(frame[column].fillna("missing").astype(str), return_inverse=True)
            sizes.append(len(levels))
        codes.append(own.astype(np.int64))
    return Coded(name, names, tuple(sizes), np.column_stack(codes), names.index(outcome))


def adult() -> Coded:
    """Census of 1994: 14 columns in 153 values, the income above 50,000 dollars or not."""
    plain = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")
    return _table("Adult", ADULT, (*_ADULT, *plain, "income"), _ADULT, "income")


def support2() -> Coded:
    """Seriously ill patients: 15 columns in about 100 values, and death."""
    plain = ("sex", "dzgroup", "income", "race", "ca")
    return _table("SUPPORT2", SUPPORT2, (*_SUPPORT2, *plain, "death"), _SUPPORT2, "death")


_STAYS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "age": (8, ()),
    "sex": (2, ()),
    "smoking": (3, ("age", "sex")),
    "bmi": (5, ("age", "sex")),
    "diabetes": (3, ("bmi", "age")),
    "comorbidities": (5, ("age", "diabetes", "smoking")),
    "admission": (4, ("age", "comorbidities")),
    "ward": (8, ("admission", "age", "sex")),
    "creatinine": (5, ("comorbidities", "diabetes")),
    "haemoglobin": (5, ("sex", "ward", "comorbidities")),
    "crp": (5, ("admission", "ward")),
    "days": (7, ("ward", "crp", "age")),
    "discharge": (4, ("age", "comorbidities", "days")),
    "readmitted": (2, ("comorbidities", "days", "discharge", "creatinine")),
}
"""Column to its values and to the columns that it depends on."""
DIED = 3
"""A discharge after which nobody comes back."""


def stays() -> Coded:
    """Made-up stays in a hospital: 14 columns in 66 values, and whether the patient comes back.

    A column's log odds are the sum of its own, those of each column it depends on, and those of the first two together.
    """
    random, found = np.random.default_rng(66), dict[str, Integers]()
    for name, (size, parents) in _STAYS.items():
        odds = np.tile(0.7 * random.normal(size=size), (STAYS, 1))
        for parent in parents:
            odds += 0.6 * random.normal(size=(_STAYS[parent][0], size))[found[parent]]
        if len(parents) > 1:
            first, second = parents[:2]
            both = 0.3 * random.normal(size=(_STAYS[first][0], _STAYS[second][0], size))
            odds += both[found[first], found[second]]
        found[name] = (odds + random.gumbel(size=odds.shape)).argmax(axis=1)
    found["readmitted"][found["discharge"] == DIED] = 0
    sizes = tuple(size for size, _ in _STAYS.values())
    return Coded("Stays", tuple(_STAYS), sizes, np.column_stack([found[name] for name in _STAYS]), len(_STAYS) - 1)


ADULT, SUPPORT2 = "adult/adult.csv.gz", "survival/support2.csv.gz"
SOURCES: Mapping[str, tuple[str | None, Callable[[], Coded]]] = {
    "Adult": (ADULT, adult),
    "SUPPORT2": (SUPPORT2, support2),
    "Stays": (None, stays),
}
"""Name to file, below `FOLDER`, or to none where the table is made up, and what reads it."""
