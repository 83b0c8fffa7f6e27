"""The least noise for a target, by the rule that every party recomputes; and what keeping outcomes apart is worth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import share_scales
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.parameters import least_noise
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.privacy.calibration import budget
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target
from tests.dprelease.moments.test_apart import spec_of
from tests.support.specs import build_spec, numeric

MU2 = budget(Target(scope="joint", epsilon=1.0, delta=1e-5))
COLUMNS = (numeric("x"), numeric("y"))


def test_without_outcomes_it_is_the_noise_of_all_products() -> None:
    found = least_noise(Layout(COLUMNS), MU2, 3, 1, "rotating", 14, 2)
    assert (found.scale, found.diagonal_scale) == share_scales(sensitivity(Layout(COLUMNS).variables), MU2, 3, 1, 14, 2)
    assert found.association is None


def test_more_rows_of_a_patient_and_more_curious_hospitals_take_more_noise() -> None:
    layout = Layout(COLUMNS, ("y",))
    base, rows, curious = (
        least_noise(layout, MU2, 3, pooled, "coordinator", 14, count).association
        for pooled, count in ((1, 1), (1, 2), (2, 1))
    )
    assert base is not None
    assert rows is not None
    assert curious is not None
    assert rows.scale == pytest.approx(2 * base.scale, rel=1e-6)
    assert curious.scale == pytest.approx(np.sqrt(2) * base.scale, rel=1e-6)


@pytest.mark.parametrize("outcomes", [("x", "y"), ("z",)])
def test_a_side_without_columns_is_refused(outcomes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="a feature and an outcome"):
        least_noise(Layout(COLUMNS, outcomes), MU2, 1, 0, "none", 14, 1)


def test_many_outcomes_cost_less_apart_than_together() -> None:
    columns = (*(numeric(f"x{place}") for place in range(10)), *(numeric(f"y{place}") for place in range(100)))
    names = tuple(f"y{place}" for place in range(100))
    apart, together = (
        build_spec({"a": columns}, mechanism="moments", grid_bits=14, outcomes=outcomes).terms
        for outcomes in (names, ())
    )
    assert apart.association is not None
    assert apart.scale < 0.25 * together.scale
    assert apart.association.scale < 0.7 * together.scale


def test_joint_calibration_needs_much_less_noise_than_halving_the_budget() -> None:
    """The paper's eps/2 + eps/2, delta/2 + delta/2 with correct sensitivities and exact noise, against formula (1)."""
    spec = spec_of("full")
    moments = spec.terms
    assert moments.association is not None
    half = Fraction(mu_of(0.5, 0.5e-5)) ** 2
    together = float(Fraction(moments.mu2))
    split = float(Fraction(moments.association.split))
    # s1 = Delta_1 (1 + q)/mu and s2 = Delta_2 (1 + q)/(2 sqrt(q) mu) against Delta_1/mu_half and Delta_2/mu_half.
    ratios = np.sqrt(together / float(half)) / np.array([1 + split, (1 + split) / (2 * np.sqrt(split))])
    assert np.sqrt(np.prod(ratios)) > 1.3
