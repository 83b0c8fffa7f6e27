"""Exports of three hospitals, written as such systems write them, of the NHEFS table; and the rows that are to be read in them.

Each has seven of eight patients, and no two lack the same ones. Each writes identifiers, missing cells, numbers and repeated
rows in its own way, with dates and bands that follow from the table's ages and years.
"""

import csv
import gzip
import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.end_to_end.hospitals import Hospital

TABLE = (
    Path(os.environ.get("DPRELEASE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    / "nhefs/nhefs.csv.gz"
)
FIRST = 4_700_000
"""Identifiers are long enough for the audit to look for them."""
REMARK = "kommt-wieder"
NAMES = ("clinic", "ward", "registry")
Row = dict[str, str]
Cell = float | str | None


def patients() -> dict[int, Row]:
    """Number of a patient to its cells; skips the test where the table is not at hand."""
    if not TABLE.exists():
        pytest.skip(f"the NHEFS table is not at hand: {TABLE}; DPRELEASE_DATA names another folder of tables")
    with gzip.open(TABLE, "rt", newline="") as file:
        return dict(enumerate(csv.DictReader(file), 1))


def has(name: str, number: int) -> bool:
    """Whether a hospital has this patient."""
    return number % 8 != NAMES.index(name)


def write_export(name: str, folder: Path) -> None:
    """A hospital's file, in an order of its own."""
    header, rows = {
        "clinic": (["Patient-Nr", "Geboren", "Untersucht", "Größe (cm)", "Gewicht", "Bemerkung"], _clinic),
        "ward": (["Fallnummer", "Raucherjahre", "Zigaretten je Tag", "Aufgehört", "Bemerkung"], _ward),
        "registry": (["ID", "Geschlecht", "Blutdruck", "Gewicht 1982", "Bemerkung"], _registry),
    }[name]
    found = [line for number, row in patients().items() if has(name, number) for line in rows(number, row)]
    Random(NAMES.index(name)).shuffle(found)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "export.csv").open("w", encoding="cp1252" if name == "clinic" else "utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\n")
        writer.writerows([header, *([*line, REMARK] for line in found)])


def _clinic(number: int, row: Row) -> Iterator[list[str]]:
    """Numbers with zeros before them, dates, and of one in five patients an earlier examination."""
    seen, born = _dates(number, row)
    height = _comma(row["ht"], 1) if number % 23 else ("k.A." if number % 2 else "")
    weight = _comma(row["wt71"], 1) + (" kg" if number % 9 == 0 else "")
    yield [f"{FIRST + number:010d}", f"{born:%d.%m.%Y}", f"{seen:%d.%m.%Y}", height, weight]
    if number % 5 == 0:
        earlier = seen - timedelta(days=200)
        yield [
            f"{FIRST + number:010d}",
            f"{born:%d.%m.%Y}",
            f"{earlier:%d.%m.%Y}",
            "",
            _comma(float(row["wt71"]) + 7, 1),
        ]


def _ward(number: int, row: Row) -> Iterator[list[str]]:
    """Numbers as a spreadsheet writes them, ten-year bands, and of one in four patients two counts of cigarettes."""
    low = int(row["smokeyrs"]) // 10 * 10
    smoked = int(row["smokeintensity"])
    for change in (-1, 1) if number % 4 == 0 else (0,):
        cigarettes = "?" if number % 31 == 0 else str(smoked + change)
        yield [f"{FIRST + number}.0", f"[{low}-{low + 10})", cigarettes, " ja " if row["qsmk"] == "1" else "nein"]


def _registry(number: int, row: Row) -> Iterator[list[str]]:
    """Plain numbers between blanks."""
    pressure = row["sbp"] or ("unbekannt" if number % 2 else " ")
    yield [
        f" {FIRST + number} ",
        "w" if row["sex"] == "1" else "m",
        pressure,
        _comma(row["wt82"], 2) if row["wt82"] else "",
    ]


def _dates(number: int, row: Row) -> tuple[date, date]:
    """Days of an examination and of a birth so many whole years before it."""
    seen = date(1971, 1 + number % 12, 1 + number % 28)
    return seen, seen.replace(year=seen.year - int(row["age"])) - timedelta(days=number % 300)


def _comma(value: str | float, digits: int) -> str:
    return f"{float(value):.{digits}f}".replace(".", ",")


def rows_of_all() -> list[Hospital]:
    """What the hospitals declare of the patients whom all of them have, as it would stand in clean tables."""
    found: dict[str, dict[str, list[Cell]]] = {name: {} for name in NAMES}
    for number, row in patients().items():
        if all(has(name, number) for name in NAMES):
            for name, cells in _read(number, row).items():
                for column, cell in cells.items():
                    found[name].setdefault(column, []).append(cell)
    return [Hospital(name, {}, {column: [*cells] for column, cells in found[name].items()}) for name in NAMES]


def _read(number: int, row: Row) -> dict[str, dict[str, Cell]]:
    def rounded(cell: str, digits: int) -> float:
        return float(f"{float(cell):.{digits}f}") if cell else np.nan

    return {
        "clinic": {
            "height": rounded(row["ht"], 1) if number % 23 else np.nan,
            "weight": rounded(row["wt71"], 1),
            "age": float(row["age"]),
        },
        "ward": {
            "smoke_years": int(row["smokeyrs"]) // 10 * 10 + 5.0,
            "cigarettes": float(row["smokeintensity"]) if number % 31 else np.nan,
            "quit": "ja" if row["qsmk"] == "1" else "nein",
        },
        "registry": {
            "sex": "w" if row["sex"] == "1" else "m",
            "systolic": rounded(row["sbp"], 0),
            "weight_1982": rounded(row["wt82"], 2),
        },
    }
