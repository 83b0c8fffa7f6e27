"""The regression tables of `accuracy`: what three institutions would declare about their columns, and how to read the files.

Bounds are round numbers of the kind that a codebook or common knowledge gives (ages 18 to 65, a share of 0 to 100 %). None
is computed from a table's own extremes; the tables' documentation was at hand, though, so few cells lie outside, and the
results say which part does. Missing cells become the declared fill. Tables of genotypes have no outcome and the panels for
synthetic control have no patients; they are left out. Of the 82 columns of the superconductivity sample (n = 1,000) twelve
are declared: the noise grows with the number of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks.common.files import FOLDER
from demo.redbook import BOUNDS, INSTITUTIONS, survey
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, Column, Number, NumericColumn


@dataclass(frozen=True)
class Table:
    """One table, split by columns.

    Attributes:
        name: for results.
        path: below `FOLDER`; None for the demo's survey, which comes with statsmodels.
        parties: institution to the columns it declares.
        targets: the usual outcomes; every other column is a feature.
    """

    name: str
    path: str | None
    parties: Mapping[str, tuple[Column, ...]]
    targets: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All declared columns, in the parties' order."""
        return tuple(column for part in self.parties.values() for column in part)

    def wider(self, times: int) -> Table:
        """The table with upper bounds so far from the lower ones that every number's bounds are so many times as wide."""

        def wide(column: Column) -> Column:
            if not isinstance(column, NumericColumn):
                return column
            upper = column.lower + times * (column.upper - column.lower)
            return NumericColumn(name=column.name, lower=column.lower, upper=upper, fill=column.fill)

        return replace(self, parties={party: tuple(map(wide, columns)) for party, columns in self.parties.items()})

    def read(self) -> pd.DataFrame:
        """The table as it is."""
        return survey() if self.path is None else pd.read_csv(FOLDER / self.path, na_values=["."])


def scaled(column: Column | Number, cells: pd.Series[float] | pd.Series[str]) -> Floats:
    """(n, r) released columns that a declared one becomes, in scaled units and not yet clipped."""
    if isinstance(column, Number):
        values = pd.to_numeric(cells, errors="coerce").fillna(column.fill_value).to_numpy(np.float64)
        return ((values - column.midpoint) / column.half_width)[:, None]
    found = cells.map(lambda cell: f"{cell:g}" if isinstance(cell, float) else str(cell).strip())
    levels: Floats = np.column_stack([found == level for level in column.levels]).astype(np.float64)
    return np.column_stack([levels, 1 - levels.sum(axis=1)])


def _number(name: str, lower: float, upper: float, fill: float | None = None) -> NumericColumn:
    return NumericColumn(name=name, lower=lower, upper=upper, fill=(lower + upper) / 2 if fill is None else fill)


def _level(name: str, *levels: str) -> CategoricalColumn:
    return CategoricalColumn(name=name, levels=levels)


