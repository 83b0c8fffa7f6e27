"""The printed fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dprelease.estimators import FitResult, fit
from dprelease.estimators.intervals.inference import EQUAL_SPREAD
from dprelease.estimators.moments.resolution import rounded
from dprelease.estimators.regression_table import MOST_TABLES
from dprelease.estimators.result import ALIKE
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import FEATURES, UNIT, released
from tests.support.noise import SeededNoise
from tests.support.specs import numeric


def cells(result: FitResult, term: str) -> list[str]:
    line = next(line for line in result.summary().splitlines() if line.startswith(f"{term} "))
    return line.split()[1:]


def test_the_head_says_what_was_fitted_on_what(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    head = result.summary().split("\n\n")[0].splitlines()[1:]
    assert [line.split(maxsplit=1) for line in head] == [
        ["release", clear.digest],
        ["method", "calibrated, with an intercept"],
        ["algorithm", "calibrated: it is the default on mixtures"],
        ["mechanism", "mixed"],
        ["patients", "3,000"],
    ]


def test_every_term_has_its_model_and_its_inference(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    found, (lower, upper) = result.inference, result.inference.interval()
    for column, feature in enumerate(FEATURES):
        expected = [
            f"{result.coef[0, column]:.6g}",
            f"{found.estimate[0, column]:.6g}",
            f"{found.standard_error[0, column]:.3g}",
            f"{found.z[0, column]:.2f}",
            f"{found.p_value[0, column]:.3f}",
            f"{lower[0, column]:.5g}",
            f"{upper[0, column]:.5g}",
        ]
        assert cells(result, feature)[:7] == expected
    assert cells(result, "intercept")[:2] == [f"{result.intercept[0]:.6g}", f"{found.intercept[0]:.6g}"]
    text = result.summary()
    for line in text.splitlines():
        assert line == line.rstrip()
    for sentence in (*result.guarantee, *result.trust, f"the model is {result.verdicts[0]}"):
        assert sentence in text
    assert f"share of variance explained {result.hidden[0]['explained']}" in " ".join(
        text.split()
    )  # it comes out as 1.01
    told = replace(
        result, quality=replace(result.quality, mse=0.3 * result.quality.constant_mse, gain=np.array([170.0]))
    )
    explained = f"{told.quality.explained[0]:.3f} (standard error {told.quality.explained_se[0]:.3g})"
    assert f"share of variance explained {explained}" in " ".join(told.summary().split())
    assert f"mean squared error, model {told.quality.mse[0]:.6g} " in " ".join(told.summary().split())


def test_rows_have_a_t_and_its_degrees_and_moments_a_z(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    text = result.summary()
    assert " t P>|t| " in " ".join(text.split())
    assert f"t has {result.inference.degrees:.0f} degrees of freedom." in text
    unlimited = replace(result, infer=lambda: replace(result.inference, degrees=np.inf)).summary()
    assert " z P>|z| " in " ".join(unlimited.split())
    assert "degrees of freedom" not in unlimited
    assert "t|" not in unlimited


def test_an_interval_without_an_end_says_so(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    assert "no bound" not in result.summary()
    slopes = replace(result.inference.slopes, bend=np.ones((1, len(FEATURES))))
    unbounded = replace(result, infer=lambda: replace(result.inference, slopes=slopes))
    assert cells(unbounded, "sex=male")[5:7] == ["-inf", "inf"]
    assert "An end at inf or -inf: this release sets no bound on that side." in unbounded.summary()


def test_it_says_once_what_errors_take_for_granted(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    assert result.summary().count(EQUAL_SPREAD) == 1
    assert result.to_json()["inference"]["caveats"] == [EQUAL_SPREAD]


def test_errors_are_said_to_be_those_of_rows_of_a_patient_that_are_alike(clear: Release):
    several = replace(clear, spec=clear.spec.model_copy(update={"rows_per_subject": 3}))
    assert f"Warning: {ALIKE}" in fit(several, ["score"], FEATURES).summary()
    assert ALIKE not in fit(clear, ["score"], FEATURES).summary()


def test_units_stand_beside_the_terms():
    parties = {"north": (numeric("age", 0.0, 120.0),), "south": (numeric("dose", -5.0, 3.0),)}
    parties["north"] = (parties["north"][0].model_copy(update={"unit": "years"}),)
    parties["south"] = (parties["south"][0].model_copy(update={"unit": "mg"}),)
    generator = np.random.default_rng(3)
    codes = {name: generator.integers(-UNIT, UNIT + 1, (500, 1)) for name in parties}
    result = fit(released(codes, parties, outputs=100, noise=SeededNoise(3)), ["dose"], None)
    assert cells(result, "age")[-3:] == ["mg", "per", "years"]
    assert cells(result, "intercept")[-1] == "mg"
    assert "dose (mg)" in result.summary().splitlines()
    assert "(mg)²" in result.summary()


def test_a_unit_cannot_forge_a_line():
    parties = {
        "north": (numeric("age").model_copy(update={"unit": "years\n\x1b[2Jage  9  9"}),),
        "south": (numeric("y"),),
    }
    generator = np.random.default_rng(5)
    codes = {name: generator.integers(-UNIT, UNIT + 1, (500, 1)) for name in parties}
    text = fit(released(codes, parties, outputs=100, noise=SeededNoise(5)), ["y"], None).summary()
    assert sum(line.startswith("age") for line in text.splitlines()) == 1
    assert "\x1b" not in text


def test_where_nothing_was_learned_it_says_so(drowned: Release):
    result = fit(drowned, ["score"], FEATURES)
    assert cells(result, "age")[1:7] == ["-"] * 6
    assert result.inference.statement in result.summary()
    assert "unshrunken estimates" not in result.summary()


def test_without_an_intercept(clear: Release):
    result = fit(clear, ["score"], FEATURES, fit_intercept=False)
    text = result.summary()
    assert "without an intercept" in text
    assert f"through the midpoints of the public ranges, hence {result.intercept[0]:.6g} at 0" in text
    assert not any(line.startswith("intercept") for line in text.splitlines())


def test_warnings_are_printed(drowned: Release):
    result = fit(drowned, ["score"], FEATURES)
    for warning in result.diagnostics.warnings:
        assert f"Warning: {warning}" in result.summary()
    assert result.diagnostics.warnings


@pytest.mark.parametrize("noise_sd", [0.05, 50.0])
def test_many_targets_share_a_table(noise_sd: float):
    generator = np.random.default_rng(4)
    count = MOST_TABLES + 1
    parties = {"north": (numeric("x"), numeric("z")), "south": tuple(numeric(f"y{place}") for place in range(count))}
    codes = {name: generator.integers(-UNIT, UNIT + 1, (800, len(columns))) for name, columns in parties.items()}
    release = released(codes, parties, outputs=200, noise=SeededNoise(4), noise_sd=noise_sd)
    targets = [f"y{place}" for place in range(count)]
    result = fit(release, targets, ["x", "z"])
    text = result.summary()
    assert ("the largest |t| of 2 features: chosen for standing out" in text) is (noise_sd < 1)
    assert f"{count} targets on 2 features" in text
    assert not any(line.startswith("intercept") for line in text.splitlines())
    for row, target in enumerate(targets):
        line = cells(result, target)
        assert line[2] == rounded(result.constant[row], result.constant_noise_sd[row])
        assert " ".join(line).endswith(result.verdicts[row])
        if noise_sd < 1:
            best = int(np.abs(result.inference.z[row]).argmax())
            assert line[4] == ("x", "z")[best]
            assert line[7] == f"{result.inference.z[row, best]:.2f}"
        else:
            assert line[4:8] == ["-"] * 4
    assert "chosen for standing out" not in fit(release, targets, ["x"]).summary()
    few = fit(release, targets[:-1], ["x", "z"]).summary()
    assert "chosen for standing out" not in few
    assert sum(line.startswith("intercept") for line in few.splitlines()) == MOST_TABLES
