"""A release of derived columns; one hospital has its rows in PostgreSQL, the other one in SQLite, every role its own process."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import Consortium
from dprelease.data.exits import read_exit
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, scaled_gram, trust
from tests.support.databases import postgres_table, sqlite_table
from tests.support.postgres import PASSWORD, Cluster

pytestmark = pytest.mark.end_to_end

ROWS = 200
SMOKES = ("never smoked", "current")


@dataclass(frozen=True)
class InDatabase(Hospital):
    """A hospital without a file of rows; in SQLite, unless there is a server."""

    server: Cluster | None = None

    def write(self, folder: Path, seed: int) -> None:
        """Its table, moved into the database."""
        super().write(folder, seed)
        with (folder / "table.csv").open(newline="") as file:
            names, *rows = csv.reader(file)
        (folder / "table.csv").unlink()
        if self.server is None:
            sqlite_table(folder / "rows.sqlite", "patients", ", ".join(names), rows)
            place = {"url": "sqlite:///rows.sqlite", "query": "SELECT * FROM patients"}
        else:
            url = self.server.database()
            types = ("numeric" if name in self.numbers else "text" for name in names)
            postgres_table(url, "patients", ", ".join(map(" ".join, zip(names, types, strict=True))), rows)
            place = {**self.server.source(url), "table": "public.patients"}
        lines = "\n".join(f'{key} = "{text}"' for key, text in place.items())
        party = folder / "party.toml"
        party.write_text(party.read_text().replace('path = "table.csv"', lines))

    @property
    def numbers(self) -> set[str]:
        return {name for name, declared in self.columns.items() if "numeric" in declared}


def test_a_release_of_derived_columns_from_databases(consortium: Consortium, postgres: Cluster) -> None:
    random = np.random.default_rng(4)
    age = [float(each) for each in random.uniform(20, 90, ROWS).round(3)]
    smoker = [SMOKES[int(each)] for each in random.random(ROWS) < 0.4]
    dose = [float(each) for each in random.uniform(0, 10, ROWS).round(3)]
    time = [float(each) for each in random.uniform(0, 4, ROWS).round(2)]
    died = ["1" if each else "0" for each in random.random(ROWS) < 0.5]
    code = [("E10.9", "I21", "j45")[int(each)] for each in random.integers(0, 3, ROWS)]
    kept = "source_only = true\n"
    clinic = InDatabase(
        "clinic",
        {
            "age": kept + numeric(18, 100),
            "smoker": kept + 'kind = "categorical"\nlevels = ["never smoked", "current"]',
            "time": kept + numeric(0, 10),
            "died": kept + 'kind = "categorical"\nlevels = ["1"]',
            "code": 'kind = "code"',
            "band": 'derived = { bands = "age", at = [40, 60] }\nfill = "< 40"',
            "exit": 'derived = { exit = ["time", "died"], at = [1, 2.5], missing = true }',
            "event": 'derived = { indicator = "died", level = "1" }',
            "block": 'derived = { category = "code", prefix = 3, levels = ["E10", "I21"] }',
            "curve": 'derived = { square = "age", plus = -59 }',
            "smokes": 'derived = { indicator = "smoker", level = "current" }',
        },
        {**{"age": list(age), "smoker": list(smoker)}, **{"time": list(time), "died": list(died), "code": list(code)}},
        server=postgres,
    )
    ward = InDatabase("ward", {"dose": numeric(0, 10)}, {"dose": list(dose)})
    found(consortium, [clinic, ward])
    release = propose(consortium, [clinic, ward], mechanism="moments")
    assert final_state(consortium, release) == "PUBLISHED"

    opened = published(consortium, release)
    assert {column.name: column.derivation for column in opened.spec.columns} == {
        "band": "age cut at 40, 60",
        "exit": "exit by time and died at 1, 2.5",
        "event": 'died = "1"',
        "block": "first 3 of code",
        "curve": "(age - 59)^2",
        "smokes": 'smoker = "current"',
        "dose": "",
    }
    cuts = read_exit(opened.spec.parties[0].columns[1].values).cuts
    ends = [
        sum(each > cut if event == "1" else each >= cut for cut in cuts) for each, event in zip(time, died, strict=True)
    ]
    exits = ("event 0 to 1", "event 1 to 2.5", "left 0 to 1", "left 1 to 2.5", "followed to 2.5")
    derived: dict[str, list[object]] = {
        "band": ["< 40" if each < 40 else "40 to 60" if each < 60 else ">= 60" for each in age],
        "exit": [exits[4 if end == 2 else end + 2 * (event == "0")] for end, event in zip(ends, died, strict=True)],
        "event": ["yes" if each == "1" else "other" for each in died],
        "block": [{"E10.9": "E10", "I21": "I21"}.get(each, "other") for each in code],
        "curve": [(each - 59) ** 2 for each in age],
        "smokes": ["yes" if each == "current" else "other" for each in smoker],
    }
    clinic.cells.update(derived)
    moments, truth = opened.moments(), scaled_gram(opened.spec, [clinic, ward])
    entries = moments.layout.rows, moments.layout.cols  # independent of one another
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))

    _, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    shown = consortium.run("learner", *home, "describe", release[:10])
    for words in ("curve is derived: (age - 59)^2", "exit=event 0 to 1", "band=>= 60", "block=E10", "event=yes"):
        assert words in shown
    kept = [path for path in consortium.folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == []
