"""What planners are told of a stream: the price of one release, and the noise of the last checkpoint."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.registry import mechanism_named, mechanism_of
from dprelease.planning.comparison import compare
from dprelease.planning.forecast import forecast, proposed
from dprelease.spec_base import Target
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric
from tests.support.streams import Hospitals, first_spec, following

COLUMNS = {"a": (numeric("x"), numeric("y")), "b": (numeric("z"),), "c": (numeric("w"),)}
TARGET = Target(scope="joint", epsilon=1.0, delta=1e-6)


def setting(times: float, of: str = "moments", **changed: Any) -> Setting:
    named = {"mechanism": "stream", "outcome": "w", "features": ("x", "y", "z"), "stream": (of, times)}
    return Setting(rows=20_000, parties=COLUMNS, target=TARGET, **{**named, **changed})


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_noise_is_larger_by_what_the_stream_makes_of_it(of: str) -> None:
    one = setting(1.0, of, mechanism=of, stream=None)
    alone, stream = proposed(one), proposed(setting(2.35, of))
    assert stream.prices == alone.prices
    for name, variance in stream.columns.items():
        assert math.sqrt(variance / alone.columns[name]) == pytest.approx(2.35, rel=1e-4)
    assert forecast(setting(2.35, of), 0.5).error_ratio > forecast(one, 0.5).error_ratio
    assert forecast(setting(1.0, of), 0.5).r2 == pytest.approx(forecast(one, 0.5).r2, abs=1e-6)


def test_it_is_compared_where_the_scenario_is_of_one() -> None:
    assert [each.plan for each in compare(setting(2.0), signals=(0.3,)).settings][-1] == "stream"
    assert all(each.plan != "stream" for each in compare(setting(2.0, stream=None), signals=(0.3,)).settings)
    with pytest.raises(InvalidInput, match="names its checkpoints"):
        mechanism_named("stream").proposed(setting(2.0, stream=None))


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_what_learners_read_has_the_noise_that_is_forecast(of: str) -> None:
    """At the second of three checkpoints, where noise is what factor and price make of it."""
    base = build_spec(COLUMNS, rows=300, grid_bits=14, epsilon=1.0)
    hospitals = Hospitals(first_spec(base, of=of, checkpoints=3))
    hospitals.publish(SeededNoise(1))
    hospitals.spec = following(hospitals.spec, 200)
    release = hospitals.publish(SeededNoise(2))
    scenario = mechanism_of(release.spec).scenario_of(release.spec)
    _, times = scenario["stream"]
    given = {key: value for key, value in scenario.items() if key not in {"rows"}}
    public = Setting(
        rows=500,
        parties=COLUMNS,
        target=base.target,
        mechanism="stream",
        outcome="w",
        features=("x", "y", "z"),
        grid_bits=14,
        **given,
    )
    expected = proposed(public).columns["x"]
    found = (release.moments().noise_sd[1, 2] / 500) ** 2 if of == "moments" else release.scaled().noise_sd[0] ** 2
    assert found == pytest.approx(expected, rel=1e-3)
    assert times == pytest.approx(1.27, abs=0.05)
    assert release.spec.patients == 500
