"""The mechanism: what a hospital publishes, what a reader makes of it, and what is refused.

Columns whose rows lie in heaps: what is printed of them holds, and what the counts show of rows beyond a window is exact.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprelease.arrays import Floats
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.data.ranges import REACH, REACHES, STEPS
from dprelease.errors import IntegrityError, InvalidInput, SpecRefused
from dprelease.estimators import fit
from dprelease.mechanisms.ranges.beyond import DECAY, LONG, hidden, octaves, shown
from dprelease.mechanisms.ranges.privatize import histogram
from dprelease.mechanisms.ranges.released import CELL, EDGES, HIDDEN, SHARES, Distribution, Ranges
from dprelease.mechanisms.ranges.rounds import Placed, Row
from dprelease.mechanisms.ranges.terms import CELLS, FRACTION_BITS, LARGEST_CODE, WIDTH, WINDOW, factor
from dprelease.mechanisms.registry import mechanism_of
from dprelease.planning.comparison import compare
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.block import Block
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.dprelease.test_comparison import setting
from tests.support.noise import RecordingNoise, SeededNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, random_rows

PARTIES: Mapping[str, tuple[Column, ...]] = {
    "north": (numeric("age", 0.0, 120.0, unit="years"), categorical("sex", "female"), numeric("ward", public=True)),
    "south": (numeric("glucose", 2.0, 30.0), numeric("weight", 30.0, 200.0)),
    "east": (categorical("smokes", "yes"),),
}
SPEC = build_spec(PARTIES, mechanism="ranges", rows=500, grid_bits=16, epsilon=2.0)


def blocks_of(spec: ReleaseSpec, noise: Any) -> dict[str, tuple[Block, ...]]:
    return {part.party: privatize(random_rows(spec, part.party), spec, part.party, noise) for part in spec.parties}


@pytest.fixture(scope="module")
def blocks() -> dict[str, tuple[Block, ...]]:
    return blocks_of(SPEC, SeededNoise(1))


def released(blocks: Mapping[str, tuple[Block, ...]]) -> Release:
    return Release(SPEC, blocks, ())


def altered(blocks: Mapping[str, tuple[Block, ...]], place: int, value: int) -> Release:
    """South's second column with another integer."""
    (block,) = blocks["south"]
    values = block.values.copy()
    values[1, place] = value
    return released({**blocks, "south": (Block(block.header, values, block.public),)})


def test_each_hospital_publishes_its_own_columns(blocks: dict[str, tuple[Block, ...]]) -> None:
    shapes = {party: only.values.shape for party, (only,) in blocks.items()}
    assert shapes == {"north": (1, WIDTH), "south": (2, WIDTH), "east": (0, WIDTH)}
    found = released(blocks).ranges()
    assert found.kind == "ranges"
    assert found.names == ("age", "glucose", "weight")
    for each, row in zip(found.columns, np.vstack([only.values for (only,) in blocks.values()]), strict=True):
        last, reach = Row.of(row).last, Row.of(row).reach
        assert (each.range.centre, each.range.reach) == (last.centre, reach)
        assert each.range.half_width == int(REACH * last.scale * Fraction(5, 4) ** reach)
        assert each.range.deviation * each.range.half_width == pytest.approx(last.scale, rel=1e-6)
        assert each.mean == pytest.approx(each.column.midpoint + each.column.half_width * last.centre / STEPS)
    assert found.ranges == tuple(each.range for each in found.columns)


def test_what_is_said_is_near_the_truth(blocks: dict[str, tuple[Block, ...]]) -> None:
    found = released(blocks_of(SPEC, ZeroNoise())).ranges()
    cells = random_rows(SPEC, "south").codes[:, 0] / 2.0**16
    glucose = found.of("glucose")
    truth = 16 + 14 * cells
    assert glucose.mean == pytest.approx(truth.mean(), abs=0.15 * truth.std())
    assert glucose.deviation == pytest.approx(truth.std(), rel=0.15)
    right = np.quantile(truth, (0.05, 0.25, 0.5, 0.75, 0.95))
    assert glucose.quantile_words == ("at most", "", "", "", "at least")
    np.testing.assert_allclose(glucose.quantiles[1:4], right[1:4], atol=0.9)
    assert glucose.quantiles[0] >= right[0]
    assert glucose.quantiles[4] <= right[4]
    assert np.all(np.diff(glucose.quantiles) >= 0)
    with pytest.raises(InvalidInput, match="no range of sex; it has those of age, glucose, weight"):
        found.of("sex")


