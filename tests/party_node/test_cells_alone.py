"""One patient's cells never change how another's are read: tables of all settings, before and after one patient changed."""

import csv
import itertools
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from party_node.declarations.declarations import Reading
from party_node.settings import PartySettings
from party_node.source.cells import NumberStyle, read_numbers
from party_node.source.scan import scan
from tests.party_node.tables import GRID_BITS, KEY, codes_by_subject, parquet
from tests.party_node.test_source_sql import settings

PATIENTS = [f"p{number}" for number in range(10)]
SUFFIXES = ["kg", "%", "m", "e", "E", "x10^9/l", "mm[Hg]", "e9/l", "+", "-", " to 9", ")"]
FORMATS = ["%Y-%m-%d", "%d.%m.%Y", "%-d.%-m.%Y", "%m/%d/%Y", "%Y/%m/%d %H:%M:%S", "am %d. %m. %Y %%"]
WORDS = ["", "NA", "k.A.", "?", ".", "-9", "999", "1e3", "unknown", "2020-01-01", "0"]
TOKENS = (
    *"0123456789.,eE+-'%<>()[]; \t\n\"",
    *(
        "1e999",
        "-1e999",
        "inf",
        "nan",
        "NaN",
        "Infinity",
        "0x1",
        "1_0",
        "1.234",
        "1,5",
        "to",
        "kg",
        "e9",
        "e9/l",
        "am ",
    ),
    *("\u2013", "\u2264", "\u2265", "\u00a0", "\u2009", "\u202f", "\u3000", "\ufeff", "\u0663", "\uff13", "\u00b2"),
    *("NA", "k.A.", "2020-02-30", "29.02.2020", "99999999999999999999", "yes", "Y", "no", "other", "true", "'", '""'),
)

Cell = str | float | None


def number_rules(choose: random.Random, decimal: str) -> dict[str, Any]:
    """A random declaration of a number."""
    rules: dict[str, Any] = {"kind": "numeric", "lower": -100, "upper": 1000, "fill": 7}
    own = choose.choice([None, ".", ","])
    rules |= {} if own is None else {"decimal": own}
    rules["thousands"] = choose.choice([mark for mark in ("", "", ".", ",", " ", "'") if mark != (own or decimal)])
    rules["suffix"] = choose.sample(SUFFIXES, choose.randint(0, 3))
    rules["bands"] = choose.random() < 0.4
    return rules | {"missing": choose.sample(WORDS, choose.randint(0, 2))}


def described(choose: random.Random, folder: Path, **place: Any) -> PartySettings:
    """Random settings: numbers, dates and categories, and what is derived of them."""
    decimal = choose.choice([".", ","])
    columns: dict[str, dict[str, Any]] = {}
    for number in range(14):
        columns[f"n{number}"] = number_rules(choose, decimal)
    for number in range(4):
        columns[f"d{number}"] = {"kind": "date", "format": choose.choice(FORMATS), "missing": choose.sample(WORDS, 1)}
        columns[f"days{number}"] = {"derived": {"days": ["2020-01-01", f"d{number}"]}, "lower": -9999, "upper": 9999}
    for number in range(4):
        levels = {"kind": "categorical", "levels": ["yes", "no"], "spellings": {"yes": ["Y", "1", "1,5"], "no": ["N"]}}
        columns[f"c{number}"] = levels | {
            "fill": "no",
            "exhaustive": number % 2 == 1,
            "missing": choose.sample(["?", "-9"], 1),
        }
    for number in range(3):
        columns[f"gone{number}"] = {"derived": {"missing": f"n{number}"}}
        columns[f"square{number}"] = {"derived": {"square": f"n{number}"}}
        columns[f"band{number}"] = {"derived": {"bands": f"n{number}", "at": [0, 7.2, 99]}, "fill": "< 0"}
        time = {"exit": ["d0", "d1", f"c{number}"], "events": ["yes"], "unit": "days", "at": [1, 99], "missing": True}
        columns[f"code{number}"] = {"kind": "code"}
        columns[f"head{number}"] = {"derived": {"category": f"code{number}", "prefix": 2, "levels": ["E1", "70"]}}
        columns[f"exit{number}"] = {"derived": time}
    missing = choose.sample(WORDS, choose.randint(0, 4))
    return settings(folder, columns, decimal=decimal, thousands="", missing=missing, **place)


