"""Tables on disk for the source's tests, and the settings that describe them."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from party_node.settings import PartySettings
from party_node.source.alignment import ShownDigests, pseudonym
from party_node.source.scan import BoundedTable, scan

KEY = hashlib.sha256(b"the hospitals' own").digest()
GRID_BITS = 10
UNIT = 1 << GRID_BITS
OURS = ShownDigests(hashlib.sha256(b"a hospital's own").digest())
"""How digests leave that are compared with nobody's."""

COLUMNS: dict[str, dict[str, Any]] = {
    "x": {"kind": "numeric", "lower": -1, "upper": 1, "fill": 0.5},
    "c": {"kind": "categorical", "levels": ["u", "v"], "fill": "v"},
}
FILL = UNIT // 2
"""Code of x where a cell is missing or unreadable."""

LEVEL = {"u": [UNIT, 0, 0], "v": [0, UNIT, 0], "other": [0, 0, UNIT]}
"""Codes of c."""


def settings(
    path: Path, columns: dict[str, dict[str, Any]] | None = None, *, rows_per_subject: int = 1, **source: Any
) -> PartySettings:
    """Settings for one file with identifiers in ``id``."""
    return PartySettings.model_validate(
        {
            "name": "north",
            "roster": "cohort",
            "rows_per_subject": rows_per_subject,
            "state": path.parent / "state",
            "source": {"path": path, "subject": "id", **source},
            "columns": columns or COLUMNS,
        }
    )


def read(path: Path, columns: dict[str, dict[str, Any]] | None = None, key: bytes = KEY, **more: Any) -> BoundedTable:
    described = settings(path, columns, **more)
    return scan(described, key, described.declarations(), GRID_BITS).table()


def csv(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def parquet(folder: Path, columns: dict[str, Any], name: str = "rows.parquet", **how: Any) -> Path:
    path = folder / name
    pa.parquet.write_table(pa.table(columns), path, **how)
    return path


def codes_by_subject(table: BoundedTable, subjects: list[str], key: bytes = KEY) -> dict[str, list[int]]:
    """Codes of each subject, whatever the canonical order."""
    ordered = sorted(subjects, key=lambda subject: pseudonym(key, subject))
    return {subject: row.tolist() for subject, row in zip(ordered, table.bounded.codes, strict=True)}


def text(lines: list[str], end: str = "\n") -> str:
    """Rows under the head of a table whose batches are months."""
    return "\n".join(["id,x,c,month", *lines]) + end
