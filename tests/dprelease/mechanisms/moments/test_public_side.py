"""Public features that follow from one another: named, and refused; private cells play no part."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.errors import DataRefused
from dprelease.mechanisms.moments.public_side import following
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.spec import ReleaseSpec
from tests.support.specs import build_spec, categorical, numeric

N = 60
BITS = 10
RANDOM = np.random.default_rng(5)
A, B = RANDOM.integers(-512, 512, (2, N)) / 1024
GROUP = [str(each) for each in RANDOM.choice(["I", "II", "other"], N)]
CELLS = {"a": A, "b": B, "sum": A + B, "flat": np.full(N, 0.25), "stage": GROUP, "y": RANDOM.uniform(-1, 1, N)}


def rows(*columns: Column, **cells: object) -> BoundedRows:
    raw = {**CELLS, **cells}
    return BoundedRows(bound({each.name: raw[each.name] for each in columns}, columns, BITS), columns, BITS)  # type: ignore[misc]


def shown(name: str) -> Column:
    return numeric(name, public=True)


def check_public(bounded: BoundedRows, spec: ReleaseSpec, party: str) -> None:
    mechanism_of(spec).check_public(bounded, spec, party)


STAGE = categorical("stage", "I", "II", public=True)


@pytest.mark.parametrize(
    ("columns", "cells", "found"),
    [
        ((shown("a"), shown("b")), {}, ()),
        ((shown("a"), shown("b"), STAGE), {}, ()),
        ((shown("a"), shown("flat")), {}, ("flat",)),
        ((shown("a"), STAGE), {"stage": ["I", "II"] * (N // 2)}, ("stage=other",)),
        ((shown("a"), STAGE), {"a": np.array([each == "II" for each in GROUP]) / 2}, ("a", "stage=II")),
        ((shown("a"), numeric("b")), {"b": A}, ()),
        ((numeric("a"), numeric("flat")), {}, ()),
        ((shown("a"), shown("y")), {"y": A}, ()),
    ],
)
def test_what_follows_from_the_others_is_named(
    columns: tuple[Column, ...], cells: dict[str, object], found: tuple[str, ...]
) -> None:
    said = following(rows(*columns, **cells), ("y",))
    assert set(said) <= set(found)
    assert bool(said) == bool(found)


def test_one_of_a_dependent_set_is_enough_to_leave_out() -> None:
    assert len(following(rows(shown("a"), shown("b"), shown("sum")), ())) == 1
    assert following(rows(shown("a"), numeric("b"), shown("sum")), ()) == ()


def test_more_features_than_patients_follow_from_one_another() -> None:
    few = [numeric(f"x{place}", public=True) for place in range(5)]
    raw = {each.name: RANDOM.uniform(-1, 1, 4) for each in few}
    bounded = BoundedRows(bound(raw, tuple(few), BITS), tuple(few), BITS)  # type: ignore[arg-type]
    assert len(following(bounded, ())) == 2  # three and the constant fill four rows


def test_only_a_release_with_outcomes_is_refused() -> None:
    columns = (shown("a"), shown("flat"))
    parties = {"north": columns, "south": (numeric("y"),)}
    bounded = rows(*columns)
    check_public(bounded, build_spec(parties, mechanism="moments", guarantee="label-DP"), "north")
    check_public(bounded, build_spec(parties, guarantee="label-DP"), "north")
    spec = build_spec(parties, mechanism="moments", guarantee="label-DP", outcomes=("y",))
    with pytest.raises(DataRefused) as refused:
        check_public(bounded, spec, "north")
    assert refused.value.message.startswith(
        "public features that follow from the others and the constant: flat. Ask for"
    )


def test_outcomes_longer_than_their_owner_said_are_refused_at_the_owner_only() -> None:
    columns = (shown("a"), shown("b"))
    longest = float((A**2 + B**2).max())
    for norm2, fits in ((longest + 0.01, True), (longest - 0.01, False)):
        spec = build_spec(
            {"north": columns, "south": (numeric("y"),)},
            mechanism="moments",
            guarantee="feature-DP",
            outcomes=("a", "b"),
            public_norm2=Fraction(f"{norm2:.6f}"),
        )
        check_public(rows(numeric("y")), spec, "south")
        if fits:
            check_public(rows(*columns), spec, "north")
        else:
            with pytest.raises(DataRefused, match="state at least that"):
                check_public(rows(*columns), spec, "north")
