"""Releases of a synthetic control for tests: a proposed spec, and donors on its grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dprelease.catalogue import Catalogue
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import mechanism_named, read_options
from dprelease.privatization import privatize
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.support.specs import build_spec, numeric


def times(count: int) -> tuple[Column, ...]:
    """Columns t0, t1, ..., bounded by [-1, 1]."""
    return tuple(numeric(f"t{time}") for time in range(count))


def panel_spec(
    series: Sequence[float],
    intervention: str,
    *,
    columns: tuple[Column, ...] | None = None,
    donors: int = 10,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    grid_bits: int = 16,
    rows_per_subject: int = 1,
    parties: int = 1,
    party: str = "north",
    **options: Any,
) -> ReleaseSpec:
    """The spec that the mechanism proposes.

    Raises:
        InvalidInput, ValueError: as the mechanism and its options.
    """
    columns = times(len(series)) if columns is None else columns
    asked = read_options("synthetic-control", {"series": [*series], "intervention": intervention} | options)
    facts: Any = {"roster": "roster-1", "rows": donors, "rows_per_subject": rows_per_subject, "alignment": "a" * 64}
    names = ("north", "south", "east")[:parties]
    agreed = Catalogue(party="north", columns=columns, **facts)
    target = Target(scope="joint", epsilon=epsilon, delta=delta)
    draft = Draft(dict.fromkeys(names, columns), agreed, target, grid_bits, lambda size: bytes(size))
    terms = mechanism_named("synthetic-control").propose(asked, draft).terms
    plain = build_spec(
        {party: columns},
        mechanism="rows",
        rows=donors,
        epsilon=epsilon,
        delta=delta,
        grid_bits=grid_bits,
        rows_per_subject=rows_per_subject,
    )
    return ReleaseSpec.model_validate(plain.model_copy(update={"terms": terms}).model_dump() | {"terms": terms})


def donors_of(spec: ReleaseSpec, scaled: Any) -> BoundedRows:
    codes = np.rint(np.asarray(scaled, np.float64) * 2**spec.grid_bits).astype(np.int32)
    return BoundedRows(codes, spec.columns, spec.grid_bits)


def released(spec: ReleaseSpec, scaled: Any, noise: Any) -> Release:
    return Release(spec, {"north": privatize(donors_of(spec, scaled), spec, "north", noise)}, ())
