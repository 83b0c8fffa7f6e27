"""Rows that a caller holds are matched by name where they have names; nothing is predicted from what is not there."""

from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators import LinearRegression
from dprelease.release.release import Release

ROWS = {"age": [40.0, 71.0, 55.0], "glucose": [5.0, 9.5, 7.0]}
ARRAY = np.column_stack(list(ROWS.values()))
BACKWARDS = {name: ROWS[name] for name in ("glucose", "age")}


@pytest.fixture
def model(noisy_mixed: Release) -> LinearRegression:
    return LinearRegression("calibrated").fit(noisy_mixed, ["score", "dose"], ["age", "glucose"])


@pytest.mark.parametrize(
    "table",
    [ROWS, BACKWARDS, MappingProxyType(BACKWARDS), pd.DataFrame(ROWS), pd.DataFrame(BACKWARDS, index=[7, 7, 1])],
)
def test_columns_are_taken_by_name_in_any_order(model: LinearRegression, table: Any) -> None:
    np.testing.assert_array_equal(model.predict(table), model.predict(ARRAY))
    np.testing.assert_array_equal(model.result_.predict(table), model.predict(ARRAY))


@pytest.mark.parametrize("table", [ARRAY.tolist(), pd.DataFrame(ARRAY)])
def test_without_names_columns_are_taken_in_the_models_order(model: LinearRegression, table: Any) -> None:
    np.testing.assert_array_equal(model.predict(table), model.predict(ARRAY))
    assert not np.allclose(model.predict(ARRAY[:, ::-1]), model.predict(ARRAY))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"age": [40.0]}, "X lacks columns glucose; the model has age, glucose"),
        ({}, "X lacks columns age, glucose"),
        (pd.DataFrame({"age": [40.0], "Glucose": [5.0]}), "X lacks columns glucose"),
        ({**ROWS, "sex": [0, 1, 1]}, "X has unknown columns sex; the model has age, glucose"),
        (pd.DataFrame([[40.0, 5.0, 5.0]], columns=["age", "glucose", "glucose"]), "more than one of columns glucose"),
        ({"age": [40.0], "glucose": [5.0, 6.0]}, "equally long"),
        ({"age": 40.0, "glucose": 5.0}, "equally long"),
        ({"age": ["old"], "glucose": [5.0]}, "column age of X must be numbers"),
        ([["40,5", 5.0]], "X must be numbers"),
        ([[10**400, 5.0]], "X must be numbers"),
        ({"age": [40.0, np.nan], "glucose": [5.0, 6.0]}, "missing or infinite cells in age; fill them"),
        ([[40.0, np.inf]], "missing or infinite cells in glucose"),
        (pd.DataFrame({"age": [40.0, None], "glucose": [5.0, None]}), "missing or infinite cells in age, glucose"),
        ([[1e308, -1e308]], r"cells beyond 1e\+50 in age, glucose"),
    ],
)
def test_what_cannot_be_predicted_from_is_refused(model: LinearRegression, table: Any, words: str) -> None:
    for predict in (model.predict, model.result_.predict, model.predict_interval, model.result_.predict_interval):
        with pytest.raises(InvalidInput, match=words):
            predict(table)


def test_a_score_matches_outcomes_by_name_too(model: LinearRegression) -> None:
    true = model.predict(ARRAY) + np.array([[1.0, 0.1], [-1.0, 0.2], [2.0, -0.1]])
    named = pd.DataFrame(true[:, ::-1], columns=["dose", "score"])
    assert model.score(pd.DataFrame(BACKWARDS), named) == model.score(ARRAY, true)
    with pytest.raises(InvalidInput, match="y lacks columns score"):
        model.score(ARRAY, named.rename(columns={"score": "points"}))
