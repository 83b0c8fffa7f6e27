"""Hospitals for end-to-end tests: tables with markers that must never be found outside the hospital."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from demo.consortium import HOST, Consortium, wait_for
from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.mechanisms.moments.entries import code
from dprelease.release.folder import ReleaseFolder
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.specs import ABOUT

IDENTIFIER_MARK = "NHS-SECRET-"
CELL_MARK = "HANDWRITTEN-REMARK"


@dataclass(frozen=True)
class Hospital:
    """One party of a test.

    Attributes:
        name: party name.
        columns: TOML lines of its declarations, by column.
        cells: column to its cells, in the order of the subjects.
        parquet: the file's format.
        policy: TOML lines of its policy.
        poll_seconds: how often its daemon looks by itself.
    """

    name: str
    columns: dict[str, str]
    cells: dict[str, list[object]]
    parquet: bool = False
    policy: str = '[policy.auto_approve]\nmechanisms = ["ranges", "moments", "mixed", "rows"]\n'
    poll_seconds: float = 1.0
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", len(next(iter(self.cells.values()))))

    def write(self, folder: Path, seed: int) -> None:
        """Its table, in an order of its own, and its party.toml."""
        folder.mkdir(parents=True)
        order = np.random.default_rng(seed).permutation(self.rows)
        subjects = [f"{IDENTIFIER_MARK}{number:06d}" for number in range(self.rows)]
        table = pa.table(
            {
                "subject": [subjects[position] for position in order],
                **{name: [cells[position] for position in order] for name, cells in self.cells.items()},
                "remarks": [CELL_MARK] * self.rows,
            }
        )
        path = folder / ("table.parquet" if self.parquet else "table.csv")
        if self.parquet:
            pyarrow.parquet.write_table(table, path)
        else:
            pyarrow.csv.write_csv(table, path)
        declared = "\n".join(f"[columns.{name}]\n{lines}\n" for name, lines in self.columns.items())
        (folder / "party.toml").write_text(
            f'name = "{self.name}"\nroster = "cohort"\nsame_patients = true\n\n'
            f'[source]\npath = "{path.name}"\nsubject = "subject"\n\n'
            f"{self.policy}\n[daemon]\npoll_seconds = {self.poll_seconds}\nlongest_wait_seconds = 1.0\n\n{declared}"
        )


def numeric(lower: float, upper: float) -> str:
    return f'kind = "numeric"\nlower = {lower}\nupper = {upper}'


def found(consortium: Consortium, hospitals: list[Hospital], epsilon: float = 40.0, delta: float = 1e-4) -> None:
    """Found the consortium, enrol the hospitals and start their daemons."""
    consortium.found(epsilon=epsilon, delta=delta)
    for seed, hospital in enumerate(hospitals):
        hospital.write(consortium.hospital(hospital.name), seed)
    names = [hospital.name for hospital in hospitals]
    consortium.enrol(names)
    consortium.open_hospitals(names)

    def catalogued() -> bool:
        parties = json.loads(consortium.run("coordinator", "party", "list", "--json", home=consortium.office))
        return len(parties) == len(names) and all(party["rows"] for party in parties)

    wait_for(catalogued, 60, "every party to report its columns")


def propose(
    consortium: Consortium, hospitals: list[Hospital], columns: dict[str, list[str]] | None = None, **request: object
) -> str:
    """`release create` over the hospitals' columns, all of them unless told; returns the release's digest."""
    lines = {"title": "a test", "epsilon": 10.0, "delta": 1e-4, **request}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    text += (
        f"\n{ABOUT}\n[parties]\n"
        + "\n".join(f"{each.name} = {json.dumps((columns or {}).get(each.name, ['*']))}" for each in hospitals)
        + "\n"
    )
    (consortium.office / "request.toml").write_text(text)
    printed = consortium.run("coordinator", "release", "create", "request.toml", "--json", home=consortium.office)
    return str(json.loads(printed)["digest"])


def other_columns(hospitals: list[Hospital], number: int) -> dict[str, list[str]]:
    """Of each hospital the number-th non-empty choice of columns, from 1: no policy approves the same content twice."""
    found = {
        each.name: [column for place, column in enumerate(each.columns) if number >> place & 1] for each in hospitals
    }
    assert all(0 < number < 2 ** len(each.columns) for each in hospitals), number
    return found


def final_state(consortium: Consortium, release: str) -> str:
    """Wait until the release is over; its state."""
    watch = ("release", "watch", release, "--timeout", "120", "--poll-seconds", "0.1")
    consortium.run("coordinator", *watch, home=consortium.office)
    shown = json.loads(consortium.run("coordinator", "release", "show", release, "--json", home=consortium.office))
    return str(shown["state"])


def trust(consortium: Consortium) -> tuple[Path, tuple[str, str]]:
    """A learner who pinned the consortium's root; its folder and the option that names it."""
    folder = consortium.folder / "learner"
    home = ("--home", str(folder))
    address = f"{HOST}:{consortium.ports['public']}"
    root = str(consortium.hub / "root.pem")
    consortium.run("learner", *home, "trust", "add", "demo", "--root", root, "--hub", address, "--yes")
    return folder, home


def published(consortium: Consortium, release: str) -> Release:
    """The release as a learner verifies it, offline."""
    folder = ReleaseFolder(consortium.hub / "storage" / "published" / release)
    return folder.verify((consortium.hub / "root.pem").read_text())


def scaled_gram(spec: ReleaseSpec, hospitals: list[Hospital]) -> npt.NDArray[np.float64]:
    """The (p+1, p+1) Gram matrix that a release of joint moments hides, in scaled units; row order does not matter to it."""
    cells = {hospital.name: hospital.cells for hospital in hospitals}
    parts = [np.ones((spec.rows, 1))]
    for part in spec.parties:
        raw: dict[str, RawColumn] = {}
        for column in part.columns:
            values = cells[part.party][column.name]
            raw[column.name] = np.array(values) if isinstance(values[0], float) else [str(value) for value in values]
        rows = BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
        parts.append(code(rows.codes, rows.columns) / 2.0**spec.grid_bits)
    whole = np.hstack(parts)
    return whole.T @ whole
