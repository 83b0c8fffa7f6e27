"""Survival out of exits: exact sums give Kaplan-Meier and Cox; noisy ones hold the truth as often as they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight

from dprelease.analyses import Survival, hazards, survival
from dprelease.analyses.exit_sums import exit_sums
from dprelease.analyses.survival import _with_room
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from dprelease.estimators.piecewise_exponential import (
    APART,
    LATER_SD,
    LOST_APART,
    VAGUE_SD,
    WALK,
    CellSums,
    Exponential,
    fit_exponential,
)
from dprelease.release.release import Release
from tests.dprelease.analyses import releases
from tests.dprelease.analyses.releases import category
from tests.support.exits import BINARY, drawn_exits, exit_columns, exit_release, places_of

CHANCE = 1e-4
"""Probability of a false alarm, of one number."""
NOISE = 27.5
"""Patients: of six columns at epsilon = 1, delta = 1e-5, three hospitals, without a margin for a curious one it is 26."""
CUTS = (0.15, 0.3, 0.5, 0.75, 1.0, 1.5)


class Patients(NamedTuple):
    """Rates of a made-up table: events have rate 1 in group a and `ratio` in group b; so does each cause."""

    n: int = 5000
    ratio: tuple[float, ...] = (0.7,)
    rate: tuple[float, ...] = (1.0,)
    lost: tuple[float, float] = (0.3, 0.3)
    share: float = 0.5
    until: float = 4.0

    def drawn(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(group, time, cause), the cause -1 for a loss."""
        return drawn_exits(np.random.default_rng(seed), **self._asdict())


def released(
    people: Patients,
    seed: int = 0,
    sd: float = 0.0,
    event: tuple[str, ...] = BINARY,
    noise_seed: int = 1,
    missed: float = 0.0,
) -> Release:
    group, time, cause = people.drawn(seed)
    exits = Exits(CUTS, ("event",) if len(people.rate) == 1 else ("death", "transplant"))
    random = np.random.default_rng([seed, noise_seed])
    columns = exit_columns(
        exits, {"group": ("a", "b"), "died": event, "ward": ("north", "south", "west"), "sex": ("female", "male")}
    )
    died = (cause == 0).astype(int) if event == BINARY else (cause != 0).astype(int)
    died[np.flatnonzero(died)[: round(missed * died.sum())]] = 0
    places = {"exit": places_of(exits, time, cause), "group": group, "died": died}
    places |= {"ward": random.integers(0, 3, people.n), "sex": random.integers(0, 2, people.n)}
    return exit_release(columns, places, sd, random if sd else None)


def test_exact_sums_give_kaplan_meier_and_cox() -> None:
    """To .006 and .02: what patients who left within an interval, and the prior, may take of n = 6,000."""
    people = Patients(6000)
    release, (group, time, cause) = released(people), people.drawn(0)
    until = np.minimum(time, CUTS[-1])
    cox = PHReg(until, group[:, None], status=((cause >= 0) & (time <= CUTS[-1])).astype(int)).fit()
    mean = [(1 - np.exp(-rate * CUTS[-1])) / rate for rate in (1.0, 0.7)]
    for found in (survival(release, "exit", "group", event) for event in (None, "died")):
        for place, name in enumerate(("group=a", "group=b")):
            own = group == place
            curve = SurvfuncRight(time[own], (cause[own] >= 0).astype(int))
            known = [curve.surv_prob[curve.surv_times <= cut][-1] for cut in CUTS]
            shown = found.tables["survival"]
            at = [shown.names.index(f"{name}, at {cut:g}") for cut in CUTS]
            assert shown.estimate[at] == pytest.approx(known, abs=0.006)
            risk = found.tables["numbers at risk"]
            counts = [own.sum(), *((time[own] >= cut).sum() for cut in CUTS)]
            assert risk.estimate[[name in each for each in risk.names]] == pytest.approx(counts, abs=0.5)
            half = curve.surv_times[curve.surv_prob <= 0.5][0]
            assert found.tables["median survival"][name].estimate[0] == pytest.approx(half, abs=0.02)
        ratio = found.tables["hazard ratios"]
        assert np.log(ratio.estimate[0]) == pytest.approx(cox.params[0], abs=0.02)
        assert ratio.standard_error[0] == pytest.approx(cox.bse[0], rel=0.05)
        restricted = found.tables["restricted mean survival time"]
        assert restricted.estimate == pytest.approx([*mean, mean[1] - mean[0]], abs=0.05)