def soup(choose: random.Random) -> str:
    return "".join(choose.choices(TOKENS, k=choose.randint(0, 6)))


def plain(choose: random.Random) -> str:
    return choose.choice(["7", "7.2", "7,2", "-0.5", "12", "1e2", ".5", "3.", "+4", "7.2e9", "1.234"])


KINDS: list[Callable[[random.Random], str]] = [
    plain,
    lambda choose: str(choose.randint(-9, 999)),
    lambda choose: f"{choose.uniform(-9, 99):.2f}",
    lambda choose: f"{choose.uniform(-9, 99):.2f}".replace(".", ","),
    lambda choose: plain(choose) + choose.choice(["", " "]) + choose.choice(SUFFIXES),
    lambda choose: choose.choice(["70-80", "[70-80)", "80+", "<18", "(1,5; 2]", "5 to 9", "75"]),
    lambda choose: f"20{choose.randint(10, 40)}-0{choose.randint(1, 9)}-1{choose.randint(0, 9)}",
    lambda choose: f"1{choose.randint(0, 9)}.0{choose.randint(1, 9)}.2020",
    lambda choose: choose.choice(["yes", "no", "Y", "N", "other", "1"]),
    lambda choose: choose.choice(WORDS),
    soup,
]


def cells_of(choose: random.Random, count: int) -> list[str]:
    """Cells of a column that are mostly of one kind, as in an export."""
    kind = choose.choice(KINDS)
    rare = choose.choice([0, 0, 0.2])
    return [soup(choose) if choose.random() < rare else kind(choose) for _ in range(count)]


Rows = dict[str, list[Cell]]


def written_csv(path: Path, rows: Rows, choose: random.Random) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=choose.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        writer.writerow(["id", *rows])
        writer.writerows(zip(PATIENTS, *rows.values(), strict=True))


def written_parquet(path: Path, rows: Rows, choose: random.Random) -> None:
    size, dictionary = choose.choice([1, 4, 10]), choose.random() < 0.5
    parquet(path.parent, {"id": PATIENTS} | rows, path.name, row_group_size=size, use_dictionary=dictionary)


def written_sqlite(path: Path, rows: Rows, choose: random.Random) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t (id, {', '.join(rows)})")
        holes = ", ".join("?" * (len(rows) + 1))
        connection.executemany(f"INSERT INTO t VALUES ({holes})", zip(PATIENTS, *rows.values(), strict=True))  # noqa: S608


PLACES = {
    "csv": (written_csv, lambda path: {"path": path}),
    "parquet": (written_parquet, lambda path: {"path": path}),
    "sqlite": (written_sqlite, lambda path: {"url": f"sqlite:///{path}", "table": "t"}),
}


def codes(at: PartySettings) -> dict[str, list[int]]:
    return codes_by_subject(scan(at, KEY, at.declarations(), GRID_BITS).table(), PATIENTS)


