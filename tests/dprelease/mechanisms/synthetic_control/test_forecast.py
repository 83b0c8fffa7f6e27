"""The default of lambda and the forecast: from public numbers alone, and right about what a reader gets."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.catalogue import Catalogue
from dprelease.estimators.counterfactual import counterfactual
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import read_options
from dprelease.mechanisms.synthetic_control.forecast import expectation, path_forecast
from dprelease.mechanisms.synthetic_control.penalty import MOST, SHARE, default_penalty
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target
from tests.support.noise import SeededNoise
from tests.support.panels import panel_spec, released, times

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


def test_a_request_that_says_no_lambda_gets_it_and_one_that_says_its_own_keeps_that() -> None:
    spec = panel_spec(SERIES, "t4", donors=200, epsilon=50.0, delta=1e-3)
    terms: Any = spec.terms
    assert Fraction(terms.penalty) == default_penalty(200, 4, 2, Fraction(terms.mu2))
    own: Any = panel_spec(SERIES, "t4", donors=200, epsilon=50.0, delta=1e-3, penalty="7/2").terms
    assert own.penalty == "7/2"


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