TABLES = (
    Table(
        name="bike sharing",
        path="bike_sharing/hour.csv.gz",
        parties={
            "calendar": (
                _number("season", 1, 4),
                _level("yr", "1"),
                _number("mnth", 1, 12),
                _number("hr", 0, 23),
                _level("holiday", "1"),
                _number("weekday", 0, 6),
                _level("workingday", "1"),
            ),
            "weather": (
                _number("weathersit", 1, 4),
                _number("temp", 0, 1),
                _number("atemp", 0, 1),
                _number("hum", 0, 1),
                _number("windspeed", 0, 1),
            ),
            "operator": (_number("cnt", 0, 1000),),
        },
        targets=("cnt", "hum"),
    ),
    Table(
        name="doctor contacts",
        path="rand_hie/doctor_contacts.csv.gz",
        parties={
            "insurer": (_number("lc", 0, 5), _level("idp", "True"), _number("lpi", 0, 8), _number("fmde", 0, 9)),
            "clinic": (
                _number("mdu", 0, 50),
                _level("physlim", "True"),
                _number("ndisease", 0, 60),
                _level("health", "excellent", "good", "fair", "poor"),
            ),
            "registry": (
                _number("linc", 0, 11),
                _number("lfam", 0, 3),
                _number("educdec", 0, 25),
                _number("age", 0, 65),
                _level("sex", "male"),
                _level("child", "True"),
                _level("black", "True"),
            ),
        },
        targets=("mdu", "ndisease"),
    ),
    Table(
        name="redbook",
        path=None,
        parties={
            name: tuple(_number(column, *BOUNDS[column][:2]) for column in columns)
            for name, columns in INSTITUTIONS.items()
        },
        targets=("yrs_married", "children", "affairs"),
    ),
    Table(
        name="nhefs",
        path="nhefs/nhefs.csv.gz",
        parties={
            "registry": (
                _level("sex", "1"),
                _number("age", 25, 75),
                _level("race", "1"),
                _number("school", 0, 17),
                _number("income", 11, 22),
            ),
            "clinic": (
                _number("ht", 140, 200),
                _number("wt71", 35, 150),
                _number("wt82", 35, 150, 75),
                _number("sbp", 80, 220, 130),
                _number("dbp", 40, 130, 80),
                _number("cholesterol", 100, 400, 220),
            ),
            "survey": (
                _level("qsmk", "1"),
                _number("smokeintensity", 0, 80),
                _number("smokeyrs", 0, 60),
                _number("exercise", 0, 2),
            ),
        },
        targets=("wt82", "sbp"),
    ),
    Table(
        name="insurance",
        path="insurance/insurance.csv.gz",
        parties={
            "registry": (
                _number("age", 18, 65),
                _level("sex", "male"),
                _number("children", 0, 6),
                _level("region", "northeast", "northwest", "southeast", "southwest"),
            ),
            "clinic": (_number("bmi", 15, 55), _level("smoker", "yes")),
            "insurer": (_number("charges", 0, 65_000),),
        },
        targets=("charges",),
    ),
    Table(
        name="superconductivity",
        path="superconductivity_sample/sample_1000.csv.gz",
        parties={
            "composition": (
                _number("number_of_elements", 1, 10),
                _number("wtd_mean_atomic_mass", 0, 210),
                _number("wtd_entropy_atomic_mass", 0, 2),
                _number("range_atomic_radius", 0, 260),
                _number("wtd_mean_Density", 0, 23_000),
            ),
            "electrons": (
                _number("wtd_mean_fie", 500, 1300),
                _number("wtd_mean_ElectronAffinity", 0, 350),
                _number("wtd_mean_Valence", 1, 7),
                _number("wtd_entropy_Valence", 0, 2),
            ),
            "laboratory": (
                _number("wtd_mean_ThermalConductivity", 0, 430),
                _number("wtd_std_ThermalConductivity", 0, 220),
                _number("critical_temp", 0, 150),
            ),
        },
        targets=("critical_temp",),
    ),
    Table(
        name="periodontal trial",
        path="opt_trial/opt.csv.gz",
        parties={
            "obstetrics": (
                _number("Age", 15, 45),
                _level("Black", "Yes"),
                _number("BMI", 15, 60, 27),
                _level("Hypertension", "Y"),
                _level("Use.Tob", "Yes"),
                _level("Prev.preg", "Yes"),
            ),
            "dental": (
                _level("Group", "T"),
                _number("BL.GE", 0, 3),
                _number("BL..BOP", 0, 100),
                _number("BL.PD.avg", 1, 7),
                _number("BL.CAL.avg", 0, 5),
                _number("BL.Pl.I", 0, 3),
            ),
            "maternity": (_number("GA.at.outcome", 140, 310), _number("Birthweight", 0, 5500, 3300)),
        },
        targets=("Birthweight",),
    ),
)
"""From the largest to the smallest."""
