"""Rows in a database: the same bytes as from a file, whatever types a database gives the cells."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from party_node.settings import PartySettings
from party_node.source.cells import read_cells
from party_node.source.reader import record_batches
from party_node.source.scan import BoundedTable, scan
from tests.party_node.tables import GRID_BITS, KEY, csv
from tests.support.databases import Rows, postgres_table, sqlite_table
from tests.support.postgres import Cluster

ROWS = 3000
"""More than one batch of the driver's, of which a column is empty in the first."""

COLUMNS: dict[str, dict[str, Any]] = {
    "x": {"kind": "numeric", "lower": -100, "upper": 100},
    "n": {"kind": "numeric", "lower": 0, "upper": 50},
    "late": {"kind": "numeric", "lower": 0, "upper": 10},
    "cost": {"kind": "numeric", "lower": 0, "upper": 1000},
    "c": {"kind": "categorical", "levels": ["ünder", 'o"ver']},
    "came": {"kind": "date"},
    "went": {"kind": "date"},
    "stay": {"derived": {"days": ["came", "went"]}, "lower": 0, "upper": 90},
}


def rows() -> list[tuple[object, ...]]:
    random = np.random.default_rng(5)
    found: list[tuple[object, ...]] = []
    for i in range(ROWS):
        x = float(random.normal(0, 40)) if random.random() < 0.9 else None
        n = int(random.integers(0, 60)) if random.random() < 0.9 else None
        late = float(random.random() * 9) if i > ROWS - 50 else None
        cost = f"{random.random() * 1100:.2f}" if random.random() < 0.9 else None
        c = [None, "ünder", 'o"ver', "it's", " ünder "][int(random.integers(5))]
        came, went = f"2020-03-{1 + i % 28:02}", f"2020-0{4 + i % 3}-11" if i % 7 else None
        found.append((f"s-{i:05}", x, n, late, cost, c, came, went, 1 + i // 1000))
    return [found[place] for place in random.permutation(ROWS)]


NAMES = ("id", "x", "n", "late", "cost", "c", "came", "went", "month")
TYPES = (
    "id text, x float8, n int2, late real, cost numeric(9,2), c varchar(20), came date, went timestamp, month bigint"
)


def settings(folder: Path, columns: dict[str, dict[str, Any]] | None = None, **source: Any) -> PartySettings:
    return PartySettings.model_validate(
        {
            "name": "north",
            "roster": "cohort",
            "state": folder / "state",
            "source": {"subject": "id", **source},
            "columns": columns or COLUMNS,
        }
    )


def read(described: PartySettings) -> BoundedTable:
    return scan(described, KEY, described.declarations(), GRID_BITS).table()


def same(one: BoundedTable, other: BoundedTable) -> bool:
    return (one.bounded.digest(), one.alignment.digest, one.findings, one.batches) == (
        other.bounded.digest(),
        other.alignment.digest,
        other.findings,
        other.batches,
    )


@pytest.fixture(scope="module")
def cells() -> list[tuple[object, ...]]:
    """Numbers of single precision have the decimals that tell them apart, as every export of them."""
    return [
        tuple(float(str(np.float32(cell))) if at == 3 and cell else cell for at, cell in enumerate(row))
        for row in rows()
    ]


@pytest.fixture(scope="module")
def on_postgres(postgres: Cluster, cells: Rows) -> dict[str, str]:
    url = postgres.database()
    postgres_table(url, "patients", TYPES, cells)
    return postgres.source(url)


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory, cells: Rows) -> dict[str, str]:
    path = tmp_path_factory.mktemp("databases") / "a b?.sqlite"
    return {"url": sqlite_table(path, "patients", ", ".join(NAMES), cells)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, cells: Rows) -> Path:
    """The table as CSV."""
    columns = [pa.array(list(column)) for column in zip(*cells, strict=True)]
    path = tmp_path_factory.mktemp("files") / "rows.csv"
    pa.csv.write_csv(pa.table(columns, names=list(NAMES)), path)
    return path


@pytest.fixture(params=["on_postgres", "on_sqlite"])
def place(request: pytest.FixtureRequest) -> dict[str, str]:
    found: dict[str, str] = request.getfixturevalue(request.param)
    return found


def test_equal_tables_give_equal_bytes(tmp_path: Path, written: Path, place: dict[str, str]) -> None:
    of_file = read(settings(tmp_path, path=written, batch="month"))
    assert of_file.findings["stay"].missing > 0 < of_file.findings["n"].outside
    assert [batch.rows for batch in of_file.batches] == [1000, 1000, 1000]
    assert same(read(settings(tmp_path, **place, table="patients", batch="month")), of_file)
    query = "SELECT *, 1 AS more FROM patients ORDER BY x -- as exported\n;"
    assert same(read(settings(tmp_path, **place, query=query, batch="month")), of_file)


NUMBER = {"x": {"kind": "numeric", "lower": -1, "upper": 1e9}}
LEVELS = {"x": {"kind": "categorical", "levels": ["true", "4", "[1]"]}}


@pytest.mark.parametrize(
    ("cell", "columns", "text"),
    [
        ("0.1::float8 + 0.2::float8", NUMBER, "0.30000000000000004"),
        ("12345678.9::numeric", NUMBER, "12345678.9"),
        ("'NaN'::numeric", NUMBER, ""),
        ("true", NUMBER, "1"),
        ("true", LEVELS, "true"),
        ("4::smallint", LEVELS, "4"),
        ("'[1]'::jsonb", LEVELS, "[1]"),
        ("'4'::char(9)", LEVELS, "4"),
    ],
)
def test_types_of_postgresql(
    tmp_path: Path, on_postgres: dict[str, str], cell: str, columns: dict[str, dict[str, Any]], text: str
) -> None:
    query = f"SELECT 'f4ab8b22-7cdc-4adb-8d94-3aa6f2d7e8b5'::uuid AS id, {cell} AS x"
    found = read(settings(tmp_path, columns, **on_postgres, query=query))
    path = csv(tmp_path, f"id,x\nf4ab8b22-7cdc-4adb-8d94-3aa6f2d7e8b5,{text}\n")
    assert same(found, read(settings(tmp_path, columns, path=path)))


def test_numbers_of_sqlite_to_the_last_bit(tmp_path: Path) -> None:
    """Also of columns that hold numbers and words."""
    random = np.random.default_rng(3)
    values = [float(each) for each in random.normal(0, 10.0 ** random.integers(-8, 9, 400))]
    table = [(f"s-{place}", value if place % 9 else "NA") for place, value in enumerate(values)]
    url = sqlite_table(tmp_path / "rows.sqlite", "t", "id, x", table)
    path = csv(
        tmp_path, "id,x\n" + "".join(f"{name},{cell!r}\n" if cell != "NA" else f"{name},NA\n" for name, cell in table)
    )
    found = []
    for source in ({"url": url, "table": "t"}, {"path": path}):
        described = settings(tmp_path, NUMBER, **source)
        batches = record_batches(described.source, ["x"])
        declared = described.declared["x"]
        found.append(np.concatenate([read_cells(each["x"], declared, described.source).values for each in batches]))
    assert np.array_equal(*found, equal_nan=True)
    assert set(values) >= set(found[0][~np.isnan(found[0])])


@pytest.mark.parametrize("rows", ["first", "last"])
def test_of_rows_on_one_day_the_order_in_which_a_database_gives_them_decides_nothing(tmp_path: Path, rows: str) -> None:
    columns = {
        "x": {"kind": "numeric", "lower": -2, "upper": 2},
        "early": {"kind": "numeric", "from": "x", "lower": -2, "upper": 2, "aggregate": "first"},
        "c": {"kind": "categorical", "levels": ["u", "v"], "aggregate": "last"},
        "came": {"kind": "date"},
    }
    days = ["2020-01-05", "2020-01-05", None, "2019-12-31"]
    visits = [(f"s-{i % 11}", [None, "?", 1.5, -1.0][i % 4], "uvw"[i % 3], days[i % 5 % 4]) for i in range(90)]
    random, found = np.random.default_rng(2), set()
    for number in range(5):
        url = sqlite_table(
            tmp_path / f"{number}.sqlite", "visits", "id, x, c, came", random.permutation(visits).tolist()
        )
        table = read(settings(tmp_path, columns, url=url, table="visits", rows=rows, by="came"))
        assert table.alignment.rows == 11
        found.add(table.bounded.digest())
    assert len(found) == 1
