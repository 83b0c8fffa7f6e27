"""Masked columns are a one-time pad, and of the length that the release has; `test_modulus` has shares of products."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.errors import IntegrityError
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc.exchange import masked, share
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.schedule import CorrelatedRandomness
from tests.support.specs import build_spec, numeric, random_rows

SPEC = build_spec(
    {"a": (numeric("a0"), numeric("a1")), "b": (numeric("b0"),)}, mechanism="moments", rows=30, grid_bits=16
)


def test_masked_columns_are_a_one_time_pad() -> None:
    schedule = schedule_of(SPEC)
    tables = [code(random_rows(SPEC, "a", seed).codes, SPEC.parties[0].columns) for seed in (1, 2)]
    first, second = (np.vstack(list(masked(table, bytes(32), schedule))) for table in tables)
    pad = FIELD.subtract(first, FIELD.elements(tables[0]))
    assert (FIELD.subtract(second, pad) == FIELD.elements(tables[1])).all()  # the same pad, whatever the data
    assert np.unique(pad).size == pad.size


def test_columns_of_another_length_are_refused() -> None:
    schedule = schedule_of(SPEC)
    coded = code(random_rows(SPEC, "b", 3).codes, SPEC.parties[1].columns)
    peer = [np.zeros((29, 2), np.uint64)]
    (pair,) = schedule.pairs
    dealt = CorrelatedRandomness("", bytes(32), b"", {pair: np.zeros((2, 1), np.uint64)}, ())
    for party, other in (("b", peer), ("a", [np.zeros((29, 1), np.uint64)])):
        with pytest.raises(IntegrityError, match="29 rows where the release has 30"):
            share(pair, party, coded if party == "b" else np.zeros((30, 2), np.int32), dealt, other, schedule)
