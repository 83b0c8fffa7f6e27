"""What a fit of clipped rows says about all rows: how far numbers reach, how much wider intervals are, and in which words."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from dprelease.arrays import Floats
from dprelease.data.bounding import BoundedRows
from dprelease.document.cells import LEVEL
from dprelease.estimators import FitResult, fit
from dprelease.estimators.intervals.clipped import HIDDEN, Clipped, moved_by
from dprelease.estimators.intervals.estimates import ends, p_values
from dprelease.estimators.result import MOST_TABLES
from dprelease.release.release import Release
from tests.support.noise import ZeroNoise
from tests.support.rounds import in_published_ranges, made_alone, ranges_first
from tests.support.specs import build_spec, categorical, numeric

BITS, ROWS = 16, 2000
NUMBERS = tuple(f"x{place}" for place in range(MOST_TABLES + 3))
COLUMNS = (*map(numeric, NUMBERS), categorical("smoker", "yes"))
NOTE = "Coefficients describe all rows; intervals are wider by"


def bounded() -> BoundedRows:
    """Numbers that go together, a tenth of their bounds wide, a fifth of their widths from the middle; and a binary."""
    random = np.random.default_rng(1)
    numbers = 0.02 + random.normal(0, 0.1, (ROWS, len(NUMBERS)))
    yes = random.random(ROWS) < 0.4
    numbers[:, 1:] += 0.7 * numbers[:, :1] + 0.05 * yes[:, None]
    cells = np.column_stack([numbers, yes, ~yes])
    return BoundedRows(np.clip(np.rint(cells * 2.0**BITS), -(2**BITS), 2**BITS).astype(np.int32), COLUMNS, BITS)


def in_ranges(clip: float | str, epsilon: float = 20.0, rows: BoundedRows | None = None) -> Release:
    """Exact numbers under declared noise."""
    made = build_spec({"clinic": COLUMNS}, mechanism="moments", grid_bits=BITS, rows=ROWS, epsilon=epsilon)
    return made_alone(ranges_first(made, clip=clip), rows or bounded(), ZeroNoise())


@pytest.fixture(scope="module")
def far() -> Release:
    return in_ranges(0.0)


def fitted(release: Release, targets: int = 1) -> FitResult:
    return fit(release, NUMBERS[:targets], [*NUMBERS[-2:], "smoker"], "ols")


def covariances(release: Release, names: Sequence[str], *, intercept: bool = True) -> tuple[Floats, Floats]:
    """Those of numbers as clipped, about 0 without an intercept, and their units."""
    moments = release.moments()
    places, _, units = zip(*map(moments.lookup, names), strict=True)
    mean = moments.gram / ROWS
    mean = mean - np.outer(mean[0], mean[0]) if intercept else mean
    return mean[np.ix_(places, places)], np.array(units)


def table_of(result: FitResult) -> list[list[str]]:
    return [line.split() for line in result.summary().splitlines()]


def test_intervals_are_wider_by_what_slopes_lose_and_only_by_that(far: Release) -> None:
    result = fitted(far)
    found, kept = result.inference, {each.name: each.kept for each in far.reaches}
    assert found.wider is not None
    assert set(kept) == set(NUMBERS)
    square, units = covariances(far, (*result.features, NUMBERS[0]))
    parts = np.array([kept.get(name, 1.0) for name in result.features])
    slopes = found.estimate * units[:-1] / units[-1]
    clipped = Clipped(square[:-1, :-1], square[-1:, :-1], square[-1:, -1])
    expected = clipped.lost(slopes, np.array([kept[NUMBERS[0]]]), parts, np.ones(1))
    np.testing.assert_allclose(found.wider, expected * np.abs(units[-1] / units[:-1]))
    np.testing.assert_allclose(found.interval(), ends(found.profiled, LEVEL, found.wider))
    assert np.all(np.abs(found.z) < np.abs(found.profiled.ratio))
    np.testing.assert_allclose(found.p_value, p_values(found.profiled, found.wider))
    assert found.intercepts.wider is not None
    np.testing.assert_allclose(
        found.intercepts.interval(), ends(found.intercepts.profiled, LEVEL, found.intercepts.wider)
    )
    np.testing.assert_allclose(found.intercepts.p_value, p_values(found.intercepts.profiled, found.intercepts.wider))


def test_intercepts_are_wider_by_means_that_clipping_moves(far: Release) -> None:
    result = fitted(far)
    found, exact = result.inference, far.moments()
    scaled = dict(zip(exact.names, exact.gram[0, 1:] / ROWS, strict=True))
    mean = {name: exact.lookup(name)[1] + exact.lookup(name)[2] * each for name, each in scaled.items()}
    reaches = {each.name: each for each in far.reaches}
    y, moved = NUMBERS[0], 0.0
    for place, name in enumerate(result.features):
        at = mean[name] if name in mean else 1 - mean["smoker=yes"]
        assert found.wider is not None
        moved += found.wider[0, place] * abs(at)
        moved += abs(found.estimate[0, place]) * moved_by(reaches.get(name), at)
    assert found.intercepts.wider is not None
    assert found.intercepts.wider[0] == pytest.approx(moved_by(reaches[y], mean[y]) + moved)


@pytest.mark.parametrize("error", [0.0, 0.3, 1.0, 3.0])
def test_moves_of_means_are_held_as_often_as_normal_errors(far: Release, error: float) -> None:
    """Rounds that agree by chance are no evidence that clipping moved nothing, and the noise of the first is none that it did."""
    random, many = np.random.default_rng(9), 4000
    moves = random.normal(size=many)
    centres = moves + error * random.normal(size=many)
    reaches = [replace(far.reaches[0], centre=float(at), error=error, shift=1.0) for at in centres]
    widths = np.array([moved_by(each, 0.0) for each in reaches])
    chance = 3 * np.sqrt(0.05 * 0.95 / many)
    assert np.mean(np.abs(moves) > 1.96 * widths) <= 0.05 + chance
    assert np.median(widths) <= np.hypot(1.0, 1 / np.sqrt(2))


def test_a_mean_moves_by_no_more_than_its_margin_lets_it(far: Release) -> None:
    codes, exact = bounded().codes / 2.0**BITS, far.moments()
    for place, each in enumerate(far.reaches):
        at, middle, unit = exact.lookup(each.name)
        clipped = middle + unit * exact.gram[0, at] / ROWS
        column = COLUMNS[place]
        mean = column.midpoint + column.half_width * codes[:, place].mean()
        assert abs(clipped - mean) <= each.shift


def test_a_tail_that_noise_hides_is_told() -> None:
    rows = bounded()
    codes = rows.codes.copy()
    codes[:, 0] = np.where(np.arange(ROWS) < 4, 2**BITS, -(2**BITS))  # four patients of 2,000
    release = in_ranges(0.0, 1.0, BoundedRows(codes, COLUMNS, BITS))
    first, *others = release.reaches
    assert first.hidden
    assert str(first).endswith("; hides in its tail")
    assert [each.kept for each in others if each.hidden] == []


def test_nothing_is_kept_beyond_what_both_rounds_agree_on() -> None:
    """Thirty of 2,000 patients at the other end: too few for a quantile, far enough to be told from none by all counts together."""
    rows = bounded()
    codes = rows.codes.copy()
    codes[:, 0] = np.rint(2**BITS * np.random.default_rng(2).normal(-0.9, 0.03, ROWS)).clip(-(2**BITS), 2**BITS)
    codes[:30, 0] = 2**BITS
    release = in_ranges(0.0, 20.0, BoundedRows(codes, COLUMNS, BITS))
    assert release.first_ranges is not None
    margin, square = release.first_ranges.of(NUMBERS[0]).margin, float(np.mean((codes[:, 0] / 2**BITS + 0.9) ** 2))
    assert margin.seen
    assert margin.mean_square < 0.1 * square
    first, *others = release.reaches
    assert first.hidden
    assert min(each.kept for each in others) > 0.95


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_what_hides_in_its_tail_is_bounded_by_spreads_and_is_no_evidence(
    far: Release, hidden: int, *, intercept: bool
) -> None:
    """Columns 0 and 2 explain column 1; by Cauchy's inequality, in residuals of rows that have the released moments."""
    release = replace(far)
    reaches = {each.name: each for each in far.reaches}
    reaches[NUMBERS[hidden]] = replace(reaches[NUMBERS[hidden]], kept=0.0)
    release.__dict__["reaches"] = tuple(reaches.values())
    found = fit(release, NUMBERS[1:2], [NUMBERS[0], NUMBERS[2]], "ols", fit_intercept=intercept).inference
    square, units = covariances(far, NUMBERS[:3], intercept=intercept)
    square *= np.outer(units, units)
    y = reaches[NUMBERS[1]].spread if hidden == 1 else np.sqrt(square[1, 1]) / reaches[NUMBERS[1]].kept
    for place, (x, other) in enumerate([(0, 2), (2, 0)]):
        assert found.wider is not None
        if hidden in (1, x):
            alone = square[x, x] - square[x, other] ** 2 / square[other, other]
            assert found.wider[0, place] == pytest.approx(abs(found.estimate[0, place]) + y / np.sqrt(alone), rel=1e-6)
            assert (found.z[0, place], found.p_value[0, place]) == (0.0, 1.0)
        else:
            kept = reaches[NUMBERS[1]].kept * reaches[NUMBERS[x]].kept
            assert found.wider[0, place] > abs(found.estimate[0, place]) * (1 / kept - 1)
    assert found.bounded.all()
    assert f"Noise hides the tail of {NUMBERS[hidden]}: {HIDDEN}." in found.clipping_notes


