"""A verified release as a table for other tools: Parquet, CSV or NumPy arrays, with what must be known to use it well.

One row for each released row, in scaled units with equal noise along every column (`Release.scaled`); the first column,
``(constant)``, is the constant 1 after the same public map, exact and free of noise.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.canonical import canonical_bytes
from dprelease.manifest import TRUST
from dprelease.release import Floats, Release
from learner.library import Opened

CONSTANT = "(constant)"
METADATA_KEY = "dprelease"

MEANING = {
    "mixed": "Each row is a random mixture of all patients' scaled rows, plus noise. Rows are not patients.",
    "rows": "Each row is a scaled row of the hospitals' table plus noise that hides it. Rows are not patients' true values.",
}


@dataclass(frozen=True)
class Table:
    """What is exported.

    Attributes:
        names: (p + 1,) column names, the constant first.
        values: (r, p + 1) scaled units.
        metadata: JSON-ready description: identity, meaning of rows, units and noise of every column, guarantee, trust.
    """

    names: tuple[str, ...]
    values: Floats
    metadata: dict[str, Any]


def table(opened: Opened) -> Table:
    """The table of a verified release."""
    release, spec = opened.release, opened.release.spec
    scaled = release.scaled()
    return Table(
        names=(CONSTANT, *scaled.names),
        values=np.column_stack([scaled.ones, scaled.values]),
        metadata={
            "format": 1,
            "release": release.digest,
            "title": spec.title,
            "consortium": spec.consortium,
            "published": opened.manifest.published,
            "mechanism": spec.mechanism,
            "patients": spec.rows,
            "released_rows": len(scaled.values),
            "meaning_of_rows": MEANING[spec.mechanism],
            "scale": "In original units an entry is midpoint * (constant) + half_width * value; noise_sd is in scaled units.",
            "columns": _describe(release, scaled.noise_sd),
            "guarantee": list(release.guarantee),
            "trust": list(TRUST),
        },
    )


def _describe(release: Release, noise_sd: Floats) -> list[dict[str, Any]]:
    midpoint, half_width = release.original_units()
    constant = {"name": CONSTANT, "unit": "", "noise_sd": 0.0, "midpoint": 0.0, "half_width": 1.0}
    return [constant] + [
        {
            "name": name,
            "unit": release.column(name).unit,
            "noise_sd": float(noise_sd[index]),
            "midpoint": float(midpoint[index]),
            "half_width": float(half_width[index]),
        }
        for index, name in enumerate(release.spec.released)
    ]


def write_csv(exported: Table, path: Path) -> None:
    """One header line and shortest decimals that read back equal; the metadata go to ``FILE.json`` beside it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(exported.names)
        writer.writerows(row.tolist() for row in exported.values)
    path.with_name(f"{path.name}.json").write_text(json.dumps(exported.metadata, indent=2) + "\n", encoding="utf-8")


def write_npz(exported: Table, path: Path) -> None:
    """Arrays ``values``, ``names``, ``units``, ``noise_sd``, ``midpoint``, ``half_width`` and ``metadata`` (JSON text)."""
    columns = exported.metadata["columns"]
    with path.open("wb") as file:
        np.savez(
            file,
            values=exported.values,
            names=np.array(exported.names),
            units=np.array([column["unit"] for column in columns]),
            noise_sd=np.array([column["noise_sd"] for column in columns]),
            midpoint=np.array([column["midpoint"] for column in columns]),
            half_width=np.array([column["half_width"] for column in columns]),
            metadata=np.array(canonical_bytes(exported.metadata).decode()),
        )


def write_parquet(exported: Table, path: Path) -> None:
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
