"""Guesses from declarations, and settings that make no sense."""

from typing import Any

import pytest

from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Scenario, chosen, evenly
from dprelease.planning.forecast import forecast
from dprelease.spec_base import Target
from tests.support.plans import changed, planned
from tests.support.specs import categorical, numeric

PARTIES = {
    "north": (numeric("age", 0.0, 120.0), categorical("sex", "female")),
    "south": (categorical("stage", "I", "II", "III"), numeric("glucose", 2.0, 30.0)),
}


def setting(mechanism: str = "mixed", **others: Any) -> Scenario:
    return changed(planned(1000, PARTIES, Target(scope="joint", epsilon=1.0, delta=1e-6), mechanism), **others)


def test_a_binary_is_plus_or_minus_one_in_moments_alone() -> None:
    sex = PARTIES["north"][1]
    coded, plain = sex.assumption(0.1, signs=True), sex.assumption(0.1, signs=False)
    assert (coded.width, coded.variance, coded.free, coded.mean, coded.own) == (1, 1.0, 1.0, 0.0, 0.0)
    assert (plain.width, plain.variance, plain.free) == (1, 0.25, 0.25)
    assert coded.reach == 4 * plain.reach


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"outcome": "weight"}, "no such column: weight; there are age, sex, stage, glucose"),
        ({"features": ("age", "weight")}, "no such column: weight"),
        ({"features": ()}, "at least one other column"),
        ({"features": ("age", "glucose")}, "at least one other column"),
        ({"features": ("age", "age")}, "each named once"),
        ({"mechanism": "moments", "outcomes": ("age",)}, "age cannot be a feature: the release names it as an outcome"),
        ({"mechanism": "moments", "outcomes": ("weight",)}, "not in this release: weight"),
        ({"rows": 0}, "must be positive"),
        ({"spread": 0.0}, "in \\(0, 1\\]"),
        ({"spread": 1.5}, "in \\(0, 1\\]"),
        ({"k": 1001}, "k must lie between 1 and n = 1,000"),
        ({"mechanism": "moments", "collusion_threshold": 2}, "collusion_threshold must lie between 1 and 1"),
        ({"target": Target(scope="joint", epsilon=1e9, delta=1e-6)}, "epsilon"),
    ],
)
def test_settings_that_make_no_sense(others: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        forecast(setting(**others), 0.5)


@pytest.mark.parametrize("widths", ["", "3,,2", "3,0", "three", "-1", "3.5", "1,999999"])
def test_widths_that_are_none(widths: str) -> None:
    with pytest.raises(InvalidInput, match="3,4,2"):
        evenly(widths)


def test_outcome_and_features_as_asked_for() -> None:
    assert chosen(PARTIES, None, None) == ("glucose", ("age", "sex", "stage"))
    assert chosen(PARTIES, "sex", "2") == ("sex", ("age", "stage"))
    assert chosen(PARTIES, "sex", None, ("sex", "glucose")) == ("sex", ("age", "stage"))
    assert chosen(PARTIES, None, None, ("glucose", "sex")) == ("sex", ("age", "stage"))
    assert chosen(PARTIES, "sex", "glucose, age") == ("sex", ("glucose", "age"))
    with pytest.raises(InvalidInput, match="3 columns besides glucose"):
        chosen(PARTIES, None, "4")
