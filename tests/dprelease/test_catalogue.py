"""A catalogue: declarations only, and every name once.

Declarations: what is refused, what is released under which name, and the sensitivity that follows from them.

Ordered categories: how levels are coded, what is refused, and what hospitals and learners see of them.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.analyses.correlation import correlations
from dprelease.catalogue import Catalogue
from dprelease.data.bounding import bound, within
from dprelease.data.columns import (
    CategoricalColumn,
    Column,
    NumericColumn,
    OrderedColumn,
    check_weights,
    numbers,
    private_weights,
    squared_sensitivity,
)
from dprelease.description.columns import describe
from dprelease.errors import InvalidInput
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import released
from tests.party_node.tables import codes_by_subject, csv, read, settings
from tests.support.specs import categorical, numeric, ordered


def catalogue(*columns: Column, **changes: object) -> Catalogue:
    return Catalogue.model_validate(
        {
            "party": "north",
            "roster": "roster-1",
            "rows": 40,
            "rows_per_subject": 1,
            "alignment": "0" * 64,
            "columns": columns,
            **changes,
        }
    )


def test_bytes_give_back_the_catalogue() -> None:
    given = catalogue(numeric("age"), categorical("sex", "female"))
    assert Catalogue.from_bytes(given.to_bytes()) == given
    assert given.column("sex") == categorical("sex", "female")
    assert given.column("sex=female") is None


@pytest.mark.parametrize("twin", [numeric("sex"), categorical("sex", "female"), categorical("sex", "male")])
def test_a_name_stands_for_one_column(twin: Column) -> None:
    with pytest.raises(ValidationError, match="must be distinct"):
        catalogue(categorical("sex", "female"), twin)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": 10**4000},
        {"rows_per_subject": 0},
        {"rows_per_subject": 10**300},
        {"subjects": 2**53 + 1},
        {"batches": ({"number": 1, "rows": 2**53 + 1, "alignment": "0" * 64},)},
        {"alignment": "0"},
        {"party": "no rth"},
        {"format": 2},
        {"mean": 1.0},
        {"columns": ()},
        {"columns": ({"kind": "categorical", "name": "sex", "levels": ("female", "m" * 201)},)},
        {"columns": ({"kind": "numeric", "name": "age", "lower": 0.0, "upper": 120.0, "unit": "y" * 201},)},
    ],
)
def test_catalogues_without_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        catalogue(**{"columns": (numeric("age"),)} | changes)


def test_it_has_no_field_for_a_cell_or_an_identifier() -> None:
    fields = {"format", "party", "roster", "rows", "rows_per_subject", "alignment", "columns", "batches", "identifiers"}
    fields |= {"subjects", "aligned", "comparable"}
    assert set(Catalogue.model_fields) == fields


SEX = categorical("sex", "female", "male", exhaustive=True, fill="male")


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


@pytest.mark.parametrize("numerics", [0, 1, 3])
@pytest.mark.parametrize("categoricals", [0, 1, 2])
def test_sensitivity_is_four_for_a_number_and_two_for_a_category(numerics: int, categoricals: int) -> None:
    columns = tuple(numeric(f"n{i}") for i in range(numerics)) + tuple(
        categorical(f"c{i}", *"abcdefg"[: i + 1]) for i in range(categoricals)
    )
    assert squared_sensitivity(columns) == 4 * numerics + 2 * categoricals


SHOWN = numeric("seen").model_copy(update={"public": True})
WEIGHED = (numeric("age"), categorical("sex", "f", "m"), SHOWN)


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


EDUCATION = ordered("education", "none", "primary", "secondary", "tertiary", fill="primary")
YEARS = ordered("education", "none", "primary", "tertiary", scores=(0.0, 6.0, 16.0), unit="years")


def test_only_scores_that_are_declared_stand_in_canonical_bytes() -> None:
    assert b"scores" not in EDUCATION.to_bytes()
    for column in (EDUCATION, YEARS):
        assert OrderedColumn.from_bytes(column.to_bytes()) == column


@given(st.integers(2, 100), st.integers(1, 24))
def test_codes_are_in_order_on_the_grid_and_those_of_levels_alone(count: int, bits: int) -> None:
    column = ordered("x", *map(str, range(count)))
    codes = column.code(column.levels, bits)
    assert (np.diff(codes[:, 0]) >= 0).all()
    assert (codes[0, 0], codes[-1, 0]) == (-(1 << bits), 1 << bits)
    assert within(codes, (column,), bits)
    other = np.setdiff1d(np.arange(-(1 << bits), (1 << bits) + 1, max(1, (1 << bits) // 300)), codes)
    assert not any(within(np.array([[code]], np.int32), (column,), bits) for code in other[:50])


def test_a_patient_moves_it_from_the_first_level_to_the_last() -> None:
    assert squared_sensitivity((EDUCATION,)) == 4
    assert squared_sensitivity((EDUCATION.model_copy(update={"public": True}),)) == 0
    assert numbers((EDUCATION, categorical("sex", "f"))) == (EDUCATION,)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"levels": ("none",)}, "at least 2 items"),
        ({"levels": tuple(map(str, range(101)))}, "at most 100 items"),
        ({"levels": ("none", "some", "none")}, "leave out the second 'none'"),
        ({"levels": ("none", "other")}, "'other' has no place in an order"),
        ({"levels": ("none", " some")}, "white space"),
        ({"levels": ("none", "some"), "fill": ""}, "declare fill, the level that stands in"),
        ({"levels": ("none", "some"), "fill": "many"}, "fill 'many' is none of none, some"),
        ({"levels": ("none", "some"), "scores": (1.0,)}, "1 scores for 2 levels"),
        ({"levels": ("none", "some"), "scores": (1.0, 1.0)}, "the score of 'some' must be above"),
        ({"levels": ("none", "some"), "scores": (0.0, float("nan"))}, "finite number"),
        ({"levels": ("none", "some"), "scores": (-1e308, 1e308)}, "too close or too far apart"),
    ],
)
def test_declarations_without_sense_are_refused(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        OrderedColumn.model_validate({"name": "x", "fill": "none", **declared})


def test_a_forecast_takes_all_levels_to_be_as_frequent() -> None:
    assumed = EDUCATION.assumption(0.1, signs=True)
    assert (assumed.width, assumed.mean) == (1, 0.0)
    assert assumed.variance == pytest.approx(np.var([-1, -1 / 3, 1 / 3, 1]))
    assert YEARS.assumption(0.1, signs=True).mean == pytest.approx(np.mean([-1, -0.25, 1]))
    places = (np.arange(4000) + 0.5) / 4000
    scores = EDUCATION.standardised(places)
    assert (scores.mean(), scores.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    assert [*EDUCATION.made_up(places[::1000])] == [*EDUCATION.levels]


# A hospital.

DECLARED = {"kind": "ordered", "levels": ["none", "primary", "tertiary"], "fill": "none"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"levels": ["none", "some", "none"]},
            "column education: levels: levels must be distinct; leave out the second 'none'",
        ),
        ({"levels": ["none"]}, "column education: levels: must be a list of 2 or more"),
        ({"fill": ""}, "column education: declare fill"),
        ({"lower": 0}, "column education: lower: there is no such key"),
        ({"aggregate": "mean"}, 'column education: aggregate: kind = "ordered" takes first, last, min, max'),
        ({"decimal": ","}, "column education: decimal: only numbers have it"),
    ],
)
def test_a_hospital_is_told_what_is_wrong(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(tmp_path / "rows.csv", {"education": DECLARED | keys})
    assert words in str(caught.value)


def test_a_level_of_it_makes_an_indicator_and_it_is_no_number(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,education\na,none\nb,tertiary\n")
    degree = {"degree": {"derived": {"indicator": "education", "level": "tertiary"}}}
    table = read(path, {"education": DECLARED} | degree)
    assert {name: code[1:] for name, code in codes_by_subject(table, ["a", "b"]).items()} == {
        "a": [0, 1 << 10],
        "b": [1 << 10, 0],
    }
    with pytest.raises(ValidationError, match="square: education is no number"):
        settings(path, {"education": DECLARED, "more": {"derived": {"square": "education"}}})


# A learner.

LEGEND = "education: 0 = none, 1 = primary, 2 = secondary, 3 = tertiary"


def published(columns: tuple[Column, ...], seed: int = 0) -> tuple[Release, Any]:
    """A release without noise, and education and income of its patients."""
    generator = np.random.default_rng(seed)
    education = generator.integers(0, 4, 4000)
    income = 10 + 3 * education + generator.normal(0, 1, 4000)
    cells = {"education": np.array(EDUCATION.levels)[education], "income": income}
    return released(columns, cells, sd=1e-5), np.polyfit(education, income, 1)


def test_its_mean_is_told_with_the_names_of_its_levels() -> None:
    release, _ = published((EDUCATION, numeric("income", 0.0, 40.0)))
    found = describe(release)
    assert found.mean[0] == pytest.approx(1.5, abs=0.1)
    assert found.document().facts["scores"] == (LEGEND,)
    assert "scores" not in describe(release, ["income"]).document().facts
    assert correlations(release, ["income", "education"]).document().facts["scores"] == (LEGEND,)
    assert (
        EDUCATION.described
        == "education: in order none < primary < secondary < tertiary; a missing cell is read as primary"
    )
