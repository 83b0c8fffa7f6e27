"""Made-up rows as a file: CSV or Parquet, with what must be known to use them beside it or within.

Cells are levels as people write them, bands among them; in CSV no spreadsheet takes one for a formula. With several sets a first
column, ``(set)``, has their numbers: 0 for the model's, and 1, 2, ... for those of its refits.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from dprelease.analyses.synthetic import NOBODYS, SyntheticRows
from dprelease.canonical import canonical_bytes
from dprelease.one_line import no_formula
from dprelease.version import __version__
from learner.client.library import Opened
from learner.export.table import METADATA_KEY, about

SET = "(set)"
"""Name of the first column where there are several sets; no column is called so."""


def sidecar(opened: Opened, made: SyntheticRows) -> dict[str, Any]:
    """All that must be known to use the rows, JSON-ready; that they are nobody's comes first."""
    said = made.document().to_json()
    named = ("rows", "sets", "noise", "chi2", "largest_residual", "price", "components")
    facts = {key: said[key] for key in named} | {"pairs": said.get("pairs", [])}  # one column alone has no pairs
    described = about(opened) | {"software": __version__, "cautions": list(made.cautions), **facts}
    columns = [
        {"name": each.name, "unit": each.column.released_unit, "values": list(each.values)}
        for each in made.joint.attributes
    ]
    return {"note": NOBODYS, "use": made.rule} | described | {"columns": columns}


def metadata_bytes(metadata: dict[str, Any]) -> bytes:
    """The metadata as a file of their own."""
    return f"{json.dumps(metadata, indent=2, ensure_ascii=False)}\n".encode()


def csv_pieces(made: SyntheticRows, _metadata: dict[str, Any]) -> Iterator[bytes]:
    """One header line, then the rows of one set after another."""
    several = len(made.sets) > 1
    yield _lines([[*([SET] if several else []), *made.names]])
    for number in range(len(made.sets)):
        columns = made.columns(number, no_formula)
        first = [[str(number)] * len(columns[0])] if several else []
        yield _lines(list(zip(*first, *columns, strict=True)))


def parquet_pieces(made: SyntheticRows, metadata: dict[str, Any]) -> Iterator[bytes]:
    """Columns of text, each with a dictionary; the metadata under the key ``dprelease`` of the schema."""
    import pyarrow as pa  # only Parquet needs it
    import pyarrow.parquet as pq

    several, buffer = len(made.sets) > 1, pa.BufferOutputStream()
    text = pa.dictionary(pa.int32(), pa.string())
    fields = [*([pa.field(SET, pa.int32())] if several else []), *(pa.field(name, text) for name in made.names)]
    schema = pa.schema(fields, metadata={METADATA_KEY: canonical_bytes(metadata)})
    with pq.ParquetWriter(buffer, schema) as writer:
        for number, own in enumerate(made.sets):
            arrays = [pa.array([number] * len(own), pa.int32())] if several else []
            arrays += [
                pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(each.values))
                for each, codes in zip(made.joint.attributes, own.T, strict=True)
            ]
            writer.write_table(pa.table(arrays, schema=schema))
    yield buffer.getvalue().to_pybytes()


def _lines(rows: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


ROW_WRITERS = {".csv": csv_pieces, ".parquet": parquet_pieces}
"""Ending of a file to what writes it."""