def test_the_noise_of_a_ratio_is_how_far_releases_of_the_same_patients_lie_apart() -> None:
    """An sd of 40 releases errs by 11 %, so it is within 45 % of what they say; without noise there is none."""
    found = [
        exit_sums(released(Patients(), 1, NOISE, noise_seed=seed), "exit", "group", "died").fit(proportional=True)
        for seed in range(40)
    ]
    logs, told = (np.array([fit.ratios(0)[place].item() for fit in found]) for place in (0, 2))
    # The fit takes the larger group for its first, and noise decides which.
    assert np.std(np.abs(logs)) == pytest.approx(np.sqrt(told.mean()), rel=0.45)
    shown = survival(released(Patients(), 1, NOISE), "exit", "group", "died").document().to_json()
    row = next(row for row in shown["tables"] if row["table"] == "hazard ratios")
    assert 0 < row["noise_sd"] < row["value"]["standard_error"]
    exact = survival(released(Patients()), "exit", "group", "died").tables["hazard ratios"]
    assert exact.noise_sd[0] < 1e-3


def test_one_declared_level_is_compared_with_the_others() -> None:
    people, exits = Patients(3000), Exits(CUTS, ("event",))
    group, time, cause = people.drawn(0)
    cells = {"exit": np.array(exits.levels)[places_of(exits, time, cause)], "group": np.where(group == 1, "b", "")}
    found = survival(releases.released((*exit_columns(exits, {}), category("group", "b")), cells), "exit", "group")
    ratios, two = (each.tables["hazard ratios"] for each in (found, survival(released(people), "exit", "group")))
    assert (ratios.names, list(found.at_risk)) == (("group=b to group=other",), ["group=other", "group=b"])
    assert ratios.estimate == pytest.approx(two.estimate, rel=1e-3)
    assert ratios.estimate[0] < 0.8


@pytest.mark.parametrize("proportional", [False, True])
def test_a_sum_that_says_nothing_leaves_the_prior(proportional: bool) -> None:
    """Log rates walk about a mean; ratios to the first group depart in each interval, those of losses by less."""
    model, sums = Exponential((0.5, 1.0, 2.0), 2, 3, proportional, False, True), CellSums()
    sums.add(np.ones(model.rows), np.ones(3), 90.0, 1e9)
    found = fit_exponential(model, sums, 100, np.full(10, 10.0), np.full(3, 1 / 3)).covariance
    rates, steps = model.rates, np.diff(np.eye(3), axis=0)
    prior = found[: rates.shape[-1], : rates.shape[-1]]
    for kind, apart in enumerate((*[0.0 if proportional else APART] * 2, LOST_APART)):
        own = rates[kind, 0] @ prior @ rates[kind, 0].T
        np.testing.assert_allclose(steps @ own @ steps.T, WALK**2 * np.eye(2), atol=1e-6)
        assert own.mean() == pytest.approx(VAGUE_SD**2)
        for group in (1, 2):
            ratio = rates[kind, group] - rates[kind, 0]
            np.testing.assert_allclose(
                ratio @ prior @ ratio.T, VAGUE_SD**2 + apart**2 * np.eye(3), rtol=1e-6, atol=1e-6
            )
    np.testing.assert_allclose(found[-3:, -3:], VAGUE_SD**2 + LATER_SD**2 * np.eye(3), rtol=1e-6)