@pytest.mark.parametrize("clip", [0.0, 2.0, "none"])
@pytest.mark.parametrize("targets", [1, MOST_TABLES + 1])
def test_every_table_has_what_clipping_may_take_how_far_and_the_note(clip: float | str, targets: int) -> None:
    release = in_ranges(clip)
    result = fitted(release, targets)
    found, lines = result.inference, table_of(result)
    assert found.wider is not None
    assert found.intercepts.wider is not None
    reach = found.reaches[0]
    kept = ["hides", "in", "its", "tail"] if reach.hidden else [f"{reach.kept:.0%}"]
    assert any(line[:1] == [reach.name] and line[-len(kept) :] == kept for line in lines)
    assert result.summary().count(NOTE) == 1
    saved = json.loads(json.dumps(result.document().to_json()))
    assert saved["reaches"] == [vars(each) for each in release.reaches]
    wider = {(row["target"], row["feature"]): row["wider"] for row in saved["coefficients"]}
    for row, target in enumerate(result.targets):
        expected = [found.intercepts.wider[row], *found.wider[row]]
        told = [wider[target, name] for name in ("intercept", *result.features)]
        assert told == [value if np.isfinite(value) else None for value in expected]


def test_where_nothing_was_learned_the_notes_stay_and_no_number_stands_alone() -> None:
    result = fitted(in_ranges(0.0, epsilon=0.01))
    found, text = result.inference, result.summary()
    assert found.statement in text
    assert found.wider is not None
    assert found.intercepts.wider is not None
    assert np.isnan(found.wider).all()
    assert np.isnan(found.intercepts.wider).all()
    assert NOTE in text


def test_in_ranges_of_another_release_tails_are_guessed(far: Release) -> None:
    first = {party: own[:1] for party, own in far.blocks.items()}
    known = in_published_ranges(far.spec, first)
    later = Release(known, {party: own[1:] for party, own in far.blocks.items()}, ())
    assert not any(each.counted for each in later.reaches)
    for ours, theirs in zip(later.reaches, far.reaches, strict=True):
        assert (ours.name, ours.lower, ours.upper, ours.centre) == (
            theirs.name,
            theirs.lower,
            theirs.upper,
            theirs.centre,
        )
        assert ours.kept == pytest.approx(theirs.kept, abs=0.1)
    assert "Tails are guessed from means and spreads" in fitted(later).summary()
