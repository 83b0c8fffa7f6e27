"""Declarations: what is refused, what is released under which name, and the sensitivity that follows from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.data.bounding import bound
from dprelease.data.columns import (
    CategoricalColumn,
    NumericColumn,
    check_weights,
    private_weights,
    released_names,
    squared_sensitivity,
    weights_of,
)
from dprelease.errors import InvalidInput
from tests.support.kinds import is_binary
from tests.support.specs import categorical, numeric

SEX = categorical("sex", "female", "male", exhaustive=True, fill="male")


def test_numeric_column_is_scaled_by_its_public_bounds() -> None:
    age = numeric("age", 20.0, 100.0, unit="years")
    assert (age.midpoint, age.half_width, age.fill) == (60.0, 40.0, 60.0)
    assert age.released == ("age",)


def test_categorical_column_has_a_level_for_the_rest_unless_levels_are_exhaustive() -> None:
    assert categorical("sex", "female", "male").released == ("sex=female", "sex=male", "sex=other")
    assert categorical("sex", "female").fill == "other"
    assert SEX.released == ("sex=female", "sex=male")
    columns = (categorical("sex", "female"), SEX, categorical("sex", "female", "male"))
    assert [is_binary(each) for each in columns] == [True, True, False]


def test_only_exhaustive_levels_say_so_in_canonical_bytes() -> None:
    assert "exhaustive" not in categorical("sex", "female", "male").model_dump(mode="json")
    assert CategoricalColumn.from_bytes(SEX.to_bytes()) == SEX
    assert b'"exhaustive":true' in SEX.to_bytes()


@pytest.mark.parametrize(
    "declared",
    [
        {"lower": 1.0, "upper": 1.0},
        {"lower": 2.0, "upper": 1.0},
        {"lower": math.nan, "upper": 1.0},
        {"lower": -math.inf, "upper": 1.0},
        {"lower": 0.0, "upper": math.inf},
        {"lower": 0.0, "upper": 1.0, "fill": 1.5},
        {"lower": 0.0, "upper": 1.0, "fill": math.nan},
        {"lower": 0.0},
        {"lower": "low", "upper": "high"},
        {"lower": 0.0, "upper": 1.0, "mean": 0.5},
    ],
)
def test_numeric_declarations_without_sense_are_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NumericColumn.model_validate({"name": "age", **declared})


def test_bounds_too_close_for_a_half_width_are_refused() -> None:
    # Half of the smallest positive double is zero: such a column could not be scaled.
    with pytest.raises(ValidationError):
        numeric("age", 0.0, 5e-324, fill=0.0)


@pytest.mark.parametrize(
    "declared",
    [
        {"levels": ()},
        {"levels": ("a", "a")},
        {"levels": ("a", "other")},
        {"levels": ("a", "")},
        {"levels": ("a", " b")},
        {"levels": ("a", "b"), "fill": "c"},
        {"levels": ("a", "b"), "exhaustive": True},
        {"levels": ("a", "b"), "exhaustive": True, "fill": "other"},
        {"levels": ("a",), "exhaustive": True, "fill": "a"},
        {"levels": ("a", "other"), "exhaustive": True, "fill": "a"},
        {"levels": ("a", "b"), "exhaustive": "yes", "fill": "a"},
        {"levels": tuple(str(i) for i in range(1001))},
    ],
)
def test_categorical_declarations_without_sense_are_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CategoricalColumn.model_validate({"name": "sex", **declared})


@pytest.mark.parametrize("name", ["", "1st", "a b", "a=b", "a\n", "é", "x" * 65, "../a"])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(ValidationError):
        numeric(name)


def test_released_names_follow_the_declared_order() -> None:
    columns = (categorical("sex", "f"), numeric("age"))
    assert released_names(columns) == ("sex=f", "sex=other", "age")


@pytest.mark.parametrize("numerics", [0, 1, 3])
@pytest.mark.parametrize("categoricals", [0, 1, 2])
def test_sensitivity_is_four_for_a_number_and_two_for_a_category(numerics: int, categoricals: int) -> None:
    columns = tuple(numeric(f"n{i}") for i in range(numerics)) + tuple(
        categorical(f"c{i}", *"abcdefg"[: i + 1]) for i in range(categoricals)
    )
    assert squared_sensitivity(columns) == 4 * numerics + 2 * categoricals


SHOWN = numeric("seen").model_copy(update={"public": True})
WEIGHED = (numeric("age"), categorical("sex", "f", "m"), SHOWN)


def test_weights_are_listed_only_where_one_is_not_1() -> None:
    assert weights_of(WEIGHED, {"sex": 3, "elsewhere": 2}) == (1, 3, 1)
    assert weights_of(WEIGHED, {"age": 1, "elsewhere": 2}) == weights_of(WEIGHED, {}) == ()


def test_a_weight_counts_squared_and_for_every_level() -> None:
    assert squared_sensitivity(WEIGHED, (2, 3, 1)) == 4 * 4 + 9 * 2
    assert private_weights(WEIGHED, (2, 3, 1)).tolist() == [2, 3, 3, 3]
    assert private_weights(WEIGHED, ()).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"weight": 2}, "no such column to weigh: weight; there are age, sex, seen"),
        ({"seen": 2}, "seen is public and gets no noise"),
        ({"age": 0}, "between 1 and 16, not 0"),
        ({"age": 17}, "between 1 and 16, not 17"),
    ],
)
def test_weights_that_no_release_has_are_refused(chosen: dict[str, int], message: str) -> None:
    check_weights(WEIGHED, {"age": 16, "seen": 1})
    with pytest.raises(InvalidInput, match=message):
        check_weights(WEIGHED, chosen)


@given(st.integers(1, 6), st.booleans(), st.data())
def test_changing_a_level_moves_the_one_hot_row_by_exactly_root_two(
    levels: int, exhaustive: bool, data: st.DataObject
) -> None:
    named = [f"level {i}" for i in range(levels + exhaustive)]
    column = categorical("group", *named, **({"exhaustive": True, "fill": named[0]} if exhaustive else {}))
    names = st.sampled_from(column.values)
    before, after = data.draw(names), data.draw(names)
    codes = bound({"group": [before, after]}, (column,), 12).astype(np.int64)
    change = int(np.sum((codes[0] - codes[1]) ** 2))
    assert change == (0 if before == after else 2 << 24)
