"""The tables of `plug_and_play`: names and levels of their columns, as any schema has them, and no bounds.

Numbers stay as they are in the files. Ordered levels become ranks, by the order that their documentation gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from benchmarks.common.files import FOLDER
from dprelease.arrays import Floats
from dprelease.data.column import RawColumn
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn


@dataclass(frozen=True)
class Schema:
    """One table, split by columns.

    Attributes:
        name: for results.
        path: below `FOLDER`.
        parties: institution to its columns; a number has a name only.
        target: the outcome, a number.
        orders: ordered column to its levels, lowest first.
        header: whether the file has one; without, columns are called x0, x1 and so on, and the last one y.
    """

    name: str
    path: str
    parties: Mapping[str, tuple[str | CategoricalColumn, ...]]
    target: str
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    header: bool = True

    @property
    def columns(self) -> tuple[str | CategoricalColumn, ...]:
        """All columns, in the parties' order."""
        return tuple(column for part in self.parties.values() for column in part)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers."""
        return tuple(column for column in self.columns if isinstance(column, str))

    def read(self) -> pd.DataFrame:
        """The columns of the schema; rows with a missing cell are left out."""
        frame = pd.read_csv(FOLDER / self.path, header=0 if self.header else None)
        if not self.header:
            frame.columns = [*(f"x{place}" for place in range(frame.shape[1] - 1)), "y"]
        for name, levels in self.orders.items():
            frame[name] = frame[name].map({level: rank for rank, level in enumerate(levels)})
        return frame[[column if isinstance(column, str) else column.name for column in self.columns]].dropna()

    @property
    def declared(self) -> dict[str, tuple[Column, ...]]:
        """Party to declared columns, numbers without bounds."""
        return {party: tuple(map(_declared, part)) for party, part in self.parties.items()}

    def design(self, frame: pd.DataFrame) -> Floats:
        """(n, d+1) features as numbers, without the first level of a category, and a constant."""
        parts: list[Floats] = [np.ones((len(frame), 1))]
        for column in self.columns:
            if isinstance(column, CategoricalColumn):
                cells = np.array(texts(frame, column.name))
                parts.append(np.column_stack([cells == level for level in _but_one(column)]).astype(np.float64))
            elif column != self.target:
                parts.append(frame[column].to_numpy(np.float64)[:, None])
        return np.hstack(parts)


def _declared(column: str | CategoricalColumn) -> Column:
    if isinstance(column, CategoricalColumn):
        return column
    return NumericColumn.model_validate({"name": column, "bounds": "unknown"})


def _but_one(column: CategoricalColumn) -> tuple[str, ...]:
    return column.levels[1:] if len(column.levels) > 1 else column.levels


def texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Cells as they would be written."""
    return [str(cell) for cell in frame[name]]


def raw(frame: pd.DataFrame, columns: tuple[Column, ...]) -> dict[str, RawColumn]:
    """What a source hands over."""
    return {
        column.name: (
            frame[column.name].to_numpy(np.float64) if isinstance(column, NumericColumn) else texts(frame, column.name)
        )
        for column in columns
    }


def _level(name: str, *levels: str) -> CategoricalColumn:
    return CategoricalColumn(name=name, levels=levels)


SCHEMAS = (
    Schema(
        name="diamonds",
        path="plug_and_play/diamonds.csv.gz",
        parties={
            "laboratory": ("carat", "cut", "color", "clarity"),
            "cutter": ("depth", "table", "x", "y", "z"),
            "dealer": ("price",),
        },
        target="price",
        orders={
            "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
            "color": ("J", "I", "H", "G", "F", "E", "D"),
            "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
        },
    ),
    Schema(
        name="California housing",
        path="plug_and_play/california.csv.gz",
        parties={
            "map": ("longitude", "latitude", "housing_median_age"),
            "census": ("total_rooms", "total_bedrooms", "population", "households"),
            "tax_office": ("median_income", "median_house_value"),
        },
        target="median_house_value",
    ),
    Schema(
        name="CPS 1988",
        path="plug_and_play/cps1988.csv.gz",
        parties={
            "school": ("education", "experience"),
            "registry": (
                _level("ethnicity", "cauc"),
                _level("smsa", "yes"),
                _level("region", "northeast", "midwest", "south", "west"),
            ),
            "employer": (_level("parttime", "yes"), "wage"),
        },
        target="wage",
    ),
    Schema(
        name="bike sharing",
        path="bike_sharing/hour.csv.gz",
        parties={
            "calendar": (
                "season",
                _level("yr", "1"),
                "mnth",
                "hr",
                _level("holiday", "1"),
                "weekday",
                _level("workingday", "1"),
            ),
            "weather": ("weathersit", "temp", "atemp", "hum", "windspeed"),
            "operator": ("cnt",),
        },
        target="cnt",
    ),
    Schema(
        name="Parkinson's telemonitoring",
        path="plug_and_play/parkinsons.csv.gz",
        parties={
            "registry": tuple(f"x{place}" for place in range(7)),
            "clinic": tuple(f"x{place}" for place in range(7, 14)),
            "laboratory": (*(f"x{place}" for place in range(14, 20)), "y"),
        },
        target="y",
        header=False,
    ),
)
"""From the largest to the smallest, but for the third."""
