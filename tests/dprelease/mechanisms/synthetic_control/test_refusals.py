"""What a synthetic control refuses, with one clear sentence, before anything is proposed or charged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dprelease.data.columns import NumericColumn
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.support.panels import panel_spec
from tests.support.specs import categorical, numeric

SERIES = [0.5, -0.25, 0.75, 0.0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"intervention": "t9"}, "no time of the series"),
        ({"intervention": "t0"}, r"T0 >= 1"),
        (
            {"series": [*SERIES, 1.0], "columns": tuple(numeric(f"t{at}") for at in range(4))},
            "5 values and the donors' 4",
        ),
        ({"penalty": 0}, "lambda must be positive"),
        ({"penalty": "-1/2"}, "lambda must be positive"),
        ({"penalty": "many"}, "is not a number"),
        ({"penalty": 1e-9}, "lambda is too small"),
        ({"penalty": "1/99999999999"}, "too many digits"),
        ({"donors": 1}, "one donor"),
        ({"series": [0.5, 1.5, 0.0, 0.0]}, "outside the donors' public bounds at t1"),
        ({"series": [0.0, 0.0, 0.5, 0.5]}, "every weight is 0"),
        ({"parties": 2}, "each hospital for a release of its own"),
        ({"perturbation": "objective"}, "objective perturbation is not private as published"),
        ({"weights_share": 0}, "above 0"),
        ({"weights_share": 1}, "below 1"),
        ({"columns": (*(numeric(f"t{at}") for at in range(3)), categorical("sex", "female"))}, "leave out sex"),
        (
            {"columns": (*(numeric(f"t{at}") for at in range(3)), NumericColumn(name="t3", bounds="unknown"))},
            "t3 has unknown bounds",
        ),
        ({"columns": (numeric("t0", public=True), *(numeric(f"t{at}") for at in range(1, 4)))}, "leave out t0"),
    ],
)
def test_a_request_that_cannot_be_met(changed: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"series": SERIES, "intervention": "t2"} | changed
    with pytest.raises(InvalidInput, match=said):
        panel_spec(**asked)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"perturbation": "input"}, "'output' or 'objective'"),
        ({"law": "uniform"}, "'gaussian' or 'laplace'"),
        ({"series": [0.5, float("nan"), 0.0, 0.0]}, "finite"),
    ],
)
def test_a_request_for_what_is_not_offered(changed: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"series": SERIES, "intervention": "t2"} | changed
    with pytest.raises(ValueError, match=said):
        panel_spec(**asked)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"intervention": "t0"}, "T0 >= 1"),
        ({"penalty": "0"}, "lambda must be positive"),
        ({"weights_share": "1"}, "between 0 and 1"),
        ({"series": SERIES[:3]}, "3 values"),
    ],
)
def test_a_spec_that_no_honest_coordinator_makes(changed: dict[str, Any], said: str) -> None:
    spec = panel_spec(SERIES, "t2")
    data = spec.model_dump(mode="json")
    with pytest.raises(ValueError, match=said):
        ReleaseSpec.model_validate_json(json.dumps(data | {"terms": {**data["terms"], **changed}}))


def test_a_smaller_lambda_or_another_target_needs_other_noise() -> None:
    spec = panel_spec(SERIES, "t2")
    for changed in ({"penalty": "1"}, {"series": (0.9, 0.9, 0.0, 0.0)}, {"intervention": "t1"}):
        lie = spec.model_copy(update={"terms": spec.terms.model_copy(update=changed)})
        with pytest.raises(SpecRefused, match="noise scales"):
            check_spec(lie)


def test_epsilon_so_large_that_the_grid_would_show() -> None:
    with pytest.raises(SpecRefused, match="grid of the donors"):
        check_spec(panel_spec(SERIES, "t2", epsilon=5e5, delta=1e-3, grid_bits=4))
