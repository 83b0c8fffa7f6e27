"""A release of which one hospital has its rows in PostgreSQL and the other one in SQLite, every role its own process."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import Consortium
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, scaled_gram
from tests.support.databases import postgres_table, sqlite_table
from tests.support.postgres import PASSWORD, Cluster

pytestmark = pytest.mark.end_to_end

ROWS = 200


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


def test_hospitals_that_keep_their_rows_in_databases(consortium: Consortium, postgres: Cluster) -> None:
    random = np.random.default_rng(6)
    age, dose = (random.uniform(low, high, ROWS).round(3).tolist() for low, high in ((20, 90), (0, 10)))
    sex = [str(each) for each in random.choice(["f", "m"], ROWS)]
    clinic = InDatabase(
        "clinic",
        {"age": numeric(18, 100), "sex": 'kind = "categorical"\nlevels = ["f", "m"]'},
        {"age": age, "sex": list(sex)},
        server=postgres,
    )
    ward = InDatabase("ward", {"dose": numeric(0, 10)}, {"dose": dose})
    found(consortium, [clinic, ward])
    release = propose(consortium, [clinic, ward], mechanism="moments")
    assert final_state(consortium, release) == "PUBLISHED"

    opened = published(consortium, release)
    moments, truth = opened.moments(), scaled_gram(opened.spec, [clinic, ward])
    entries = moments.layout.rows, moments.layout.cols
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))
    kept = [path for path in consortium.folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == []
