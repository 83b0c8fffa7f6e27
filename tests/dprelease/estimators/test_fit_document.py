"""The printed fit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dprelease.document.cells import figure, p_text
from dprelease.document.text import text
from dprelease.errors import InvalidInput
from dprelease.estimators import FitResult, fit
from dprelease.estimators.intervals.inference import EQUAL_SPREAD
from dprelease.estimators.result import ALIKE, MOST_TABLES, PREDICTOR
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import FEATURES, UNIT, released
from tests.support.noise import SeededNoise
from tests.support.specs import numeric


def cells(result: FitResult, term: str) -> list[str]:
    line = next(line for line in result.summary().splitlines() if line.startswith(f"{term} "))
    return line.split()[1:]


def test_every_coefficient_has_one_estimate_and_its_inference(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    found, (lower, upper) = result.inference, result.inference.interval()
    for column, feature in enumerate(FEATURES):
        error = found.standard_error[0, column]
        expected = [
            *(figure(each[0, column], error) for each in (found.estimate, found.standard_error)),
            f"{found.z[0, column]:.2f}",
            p_text(found.p_value[0, column]),
            *(figure(each[0, column], error) for each in (lower, upper)),
        ]
        assert cells(result, feature)[:6] == expected
    assert cells(result, "intercept")[0] == figure(found.intercepts.estimate[0], found.intercepts.standard_error[0])
    shown = result.summary()
    for line in shown.splitlines():
        assert line == line.rstrip()
    assert result.verdicts[0] in shown
    assert shown.endswith(result.promise.line)
    assert f"Variance explained of score {result.unresolved[0]['explained']}." in shown  # it comes out as 1.01
    for sentence in (*result.promise.guarantee, *result.promise.trust):
        assert sentence in result.summary(explain=True)
    told = replace(
        result, quality=replace(result.quality, mse=0.3 * result.quality.constant_mse, gain=np.array([170.0]))
    )
    share, error = told.quality.explained[0], told.quality.explained_se[0]
    assert f" {figure(share, error)} ({figure(error, error)}) " in " ".join(told.summary().split())


def test_fills_of_the_columns_of_a_fit_are_told(clear: Release):
    document = fit(clear, ["score"], FEATURES).document()
    every = clear.fills(("score", *FEATURES))
    assert document.to_json()["missing_cells"] == list(every)
    told = f"A missing cell counts as the declared fill of its column, as {every[0]} ({len(every) - 1} more columns have one)."
    assert told in document.notes
    assert told in text(document)
    assert every[1] in text(document, explain=True)


def test_the_model_that_predicts_is_a_table_of_its_own(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    assert "--predictor" in result.summary()
    assert "The model that predicts" not in result.summary()
    shown = " ".join(text(result.document(), shown=(PREDICTOR,)).split())
    for column, feature in enumerate(FEATURES):
        assert f"score {feature} {result.coef[0, column]:.6g}" in shown
    saved = {row["feature"]: row["value"] for row in result.document().to_json()[PREDICTOR]}
    assert saved == {"intercept": result.intercept[0], **dict(zip(FEATURES, result.coef[0], strict=True))}


def test_rows_have_a_t_and_its_degrees_and_moments_a_z(clear: Release):
    result = fit(clear, ["score"], FEATURES)
    shown = result.summary()
    assert " t P>|t| " in " ".join(shown.split())
    assert f"degrees of freedom  {result.inference.degrees:.0f}\n" in shown
    unlimited = replace(result, infer=lambda: replace(result.inference, degrees=np.inf)).summary()
    assert " z P>|z| " in " ".join(unlimited.split())
    assert "degrees of freedom" not in unlimited
    assert "|t|" not in unlimited


def test_errors_are_said_to_be_those_of_rows_of_a_patient_that_are_alike(clear: Release):
    several = replace(clear, spec=clear.spec.model_copy(update={"rows_per_subject": 3}))
    assert ALIKE in fit(several, ["score"], FEATURES).summary()
    assert ALIKE not in fit(clear, ["score"], FEATURES).summary()


def test_units_stand_beside_the_terms():
    parties = {"north": (numeric("age", 0.0, 120.0),), "south": (numeric("dose", -5.0, 3.0),)}
    parties["north"] = (parties["north"][0].model_copy(update={"unit": "years"}),)
    parties["south"] = (parties["south"][0].model_copy(update={"unit": "mg"}),)
    generator = np.random.default_rng(3)
    codes = {name: generator.integers(-UNIT, UNIT + 1, (500, 1)) for name in parties}
    result = fit(released(codes, parties, outputs=100, noise=SeededNoise(3)), ["dose"], None)
    assert cells(result, "age")[-3:] == ["mg", "per", "year"]
    assert cells(result, "intercept")[-1] == "mg"
    assert "dose (mg)" in result.summary().splitlines()
    assert "(mg)²" in json.dumps(result.document().to_json(), ensure_ascii=False)


def test_a_unit_cannot_forge_a_line():
    parties = {
        "north": (numeric("age").model_copy(update={"unit": "years\n\x1b[2Jage  9  9"}),),
        "south": (numeric("y"),),
    }
    generator = np.random.default_rng(5)
    codes = {name: generator.integers(-UNIT, UNIT + 1, (500, 1)) for name in parties}
    shown = fit(released(codes, parties, outputs=100, noise=SeededNoise(5)), ["y"], None).summary(explain=True)
    assert sum(line.startswith("age") for line in shown.splitlines()) == 1
    assert "\x1b" not in shown


def test_where_nothing_was_learned_it_says_so(drowned: Release):
    result = fit(drowned, ["score"], FEATURES)
    assert not any(line.startswith("age ") for line in result.summary().splitlines())
    assert result.inference.statement in result.summary()
    assert EQUAL_SPREAD not in result.summary()
    assert " ".join(text(result.document(), explain=True).split()).count("age - - - - - -") == 1


def test_without_an_intercept(clear: Release):
    result = fit(clear, ["score"], FEATURES, fit_intercept=False)
    shown = result.summary()
    assert "without an intercept" in shown
    assert f"through the midpoints of the public ranges, {result.intercept[0]:.6g} at 0" in shown
    assert not any(line.startswith("intercept") for line in shown.splitlines())


@pytest.mark.parametrize("noise_sd", [0.05, 50.0])
def test_many_targets_share_a_table(noise_sd: float):
    generator = np.random.default_rng(4)
    count = MOST_TABLES + 1
    parties = {"north": (numeric("x"), numeric("z")), "south": tuple(numeric(f"y{place}") for place in range(count))}
    codes = {name: generator.integers(-UNIT, UNIT + 1, (800, len(columns))) for name, columns in parties.items()}
    release = released(codes, parties, outputs=200, noise=SeededNoise(4), noise_sd=noise_sd)
    targets = [f"y{place}" for place in range(count)]
    result = fit(release, targets, ["x", "z"])
    shown = result.summary()
    assert ("The strongest feature has the largest |t| of 2." in shown) is (noise_sd < 1)
    assert f"{count} targets on 2 features" in shown
    assert not any(line.startswith("intercept") for line in shown.splitlines())
    for row, target in enumerate(targets):
        line = cells(result, target)
        if noise_sd < 1:
            best = int(np.abs(result.inference.z[row]).argmax())
            assert line[0] == ("x", "z")[best]
            assert line[3] == f"{result.inference.z[row, best]:.2f}"
        else:
            assert line[:7] == ["-"] * 7
    assert "strongest feature has" not in fit(release, targets, ["x"]).summary()
    few = fit(release, targets[:-1], ["x", "z"]).summary()
    assert "strongest" not in few
    assert sum(line.startswith("intercept") for line in few.splitlines()) == (MOST_TABLES if noise_sd < 1 else 0)


def test_a_fit_as_a_frame_and_as_a_plot(clear: Release):
    result = fit(clear, ["score", "dose"], FEATURES)
    frame = result.to_frame()
    assert list(frame["target"].unique()) == ["score", "dose"]
    of_dose = frame[frame["target"] == "dose"].set_index("feature")
    assert list(of_dose.index) == ["intercept", *FEATURES]
    assert of_dose.loc[FEATURES[0], "estimate"] == result.inference.estimate[1, 0]
    assert {"standard_error", "lower", "upper", "p_value", "unit"} <= set(frame)
    axes = result.plot("dose", {FEATURES[0]: 10.0})
    drawn = axes.lines[0].get_xdata()
    assert drawn == pytest.approx(result.inference.estimate[1] * [10.0, *[1.0] * (len(FEATURES) - 1)])
    assert axes.get_xlabel().startswith("difference in dose")
    with pytest.raises(InvalidInput, match="no such target: age; the fit has score, dose"):
        result.plot("age")
