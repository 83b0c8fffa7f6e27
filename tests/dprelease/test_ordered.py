"""Ordered categories: how levels are coded, what is refused, and what hospitals and learners see of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.analyses.correlation import correlations
from dprelease.data.bounding import bound, within
from dprelease.data.columns import Column, OrderedColumn, numbers, squared_sensitivity
from dprelease.estimators.fitting import fit
from dprelease.release.release import Release
from learner.client.describe import describe
from party_node.source.first_look import look_at
from tests.dprelease.analyses.releases import released
from tests.party_node.tables import codes_by_subject, csv, read, settings
from tests.support.specs import categorical, numeric, ordered

EDUCATION = ordered("education", "none", "primary", "secondary", "tertiary", fill="primary")
YEARS = ordered("education", "none", "primary", "tertiary", scores=(0.0, 6.0, 16.0), unit="years")
BITS = 16
UNIT = 1 << BITS


def test_levels_are_equally_spaced_from_end_to_end() -> None:
    codes = bound({"education": [*EDUCATION.levels, None, "Primary"]}, (EDUCATION,), BITS)[:, 0]
    third = round(UNIT / 3)
    assert codes.tolist() == [-UNIT, -third, third, UNIT, -third, -third]
    assert (EDUCATION.released, EDUCATION.ends, EDUCATION.midpoint) == (("education",), (0.0, 3.0), 1.5)


def test_scores_say_where_levels_lie() -> None:
    assert bound({"education": YEARS.levels}, (YEARS,), BITS)[:, 0].tolist() == [-UNIT, -UNIT // 4, UNIT]
    assert YEARS.ends == (0.0, 16.0)


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


def test_a_hospital_reads_levels_and_counts_what_is_none(tmp_path: Path) -> None:
    spelt = {"education": DECLARED | {"spellings": {"tertiary": ["university"]}}}
    lines = "id,education\na,none\nb, primary \nc,university\nd,?\ne,\n"
    table = read(csv(tmp_path, lines), spelt)
    assert codes_by_subject(table, list("abcde")) == {
        "a": [-1 << 10],
        "b": [0],
        "c": [1 << 10],
        "d": [-1 << 10],
        "e": [-1 << 10],
    }
    assert (table.findings["education"].outside, table.findings["education"].missing) == (1, 1)


def test_a_first_look_counts_its_levels(tmp_path: Path) -> None:
    found = look_at(settings(csv(tmp_path, "id,education\na,none\nb,primary\nc,none\nd,?\n"), {"education": DECLARED}))
    counts = found.columns["education"].distribution.to_json()
    assert counts == {"levels": {"none": 2, "primary": 1, "tertiary": 0}, "undeclared": 1}


@pytest.mark.parametrize(("aggregate", "expected"), [("min", [-1, 0, -1]), ("max", [1, 0, -1])])
def test_the_lowest_or_highest_level_of_several_rows(tmp_path: Path, aggregate: str, expected: list[int]) -> None:
    lines = "id,education\na,none\nb,?\na,tertiary\nb,primary\nc,?\na,primary\n"
    table = read(csv(tmp_path, lines), {"education": DECLARED | {"aggregate": aggregate}}, rows="first")
    assert codes_by_subject(table, list("abc")) == {
        name: [code << 10] for name, code in zip("abc", expected, strict=True)
    }


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


def test_it_is_a_feature_and_an_outcome_in_its_own_scale() -> None:
    release, (slope, intercept) = published((EDUCATION, numeric("income", 0.0, 40.0)))
    found = fit(release, ["income"], ["education"])
    assert found.coef[0, 0] == pytest.approx(slope, rel=1e-3)
    assert found.intercept[0] == pytest.approx(intercept, rel=1e-3)
    assert fit(release, ["education"]).coef[0, 0] > 0
    assert LEGEND in found.summary()
    assert "per level" in found.summary()


def test_its_mean_is_told_with_the_names_of_its_levels() -> None:
    release, _ = published((EDUCATION, numeric("income", 0.0, 40.0)))
    found = describe(release)
    assert found.mean[0] == pytest.approx(1.5, abs=0.1)
    assert found.document().facts["scores"] == (LEGEND,)
    assert "scores" not in describe(release, ["income"]).document().facts
    assert correlations(release, ["income", "education"]).document().facts["scores"] == (LEGEND,)
    assert EDUCATION.described == "education: in order none < primary < secondary < tertiary; missing = primary"
