"""Numbers without bounds: the box that noisy counts of decades give, what it costs, what is published and what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.decades import CELLS, EDGES, Box, decade_cells
from dprelease.errors import IntegrityError, InvalidInput, SpecRefused
from dprelease.mechanisms.ranges.box import WIDTH, box_of, read_box
from dprelease.mechanisms.ranges.privatize import decade_histogram
from dprelease.mechanisms.ranges.terms import CELLS as COUNTED_CELLS
from dprelease.mechanisms.ranges.terms import WIDTH as RANGES_WIDTH
from dprelease.mechanisms.ranges.terms import RangesTerms, Scales, factor, split, squared_sensitivity
from dprelease.mechanisms.registry import mechanism_named, mechanism_of
from dprelease.planning.comparison import compare
from dprelease.privacy.calibration import GRID_VARIANCE
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.block import Block
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.dprelease.test_comparison import setting
from tests.support.noise import RecordingNoise, SeededNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, random_rows


def unknown(name: str, **declared: object) -> NumericColumn:
    return NumericColumn.model_validate({"name": name, "bounds": "unknown", **declared})


PARTIES: Mapping[str, tuple[Column, ...]] = {
    "north": (unknown("ferritin", unit="ug/l"), categorical("sex", "female"), numeric("age", 0.0, 120.0)),
    "south": (numeric("glucose", 2.0, 30.0),),
    "east": (categorical("smokes", "yes"), unknown("cost")),
}
SPEC = build_spec(PARTIES, mechanism="ranges", rows=500, grid_bits=16, epsilon=2.0)


def of_cells(
    cells: list[float] | np.ndarray[Any, Any], noise: Any, *, epsilon: float = 2.0, grid_bits: int = 16
) -> Release:
    """A release of one column without bounds."""
    parties = {"a": (unknown("x"), categorical("smokes", "yes"))}
    rows = len(cells)
    spec = build_spec(parties, mechanism="ranges", rows=rows, grid_bits=grid_bits, epsilon=epsilon)
    raw = {"x": np.asarray(cells, np.float64), "smokes": ["yes"] * rows}
    bounded = BoundedRows(bound(raw, parties["a"], grid_bits), parties["a"], grid_bits)
    return Release(spec, {"a": privatize(bounded, spec, "a", noise)}, ())


def blocks_of(spec: ReleaseSpec, noise: Any) -> dict[str, tuple[Block, ...]]:
    return {part.party: privatize(random_rows(spec, part.party), spec, part.party, noise) for part in spec.parties}


RANDOM = np.random.default_rng(7)
COLUMNS = {
    "a long tail": RANDOM.lognormal(3, 1, 2000),
    "small numbers": 1e-4 * RANDOM.normal(3, 1, 2000),
    "years": RANDOM.integers(1930, 2010, 2000).astype(float),
    "integers of 1 to 5": RANDOM.integers(1, 6, 2000).astype(float),
    "negative only": -RANDOM.gamma(2, 20, 2000),
    "either side of 0": RANDOM.normal(0, 50, 2000),
    "a constant": np.full(2000, 37.0),
    "zeros only": np.zeros(2000),
    "all missing": np.full(2000, np.nan),
    "beyond the scale": np.full(2000, 1e300),
    "one large number": np.array([*RANDOM.normal(120, 15, 1999), 1e300]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("noise", [ZeroNoise(), SeededNoise(11)], ids=["exact", "noisy"])
def test_the_box_holds_all_but_the_tails_and_little_more(name: str, noise: Any) -> None:
    cells = COLUMNS[name]
    found = of_cells(cells, noise).ranges().of("x")
    held = np.clip(np.where(np.isfinite(cells), cells, 0.0), EDGES[0], EDGES[-1])
    box = found.range.box
    assert box is not None
    assert (found.column.lower, found.column.upper) == (box.lower, box.upper)
    # q is 3 % at this n and epsilon, and the noise of a share below 1 %.
    assert np.mean(held < box.lower) <= 0.05
    assert np.mean(held > box.upper) <= 0.05
    low, high = np.searchsorted(EDGES, np.quantile(held, [0.005, 0.995]), "right") - 1
    assert min(low, CELLS - 1) <= box.low
    assert box.high <= min(high, CELLS - 1) + 1
    if held.std() > 0.01 * (box.upper - box.lower):
        inside = np.clip(held, box.lower, box.upper)
        assert found.mean == pytest.approx(inside.mean(), abs=0.3 * inside.std())
        assert 0.6 < found.deviation / inside.std() < 1.5
    ends = found.range.seen(found.column.model_copy(update={"bounds": "unknown", "lower": -1e9, "upper": 1e9}))
    assert np.mean((inside_range := np.clip(held, ends.lower, ends.upper)) == held) > 0.8
    assert np.all(np.isfinite(inside_range))


@pytest.mark.parametrize("rows", [1, 2, 30])
def test_few_patients_get_some_box(rows: int) -> None:
    """Noise decides all of it: nothing fails, and whoever verifies agrees."""
    for seed in range(10):
        found = of_cells(np.full(rows, 5.0), SeededNoise(seed), epsilon=0.1).ranges().of("x")
        assert found.range.box is not None
        assert found.deviation > 0


def test_noise_alone_rarely_widens_the_box() -> None:
    """120 edges away from the rows, of which noise may look like 2.5 sd of rows at none that are far from them."""
    cells = np.random.default_rng(1).normal(100, 15, 1000)
    scales = Scales.least(Fraction(2, 1000), 1, decades=True)  # a prefix count has a noise sd of a tenth of the rows
    exact, noise = factor(CELLS) @ decade_histogram(bound({"x": cells}, (unknown("x"),), 16)[:, 0], 16), SeededNoise(3)
    boxes = [
        box_of(exact + noise.discrete_gaussian(scales.decades, (1, CELLS - 1))[0], 1000, scales.decades)
        for _ in range(200)
    ]
    wide = sum(box.lower < 18 or box.upper > 560 for box in boxes)
    narrow = sum(box.lower > 100 or box.upper < 100 for box in boxes)
    assert wide <= 4
    assert narrow <= 4


def test_the_exact_quantiles_cells() -> None:
    cells = np.repeat([0.5, 5.0, 50.0, 500.0], [2, 48, 48, 2])
    counts = factor(CELLS) @ decade_histogram(bound({"x": cells}, (unknown("x"),), 16)[:, 0], 16)
    box = box_of(counts, 100, 100.0)
    assert (box.lower, box.upper) == (3.2, 56.0)  # 2 % lie beyond either, which is less than q = 3 %
    cells = np.repeat([0.5, 5.0, 50.0], [24, 50, 26])
    counts = factor(CELLS) @ decade_histogram(bound({"x": cells}, (unknown("x"),), 16)[:, 0], 16)
    box = box_of(counts, 100, 1e6)
    assert (box.lower, box.upper) == (3.2, 56.0)  # and 24 % less than q = 1/4, which it is at most


def test_what_is_published_and_drawn() -> None:
    assert mechanism_of(SPEC).rounds(SPEC) == (2,)
    found = blocks_of(SPEC, SeededNoise(1))
    shapes = {party: [block.values.shape for block in own] for party, own in found.items()}
    assert shapes == {
        "north": [(1, WIDTH), (2, RANGES_WIDTH)],
        "south": [(0, WIDTH), (1, RANGES_WIDTH)],
        "east": [(1, WIDTH), (1, RANGES_WIDTH)],
    }
    noise, terms = RecordingNoise(), SPEC.terms
    assert isinstance(terms, RangesTerms)
    decades, _ = privatize(random_rows(SPEC, "north"), SPEC, "north", noise)
    assert [(draw.scale, draw.values.shape) for draw in noise.draws] == [
        (terms.decades_scale, (1, CELLS - 1)),
        (terms.counts_scale, (2, COUNTED_CELLS - 1)),
        (terms.sum_scale, (1, 2)),
        (terms.square_scale, (1, 2)),
    ]
    exact = factor(CELLS) @ decade_histogram(random_rows(SPEC, "north").codes[:, 0], SPEC.grid_bits)
    np.testing.assert_array_equal(decades.values[0, :-2] - noise.draws[0].values[0], exact)


def test_columns_with_bounds_are_released_as_without_the_others() -> None:
    """Their rows, their scales given, to the bit; how far they reach depends on how many others there are."""
    column, terms = numeric("age", 0.0, 120.0), SPEC.terms
    alone = build_spec({"north": (column,)}, mechanism="ranges", rows=500, grid_bits=16)
    terms_alone: Any = alone.terms
    same = {key: getattr(terms, key) for key in ("counts_scale", "sum_scale", "square_scale")}
    alone = alone.model_copy(update={"terms": terms_alone.model_copy(update=same)})
    codes = random_rows(SPEC, "north").codes[:, -1:]
    (block,) = privatize(BoundedRows(codes, (column,), 16), alone, "north", ZeroNoise())
    both = privatize(random_rows(SPEC, "north"), SPEC, "north", ZeroNoise())
    np.testing.assert_array_equal(block.values[0, :-1], both[1].values[1, :-1])


def test_a_reader_refuses_what_does_not_follow() -> None:
    blocks = blocks_of(SPEC, SeededNoise(2))
    first, second = blocks["north"]
    box = first.values[0, -2:]
    for place, value in ((0, 1 << 60), (-1, box[1] + 1), (-1, box[0]), (-2, -1), (-2, box[0] - 1), (-2, 121)):
        values = first.values.copy()
        values[0, place] = value
        wrong = {**blocks, "north": (Block(first.header, values, first.public), second)}
        with pytest.raises(IntegrityError, match="ferritin"):
            _ = Release(SPEC, wrong, ()).view
    # Counts of which the whole rest no longer follows.
    values = first.values.copy()
    values[0, : CELLS - 1] = -values[0, : CELLS - 1]
    with pytest.raises(IntegrityError, match="ferritin: its box does not follow"):
        _ = Release(SPEC, {**blocks, "north": (Block(first.header, values, first.public), second)}, ()).view


def test_a_box_on_the_edge_of_two_is_accepted_either_way() -> None:
    """Shares that machines may compute as a little more or less than q."""
    cells = np.repeat([0.5, 5.0, 50.0], [3, 94, 3])
    counts = factor(CELLS) @ decade_histogram(bound({"x": cells}, (unknown("x"),), 16)[:, 0], 16)
    accepted, own = [], box_of(counts, 100, 100.0)
    for low, high in product(range(own.low - 8, own.low + 9), range(own.high - 8, own.high + 9)):
        try:
            accepted.append(read_box("x", np.array([*counts, low, high]), 100, 100.0))
        except IntegrityError:
            continue
    assert {box.upper for box in accepted} >= {5.6}
    assert {box.lower for box in accepted} >= {0.32, 3.2}
    assert own in accepted


def cost_of(one: int, other: int, scale: float) -> Fraction:
    moved = (factor(CELLS)[:, one] - factor(CELLS)[:, other]).tolist()
    return Fraction(sum(each**2 for each in moved)) / (Fraction(scale) ** 2 - GRID_VARIANCE)


@pytest.mark.parametrize("q", [1, 3])
def test_no_patient_moves_the_counts_by_more_than_is_declared(q: int) -> None:
    """All pairs of cells, q rows alike; no other q rows move more, by the triangle inequality."""
    mu2 = Fraction(1, 1000)
    scales = Scales.least(mu2, q, decades=True)
    found = [q**2 * cost_of(one, other, scales.decades) for one, other in combinations(range(CELLS), 2)]
    assert max(found) == scales.spent_on_decades(q)
    assert mu2 / 2 * (1 - Fraction(1, 10**12)) < max(found) <= mu2 / 2
    random, code = np.random.default_rng(5), CELLS << 15
    for _ in range(300):
        rows = [random.integers(-code, code, q, endpoint=True).astype(np.int32) for _ in range(2)]
        moved = factor(CELLS) @ (decade_histogram(rows[0], 16) - decade_histogram(rows[1], 16))
        assert int(moved @ moved) <= q**2 * squared_sensitivity(CELLS)


def test_it_costs_half_as_much_again() -> None:
    given = check_spec(SPEC)
    mu2 = {part.party: part.mu2 for part in given.parties}
    assert float(mu2["north"] / mu2["south"]) == pytest.approx(2.5, rel=1e-9)
    assert float(mu2["east"] / mu2["south"]) == pytest.approx(1.5, rel=1e-9)
    assert sum(mu2.values()) == given.joint_mu2
    assert split(Fraction(4), PARTIES) == {"north": 2, "south": Fraction(4, 5), "east": Fraction(6, 5)}
    terms: Any = SPEC.terms
    for wrong in ({"decades_scale": None}, {"decades_scale": terms.decades_scale * 0.99}):
        lie = terms.model_copy(update=wrong)
        with pytest.raises((SpecRefused, InvalidInput), match="noise scale"):
            check_spec(ReleaseSpec.from_bytes(SPEC.model_copy(update={"terms": lie}).to_bytes()))


def test_other_releases_refuse_such_columns_and_say_what_to_do() -> None:
    for mechanism in ("mixed", "rows", "moments"):
        with pytest.raises(
            ValueError,
            match=r"ferritin, cost has unknown bounds; ask for ranges = .first. with mechanism mixed, rows or moments",
        ):
            build_spec(PARTIES, mechanism=mechanism, rows=500)


def test_planners_leave_out_what_cannot_be() -> None:
    known = setting(2000)
    parties = {
        party: tuple(unknown(each.name) if each.name == known.fit.features[0] else each for each in own)
        for party, own in known.draft.columns.items()
    }
    fit = replace(known.fit, columns=tuple(column for own in parties.values() for column in own))
    without = replace(known, draft=replace(known.draft, columns=parties), fit=fit)
    assert [each.plan for each in compare(without).scenarios] == ["moments in ranges"]
    with pytest.raises(InvalidInput, match="has unknown bounds; ask for"):
        compare(without, ["mixed"])


def test_the_words_say_it() -> None:
    words = mechanism_of(SPEC).statements(SPEC)
    assert "before that 120 counts for the bounds of each of 2 without" in words.would_publish
    assert any("ferritin has no public bounds" in line for line in words.details)
    assert any("every box follows" in check for check in words.checks)
    assert not any("the noise of a count" in line for line in words.details)
    few = build_spec(PARTIES, mechanism="ranges", rows=50)
    assert any("the noise of a count of rows is" in line for line in mechanism_of(few).statements(few).details)
    plain = mechanism_named("ranges").statements(build_spec(mechanism="ranges"))
    assert "without" not in plain.would_publish
    assert len(plain.checks) == 1


def test_decades_of_equal_cells_are_counted_alike() -> None:
    assert decade_histogram(np.zeros(5, np.int32), 16)[60] == 5
    assert decade_cells(np.array([0], np.int32), 16).tolist() == [60]
    assert Box(low=60, high=61).upper == 1e-6
