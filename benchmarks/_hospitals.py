"""Made-up hospitals on disk: a table of random numeric columns about the same patients, and the settings that go with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from demo.consortium import Consortium


def write_hospital(home: Path, name: str, rows: int, columns: int, seed: int, poll_seconds: float = 0.1) -> None:
    """A hospital's table and party.toml, which approves every release by policy.

    Args:
        home: its folder; made.
        name: its name, and what its columns' names begin with.
        rows: patients.
        columns: how many.
        seed: of the cells.
        poll_seconds: how often its daemon asks when it hears nothing.
    """
    home.mkdir(parents=True)
    random = np.random.default_rng(seed)
    cells = {f"{name}_{column}": random.uniform(-1, 1, rows) for column in range(columns)}
    subjects = np.char.add("P", np.arange(rows).astype(str))
    pa.parquet.write_table(pa.table({"subject": subjects, **cells}), home / "table.parquet")
    declared = "\n".join(f'[columns.{column}]\nkind = "numeric"\nlower = -1\nupper = 1\n' for column in cells)
    (home / "party.toml").write_text(
        f'name = "{name}"\nroster = "all"\n\n[source]\npath = "table.parquet"\nsubject = "subject"\n\n'
        f"[policy.auto_approve]\n\n[daemon]\npoll_seconds = {poll_seconds}\n\n{declared}"
    )


def catalogued(consortium: Consortium) -> bool:
    """Whether every hospital has reported its columns."""
    listed = consortium.run("coordinator", "party", "list", "--json", home=consortium.office)
    return all(party["rows"] for party in json.loads(listed))
