"""Tests of several coefficients on noisy moments: as often below a level as it says, and below it where there is an effect."""

import numpy as np
import pytest
from scipy.stats import binom

from dprelease.analyses import compare_groups, nested
from dprelease.analyses.joint_test import JointTest
from tests.dprelease.analyses.releases import category, released
from tests.support.specs import numeric

CHANCE = 1e-4
"""Probability of a false alarm, of one number."""
GROUPS = "abcdef"
COLUMNS = (category("group", *GROUPS), numeric("x", -4, 4), numeric("z", -4, 4), numeric("y", -5, 5))


def found_in(effect: float, seed: int, sd: float) -> dict[str, JointTest]:
    """Of 3,000 patients; x and z hang together, y on z and by `effect` on x and a group. Sampling's error is about .001."""
    random = np.random.default_rng(seed)
    group, z = random.choice(list(GROUPS), 3000, p=[0.3, 0.3, 0.2, 0.1, 0.07, 0.03]), random.normal(size=3000)
    x = 0.3 * z + 0.95 * random.normal(size=3000)
    y = 0.5 * z + effect * (x + (group == "b")) + random.normal(size=3000)
    release = released(COLUMNS, {"group": group, "x": x, "z": z, "y": y}, sd, seed)
    found = nested(release, "y", ["x", "z"], ["x"]).tests
    return {
        "all": found["all coefficients are 0"],
        "one": found["the coefficients of x are 0"],
        "groups": compare_groups(release, "y", ["group"]).tests["the means of all groups of group are equal"],
    }


@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize("count", [12, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_p_values_are_even_where_there_is_no_effect(count: int) -> None:
    """Their mean is 1/2 within 4 standard errors. A test that counts its prior as error has most of them near 1."""
    found = [found_in(0.0, seed, 0.008) for seed in range(count)]
    p = np.array([[each[name].p_value for name in ("one", "groups")] for each in found])
    assert np.abs(p.mean(axis=0) - 0.5).max() < 4 / np.sqrt(12 * count), p.mean(axis=0)
    assert (p < 0.05).sum(axis=0).max() <= binom.isf(CHANCE, count, 0.05)


@pytest.mark.usefixtures("short_chains")
def test_effects_are_found() -> None:
    """Slopes of .5 are told from none in every release, down to p-values that 600 draws could not tell."""
    for seed in range(2):
        found = found_in(0.5, seed, 0.001)
        assert max(each.p_value for each in found.values()) < 1e-3
        assert found["all"].p_value < 1e-6


@pytest.mark.usefixtures("short_chains")
def test_a_level_that_noise_alone_fills_is_no_group() -> None:
    """Nobody has another group. In 2 of 200 releases draws said that some do, and the released number could not tell."""
    for seed in (53, 55):
        assert found_in(0.0, seed, 0.008)["groups"].restrictions == len(GROUPS) - 1
