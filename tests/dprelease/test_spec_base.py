"""What every mechanism reads of a spec: targets, times, and what the guarantee is called."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from dprelease.spec_base import Target, instant, label_of, moment
from tests.support.specs import numeric


@pytest.mark.parametrize(
    "target",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("inf")},
        {"epsilon": "1"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"scope": "central"},
    ],
)
def test_targets_without_sense_are_refused(target: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Target.model_validate({"scope": "joint", "epsilon": 1.0, "delta": 1e-5, **target})


def test_times_are_utc_to_the_second() -> None:
    noon = datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=-5)))
    assert instant(noon) == "2026-03-01T17:00:00Z"
    assert moment(instant(noon)) == datetime(2026, 3, 1, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    ("public", "outcomes", "label"),
    [
        ((), ("y",), "DP"),
        (("y",), ("y",), "feature-DP"),
        (("x",), ("y",), "label-DP"),
        (("y",), (), "label-DP"),
        (("x", "y"), ("y",), "mixed"),
    ],
)
def test_the_label_follows_from_which_public_columns_are_outcomes(
    public: tuple[str, ...], outcomes: tuple[str, ...], label: str
) -> None:
    columns = tuple(numeric(name, public=name in public) for name in ("x", "y", "z"))
    assert label_of(columns, outcomes) == label
