"""Hazard ratios of several covariates: exact sums give Cox's on the rows; noisy ones hold the truth as often as they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom, chi2
from statsmodels.duration.hazard_regression import PHReg

from dprelease.analyses import hazards
from dprelease.analyses.combinations import design, law_of
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.exit_sums import exit_sums
from dprelease.analyses.hazards import _Model
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from dprelease.estimators.log_linear import LogLinear
from tests.support.covariates import CUTS, Patients, released, true_ratios

SLOW = [pytest.mark.slow, pytest.mark.timeout(1800)]
NOISE = 30.0
"""Patients: of seven columns at epsilon = 1, delta = 1e-5."""


def test_exact_sums_give_cox() -> None:
    """To .05: what the intervals and the prior may take of n = 8,000, where events are frequent and ratios up to 2.7."""
    people = Patients(8_000)
    release = released(people)
    tables = [hazards(release, "exit", list(people.levels), event).tables for event in (None, "died")]
    found = tables[0]["hazard ratios"]
    of, time, cause = people.drawn(0)
    x = np.column_stack(
        [of[name] == people.levels[name].index(level) for name, level in (each.split("=") for each in found.names)]
    )
    seen = (cause >= 0) & (time <= CUTS[-1])
    cox = PHReg(np.minimum(time, CUTS[-1]), x.astype(float), status=seen.astype(int)).fit()
    for found in (each["hazard ratios"] for each in tables):
        np.testing.assert_allclose(np.log(found.estimate), cox.params, atol=0.05)
        assert (found.standard_error > 0.95 * cox.bse).all()


@pytest.mark.parametrize(
    ("people", "count"),
    [
        (Patients(effect=0.0), 8),
        (Patients(20_000, rate=(0.03,)), 4),
        (Patients(20_000, shape="collinear"), 4),
        (Patients(20_000, effect=0.0, shape="twenty levels"), 2),
        pytest.param(Patients(effect=0.0), 100, marks=SLOW),
        pytest.param(Patients(), 60, marks=SLOW),
        pytest.param(Patients(20_000, effect=2.0), 60, marks=SLOW),
        pytest.param(Patients(20_000, rate=(0.03,)), 60, marks=SLOW),
        pytest.param(Patients(20_000, effect=0.0, shape="collinear"), 60, marks=SLOW),
        pytest.param(Patients(20_000, shape="twenty levels"), 30, marks=SLOW),
    ],
)
def test_intervals_hold_the_truth_and_nothing_is_found_where_nothing_is(people: Patients, count: int) -> None:
    """Coverage at least .92, and .985 at most, but for chance of 1 in 10,000; a release counts as two independent ratios.

    Where nothing is to be found a joint test finds it in 7.5 % of releases at most, and the tests of a release count as one.
    """
    held, found_out = [], 0
    for seed in range(count):
        found = hazards(released(people, 50 + seed, NOISE), "exit", list(people.levels), "died")
        ratios = found.tables["hazard ratios"]
        away = np.abs(ratios.location[0] - true_ratios(people, found)) / ratios.standard_error
        held.append(float((away < 1.96).mean()))
        assert set(found.tests) == {f"hazards do not depend on {name}" for name in people.levels}
        if not people.effect:
            assert ((ratios.p_value < 0.05) == (away > 1.96)).all()
            found_out += any(test.p_value < 0.05 / len(found.tests) for test in found.tests.values())
    missed, half = 2 * (count - sum(held)), 2 * count
    assert binom.ppf(1e-4, half, 0.015) <= missed <= binom.isf(1e-4, half, 0.08)
    assert found_out <= binom.isf(1e-4, count, 0.075)


def test_the_joint_test_of_a_covariate_is_that_of_wald_whatever_the_reference() -> None:
    """Of one indicator it is the square of its own; of several its null is as far away, whichever level is the reference."""
    people = Patients(effect=0.2)
    release = released(people, 3, NOISE)
    found = hazards(release, "exit", list(people.levels), "died")
    ratios = found.tables["hazard ratios"]
    for name in ("sex", "treated"):
        test, own = found.tests[f"hazards do not depend on {name}"], ratios[f"{name}=b"]
        assert test.statistic == pytest.approx(float((own.location[0, 0] / own.standard_error[0]) ** 2))
        assert test.p_value == pytest.approx(float(own.p_value[0]))
    test = found.tests["hazards do not depend on age"]
    other = hazards(release, "exit", ["age=a", "age=b", "sex", "treated"], "died").tests["hazards do not depend on age"]
    assert (test.restrictions, other.restrictions, test.degrees) == (2, 2, np.inf)
    assert test.statistic == pytest.approx(other.statistic, rel=0.02)
    assert test.p_value == pytest.approx(chi2.sf(test.statistic, 2))


def test_each_cause_has_ratios_of_its_own() -> None:
    people = Patients(30_000, rate=(0.4, 0.3))
    found = hazards(released(people), "exit", list(people.levels), "died")
    ratios = found.tables["hazard ratios"]
    known = np.concatenate([true_ratios(people, found)[:4], np.zeros(4)])
    assert [name.split(": ")[0] for name in ratios.names] == ["death"] * 4 + ["transplant"] * 4
    assert found.tests["death: hazards do not depend on age"].p_value < 1e-6
    assert found.tests["transplant: hazards do not depend on age"].p_value > 1e-3
    assert (np.abs(ratios.location[0] - known) < 4 * ratios.standard_error).all()
    assert ratios.standard_error.max() < 0.1
    assert "not a ratio of its cumulative incidences" in found.summary()
    json.dumps(found.document().to_json(), allow_nan=False)


def test_shares_of_exits_add_up_whatever_the_hazards() -> None:
    release = released(Patients(2000, rate=(0.4, 0.3)))
    law = law_of(release, ["exit=left 0 to 0.15"], ["sex=b", "treated=b"])
    x = design(release, law, np.arange(len(law.cells)) % 2.0, ["sex", "treated"])
    model = _Model.of(exit_sums(release, "exit", None, None), law, x)
    values, way = np.random.default_rng(1).normal(-1, 1, (2, len(model.ratios)))
    assert np.bincount(model.at, np.exp(model.base(law, values))) == pytest.approx(np.ones(4))
    ahead, behind = (model.base(law, values + sign * 1e-3 * way) for sign in (1, -1))
    np.testing.assert_allclose(model.slopes(law, values) @ way, (ahead - behind) / 2e-3, atol=1e-4)


def test_exits_by_one_cause_are_taken_to_be_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real, levels = [], LogLinear.of, Exits(CUTS, ("death", "transplant")).levels
    monkeypatch.setattr(LogLinear, "of", lambda *given: asked.append(given[3]) or real(*given))
    hazards(released(Patients(2000, rate=(0.4, 0.3))), "exit", ["sex"])
    (groups,) = asked
    assert [{levels[at].split()[0] for at in group} for group in groups] == [{"death"}, {"transplant"}, {"left"}]
    assert {len(group) for group in groups} == {len(CUTS)}


def test_the_reference_of_a_covariate_has_every_cause() -> None:
    """Noise hides the transplants of 500 patients, not their deaths; and a ratio that nothing bounds has no end."""
    rare = (np.random.default_rng(5).random(5000) < 0.9).astype(int)
    found = hazards(released(Patients(rate=(0.6, 0.1)), 0, NOISE, rare=rare), "exit", ["rare", "sex"], "died")
    assert found.facts["reference"] == "rare: yes; sex: a"
    assert found.tables["hazard ratios"]["death: rare=no"].p_value[0] > 1e-3
    counts = np.array([[[0.1, 0.1]], [[0.1, 0.1]]])
    wide = Estimates(("a", "b"), np.zeros((1, 2)), np.array([[2.0, 100.0]]), link="log", tested=True, counts=counts)
    assert [end[1] for end in wide.interval()] == [0.0, np.inf]


def test_what_cannot_be_told_is_refused() -> None:
    people = Patients(2000)
    same = people.drawn(0)[0]["treated"]
    with pytest.raises(InvalidInput, match=r"the variance inflation of treated .*, twin .* is above 10"):
        hazards(released(people, 0, 5.0, twin=same), "exit", ["treated", "twin"])
    with pytest.raises(InvalidInput, match="cannot explain itself"):
        hazards(released(people), "exit", ["exit"])
    for noise in (0.0, 5.0, NOISE):
        with pytest.raises(InvalidInput, match=r"^died decides exit, .* leave it out, or name it by --event if it"):
            hazards(released(Patients(8_000), 1, noise), "exit", ["age", "died"])
    with pytest.raises(InvalidInput, match="these are not the levels of a column of exits"):
        hazards(released(people), "age", ["sex"])
    with pytest.raises(InvalidInput, match="noise does not tell the patients with event from none"):
        hazards(released(Patients(2000, rate=(1e-4,)), 0, NOISE), "exit", ["sex"])