def test_quantiles_are_told_in_order_and_no_end_says_more_than_noise_allows(
    blocks: dict[str, tuple[Block, ...]],
) -> None:
    """Of 60 rows under noise of 1 to 8 rows the sure end of one quantile lies beyond the next quantile at times."""
    glucose, random, crossed = released(blocks).ranges().of("glucose"), np.random.default_rng(5), 0
    for scale in np.repeat(
        [1 << FRACTION_BITS, 2 << FRACTION_BITS, 4 << FRACTION_BITS, 8 << FRACTION_BITS], 50
    ).tolist():
        counts = factor(CELLS) @ random.multinomial(60, random.dirichlet(np.full(CELLS, 0.3)))
        law = Distribution.of(counts + np.rint(random.normal(0, scale, CELLS - 1)).astype(np.int64), 60, scale)
        found = replace(glucose, distribution=law)
        told, words = (found.quantiles - glucose.column.midpoint) / glucose.column.half_width, found.quantile_words
        raw = {
            "at most": [law.ends(share)[1] for share in SHARES],
            "at least": [law.ends(share)[0] for share in SHARES],
        }
        raw[""] = [law.quantile(share) for share in SHARES]
        shown = [(told[at], raw[each][at], each) for at, each in enumerate(words) if each != HIDDEN]
        assert all(now >= alone - 1e-12 for now, alone, each in shown if each == "at most")
        assert all(now <= alone + 1e-12 for now, alone, each in shown if each == "at least")
        upper, lower = ([now for now, _, each in shown if each == side] for side in ("at most", "at least"))
        if max(upper, default=-1.0) <= min(lower, default=1.0):
            assert all(one[0] <= other[0] + 1e-12 for one, other in pairwise(shown))
            crossed += any(one[1] > other[1] for one, other in pairwise(shown))
    assert crossed > 5


def test_charges_are_those_of_private_numbers() -> None:
    given = check_spec(SPEC)
    mu2 = {part.party: part.mu2 for part in given.parties}
    assert mu2["east"] == 0
    assert mu2["south"] == 2 * mu2["north"]
    assert sum(mu2.values()) == given.joint_mu2
    assert "east: no range" in " ".join(given.words())


def test_noise_is_drawn_for_the_first_round_and_then_for_the_second() -> None:
    noise = RecordingNoise()
    (block,) = privatize(random_rows(SPEC, "south"), SPEC, "south", noise)
    terms: Any = SPEC.terms
    assert [(draw.scale, draw.values.shape) for draw in noise.draws] == [
        (terms.counts_scale, (2, CELLS - 1)),
        (terms.sum_scale, (1, 2)),
        (terms.square_scale, (1, 2)),
    ]
    codes = random_rows(SPEC, "south").codes
    counts, totals, squares = (draw.values for draw in noise.draws)
    for place in range(2):
        row = Row.of(block.values[place])
        np.testing.assert_array_equal(
            row.counts - counts[place], factor(CELLS) @ histogram(codes[:, place], SPEC.grid_bits)
        )
        # The codes of the second round, from the definition and the published M1 and S1.
        moved = [(code << 8) - row.first.centre for code in codes[:, place].tolist()]
        exact = [Fraction(each * LARGEST_CODE, WINDOW * row.first.scale) for each in moved]
        coded = [max(-LARGEST_CODE, min(LARGEST_CODE, _nearest(each))) for each in exact]
        assert row.total - totals[0, place] == sum(coded)
        assert row.squares - squares[0, place] == sum(each**2 for each in coded)


