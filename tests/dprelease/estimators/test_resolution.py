"""What noise hides is said in words: no share above 1, no negative square and no mean beyond its noise is printed."""

from dataclasses import replace

import numpy as np
import pytest

from dprelease.estimators import FitResult, fit
from dprelease.estimators.quality import Quality, hidden_share, is_hidden
from dprelease.estimators.result import MOST_TABLES
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import FEATURES


@pytest.mark.parametrize(
    ("share", "standard_error", "words"),
    [
        (0.4, 0.1, ""),
        (-7.0, 2.0, ""),
        (0.99, 0.2, ""),
        (0.0, 0.01, ""),
        (0.5, 0.25, "noise is larger than any share (standard error 0.25)"),
        (1.172, 1.01, "noise is larger than any share (standard error 1)"),
        (1.003, 0.01, "cannot be told from 1 (standard error 0.01)"),
        (1.5, 0.1, "it comes out above 1"),
        (1.5, np.nan, "it comes out above 1"),
        (np.nan, np.nan, "noise is larger than the outcome's variance"),
        (-np.inf, 1.0, "noise is larger than the outcome's variance"),
    ],
)
def test_a_share_is_told_where_it_can_be_one(share: float, standard_error: float, words: str) -> None:
    found = hidden_share(share, standard_error)
    assert (words in found) if words else found == ""


@pytest.mark.parametrize(("noise_sd", "expected"), [(0.0, False), (24.9, False), (25.0, True), (np.inf, True)])
def test_a_mean_is_hidden_where_its_noise_covers_the_range(noise_sd: float, expected: bool) -> None:
    assert is_hidden(noise_sd, 100.0) is expected


def quality(mse: float, constant_mse: float, se: float = 0.1) -> Quality:
    numbers = {"mse": mse, "mse_se": se, "optimism": 0.0, "constant_mse": constant_mse, "constant_mse_se": se}
    numbers |= {"gain": constant_mse - mse, "gain_se": se}
    return Quality(**{name: np.array([value]) for name, value in numbers.items()})


def impossible(result: FitResult) -> FitResult:
    """The same fit, as noise might have made its numbers."""
    made = replace(
        result.quality,
        mse=np.full_like(result.quality.mse, -0.782218),
        constant_mse=np.full_like(result.quality.mse, -33.5637),
    )
    return replace(result, quality=made, constant_noise_sd=10 * (result.upper - result.lower))


@pytest.mark.parametrize("count", [1, MOST_TABLES + 1])
def test_no_impossible_number_is_printed(clear: Release, count: int) -> None:
    result = impossible(fit(clear, ["score"], FEATURES))
    text = (replace(result, targets=("score",) * count) if count == 1 else result).summary()
    assert "-0.782" not in text
    assert "-33.5" not in text
    assert text.count("cannot be told") == 8 * (count == 1) or 4
    assert "The constant of score cannot be told: noise sd" in text


def test_many_targets_in_a_line_each_hide_it_too(clear: Release) -> None:
    several = fit(clear, ["score", "dose"], FEATURES)
    rows = [0, 1] * MOST_TABLES
    wide = {name: value[rows] for name, value in vars(impossible(several).quality).items()}
    found = several.inference
    result = replace(
        several,
        targets=tuple(several.targets[row] for row in rows),
        quality=Quality(**wide),
        **{name: getattr(several, name)[rows] for name in ("coef", "intercept", "lower", "upper", "constant")},
        constant_noise_sd=10 * (several.upper - several.lower)[rows],
        infer=lambda: found,
    )
    assert all({"explained", "mse", "constant_mse", "constant"} == set(each) for each in result.unresolved)
