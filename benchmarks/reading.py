"""Reading a CSV file of a million patients and twenty columns: our cells beside what Arrow makes of the same file by itself."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.common.report import Results, main
from party_node.settings import PartySettings
from party_node.source.cells import read_cells
from party_node.source.reader import record_batches
from party_node.source.scan import scan
from party_node.source.table import identifiers_in

NUMBERS = [f"x{place}" for place in range(14)]
LEVELS = {"sex": ["female", "male"], "smoker": ["never", "former", "current"], "stage": ["I", "II", "III"]}
DATES = ["born", "admitted"]
GRID_BITS = 16


def table(rows: int) -> pa.Table:
    """Identifiers, 14 numbers of four digits behind the point, three categories and two dates; one cell of a hundred is empty."""
    generator = np.random.default_rng(7)
    columns: dict[str, Any] = {"id": generator.permutation(rows) + 1}
    for name in NUMBERS:
        empty = generator.random(rows) < 0.01
        columns[name] = pa.array(np.round(generator.normal(50, 20, rows), 4), mask=empty)
    for name, levels in LEVELS.items():
        columns[name] = pa.array(generator.choice([*levels, ""], rows))
    for name in DATES:
        columns[name] = pa.array(generator.integers(0, 18_000, rows).astype("datetime64[D]"))
    return pa.table(columns)


def described(path: Path, messy: bool) -> PartySettings:
    """Settings of either way in which the table is written."""
    columns: dict[str, dict[str, Any]] = {name: {"kind": "numeric", "lower": -100, "upper": 200} for name in NUMBERS}
    columns |= {name: {"kind": "categorical", "levels": levels} for name, levels in LEVELS.items()}
    columns |= {name: {"kind": "date"} | ({"format": "%d.%m.%Y"} if messy else {}) for name in DATES}
    columns["age"] = {"derived": {"age": DATES}, "lower": 0, "upper": 120}
    style = {"delimiter": ";", "decimal": ",", "encoding": "latin-1"} if messy else {}
    return PartySettings.model_validate(
        {
            "name": "clinic",
            "roster": "cohort",
            "source": {"path": path, "subject": "id", "rows": "one", **style},
            "columns": columns,
        }
    )


def write(rows: pa.Table, path: Path, messy: bool) -> None:
    """Write the table, plain or with semicolons, decimal commas and days first."""
    if messy:
        for name in NUMBERS:
            column = pc.replace_substring(rows[name].cast(pa.string()), ".", ",")
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        for name in DATES:
            rows = rows.set_column(
                rows.schema.get_field_index(name), name, pc.strftime(rows[name].cast(pa.timestamp("s")), "%d.%m.%Y")
            )
    quoting = "none" if messy else "needed"
    options = pa.csv.WriteOptions(delimiter=";" if messy else ",", quoting_style=quoting)
    pa.csv.write_csv(rows, path, options)


def run(quick: bool) -> Results:
    """Reading of 1e6 patients x 20 columns of CSV: seconds, beside those of pyarrow.csv.read_csv in the same run."""
    results = Results()
    rows = 100_000 if quick else 1_000_000
    made = table(rows)
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        for messy in (False, True):
            path = Path(folder) / f"{messy}.csv"
            write(made, path, messy)
            name = f"{rows:,} x 20, {'`;`, decimal commas, days first, latin-1' if messy else 'plain'}"
            _compare(results, name, described(path, messy), messy)
    return results


def _compare(results: Results, name: str, settings: PartySettings, messy: bool) -> None:
    parsing = pa.csv.ParseOptions(delimiter=settings.source.delimiter)
    converting = pa.csv.ConvertOptions(decimal_point=settings.source.decimal)
    reading = pa.csv.ReadOptions(encoding=settings.source.encoding)
    path = settings.source.path
    assert path is not None  # noqa: S101 - as it is described
    theirs, ours = _seconds(
        lambda: pa.csv.read_csv(path, reading, parsing, converting),
        lambda: _cells(settings),
    )
    results.add(f"{name}: MB", path.stat().st_size / 1e6)
    results.add(f"{name}: seconds of pyarrow.csv.read_csv", theirs.seconds)
    results.add(f"{name}: seconds of our cells", ours.seconds)
    results.add(f"{name}: our rate over pyarrow's", theirs.seconds / ours.seconds, 0.5, ">=")
    results.add(f"{name}: processor seconds of pyarrow.csv.read_csv", theirs.processor)
    results.add(f"{name}: processor seconds of our cells", ours.processor)
    (whole,) = _seconds(lambda: scan(settings, bytes(32), settings.declarations(), GRID_BITS), repeats=1)
    results.add(f"{name}: seconds until bounded and keyed", whole.seconds)


def _cells(settings: PartySettings) -> None:
    """All cells and identifiers of the file, batch by batch."""
    read = {name: each for name, each in settings.declared.items() if each.read_from is not None}
    for batch in record_batches(settings.source, list(read)):
        for name, each in read.items():
            read_cells(batch.column(name), each, settings.source)
        identifiers_in(batch, settings.source)


class Time(NamedTuple):
    """How long a step takes.

    Attributes:
        seconds: by the clock.
        processor: of all threads together.
    """

    seconds: float
    processor: float


def _seconds(*steps: Callable[[], object], repeats: int = 3) -> list[Time]:
    """The least times of each step, taken in turns."""
    spent: list[list[Time]] = [[] for _ in steps]
    for _ in range(repeats):
        for step, times in zip(steps, spent, strict=True):
            started, worked = time.perf_counter(), time.process_time()
            step()
            times.append(Time(time.perf_counter() - started, time.process_time() - worked))
    return [Time(*map(min, zip(*times, strict=True))) for times in spent]


if __name__ == "__main__":
    main("reading", run)