SHAPES = {
    "no effect": Patients(ratio=(1.0,)),
    "small group": Patients(share=0.05, n=8000),
    "small reference": Patients(share=0.95, n=8000),
    "losses differ": Patients(lost=(0.2, 1.2)),
    "rare events": Patients(n=20_000, rate=(0.02,), until=1.5),
    "followed to the last cut": Patients(until=1.5, n=1000),
    "two causes": Patients(ratio=(0.7, 1.5), rate=(1.0, 0.3)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [5, pytest.param(80, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_intervals_hold_the_truth(shape: str, count: int) -> None:
    """Log ratios in standard errors have mean 0 and rarely pass 1.96; bands hold curves, errors counts."""
    people = SHAPES[shape]
    away, bands = [], []
    for seed in range(count):
        found = survival(released(people, 100 + seed, NOISE), "exit", "group", "died")
        ratio = found.tables["hazard ratios"]
        away.append((ratio.location[0] - np.log(people.ratio)) / ratio.standard_error)
        bands.append([held(found, people), counted(found, people, 100 + seed)])
    z = np.array(away)
    assert (np.abs(z.mean(axis=0)) < 4 / np.sqrt(count)).all(), z.mean(axis=0)
    assert ((np.abs(z) > 1.96).sum(axis=0) <= binom.isf(CHANCE, count, 0.05)).all()
    # Cuts of one release hang together, so that the mean of 5 releases spreads by about .07.
    assert np.mean(bands, axis=0).min() > 0.95 - 4 * 0.15 / np.sqrt(count)


def held(found: Survival, people: Patients) -> float:
    """Share of the curve's points that their bands hold."""
    cuts = np.array(CUTS)
    both = [*zip(people.rate, people.ratio, strict=True)]
    whole = [sum(people.rate), sum(rate * ratio for rate, ratio in both)]
    truth = np.concatenate([np.exp(-rate * cuts) for rate in whole])
    shown = [found.tables["survival" if len(people.rate) == 1 else "free of events"]]
    truths = [truth]
    if len(people.rate) > 1:
        shown.append(found.tables["cumulative incidence"])
        parts = [own * (1.0, ratio)[side] / whole[side] for own, ratio in both for side in (0, 1)]
        truths.append(np.concatenate([part * (1 - np.exp(-whole[at % 2] * cuts)) for at, part in enumerate(parts)]))
    ends = [table.interval() for table in shown]
    inside = [(low <= true) & (true <= high) for (low, high), true in zip(ends, truths, strict=True)]
    return float(np.concatenate(inside).mean())


def counted(found: Survival, people: Patients, seed: int) -> float:
    """Share of the numbers at risk that their intervals hold."""
    group, time, _ = people.drawn(seed)
    truth = np.array([[np.sum(time[group == side] >= cut) for cut in (0.0, *CUTS)] for side in (0, 1)]).ravel()
    low, high = found.tables["numbers at risk"].interval()
    return float(((low - 0.5 <= truth) & (truth <= high + 0.5)).mean())


def test_curves_fall_within_0_and_1_and_an_indicator_reads_both_ways(tmp_path: Path) -> None:
    people = Patients(n=1500)
    found = survival(released(people, 3, NOISE), "exit", "group", "died")
    curves = found.tables["survival"]
    for ends in (curves.estimate, *curves.interval()):
        assert (np.diff(ends.reshape(2, -1)) <= 0).all()
        assert ends.tolist() == np.clip(ends, 0, 1).tolist()
    turned = survival(released(people, 3, NOISE, ("yes", "no")), "exit", "group", "died")
    assert turned.tables["hazard ratios"].scale == pytest.approx(found.tables["hazard ratios"].scale, rel=0.2)
    path = tmp_path / "curves.png"
    found.plot(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "sampling" in json.dumps(found.document().to_json(), allow_nan=False)
    assert "A missing cell counts as the declared fill of its column, as exit: followed to 1.5" in found.summary()
    assert found.document().to_json()["missing_cells"] == ["exit: followed to 1.5", "group: b", "died: yes"]


def test_times_under_a_plot_stand_apart() -> None:
    """Those of cuts that crowd are left out, and the first and the last one never."""
    times = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
    labels = [f"{time:g}\n5014" for time in times]
    shown = _with_room(labels, [time / times[-1] for time in times])
    assert shown == [label if time in (0, 0.5, 1, 2, 5) else "" for time, label in zip(times, labels, strict=True)]
    even = [f"{time:g}\n5014" for time in range(7)]
    assert _with_room(even, [time / 6 for time in range(7)]) == even


def test_three_groups_are_tested_together_and_one_needs_no_name() -> None:
    group, time, cause = Patients(6000, ratio=(1.0,)).drawn(2)
    exits = Exits(CUTS[-2:], missing=True)
    ward = np.random.default_rng(5).integers(0, 3, 6000)
    gone = places_of(exits, time / np.array([1.0, 1.0, 0.5])[ward], cause)
    unknown = np.random.default_rng(6).random(6000) < 0.1
    columns = exit_columns(exits, {"ward": ("north", "south", "west"), "sex": ("female", "male")})
    places = {"exit": np.where(unknown, exits.followed + 1, gone), "ward": ward, "sex": group}
    release = exit_release(columns, places, 10.0, np.random.default_rng(7))
    found = survival(release, "exit", "ward")
    (test,) = found.tests.values()
    assert test.restrictions == 2
    assert test.p_value < 1e-6
    low, high = found.tables["hazard ratios"].interval()
    assert ((low < [1.0, 0.5]) & (high > [1.0, 0.5])).all()
    assert "exit is missing" in found.summary()
    assert "exit is missing" in hazards(release, "exit", ["sex"]).summary()
    alone = survival(release, "exit")
    assert alone.tables["survival"].names == ("at 1", "at 1.5")
    assert not alone.tests
    truth = np.mean([np.exp(-np.array(CUTS[-2:]) * each) for each in (1.0, 1.0, 0.5)], axis=0)
    assert alone.tables["survival"].estimate == pytest.approx(truth, abs=0.03)


@pytest.mark.parametrize(
    ("people", "asked", "told"),
    [
        (Patients(2000, share=0.03), ("exit", "group"), r"group=b has some \d+ patients, and a group needs 138"),
        (Patients(2000, share=0.0), ("exit", "group"), "group=b has some"),
        (Patients(2000, rate=(0.0001,)), ("exit", "group"), "noise does not tell the patients with event from none"),
        (Patients(), ("exit", "group", "sex"), "is not the event of exit|hides which events"),
        (Patients(), ("ward", "group"), "ward: these are not the levels of a column of exits"),
        (Patients(), ("exit", "exit"), "different columns"),
        (Patients(), ("exit=event 0 to 0.15", "group"), "name its column, exit"),
        (Patients(), ("exit", "group", "ward"), "more than two levels"),
        (Patients(), ("exit", "group=a"), "name its column, group"),
    ],
)
def test_what_cannot_be_told_is_refused(people: Patients, asked: tuple[str, ...], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        survival(released(people, 1, NOISE), *asked)


def test_an_indicator_may_miss_an_event_in_two_hundred() -> None:
    """It is -1 instead of +1 at one that it misses, which is two of the 1 % that it may be off."""
    assert survival(released(Patients(20_000), missed=0.003), "exit", "group", "died").tests
    with pytest.raises(InvalidInput, match="died is not the event of exit: their tables do not agree"):
        survival(released(Patients(20_000), missed=0.008), "exit", "group", "died")


def declared(release: Release, **told: dict[str, str]) -> Release:
    """The release of columns that are declared otherwise."""
    columns = tuple(each.model_copy(update=told.get(each.name, {})) for each in release.spec.columns)
    made = exit_release(columns, {each.name: np.zeros(release.patients, int) for each in columns})
    made.__dict__["view"] = release.view
    return made


def test_what_is_made_of_the_event_or_the_time_is_no_group_and_no_covariate() -> None:
    """By declarations, so also where events after the last cut leave it a ratio; a band of the first date is a covariate."""
    words = (
        "exit by years from admitted to left and status at 1.5",
        'status = "1"',
        "left cut at 2.0",
        "admitted cut at 2.0",
    )
    made = dict(zip(("exit", "died", "ward", "sex"), ({"derivation": each} for each in words), strict=True))
    release = declared(released(Patients(), 0, NOISE), **made)
    for name in ("died", "ward"):
        with pytest.raises(InvalidInput, match=f"^{name} decides exit, "):
            survival(release, "exit", name)
        with pytest.raises(InvalidInput, match=f"^{name} decides exit, "):
            hazards(release, "exit", ["group", name])
    assert hazards(release, "exit", ["group", "sex"], "died").tests
    of_ward = declared(release, **made, group={"derivation": 'ward = "north"'})  # a level of the band of the last date
    with pytest.raises(InvalidInput, match=r"^group decides exit, "):
        survival(of_ward, "exit", "group")


@pytest.mark.parametrize(
    ("told", "unit"),
    [
        ({"derivation": "exit by days from admitted to left and status at 1.5"}, "days"),
        ({"derivation": "exit by followup and status at 1.5", "unit": "months"}, "months"),
        ({}, ""),
    ],
)
def test_times_have_a_unit_or_say_that_none_is_known(told: dict[str, str], unit: str) -> None:
    found = survival(declared(released(Patients()), exit=told), "exit", "group")
    assert found.facts["times"] == f"in {unit or 'the unit of the cuts, which the release does not name'}" == found.unit
    assert {*found.tables["restricted mean survival time"].units, *found.tables["median survival"].units} == {unit}


def test_several_causes_have_times_free_of_events_and_no_ratio_without_groups() -> None:
    found = survival(released(Patients(2000, ratio=(1.0, 1.0), rate=(1.0, 0.8))), "exit")
    assert {f"{each} time free of events" for each in ("restricted mean", "median")} < set(found.tables)
    assert "hazard ratio" not in found.summary()
