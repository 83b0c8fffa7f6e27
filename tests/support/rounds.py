"""Joint moments whose first round publishes ranges: the spec of a request, and what is left of it once they are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.catalogue import Catalogue
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import NumericColumn
from dprelease.mechanisms.base import EarlierRounds
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.block import Block, values_of
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec

BLOCKS = 2
"""Of each party: ranges, moments."""


def ranges_first(spec: ReleaseSpec, **options: Any) -> ReleaseSpec:
    """The spec as a request with ``ranges = "first"`` makes it, everything else as it is.

    Args:
        spec: of a mechanism that may have a first round, without outcomes.
        options: more keys of the request.
    """
    facts = {name: getattr(spec, name) for name in ("roster", "rows", "rows_per_subject", "alignment")}
    agreed = Catalogue(party=spec.parties[0].party, columns=spec.parties[0].columns, **facts)
    columns = spec.columns_by_party
    draft = Draft(columns, agreed, spec.target, spec.grid_bits, bytes)
    chosen = read_options(spec.mechanism, {"ranges": "first", **options})
    terms = mechanism_named(spec.mechanism).propose(chosen, draft).terms
    return ReleaseSpec.from_bytes(spec.model_copy(update={"terms": terms}).to_bytes())


def ranges_first_without_bounds(spec: ReleaseSpec, names: tuple[str, ...], **options: Any) -> ReleaseSpec:
    """The same where nobody knows the bounds of some numbers.

    Args:
        spec: as of `ranges_first`, all its numbers with bounds.
        names: of those numbers.
        options: more keys of the request.
    """
    parts = []
    for part in spec.parties:
        columns = tuple(
            NumericColumn.model_validate({"name": column.name, "bounds": "unknown"}) if column.name in names else column
            for column in part.columns
        )
        parts.append(part.model_copy(update={"columns": columns}))
    return ranges_first(spec.model_copy(update={"parties": tuple(parts)}), **options)


def first_blocks(
    spec: ReleaseSpec, tables: Mapping[str, BoundedRows], noise: NoiseSource
) -> dict[str, tuple[Block, ...]]:
    """Every party's blocks of the first round."""
    return {party: privatize(rows, spec, party, noise) for party, rows in tables.items()}


def after(spec: ReleaseSpec, first: Mapping[str, tuple[Block, ...]]) -> EarlierRounds:
    """The first round, as the round after it takes it."""
    return mechanism_of(spec).earlier(spec, values_of(first))


def made_alone(spec: ReleaseSpec, rows: BoundedRows, noise: NoiseSource) -> Release:
    """The release of one party that has every column.

    Args:
        spec: from `ranges_first`.
        rows: the party's.
        noise: of all rounds.
    """
    party = spec.parties[0].party
    first = first_blocks(spec, {party: rows}, noise)
    if len(spec.rounds()) == 1:
        return Release(spec, first, ())
    last = privatize(rows, spec, party, noise, earlier=after(spec, first))
    return Release(spec, {party: (*first[party], *last)}, ())


def in_published_ranges(spec: ReleaseSpec, first: Mapping[str, tuple[Block, ...]]) -> ReleaseSpec:
    """The spec with the ranges that mechanism ``ranges`` reads in the blocks of its first round.

    Args:
        spec: from `ranges_first`.
        first: party to its block of the first round.
    """
    left = after(spec, first).left
    assert isinstance(left, ReleaseSpec)
    return left
