"""Noisy rows in ranges of their own first round: what a patient moves, what both rounds cost, their words, and fits on them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.decades import CELLS
from dprelease.data.ranges import share
from dprelease.errors import SpecRefused
from dprelease.estimators.fitting import fit
from dprelease.mechanisms.assumptions import PlannedFit, Scenario, draft_of
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds, Inputs
from dprelease.mechanisms.registry import mechanism_named, mechanism_of
from dprelease.planning.comparison import compare
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import check_spec, trust
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.rounds import (
    after,
    first_blocks,
    in_published_ranges,
    made_alone,
    ranges_first,
    ranges_first_without_bounds,
)
from tests.support.specs import build_spec, categorical, numeric, random_rows, with_terms

COLUMNS: dict[str, tuple[Column, ...]] = {
    "north": (numeric("age", 0.0, 120.0), categorical("sex", "f", "m")),
    "south": (numeric("glucose", 2.0, 30.0), numeric("weight", 30.0, 200.0)),
}
NUMBERS = ("age", "glucose", "weight")
PLAIN = build_spec(COLUMNS, mechanism="mixed", grid_bits=16)
SPEC = ranges_first(PLAIN)
TERMS: Any = SPEC.terms


def query(spec: ReleaseSpec, rows: BoundedRows, party: str, earlier: EarlierRounds) -> Any:
    """The exact integers of the last round."""
    (values,) = mechanism_of(spec).privatize(spec, party, Inputs(rows, ZeroNoise(), earlier=earlier))
    return values


@pytest.mark.parametrize("unknown", [(), NUMBERS])
@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
@pytest.mark.parametrize(("epsilon", "least"), [(0.05, 0.0), (1.0, 0.0), (200.0, 0.99)])
@pytest.mark.parametrize("seed", range(2))
def test_no_patient_moves_more_than_noise_is_for_whatever_the_first_round_published(
    unknown: tuple[str, ...], mechanism: str, epsilon: float, least: float, seed: int
) -> None:
    """Searched over patients at the ends and anywhere; after an exact first round of a narrow band ends are attained."""
    plain = build_spec(COLUMNS, mechanism=mechanism, grid_bits=16, epsilon=epsilon)
    spec, random = ranges_first_without_bounds(plain, unknown), np.random.default_rng(seed)
    tables = {party: _narrow(random_rows(spec, party, seed)) for party in COLUMNS}
    earlier = after(spec, first_blocks(spec, tables, SeededNoise(seed)))
    squared_norm = spec.terms.squared_norm  # type: ignore[attr-defined]
    for party, moves in {"north": 4 + 2, "south": 4 + 4}.items():
        rows, allowed, attained = tables[party], moves * squared_norm << (2 * spec.grid_bits), 0.0
        for _ in range(12):
            pair = [_patient(rows.columns, 1 << spec.grid_bits, random) for _ in range(2)]
            moved = [query(spec, _with(rows, patient), party, earlier) for patient in pair]
            change = (moved[0] - moved[1])[1 if mechanism == "mixed" else 0 :]  # without the anchor
            squared = int((change.astype(object) ** 2).sum())
            assert squared <= allowed
            attained = max(attained, squared / allowed)
        assert attained >= least


def _patient(columns: tuple[Column, ...], unit: int, random: np.random.Generator) -> Any:
    """Codes of one patient: a number at an end, or anywhere; one level of a category."""
    found = []
    for column in columns:
        width, end = len(column.released), unit if column.bounded else CELLS * unit // 2
        number = random.choice([-end, end, random.integers(-end, end + 1)], p=[0.45, 0.45, 0.1])
        found.append([number] if width == 1 else unit * np.eye(width)[random.integers(width)])
    return np.hstack(found).astype(np.int32)


def _narrow(rows: BoundedRows) -> BoundedRows:
    """Numbers in a twentieth of their bounds, and those without any in a part of one cell of the decade scale."""
    codes, place = rows.codes.copy(), 0
    for column in rows.columns:
        width = len(column.released)
        if not column.bounded:
            codes[:, place] = codes[:, place] // 2000 + (33 << rows.grid_bits)
        elif width == 1:
            codes[:, place] //= 20
        place += width
    return replace(rows, codes=codes)


def _with(rows: BoundedRows, patient: Any) -> BoundedRows:
    codes = rows.codes.copy()
    codes[7] = patient
    return replace(rows, codes=codes)


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
@pytest.mark.parametrize("weights", [{}, {"age": 3, "sex": 2}])
def test_bounds_that_nobody_knows_change_the_first_round_alone(mechanism: str, weights: dict[str, int]) -> None:
    """What ranges leave of the budget buys the noise that it buys for numbers with bounds, at the same price."""
    plain = build_spec(COLUMNS, mechanism=mechanism, grid_bits=16, weights=weights)
    known, unknown = (ranges_first_without_bounds(plain, names, weights=weights) for names in ((), NUMBERS))
    terms: Any = unknown.terms
    # With bounds this is the last round for a budget that leaves as much after its ranges.
    same = with_terms(known, noise=terms.noise)
    mechanism_of(same).check(same)
    prices = [mechanism_of(each).cost(each).rounds[mechanism] for each in (same, unknown)]
    assert prices[0] == prices[1]
    shares = [1 - share(plain.rows, each.columns) for each in (known, unknown)]
    for before, now in zip(known.terms.noise, terms.noise, strict=True):  # type: ignore[attr-defined]
        assert (now.scale / before.scale) ** 2 == pytest.approx(shares[0] / shares[1], rel=1e-6)
    assert check_spec(unknown).joint_epsilon <= plain.target.epsilon
    forecasts = [mechanism_of(each).released_noise(each).columns["age"] for each in (same, unknown)]
    assert forecasts[0] == forecasts[1]


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_both_rounds_cost_what_each_costs(mechanism: str) -> None:
    spec = ranges_first(build_spec(COLUMNS, mechanism=mechanism, grid_bits=16))
    terms: Any = spec.terms
    before, last = with_terms(spec, first=None), spec.model_copy(update={"terms": terms.first})
    cost, parts = mechanism_of(spec).cost(spec), [mechanism_of(each).cost(each) for each in (before, last)]
    assert cost.joint == sum(each.joint for each in parts)
    for party in COLUMNS:
        assert cost.charges[party] == sum(each.charges[party] for each in parts)
        assert cost.exposures[party] == sum(each.exposures[party] for each in parts)
    assert {name: sum(added.values()) for name, added in cost.rounds.items()} == {
        mechanism: parts[0].joint,
        "ranges": parts[1].joint,
    }
    whole = budget(spec.target)
    assert whole * (1 - Fraction(1, 10**6)) < check_spec(spec).joint_mu2 <= whole


def test_both_rounds_together_keep_to_the_target() -> None:
    more: Any = ranges_first(build_spec(COLUMNS, mechanism="mixed", grid_bits=16, epsilon=1.2)).terms
    for lie in ({"first": more.first}, {"noise": more.noise}):
        with pytest.raises(SpecRefused, match="does not reach the joint target"):
            check_spec(with_terms(SPEC, **lie))


def with_bounds_unknown(spec: ReleaseSpec) -> ReleaseSpec:
    part = spec.parties[0]
    unknown = NumericColumn.model_validate({"name": "age", "bounds": "unknown"})
    columns = (unknown, *part.columns[1:])
    return spec.model_copy(update={"parties": (part.model_copy(update={"columns": columns}), *spec.parties[1:])})


def test_sentences_are_those_of_both_rounds() -> None:
    ranges = SPEC.model_copy(update={"terms": TERMS.first})
    first, last = mechanism_of(ranges).statements(ranges), mechanism_of(PLAIN).statements(with_terms(SPEC, first=None))
    words = mechanism_of(SPEC).statements(SPEC)
    assert words.would_publish == f"first {first.would_publish}; then {last.would_publish}"
    assert set(first.details) < set(words.details)
    assert set(last.trust) < set(words.trust)
    assert set(first.checks) <= set(words.checks)
    (rounds,) = [each for each in check_spec(SPEC).words() if "Two rounds" in each]
    assert "then mixtures of rows as coded in these ranges" in rounds
    assert "Mixtures are of numbers as clipped to the ranges that the first round published." in trust(SPEC)


def wide() -> tuple[ReleaseSpec, BoundedRows]:
    """One hospital whose numbers fill a hundredth of their bounds."""
    columns = (numeric("x", -1000.0, 1000.0), numeric("y", -1000.0, 1000.0))
    random = np.random.default_rng(4)
    x = random.normal(20, 4, 10_000)
    cells: dict[str, Any] = {"x": x, "y": 3 + 2 * x + random.normal(0, 4, 10_000)}
    spec = build_spec({"north": columns}, mechanism="mixed", grid_bits=20, rows=10_000, epsilon=30.0)
    return spec, BoundedRows(bound(cells, columns, 20), columns, 20)


def test_a_fit_in_ranges_finds_what_public_bounds_hide() -> None:
    """The noise of a cell is for the range and not for the bounds, which are some thirty times wider."""
    plain, rows = wide()
    found = fit(made_alone(ranges_first(plain), rows, SeededNoise(2)), ["y"], ["x"])
    hidden = fit(made_alone(plain, rows, SeededNoise(2)), ["y"], ["x"])
    assert abs(hidden.coef[0, 0]) < 0.5 < 0.8 < found.coef[0, 0] < 2.2
    guesses = [PlannedFit(plain.columns, "y", ("x",), spread) for spread in (1e-4, 1 / 3)]
    in_bounds = mechanism_of(plain).forecast(plain, guesses[0], 0.8).r2
    spec = ranges_first(plain)
    expected = [mechanism_of(spec).forecast(spec, each, 0.8).r2 for each in guesses]
    assert in_bounds < 0 < 0.3 < expected[0]
    assert expected[0] == expected[1]  # a guess about public bounds plays no part


@pytest.mark.parametrize(
    ("scope", "ranges", "ways"),
    [
        ("joint", "none", ["mixed"]),
        ("joint", "first", ["mixed", "mixed in ranges"]),
        ("joint", "auto", ["mixed"]),
        ("per-party", "first", ["mixed"]),
    ],
)
def test_planners_compare_both_ways_where_a_request_asks_for_ranges(scope: str, ranges: str, ways: list[str]) -> None:
    """A key of another mechanism's request may have a value that this one has not, and ranges have a joint target."""
    target = PLAIN.target.model_copy(update={"scope": scope})
    draft = draft_of(COLUMNS, 2000, 1, target)
    fit_of = PlannedFit(PLAIN.columns, "weight", ("age", "sex"))
    found = compare(Scenario(draft, "moments", fit_of, {"ranges": ranges}), ["mixed"], [0.5])
    assert [each.plan for each in found.scenarios] == ways
    unknown = with_bounds_unknown(PLAIN)
    draft = draft_of(unknown.columns_by_party, 2000, 1, target)
    setting = Scenario(draft, "mixed", PlannedFit(unknown.columns, "weight", ("age", "sex")), {"ranges": ranges})
    assert [each.plan for each in mechanism_named("mixed").plans(setting)] == ways[1:]


def test_what_is_released_is_the_query_of_rows_in_the_ranges_that_were_published() -> None:
    tables = {party: random_rows(SPEC, party) for party in COLUMNS}
    first = first_blocks(SPEC, tables, SeededNoise(3))
    known = in_published_ranges(SPEC, first)
    published = Release(SPEC, {party: (*own, *own) for party, own in first.items()}, ()).first_ranges
    assert published is not None
    assert [column.name for column in known.columns if column not in SPEC.columns] == ["age", "glucose", "weight"]
    for party, rows in tables.items():
        found = query(SPEC, rows, party, after(SPEC, first))
        again = replace(rows, codes=rows.codes.copy())
        for each in published.ranges:
            if each.name in known.part(party).released:
                place = known.part(party).released.index(each.name)
                again.codes[:, place] = each.code(rows.codes[:, place], 16, 1 << 16)
        assert np.array_equal(found, query(with_terms(SPEC, first=None), again, party, FIRST_ROUND))
