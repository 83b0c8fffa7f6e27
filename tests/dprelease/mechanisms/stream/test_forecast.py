"""What planners are told of a stream: the price of one release, and the noise of the last checkpoint."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.stream.factorization import error
from dprelease.planning.comparison import compare
from dprelease.planning.forecast import forecast, proposed, rows_needed
from dprelease.spec_base import Target
from tests.support.noise import SeededNoise
from tests.support.plans import changed, planned
from tests.support.specs import build_spec, numeric
from tests.support.streams import Hospitals, first_spec, following

COLUMNS = {"a": (numeric("x"), numeric("y")), "b": (numeric("z"),), "c": (numeric("w"),)}
TARGET = Target(scope="joint", epsilon=1.0, delta=1e-6)


def setting(of: str, **others: Any) -> Setting:
    asked = {"of": of, "checkpoints": 4, "most_rows": 20_000} | others
    return planned(asked.pop("rows", 20_000), COLUMNS, TARGET, "stream", "w", ("x", "y", "z"), **asked)


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_noise_is_larger_by_what_the_stream_makes_of_it(of: str) -> None:
    one = planned(20_000, COLUMNS, TARGET, of, "w", ("x", "y", "z"), **({"ranges": "none"} if of == "moments" else {}))
    alone, stream = proposed(one), proposed(setting(of))
    times = error("square-root", 4, (1,))
    assert times > 1.1
    assert stream.prices == alone.prices
    for name, variance in stream.noise.columns.items():
        assert math.sqrt(variance / alone.noise.columns[name]) == pytest.approx(times, rel=1e-4)
    assert forecast(setting(of), 0.5).error_ratio > forecast(one, 0.5).error_ratio
    assert forecast(setting(of, checkpoints=1), 0.5) == forecast(one, 0.5)
    at_last = error("square-root", 4, (1, 2, 3, 4)) / times
    assert f"checkpoint 1 of a stream, noise {at_last:.2g} times as large at the last one" in stream.noise.shape


def test_it_is_compared_where_the_request_is_of_one() -> None:
    assert [each.plan for each in compare(setting("moments"), signals=(0.3,)).settings][-1] == "stream"
    alone = changed(setting("moments"), mechanism="mixed", asked={})
    assert all(each.plan != "stream" for each in compare(alone, signals=(0.3,)).settings)


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_a_release_of_more_patients_than_there_is_room_for_is_not_counted_on(of: str) -> None:
    """A stream of unknown length has room for a fixed number, and a plan looks for the least number with which a fit is useful."""
    few = setting(of, checkpoints=None, rows=100, most_rows=200)
    assert rows_needed(few, 0.001) is None


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_what_learners_read_has_the_noise_that_is_forecast(of: str) -> None:
    """At the second of three checkpoints, where noise is what factor and price make of it."""
    base = build_spec(COLUMNS, rows=300, grid_bits=14, epsilon=1.0)
    hospitals = Hospitals(first_spec(base, of=of, checkpoints=3))
    hospitals.publish(SeededNoise(1))
    hospitals.spec = following(hospitals.spec, 200)
    release = hospitals.publish(SeededNoise(2))
    expected = mechanism_of(release.spec).released_noise(release.spec).columns["x"]
    found = (release.moments().noise_sd[1, 2] / 500) ** 2 if of == "moments" else release.scaled().noise_sd[0] ** 2
    assert found == pytest.approx(expected, rel=1e-3)
    assert error("square-root", 3, (1, 2)) == pytest.approx(1.27, abs=0.05)
    assert release.spec.patients == 500
