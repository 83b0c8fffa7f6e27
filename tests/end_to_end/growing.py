"""Hospitals whose tables grow month by month, and the checkpoints of a stream over them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from demo.consortium import Consortium, wait_for
from dprelease.data.bounding import BoundedRows, bound
from dprelease.mechanisms.moments.entries import code
from dprelease.release.spec import ReleaseSpec
from tests.end_to_end.hospitals import IDENTIFIER_MARK, Hospital, numeric

MONTH = 100
"""Patients of a month."""

POLICY = '[policy.auto_approve]\nmechanisms = ["stream", "moments", "mixed"]\n'


@dataclass(frozen=True)
class Growing(Hospital):
    """A hospital that has the patients of all months from the beginning, and whose table has those of some."""

    policy: str = POLICY
    poll_seconds: float = 0.3  # a table that grew is seen at the next look, and tests wait for that

    def write(self, folder: Path, seed: int) -> None:
        super().write(folder, seed)
        settings = folder / "party.toml"
        settings.write_text(
            settings.read_text().replace("[source]\n", '[source]\nbatch = "month"\nwhole_batches = true\n')
        )
        self.grow(folder, 1)

    def grow(self, folder: Path, months: int) -> None:
        """Let the table have the patients of these months, in an order of its own."""
        rows = MONTH * months
        order = np.random.default_rng(months).permutation(rows)
        table = pa.table(
            {
                "subject": [f"{IDENTIFIER_MARK}{place:06d}" for place in order],
                "month": [int(place) // MONTH + 1 for place in order],
                **{name: [cells[place] for place in order] for name, cells in self.cells.items()},
            }
        )
        pyarrow.csv.write_csv(table, folder / "table.new")
        (folder / "table.new").replace(folder / "table.csv")


def hospitals(count: int, months: int = 3) -> list[Hospital]:
    """Hospitals with two numbers each."""
    random = np.random.default_rng(6)
    return [
        Growing(
            name,
            {f"{name}_{column}": numeric(-1, 1) for column in "ab"},
            {f"{name}_{column}": [*map(float, random.uniform(-1, 1, MONTH * months))] for column in "ab"},
        )
        for name in ("clinic", "ward", "lab")[:count]
    ]


def grow(consortium: Consortium, parties: Sequence[Hospital], months: int) -> None:
    """Let tables grow, and wait until the office has heard of it."""
    for party in parties:
        assert isinstance(party, Growing)
        party.grow(consortium.hospital(party.name), months)
    names = {party.name for party in parties}

    def heard() -> bool:
        listed = json.loads(consortium.run("coordinator", "party", "list", "--json", home=consortium.office))
        return all(months in (each["batches"] or []) for each in listed if each["party"] in names)

    wait_for(heard, 60, "every party to report its new batch")


def propose_next(consortium: Consortium, release: str, *more: str) -> str:
    """`release next`; the new release's digest."""
    printed = consortium.run("coordinator", "release", "next", release, *more, "--json", home=consortium.office)
    return str(json.loads(printed)["digest"])


def whole_gram(spec: ReleaseSpec, parties: Sequence[Hospital], months: list[int]) -> npt.NDArray[np.float64]:
    """The Gram matrix of all patients of some months, in scaled units; row order does not matter to it."""
    chosen = np.concatenate([np.arange(MONTH * (month - 1), MONTH * month) for month in months])
    cells = {party.name: party.cells for party in parties}
    parts = [np.ones((len(chosen), 1))]
    for part in spec.parties:
        raw = {column.name: np.array(cells[part.party][column.name])[chosen] for column in part.columns}
        rows = BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
        parts.append(code(rows.codes, rows.columns) / 2.0**spec.grid_bits)
    whole = np.hstack(parts)
    return whole.T @ whole
