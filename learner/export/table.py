"""A verified release as a table for other tools: Parquet, CSV or NumPy arrays, with what must be known to use it well.

One row for each released row, in scaled units with equal noise along every column (`Release.scaled`); the first column,
``(constant)``, is the constant 1 after the same public map, exact and free of noise. Releases of moments have no rows:
`learner.export.matrix` makes a matrix of them, or rows that have these moments.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.arrays import Floats
from dprelease.canonical import canonical_bytes
from dprelease.mechanisms.view import CONSTANT
from dprelease.one_line import one_line
from learner.client.library import Opened

METADATA_KEY = "dprelease"

MEANING = {
    "mixtures": "Each row is a random mixture of all patients' scaled rows, plus noise. Rows are not patients.",
    "rows": "Each row is a scaled row of the hospitals' table plus noise that hides it. Rows are not patients' true values.",
}


NOISE_PREFIX = "noise_sd:"
"""In front of a column's name where its noise stands in the same table; no released name begins so."""


@dataclass(frozen=True)
class ExportTable:
    """Exported rows, or a matrix whose rows have names and whose entries have noise of their own.

    Attributes:
        names: (p + 1,) column names, the constant first.
        values: (r, p + 1), in the unit that the metadata name.
        metadata: JSON-ready description: identity, meaning, units of every column, noise, guarantee, trust.
        meaning: of its rows or entries, for people.
        row_names: (r,) of a matrix; no other rows have names.
        noise_sd: (r, p + 1) standard deviation of the noise of each entry of a matrix.
    """

    names: tuple[str, ...]
    values: Floats
    metadata: dict[str, Any]
    meaning: str
    row_names: tuple[str, ...] = ()
    noise_sd: Floats | None = None

    @property
    def parts(self) -> dict[str, Floats]:
        """Prefix of names of columns to what stands below these."""
        return {"": self.values} if self.noise_sd is None else {"": self.values, NOISE_PREFIX: self.noise_sd}

    def sentence(self) -> str:
        """Report of what was written."""
        rows, columns = self.values.shape
        shape = f"a matrix, {rows} x {columns}" if self.row_names else f"{rows} rows, {columns} columns"
        return f"{one_line(self.metadata['title'])}: {shape}. {self.meaning}"


def table(opened: Opened) -> ExportTable:
    """The table of a verified release of rows."""
    release, spec = opened.release, opened.release.spec
    scaled = release.scaled()
    found = scaled.released()
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
    meaning = MEANING[scaled.kind]
    return ExportTable(
        names=found.names,
        values=found.values,
        meaning=meaning,
        metadata=about(opened)
        | {
            "released_rows": len(scaled.values),
            "meaning_of_rows": meaning,
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
    """One header line and shortest decimals that read back equal; the metadata go to ``FILE.json`` beside it.

    A matrix has names in its first column, and ``FILE.noise.csv`` of the same shape beside it.
    """
    labels: list[list[str]] = [[name] for name in exported.row_names] or [[]] * len(exported.values)
    for prefix, values in exported.parts.items():
        beside = path.with_name(f"{path.name}.noise.csv") if prefix else path
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow((*(["name"] if exported.row_names else []), *exported.names))
            writer.writerows([*label, *row.tolist()] for label, row in zip(labels, values, strict=True))
    described = json.dumps(exported.metadata, indent=2)
    path.with_name(f"{path.name}.json").write_text(f"{described}\n", encoding="utf-8")


def write_npz(exported: ExportTable, path: Path) -> None:
    """Arrays ``values``, ``names``, ``units``, one for each number known of every column, and ``metadata`` (JSON text).

    A matrix has ``noise_sd`` and ``row_names`` too.
    """
    columns, plural = exported.metadata["columns"], {"name": "names", "unit": "units"}
    arrays: dict[str, Any] = {"values": exported.values}
    if exported.noise_sd is not None:
        arrays |= {"noise_sd": exported.noise_sd, "row_names": np.array(exported.row_names)}
    arrays |= {plural.get(fact, fact): np.array([column[fact] for column in columns]) for fact in columns[0]}
    with path.open("wb") as file:
        np.savez(file, **arrays, metadata=np.array(canonical_bytes(exported.metadata).decode()))


def write_parquet(exported: ExportTable, path: Path) -> None:
    """float64 columns; the metadata under the key ``dprelease`` of the schema, each column's own at its field.

    A matrix has a column ``name`` in front, and one of noise for each name behind.
    """
    import pyarrow as pa  # only an export to Parquet needs it
    import pyarrow.parquet as pq

    fields = [pa.field("name", pa.string())] if exported.row_names else []
    arrays = [pa.array(exported.row_names)] if exported.row_names else []
    for prefix, values in exported.parts.items():
        for column, numbers in zip(exported.metadata["columns"], values.T, strict=True):
            facts = {key: str(value) for key, value in column.items()}
            fields.append(pa.field(f"{prefix}{column['name']}", pa.float64(), metadata=facts))
            arrays.append(pa.array(numbers))
    schema = pa.schema(fields, metadata={METADATA_KEY: canonical_bytes(exported.metadata)})
    pq.write_table(pa.table(arrays, schema=schema), path)


WRITERS = {"csv": write_csv, "npz": write_npz, "parquet": write_parquet}
"""Format to writer."""
