"""Made-up releases for dry runs: a spec that says FAKE wherever it names something, and cells that nobody ever had.

Cells follow from the spec alone: they are expanded from a public stream that its digest keys, spread evenly over the declared
ranges and levels, from 0 to 100 where a number has no bounds, and unrelated, but for the outcome, which half depends on all the
others so that a fit has something to find.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dprelease.arrays import Floats
from dprelease.canonical import read_data, sha256
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.column import RawColumn
from dprelease.privacy.public_stream import BLOCK_BYTES, PublicStream
from dprelease.release.spec import ReleaseSpec

FAKE = "FAKE"
"""How everything made up begins."""

NOTE = "FAKE: every number of this release was made up in a dry run, from declarations alone; it says nothing about anybody."

SIGNAL = 0.5
"""Share of the outcome's variance, before it is brought into its range, that the other columns explain."""

_LONGEST_NAME, _LONGEST_TITLE, _WORD_BYTES = 64, 200, 8


def note(spec: ReleaseSpec) -> tuple[str, ...]:
    """The note before the guarantee of a made-up release, wherever one is shown; nothing for any other."""
    return (NOTE,) if spec.consortium.startswith(f"{FAKE}-") else ()


def marked(name: str) -> str:
    """A consortium's, roster's or party's name as a dry run has it."""
    return f"{FAKE}-{name}"[:_LONGEST_NAME]


def fake_spec(spec: ReleaseSpec, keys: Mapping[str, str], rows: int) -> ReleaseSpec:
    """The spec as a dry run has it: other names, other keys, patients of nobody; every other number as it is.

    Args:
        spec: what would be proposed.
        keys: marked party to the fingerprint of its throw-away key.
        rows: made-up patients; at most those of the spec, and at least its mixing rows.

    Raises:
        InvalidInput: two parties have one name once it is marked and cut to 64 letters, or there are too few rows.
    """
    data = spec.model_dump(mode="json")
    for part in data["parties"]:
        part["key"] = keys[marked(part["party"])]
    names = {
        "title": f"{FAKE}: {spec.title}"[:_LONGEST_TITLE],
        "consortium": marked(spec.consortium),
        "roster": marked(spec.roster),
        "alignment": sha256(b"dprelease/fake/v1/nobody"),
        "rows": rows,
    }
    return read_data(ReleaseSpec, _marked_parties(data) | names, "the dry run")


def _marked_parties(data: Any) -> Any:
    """Plain data with every party's name marked; whatever mechanism the terms are of, they stand under ``party``."""
    if isinstance(data, list):
        return [_marked_parties(each) for each in data]
    if not isinstance(data, dict):
        return data
    return {key: marked(value) if key == "party" else _marked_parties(value) for key, value in data.items()}


def fake_rows(spec: ReleaseSpec, outcome: str) -> dict[str, BoundedRows]:
    """Every party's made-up rows, brought onto the grid the way a hospital's own are.

    Args:
        spec: from `fake_spec`.
        outcome: name of the declared column that depends on all the others.
    """
    raw = fake_cells(spec, outcome)
    return {
        part.party: BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
        for part in spec.parties
    }


def fake_cells(spec: ReleaseSpec, outcome: str) -> dict[str, RawColumn]:
    """Column name to n made-up cells, within bounds and levels."""
    from scipy.special import ndtr, ndtri  # slow to load, and only dry runs make anything up

    stream = PublicStream(bytes.fromhex(sha256(b"dprelease/fake/v1" + bytes.fromhex(spec.digest()))))
    size = -(-_WORD_BYTES * spec.rows // BLOCK_BYTES) * BLOCK_BYTES
    places = {column.name: _uniform(stream.read(at * size, size), spec.rows) for at, column in enumerate(spec.columns)}
    others = [column.standardised(places[column.name]) for column in spec.columns if column.name != outcome]
    if others:
        signs = [1 if at % 2 == 0 else -1 for at in range(len(others))]
        drive = sum((sign * other for sign, other in zip(signs, others, strict=True)), np.zeros(spec.rows))
        own = math.sqrt(SIGNAL / len(others)) * drive + math.sqrt(1 - SIGNAL) * ndtri(places[outcome])
        places[outcome] = ndtr(own)
    return {column.name: column.made_up(places[column.name]) for column in spec.columns}


def _uniform(data: bytes, rows: int) -> Floats:
    """(n,) numbers inside (0, 1), evenly spread."""
    return ((np.frombuffer(data, "<u8", rows) >> 12).astype(np.float64) + 0.5) / 2.0**52
