"""Which columns take part in a fit."""

import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators.design import design
from dprelease.release.release import Release


@pytest.mark.parametrize(
    ("targets", "features", "expected_targets", "expected_features"),
    [
        (["score"], None, ("score",), ("age", "sex=male", "sex=other", "glucose", "dose")),
        (["dose", "score"], None, ("dose", "score"), ("age", "sex=male", "sex=other", "glucose")),
        (["score"], ["sex", "age"], ("score",), ("sex=male", "sex=other", "age")),
        (["score"], ["sex=female"], ("score",), ("sex=female",)),
        (["sex"], ["age"], ("sex=female", "sex=male", "sex=other"), ("age",)),
        (["sex=male"], None, ("sex=male",), ("age", "glucose", "score", "dose")),
        (["score", "score"], ["age", "age"], ("score",), ("age",)),
    ],
)
def test_names_stand_for_released_columns(
    exact_rows: Release, targets: list[str], features: list[str] | None, expected_targets, expected_features
):
    resolved = design(exact_rows, targets, features)
    assert resolved.targets == expected_targets
    assert resolved.features == expected_features
    released = exact_rows.spec.released
    assert tuple(released[index] for index in resolved.target_index) == expected_targets
    assert tuple(released[index] for index in resolved.feature_index) == expected_features


@pytest.mark.parametrize(
    ("targets", "features", "says"),
    [
        (["weight"], None, "weight; it has age, sex=female"),
        (["score"], ["age", "weight"], "weight; it has age, sex=female"),
        (["score"], ["sex=unheard-of"], "sex=unheard-of"),
        (["score"], ["age", "score"], "leave out score"),
        (["sex=male"], ["age", "sex=female"], "leave out sex=female"),
        (["sex"], ["sex"], "leave out sex=male, sex=other"),
        (["score"], [], "no feature"),
        (["age", "sex", "glucose", "score", "dose"], None, "no feature"),
        ([], None, "at least one target"),
        ("score", None, r"\['score'\]"),
        (["score"], "age", r"\['age'\]"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(exact_rows: Release, targets, features, says: str):
    with pytest.raises(InvalidInput, match=says):
        design(exact_rows, targets, features)
