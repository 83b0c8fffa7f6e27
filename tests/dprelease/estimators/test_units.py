"""Units of slopes."""

import pytest

from dprelease.estimators.result import per


@pytest.mark.parametrize(
    ("unit", "of", "expected"),
    [
        ("", "years", "per year"),
        ("days", "years", "days per year"),
        ("mg", "", "mg"),
        ("", "", ""),
        ("1", "pack years", "1 per pack year"),
        ("mg", "inches", "mg per inch"),
        ("mg", "mmol/l", "mg per mmol/l"),
        ("mg", "ms", "mg per ms"),
        ("mg", "degrees celsius", "mg per degrees celsius"),
        ("mg", "gauss", "mg per gauss"),
    ],
)
def test_a_slope_has_the_outcome_per_one_of_the_feature(unit: str, of: str, expected: str) -> None:
    assert per(unit, of) == expected