def _nearest(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def test_nothing_is_drawn_where_there_is_no_private_number() -> None:
    noise = RecordingNoise()
    (block,) = privatize(random_rows(SPEC, "east"), SPEC, "east", noise)
    assert block.values.shape == (0, WIDTH)
    assert noise.draws == []


@pytest.mark.parametrize("bits", [1, 2, 5, 16, 24])
def test_cells_are_equal_parts_of_the_public_bounds(bits: int) -> None:
    unit = 1 << bits
    random = np.random.default_rng(bits)
    codes = np.unique(np.concatenate([[-unit, 0, unit, unit - 1], random.integers(-unit, unit, 50)])).astype(np.int32)
    for code in codes.tolist():
        expected = min(CELLS - 1, int(Fraction(code + unit, 2 * unit) * CELLS))
        assert histogram(np.array([code], np.int32), bits)[expected] == 1
    assert histogram(codes, bits).sum() == len(codes)


def test_a_scale_that_does_not_follow_is_refused(blocks: dict[str, tuple[Block, ...]]) -> None:
    row = Row.of(blocks["south"][0].values[1])
    for place, what in ((CELLS - 1, row.first.centre), (CELLS, row.first.scale)):
        with pytest.raises(IntegrityError, match="weight: the centre and scale of the first round do not follow"):
            _ = altered(blocks, place, what + 1000).view
    for place, what in ((WIDTH - 3, row.last.centre), (WIDTH - 2, row.last.scale)):
        with pytest.raises(IntegrityError, match="weight: the centre and scale do not follow from the noisy numbers"):
            _ = altered(blocks, place, what + 1000).view
    for reach in {*range(REACHES)} - {row.reach}:
        with pytest.raises(IntegrityError, match="its reach does not follow from the noisy numbers"):
            _ = altered(blocks, WIDTH - 1, reach).view


def test_the_last_digits_of_another_machine_are_not_refused(blocks: dict[str, tuple[Block, ...]]) -> None:
    row = Row.of(blocks["south"][0].values[1])
    assert altered(blocks, WIDTH - 3, row.last.centre + 2).ranges().of("weight").range.centre == row.last.centre + 2
    assert altered(blocks, WIDTH - 2, row.last.scale - 1).ranges().of("weight")


def test_numbers_that_nobody_could_publish_are_refused(blocks: dict[str, tuple[Block, ...]]) -> None:
    for place in (0, CELLS - 2, CELLS + 1, CELLS + 2):
        for value in (1 << 62, -(1 << 62), np.iinfo(np.int64).min):
            with pytest.raises(IntegrityError, match="larger than any that 500 patients could give"):
                _ = altered(blocks, place, value).view
    for place in (CELLS - 1, CELLS, WIDTH - 3, WIDTH - 2, WIDTH - 1):
        for value in (1 << 62, np.iinfo(np.int64).min, 5 * STEPS):
            with pytest.raises(IntegrityError, match="outside what its public bounds allow"):
                _ = altered(blocks, place, value).view
    for place, value in ((CELLS, 0), (WIDTH - 2, 0), (WIDTH - 1, -1), (WIDTH - 1, REACHES)):
        with pytest.raises(IntegrityError, match="outside what its public bounds allow"):
            _ = altered(blocks, place, value).view


def test_a_hospital_that_takes_its_scale_from_the_raw_column_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bug in a hospital would do: M and S of the column itself, without noise."""
    cells = random_rows(SPEC, "south").codes / 2.0**16
    raw = iter([Placed(round(STEPS * own.mean()), round(STEPS * own.std())) for own in cells.T])
    monkeypatch.setattr("dprelease.mechanisms.ranges.privatize.final", lambda found: next(raw))
    blocks = {"south": privatize(random_rows(SPEC, "south"), SPEC, "south", SeededNoise(3))}
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="do not follow from the noisy numbers"):
        _ = released(blocks_of(SPEC, SeededNoise(3)) | blocks).view


def test_there_is_nothing_to_fit_to_plan_or_to_compare(blocks: dict[str, tuple[Block, ...]]) -> None:
    release = released(blocks)
    for asked in (
        lambda: fit(release, ["age"]),
        lambda: release.products,
        lambda: release.moments(),
        lambda: release.scaled(),
        lambda: mechanism_of(SPEC).released_noise(SPEC),
        lambda: mechanism_of(SPEC).forecast(SPEC, setting(1000).fit, 0.5),
    ):
        with pytest.raises(InvalidInput, match="says nothing on how columns go together"):
            asked()
    assert "ranges" not in {each.mechanism for each in compare(setting(1000)).scenarios}
    with pytest.raises(InvalidInput, match="no fit to plan for ranges; there is for mixed, rows"):
        compare(setting(1000), ("ranges",))
    rows = build_spec(rows=8, outputs=4)
    with pytest.raises(InvalidInput, match="has no ranges"):
        Release(
            rows,
            {
                part.party: privatize(random_rows(rows, part.party), rows, part.party, SeededNoise(1))
                for part in rows.parties
            },
            (),
        ).ranges()


def test_without_a_private_number_there_is_no_such_release() -> None:
    columns: dict[str, tuple[Column, ...]] = {
        "north": (categorical("sex", "female"),),
        "south": (numeric("ward", public=True),),
    }
    with pytest.raises((InvalidInput, ValueError), match="nobody has any"):
        build_spec(columns, mechanism="ranges")


def test_terms_that_are_not_the_least_noise_are_refused() -> None:
    terms: Any = SPEC.terms
    for name in ("counts_scale", "sum_scale", "square_scale"):
        lie = terms.model_copy(update={name: getattr(terms, name) * 0.9})
        with pytest.raises(SpecRefused, match="not those of 3 private numeric columns"):
            check_spec(SPEC.model_copy(update={"terms": lie}))
    with pytest.raises(SpecRefused, match="too coarse"):
        check_spec(build_spec(PARTIES, mechanism="ranges", epsilon=20_000.0))
    with pytest.raises(SpecRefused, match="could reach 2\\^62"):
        check_spec(build_spec(PARTIES, mechanism="ranges", rows=1 << 31, delta=1e-12))
    assert check_spec(build_spec(PARTIES, mechanism="ranges", rows=10**7, delta=1e-9)).joint_epsilon <= 1.0


HEAPS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "stays": lambda random, n: random.choice([1.0, 2.0, 3.0], n),
    "visits": lambda random, n: np.where(random.random(n) < 0.1, random.integers(1, 11, n), 0.0),
    "diagnosis": lambda random, n: np.where(random.random(n) < 0.03, 10.0, 0.0),
    "doses": lambda random, n: np.where(random.random(n) < 0.3, 9.0, 1.5),
    "grades": lambda random, n: np.where(random.random(n) < 0.5, 5.5, 6.0),
    "scores": lambda random, n: np.rint(random.normal(5.5, 1.8, n).clip(0, 10)),
}
"""Columns in bounds 0 to 10."""
COLUMNS = tuple(numeric(name, 0.0, 10.0) for name in HEAPS)
CENTRE, SCALE = -0.5 + CELL / 2, 0.02


def released_heaps(rows: int, epsilon: float, seed: int) -> tuple[Ranges, dict[str, Floats]]:
    """One release of fresh patients, and their cells."""
    spec = build_spec({"north": COLUMNS}, mechanism="ranges", rows=rows, epsilon=epsilon, delta=1e-6, grid_bits=16)
    random = np.random.default_rng(seed)
    cells = {name: draw(random, rows) for name, draw in HEAPS.items()}
    block = privatize(BoundedRows(bound(cells, COLUMNS, 16), COLUMNS, 16), spec, "north", SeededNoise(seed))
    return Release(spec, {"north": block}, ()).ranges(), cells


@pytest.mark.parametrize(("rows", "epsilon"), [(900, 0.32), (900, 2.0), (5000, 1.0)])
def test_mean_and_spread_hold_within_two_errors(rows: int, epsilon: float) -> None:
    """Of 8 x 6 columns at most 2 (1 - .954) are to miss in mean or spread, plus five standard errors of so many."""
    missed = []
    for seed in range(8):
        found, cells = released_heaps(rows, epsilon, seed)
        for each in found.columns:
            told = (each.mean - cells[each.column.name].mean()) / each.mean_error
            spread = (each.deviation - cells[each.column.name].std()) / each.deviation_error
            missed.append(max(abs(told), abs(spread)) > 2)
    rate = 2 * (1 - 0.954)
    assert sum(missed) <= len(missed) * rate + 5 * math.sqrt(len(missed) * rate * (1 - rate))


def test_two_far_heaps_are_in_range_where_counts_show_them() -> None:
    """At 5,000 patients noise of a count is 1 % of the rows, and either heap has 30."""
    for seed in range(5):
        found, cells = released_heaps(5000, 2.0, seed)
        range_ = found.of("doses").range
        assert range_.half_width / STEPS * 5 > 2 * cells["doses"].std()
        assert abs(5 + 5 * range_.centre / STEPS - cells["doses"].mean()) < 0.5 * cells["doses"].std()


def counted(cells: Floats, noise: float) -> Distribution:
    """The counts of (n,) cells without noise, read as if they had noise of this share of the rows."""
    histogram = np.histogram(cells, EDGES)[0]
    return Distribution.of(factor(CELLS) @ histogram, len(cells), noise * len(cells) * 2**FRACTION_BITS)


def test_without_noise_rows_beyond_a_window_are_counted_whole() -> None:
    """Rows at middles of cells: trapezoids are exact for them, but for E x^2, which has a twelfth of a cell squared more."""
    middles = (EDGES[:-1] + EDGES[1:]) / 2
    cells = np.random.default_rng(1).choice(middles, 2000)
    law = counted(cells, 1e-12)
    gains, _ = shown(octaves(law, CENTRE, SCALE), law)
    clipped = np.clip(cells, CENTRE - 4 * SCALE, CENTRE + 4 * SCALE)
    assert gains[0] == pytest.approx(cells.mean() - clipped.mean(), abs=CELL / 4)
    square = ((cells - CENTRE) ** 2).mean() - ((clipped - CENTRE) ** 2).mean()
    assert gains[1] == pytest.approx(square, abs=CELL / 4)


def test_the_noise_of_an_octave_is_that_of_its_counts() -> None:
    """Gains of 400 draws of noise have the stated standard deviation within 5 s.e. 1/sqrt(800)."""
    random, rows, scale = np.random.default_rng(2), 1000, 40_000.0
    exact = factor(CELLS) @ np.full(CELLS, 4)
    found = []
    for _ in range(400):
        law = Distribution.of(exact + np.rint(random.normal(0, scale, CELLS - 1)).astype(np.int64), rows, scale)
        found.append(octaves(law, CENTRE, SCALE))
    for at, each in enumerate(found[0]):
        measured = np.std([draw[at].gains for draw in found], axis=0)
        np.testing.assert_allclose(measured, each.sds, rtol=5 / math.sqrt(800))


def test_a_heap_hides_what_noise_does_and_a_law_only_a_long_tail() -> None:
    law = counted(np.full(1000, CENTRE), 0.05)
    outside, variance = octaves(law, CENTRE, SCALE), SCALE**2
    anywhere, tail = (hidden(outside, law, variance, heap=heap) for heap in (True, False))
    assert np.all(anywhere > 5 * tail)
    most = LONG * math.sqrt(law.noise_sd.max()) * variance / (1 - DECAY)
    assert 0 < tail[1] <= math.sqrt(2) * most
    assert 0 < tail[0] <= math.sqrt(2) * most / (8 * SCALE)
    clear = counted(np.full(1000, CENTRE), 1e-12)
    np.testing.assert_allclose(hidden(octaves(clear, CENTRE, SCALE), clear, variance, heap=True), 0, atol=1e-9)