def disagreements(folder: Path, kind: str, seed: int, tables: int) -> tuple[int, int]:
    """How many cells of patients that did not change got other codes, and how many columns of one table were compared."""
    choose = random.Random(f"{kind} {seed}")
    write, place = PLACES[kind]
    path = folder / f"rows.{kind}"
    found = compared = 0
    for number in range(tables):
        if number % 5 == 0:
            at = described(choose, folder, **place(path))
            read = [name for name, each in at.declared.items() if each.read_from is not None]
        rows: Rows = {name: list(cells_of(choose, len(PATIENTS))) for name in read}
        if kind == "sqlite":  # which has numbers beside texts, and nothing
            rows = {name: [choose.choice([each, each, 7, 0.1, None]) for each in cells] for name, cells in rows.items()}
        write(path, rows, choose)
        before = codes(at)
        changed = choose.randrange(len(PATIENTS))
        for cells in rows.values():
            cells[changed] = choose.choice([soup, soup, *KINDS])(choose)
        write(path, rows, choose)
        after = codes(at)
        others = [name for place, name in enumerate(PATIENTS) if place != changed]
        found += sum(int(np.sum(np.array(before[name]) != after[name])) for name in others)
        compared += len(read)
    return found, compared


@pytest.mark.parametrize("kind", PLACES)
def test_a_patients_cells_change_no_other_code(tmp_path: Path, kind: str) -> None:
    found, compared = disagreements(tmp_path, kind, 0, 10)
    assert found == 0
    assert compared == 10 * 25


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("kind", PLACES)
def test_a_patients_cells_change_no_other_code_of_a_million_cells(tmp_path: Path, kind: str, seed: int) -> None:
    tables = 10**6 // (12 * 25 * len(PATIENTS)) + 1
    assert disagreements(tmp_path, kind, seed, tables) == (0, tables * 25)


@cache
def taken_alone(text: str, decimal: str) -> float:
    """The finite number that Arrow takes a text for; NaN where it takes it for none."""
    try:
        number = pa.array([text.replace(decimal, ".")]).cast(pa.float64())[0].as_py()
    except pa.ArrowInvalid:
        return np.nan
    return number if np.isfinite(number) and (decimal == "." or "." not in text) else np.nan


STYLES = [
    NumberStyle(),
    NumberStyle(decimal=","),
    NumberStyle(thousands=",", suffixes=("e1", "1"), ends=(0, 9)),
    NumberStyle(decimal=",", thousands=".", suffixes=("e1", "1", ".", "n"), ends=(0, 9)),
]


@pytest.mark.parametrize("style", STYLES)
def test_what_arrow_takes_for_a_number_is_the_same_number_beside_texts_that_it_does_not_take(
    style: NumberStyle,
) -> None:
    """Also with suffixes that no declaration may have."""
    texts = ["".join(each) for size in range(7) for each in itertools.product("1.,e-", repeat=size)]
    texts += ["".join(each) for size in range(4) for each in itertools.product("0.e+ infaxEpd_\t\0", repeat=size)]
    texts += ["inf", "-inf", "nan", "NaN(1)", "infinity", "+Infinity", "1e999", "9" * 400]
    together, _ = read_numbers(pa.array([*texts, "no number"]), style, ())
    alone = {text: number for text in texts if not np.isnan(number := taken_alone(text, style.decimal))}
    assert len(alone) > 100
    assert {text: together[place] for place, text in enumerate(texts) if text in alone} == alone


@pytest.mark.parametrize("suffix", ["e9", "E+3", "e-3", "0", "000", ".000", "1e3", ".", ",5", " 9", "'000"])
def test_a_suffix_that_continues_a_number_is_refused(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ValueError, match=r"suffix: .* behind a number makes another number; leave it out"):
        settings(
            tmp_path,
            {"x": {"kind": "numeric", "lower": 0, "upper": 1, "suffix": ["kg", suffix]}},
            path=tmp_path / "rows.csv",
        )


def test_a_suffix_with_digits_that_is_a_unit_is_taken(tmp_path: Path) -> None:
    assert Reading.model_validate({"suffix": SUFFIXES}).suffix == tuple(SUFFIXES)
    units = ["x10^9/l", "e9/l", "m2", "g/24h", "%"]
    settings(tmp_path, {"x": {"kind": "numeric", "lower": 0, "upper": 1, "suffix": units}}, path=tmp_path / "rows.csv")
