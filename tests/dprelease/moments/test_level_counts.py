"""The noise that is told of the number of patients of a level is that of the entry that counts them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipping_rule import Situation, choose_clipping
from dprelease.mechanisms.moments.level_counts import levels_in_words
from dprelease.mechanisms.moments.privatize import coded, exact_share
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.session import Products
from dprelease.release.spec import ReleaseSpec
from tests.support.specs import build_spec, categorical, numeric, with_terms

AGE, SEX, STAGE = numeric("age"), categorical("sex", "female"), categorical("stage", "i", "ii")


def release(*columns: Column, outcomes: tuple[str, ...] = (), clipped: bool = False) -> ReleaseSpec:
    spec = build_spec({"north": columns}, mechanism="moments", outcomes=outcomes)
    if not clipped:
        return spec
    chosen = choose_clipping(
        {"north": columns}, [Range.whole("age")], Situation(1.0, spec.rows, 1, 0, spec.grid_bits), {}
    )
    return with_terms(spec, clipping=chosen, scale=3e7, diagonal_scale=2e7)


def told(spec: ReleaseSpec, name: str, level: str, other: str) -> float:
    """The noise of the entry of a level and the constant, in the patients by whom one more of the level moves it."""
    cells: dict[str, Any] = {"age": [0.0] * spec.rows, "sex": ["female"] * spec.rows, "stage": ["i"] * spec.rows}
    entries = []
    for value in (level, other):
        cells[name][0] = value
        own = {each.name: cells[each.name] for each in spec.columns}
        rows = BoundedRows(bound(own, spec.columns, spec.grid_bits), spec.columns, spec.grid_bits)
        entries.append(exact_share(Products(coded(rows, spec), {}, {}), spec, "north")[0])
    layout = layout_of(spec)
    place = next(i for i, each in enumerate(layout.variables, 1) if each.name == f"{name}={level}")
    (entry,) = np.flatnonzero((layout.rows == 0) & (layout.cols == place))
    moved = abs(int(entries[0][entry] - entries[1][entry]))
    return joint_moments(spec).scales[layout.kinds[entry]] / moved


@pytest.mark.parametrize("clipped", [False, True])
def test_it_is_that_of_the_entry(clipped: bool) -> None:
    spec = release(AGE, SEX, STAGE, clipped=clipped)
    sds = told(spec, "sex", "female", "other"), told(spec, "stage", "ii", "i")
    assert math.isclose(sds[1], 2 * sds[0])
    shown = [f"{float(f'{sd:.2g}'):,g}" for sd in sds]
    (said,) = (line for line in mechanism_of(spec).words(spec).details if line.startswith("the number of patients"))
    assert said.endswith(f"of a level is published with a standard deviation of about {shown[0]} to {shown[1]}")


def test_a_category_that_is_an_outcome_has_the_noise_of_the_association() -> None:
    spec = release(AGE, STAGE, outcomes=("stage",))
    sd = told(spec, "stage", "ii", "i")
    assert mechanism_of(spec).words(spec).details[-1].endswith(f"deviation of about {float(f'{sd:.2g}'):,g}")


def test_without_a_private_category_nothing_is_said() -> None:
    for columns in ((AGE,), (AGE, SEX.model_copy(update={"public": True}))):
        spec = release(*columns)
        assert levels_in_words(layout_of(spec), joint_moments(spec).scales, None, 1, spec.grid_bits) == ""
