"""A verified release as a table for other tools: Parquet, CSV or NumPy arrays, with what must be known to use it well.

One row for each released row, in scaled units with equal noise along every column (`Release.scaled`); the first column,
``(constant)``, is the constant 1 after the same public map, exact and free of noise. Releases of moments have no rows:
`learner.export.matrix` makes a matrix of them, or rows that have these moments.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.arrays import Floats
from dprelease.canonical import canonical_bytes
from dprelease.one_line import one_line
from dprelease.release.entries import CONSTANT, entries
from learner.client.library import Opened

METADATA_KEY = "dprelease"

MEANING = {
    "mixtures": "Each row is a random mixture of all patients' scaled rows, plus noise. Rows are not patients.",
    "rows": "Each row is a scaled row of the hospitals' table plus noise that hides it. Rows are not patients' true values.",
}


@dataclass(frozen=True)
class ExportTable:
    """What is exported.

    Attributes:
        names: (p + 1,) column names, the constant first.
        values: (r, p + 1), in the unit that the metadata name.
        metadata: JSON-ready description: identity, meaning of rows, units and noise of every column, guarantee, trust.
    """

    names: tuple[str, ...]
    values: Floats
    metadata: dict[str, Any]

    def sentence(self) -> str:
        """Report of what was written."""
        rows, columns = self.values.shape
        title = one_line(self.metadata["title"])
        return f"{title}: {rows} rows, {columns} columns. {self.metadata['meaning_of_rows']}"


def table(opened: Opened) -> ExportTable:
    """The table of a verified release of rows."""
    release, spec = opened.release, opened.release.spec
    scaled, found = release.scaled(), entries(release)
    midpoint, half_width = scaled.original_units()
    constant = {"name": CONSTANT, "unit": "", "noise_sd": 0.0, "midpoint": 0.0, "half_width": 1.0}
    columns = [
        {
            "name": name,
            "unit": release.column(name).unit,
            "noise_sd": float(scaled.noise_sd[index]),
            "midpoint": float(midpoint[index]),
            "half_width": float(half_width[index]),
        }
        for index, name in enumerate(spec.released)
    ]
    return ExportTable(
        names=found.names,
        values=found.values,
        metadata=about(opened)
        | {
            "released_rows": len(scaled.values),
            "meaning_of_rows": MEANING[scaled.kind],
            "scale": "In original units an entry is midpoint * (constant) + half_width * value; noise_sd is in scaled units.",
            "columns": [constant, *columns],
        },
    )


def about(opened: Opened) -> dict[str, Any]:
    """Metadata of every export about the release."""
    spec = opened.release.spec
    return {
        "format": 1,
        "release": opened.release.digest,
        "title": spec.title,
        "consortium": spec.consortium,
        "published": opened.manifest.published,
        "mechanism": spec.mechanism,
        "patients": spec.patients,
        "guarantee": list(opened.release.guarantee),
        "trust": list(opened.manifest.trust),
    }


def write_csv(exported: ExportTable, path: Path) -> None:
    """One header line and shortest decimals that read back equal; the metadata go to ``FILE.json`` beside it."""
    write_lines(path, exported.names, (row.tolist() for row in exported.values))
    write_metadata(path, exported.metadata)


def write_lines(path: Path, header: Iterable[str], lines: Iterable[Iterable[Any]]) -> None:
    """A CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)


def write_metadata(path: Path, metadata: dict[str, Any]) -> None:
    """``FILE.json`` beside a file that has no room for metadata."""
    path.with_name(f"{path.name}.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def write_npz(exported: ExportTable, path: Path) -> None:
    """Arrays ``values``, ``names``, ``units``, one for each number known of every column, and ``metadata`` (JSON text)."""
    with path.open("wb") as file:
        np.savez(file, values=exported.values, **described(exported.metadata))


def described(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata as arrays: ``names``, ``units``, each further fact about columns, and all of it as JSON text."""
    columns = metadata["columns"]
    plural = {"name": "names", "unit": "units"}
    arrays = {plural.get(fact, fact): np.array([column[fact] for column in columns]) for fact in columns[0]}
    return arrays | {"metadata": np.array(canonical_bytes(metadata).decode())}


def write_parquet(exported: ExportTable, path: Path) -> None:
    """float64 columns; the metadata under the key ``dprelease`` of the schema, each column's own at its field."""
    import pyarrow as pa  # only an export to Parquet needs it
    import pyarrow.parquet as pq

    fields = [
        pa.field(column["name"], pa.float64(), metadata={key: str(value) for key, value in column.items()})
        for column in exported.metadata["columns"]
    ]
    schema = pa.schema(fields, metadata={METADATA_KEY: canonical_bytes(exported.metadata)})
    pq.write_table(pa.table([pa.array(column) for column in exported.values.T], schema=schema), path)


WRITERS = {"csv": write_csv, "npz": write_npz, "parquet": write_parquet}
"""Format to writer."""
