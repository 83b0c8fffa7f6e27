"""A consortium of made-up hospitals, each with a table of random numeric columns about the same patients."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.common.counted import counted, launcher
from demo.consortium import Consortium, wait_for
from tests.support.measured import processor_seconds

CALLS = "calls_per_second = 1e6\n"  # a hospital that is driven asks again without a pause
ENROLMENTS = "enrolments_per_minute = 1000\n"  # all hospitals enrol from one address
SERVERS = ("coordinator", "hub")
LIMITS = {
    "coordinator": f"{CALLS}{ENROLMENTS}",
    "hub": f"{CALLS}streams_per_peer = 4096\n",  # all learners here have one address
}
PATIENCE = 600.0
GROUP_ROWS = 1_000_000
"""Rows of a table that are made at once."""


@contextmanager
def consortium(
    rows: int,
    columns: Mapping[str, int],
    poll_seconds: float = 5.0,
    *,
    growing: bool = False,
    told: Callable[[str], None] = lambda what: None,
    patience: float = PATIENCE,
    counting: bool = False,
    kind: type[Consortium] = Consortium,
) -> Iterator[Consortium]:
    """A consortium whose hospitals run, approve every release by policy, and have reported their columns.

    Its folder is gone afterwards.

    Args:
        rows: patients.
        columns: hospital to how many it holds.
        poll_seconds: how often its daemon asks when it hears nothing.
        growing: whether tables are CSV files for `grow`, each `rows` of them a batch.
        told: hears when tables are written, and when hospitals are enrolled.
        patience: most seconds until every catalogue is there.
        counting: whether coordinator and hub note their calls; see `calls`.
        kind: how processes begin.
    """
    with tempfile.TemporaryDirectory(prefix="consortium-") as folder, kind(Path(folder)) as made:
        made.found(epsilon=1000.0, delta=1e-8)
        for name, settings in (("coordinator", made.office / "coordinator.toml"), ("hub", made.hub / "hub.toml")):
            with settings.open("a") as file:
                file.write(f"\n[limits]\n{LIMITS[name]}")
            made.halt(name)
            made.restart(name, launcher(made.folder / f"{name}.calls") if counting else ())
        for name, held in columns.items():
            made.hospital(name).mkdir(parents=True)
            _declare(made.hospital(name), name, rows if growing else None, held, poll_seconds)
            if growing:
                grow(made.hospital(name), name, rows, held, 1)
            else:
                _write(made.hospital(name) / "table.parquet", name, rows, held)
        told("tables are written")
        made.enrol(tuple(columns))
        told("hospitals are enrolled")
        made.open_hospitals(tuple(columns), patience)
        wait_for(lambda: catalogued(made, columns), patience, "every hospital to report its columns")
        yield made


def calls(made: Consortium, name: str) -> Counter[str]:
    """Calls that a server which notes them has answered: method to how many.

    Args:
        made: the consortium.
        name: ``coordinator`` or ``hub``.
    """
    return counted(made.folder / f"{name}.calls")


def propose(made: Consortium, title: str, terms: str, columns: Mapping[str, int], first: int = 0) -> str:
    """Propose a release of some columns of each hospital; its digest. No policy approves the same columns twice.

    Args:
        made: the consortium.
        title: of the release.
        terms: lines of the request that name the mechanism.
        columns: hospital to how many of its columns.
        first: number of the first of them.
    """
    held = "\n".join(
        f"{name} = {json.dumps([f'{name}_{place}' for place in range(first, first + columns[name])])}"
        for name in columns
    )
    return request(
        made,
        f'title = "{title}"\n{terms}\nepsilon = 1.0\ndelta = 1e-9\n[parties]\n{held}\n'
        '[about]\ndescription = "Made-up rows"\nlicence = "CC0-1.0"\ncreators = [{ name = "A benchmark" }]\n',
    )


def request(made: Consortium, text: str) -> str:
    """Propose what a request says; the digest of the release."""
    (made.office / "request.toml").write_text(text)
    created = made.run("coordinator", "release", "create", "request.toml", "--json", home=made.office)
    return str(json.loads(created)["digest"])


def processor(made: Consortium) -> dict[str, float]:
    """Processor seconds of ``coordinator``, ``hub`` and all ``hospitals`` until now."""
    spent = dict.fromkeys((*SERVERS, "hospitals"), 0.0)
    for name, process in made.processes.items():
        spent[name if name in SERVERS else "hospitals"] += processor_seconds(process.pid)
    return spent


def grow(home: Path, name: str, rows: int, columns: int, number: int) -> None:
    """Append the rows of a batch to a hospital's CSV file.

    Args:
        home: the hospital's folder.
        name: of the hospital.
        rows: of each batch.
        columns: how many it holds.
        number: of the batch, from 1.
    """
    with (home / "table.csv").open("ab") as file:
        options = pa.csv.WriteOptions(include_header=number == 1, quoting_style="none")
        pa.csv.write_csv(_table(name, rows, columns, number), file, options)


def _write(path: Path, name: str, rows: int, columns: int) -> None:
    """The whole table as Parquet, a group of rows at a time."""
    size = min(rows, GROUP_ROWS)
    groups = (_table(name, size, columns, number) for number in range(1, -(-rows // size) + 1))
    first = next(groups)
    with pa.parquet.ParquetWriter(path, first.schema) as file:
        for place, group in enumerate(chain([first], groups)):
            file.write_table(group.slice(0, rows - place * size))


def _table(name: str, rows: int, columns: int, number: int) -> pa.Table:
    random = np.random.default_rng([*name.encode(), number])
    cells = {f"{name}_{column}": random.uniform(-1, 1, rows).round(6) for column in range(columns)}
    subjects = np.char.add("P", np.arange((number - 1) * rows, number * rows).astype(str))
    return pa.table({"subject": subjects, **cells})


def _declare(home: Path, name: str, batch_rows: int | None, columns: int, poll_seconds: float) -> None:
    declared = "\n".join(
        f'[columns.{name}_{column}]\nkind = "numeric"\nlower = -1\nupper = 1\n' for column in range(columns)
    )
    source = 'path = "table.parquet"' if batch_rows is None else f'path = "table.csv"\nbatch_rows = {batch_rows}'
    (home / "party.toml").write_text(
        f'name = "{name}"\nroster = "all"\nsame_patients = true\n\n[source]\n{source}\nsubject = "subject"\n\n'
        f'[policy.auto_approve]\nmechanisms = ["ranges", "stream", "moments", "mixed", "rows"]\n\n'
        f"[daemon]\npoll_seconds = {poll_seconds}\n\n{declared}"
    )


def catalogued(made: Consortium, names: Iterable[str]) -> bool:
    """Tells whether the office knows the columns and patients of all these hospitals."""
    if not all((made.hospital(name) / "state" / "catalogue.json").exists() for name in names):
        return False  # to ask the office takes a process each time, on the cores that hospitals read with
    listed = made.run("coordinator", "party", "list", "--json", home=made.office)
    return all(party["rows"] for party in json.loads(listed))
