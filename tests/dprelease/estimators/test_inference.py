"""What a fit says about the population, in original units, and what it refuses to say."""

import numpy as np
import pytest
from scipy import stats

from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.estimators.intervals.estimates import LIMIT, Inferred, ProfiledEstimates
from dprelease.estimators.intervals.inference import Inference
from dprelease.estimators.intervals.of_rows import learned_from_rows
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import FEATURES, exact_codes, places, released
from tests.support.noise import SeededNoise


def estimates(value: list, standard_error: list, bend: float = 0.0) -> ProfiledEstimates:
    """Errors that are the same whatever is true, unless they bend."""
    found = np.array(value)
    return ProfiledEstimates(found, np.array(standard_error) ** 2, 0 * found, bend + 0 * found)


def plain_inference(degrees: float = np.inf, **changed: object) -> Inference:
    given = {
        "profiled": estimates([[2.0, -1.0]], [[1.0, 4.0]]),
        "degrees": degrees,
        "intercepts": Inferred(estimates([3.0], [1.5]), degrees),
        "identified": np.array([True]),
        "noise_to_signal": 0.1,
        "unidentified": (),
        "at": Inferred(estimates([], []), degrees),
        "residual": np.zeros((2, 1)),
    }
    return Inference(**(given | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_original_units_are_those_of_the_fit(clear: Release, fit_intercept: bool):
    """Scaled numbers mapped by hand: score is 50 + 50 y; age 60 + 60 x, glucose 16 + 14 x."""
    scaled = clear.scaled()
    rows = RegressionRows.of(scaled, places(scaled, "age", "sex=male", "glucose"), places(scaled, "score"), mixed=True)
    origin = np.array([-1.0, 0.0, -16 / 14])
    expected = learned_from_rows(rows, 3000, origin, intercept=fit_intercept)
    found = fit(clear, ["score"], FEATURES, fit_intercept=fit_intercept).inference
    per_unit = 50 / np.array([60, 1, 14])
    np.testing.assert_allclose(found.estimate[0], expected.weights.value[:, 0] * per_unit, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error[0], np.sqrt(expected.weights.variance[:, 0]) * per_unit, rtol=1e-9)
    np.testing.assert_allclose(found.intercepts.estimate, 50 + 50 * expected.offsets.value, rtol=1e-9)
    np.testing.assert_allclose(found.intercepts.standard_error, 50 * np.sqrt(expected.offsets.variance), rtol=1e-9)
    assert found.degrees == expected.degrees
    assert found.identified.tolist() == [True]
    assert found.statement == ""


def test_below_the_threshold_nothing_is_said_but_that(drowned: Release):
    result = fit(drowned, ["score", "dose"], FEATURES)
    found = result.inference
    assert found.noise_to_signal > LIMIT
    assert found.identified.tolist() == [False, False]
    for numbers in (
        found.estimate,
        found.standard_error,
        found.intercepts.estimate,
        found.z,
        found.p_value,
        *found.interval(),
    ):
        assert np.isnan(numbers).all()
    assert set(found.unidentified) == set(FEATURES)
    assert found.statement.startswith("No coefficient is identified")
    saved = result.document().to_json()
    assert saved["identified"] == [False, False]
    assert {row["coefficient"]["lower"] for row in saved["coefficients"]} == {None}
    assert saved["statement"] == found.statement == saved["notes"][0]


def test_what_would_have_to_be_left_out_is_named_and_is_enough():
    """A column of one value beside three that vary: fitted without it, the others are known."""
    codes = exact_codes(3000)
    codes["south"][:, 0] = 700
    release = released(codes, outputs=400, noise=SeededNoise(22), noise_sd=0.3)
    found = fit(release, ["score"], FEATURES).inference
    assert found.unidentified == ("glucose",)
    assert "compared with the variation in glucose. The others can be estimated without it" in found.statement
    assert "then not adjusted for it" in found.statement
    others = fit(release, ["score"], ["age", "sex=male"]).inference
    assert others.identified.all()
    many = plain_inference(
        identified=np.array([False]),
        unidentified=tuple(f"x{place}" for place in range(12)),
        profiled=estimates([[np.nan] * 13], [[np.nan] * 13]),
    )
    assert "x9 and 2 more" in many.statement
    assert "x10" not in many.statement


def test_intervals_and_p_values_are_the_normal_laws_or_students():
    found = plain_inference()
    np.testing.assert_allclose(found.interval()[0], [[2 - 1.959963984540054, -1 - 4 * 1.959963984540054]])
    np.testing.assert_allclose(found.interval(0.5)[1], [[2 + stats.norm.ppf(0.75), -1 + 4 * stats.norm.ppf(0.75)]])
    np.testing.assert_allclose(found.p_value, 2 * stats.norm.sf([[2.0, 0.25]]))
    few = plain_inference(degrees=7.0)
    np.testing.assert_allclose(few.intercepts.interval()[1], [3 + 1.5 * stats.t.ppf(0.975, 7)])
    np.testing.assert_allclose(few.intercepts.p_value, 2 * stats.t.sf([2.0], 7))
    np.testing.assert_allclose(few.intercepts.z, [2.0])


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_is_a_probability(level: float):
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        plain_inference().interval(level)
