"""The default of lambda and the forecast: from public numbers alone, and right about what a reader gets.

What a synthetic control refuses, with one clear sentence, before anything is proposed or charged.
"""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.catalogue import Catalogue
from dprelease.data.columns import NumericColumn
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.estimators.counterfactual import counterfactual
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import read_options
from dprelease.mechanisms.synthetic_control.forecast import expectation, path_forecast
from dprelease.mechanisms.synthetic_control.ridge import MOST, SHARE, default_penalty
from dprelease.privacy.gaussian import mu_of
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.support.noise import SeededNoise
from tests.support.panels import panel_spec, released, times
from tests.support.specs import categorical, numeric

SERIES = [0.4, 0.5, 0.6, 0.5, 0.55, 0.5]


def draft(donors: int, epsilon: float) -> Draft:
    facts: Any = {"roster": "roster-1", "rows": donors, "rows_per_subject": 1, "alignment": "a" * 64}
    agreed = Catalogue(party="north", columns=times(len(SERIES)), **facts)
    target = Target(scope="joint", epsilon=epsilon, delta=1e-3)
    return Draft({"north": agreed.columns}, agreed, target, 16, lambda size: bytes(size))


def options(**more: Any) -> Any:
    return read_options("synthetic-control", {"series": SERIES, "intervention": "t4"} | more)


def test_the_default_is_the_rule() -> None:
    mu = mu_of(100.0, 1e-6)
    found = default_penalty(400, 20, 5, Fraction(mu) ** 2)
    assert float(found) == pytest.approx(SHARE * 20 * 400**0.75 * 5**0.25 / mu, rel=0.05)
    assert default_penalty(400, 20, 5, Fraction(1, 100)) == Fraction(MOST) * 400 * 20
    assert default_penalty(10**9, 1000, 5, Fraction(1, 100)).numerator <= 1 << 32
    small = default_penalty(2, 1, 1, Fraction(10**8))
    assert small > 0
    assert small.denominator <= 1 << 32


@pytest.mark.parametrize(("donors", "epsilon"), [(30, 5.0), (30, 1000.0), (2000, 100.0)])
def test_the_forecast_is_the_band_that_a_reader_gets(donors: int, epsilon: float) -> None:
    """Donors as they are guessed: bands of four releases are within a quarter of the forecast, and so is its pull."""
    rng, spread = np.random.default_rng(1), 0.02
    said = path_forecast(options(), draft(donors, epsilon), spread)
    spec = panel_spec(SERIES, "t4", donors=donors, epsilon=epsilon, delta=1e-3)
    variances, means = [], []
    for seed in range(4):
        pool = np.array(SERIES) + np.sqrt(spread) * rng.choice([-1.0, 1.0], (donors, 1)) * np.repeat([0, 1], [4, 2])
        panel = released(spec, np.clip(pool, -1, 1), SeededNoise(seed)).panel()
        found = counterfactual([panel])
        variances.append(np.mean(found.path_sd**2))
        means.append(found.mean_effect[1] ** 2)
    assert math.sqrt(np.mean(variances)) == pytest.approx(said.error, rel=0.25)
    assert math.sqrt(np.mean(means)) == pytest.approx(said.mean_error, rel=0.3)


def test_more_epsilon_and_more_donors_are_shown_beside_it() -> None:
    found = expectation(options(), draft(50, 20.0), 0.1)
    paths = found.to_json()["paths"]
    assert [(each["donors"], each["epsilon"]) for each in paths] == [
        (50, 20),
        (50, 200),
        (50, 2000),
        (500, 20),
        (500, 200),
    ]
    assert paths[1]["error"] < paths[0]["error"]
    assert paths[3]["mean_error"] < paths[0]["mean_error"]
    assert len(expectation(options(penalty="1/100000"), draft(800, 5e5), 0.1).table("paths").rows) < len(paths)


REFUSED_SERIES = [0.5, -0.25, 0.75, 0.0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"intervention": "t9"}, "no time of the series"),
        ({"intervention": "t0"}, r"T0 >= 1"),
        (
            {"series": [*REFUSED_SERIES, 1.0], "columns": tuple(numeric(f"t{at}") for at in range(4))},
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
    asked: dict[str, Any] = {"series": REFUSED_SERIES, "intervention": "t2"} | changed
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
    asked: dict[str, Any] = {"series": REFUSED_SERIES, "intervention": "t2"} | changed
    with pytest.raises(ValueError, match=said):
        panel_spec(**asked)


@pytest.mark.parametrize(
    ("part", "changed", "said"),
    [
        ("terms", {"intervention": "t0"}, "T0 >= 1"),
        ("terms", {"penalty": "0"}, "lambda must be positive"),
        ("terms", {"weights_share": "1"}, "between 0 and 1"),
        ("terms", {"series": REFUSED_SERIES[:3]}, "3 values"),
        ("target", {"scope": "per-party"}, "one target for a donor's whole series"),
    ],
)
def test_a_spec_that_no_honest_coordinator_makes(part: str, changed: dict[str, Any], said: str) -> None:
    data = panel_spec(REFUSED_SERIES, "t2").model_dump(mode="json")
    with pytest.raises(ValueError, match=said):
        ReleaseSpec.model_validate_json(json.dumps(data | {part: data[part] | changed}))


def test_a_smaller_lambda_or_another_target_needs_other_noise() -> None:
    spec = panel_spec(REFUSED_SERIES, "t2")
    for changed in ({"penalty": "1"}, {"series": (0.9, 0.9, 0.0, 0.0)}, {"intervention": "t1"}):
        lie = spec.model_copy(update={"terms": spec.terms.model_copy(update=changed)})
        with pytest.raises(SpecRefused, match="noise scales"):
            check_spec(lie)


def test_epsilon_so_large_that_the_grid_would_show() -> None:
    with pytest.raises(SpecRefused, match="grid of the donors"):
        check_spec(panel_spec(REFUSED_SERIES, "t2", epsilon=5e5, delta=1e-3, grid_bits=4))
