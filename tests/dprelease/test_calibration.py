"""Noise scales: enough for the worst replaced patient in exact arithmetic, and no more than enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.mechanisms.noisy_rows.calibration import party_noise, shares, spent
from dprelease.mechanisms.noisy_rows.privatize import integer_query, mixer, weighted
from dprelease.mechanisms.noisy_rows.terms import MixedTerms
from dprelease.privacy.calibration import GRID_VARIANCE, budget, root_up
from dprelease.privacy.gaussian import mu_of
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.support.specs import build_spec, categorical, numeric, random_raw

JOINT = Target(scope="joint", epsilon=1.0, delta=1e-5)
EACH = Target(scope="per-party", epsilon=1.0, delta=1e-5)

positive = st.fractions(min_value=Fraction(1, 10**9), max_value=10**12)
weights = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000), max_denominator=1000)


def numerics(count: int) -> tuple[Column, ...]:
    return tuple(numeric(f"x{i}") for i in range(count))


# Budgets and shares.


@pytest.mark.parametrize("target", [JOINT, Target(scope="joint", epsilon=0.1, delta=1e-9)])
def test_budget_is_just_below_the_exact_mu_squared(target: Target) -> None:
    exact = Fraction(mu_of(target.epsilon, target.delta)) ** 2
    margin = Fraction(1, 10**11)  # for machines whose own mu comes out a little smaller
    assert exact * (1 - 2 * margin) <= budget(target) <= exact * (1 - margin)


def test_budget_is_a_short_decimal() -> None:
    assert 10**14 % budget(JOINT).denominator == 0  # 12 significant digits of 0.07...


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**12), min_size=1))
def test_joint_shares_are_proportional_and_use_up_the_budget(sensitivities: dict[str, int]) -> None:
    split = shares(budget(JOINT), "joint", sensitivities)
    assert sum(split.values()) == budget(JOINT)
    assert len({split[party] / sensitivities[party] for party in split}) == 1


def test_a_per_party_target_gives_every_party_the_whole() -> None:
    assert shares(budget(EACH), "per-party", {"a": 3, "b": 5}) == {"a": budget(EACH), "b": budget(EACH)}


# Scales.


@given(positive)
def test_root_up_is_the_smallest_double_that_suffices(value: Fraction) -> None:
    root = root_up(value)
    assert Fraction(root) ** 2 >= value
    assert Fraction(math.nextafter(root, 0.0)) ** 2 < value


@given(positive, st.integers(1, 10**9), st.integers(1, 5000), weights)
def test_scales_are_the_smallest_that_the_derivation_allows(
    mu2: Fraction, sensitivity2: int, squared_norm: int, weight: Fraction
) -> None:
    noise = party_noise("a", mu2, sensitivity2, squared_norm, weight)
    s2 = sensitivity2 / mu2
    assert noise.anchor_scale is not None
    for scale, needed in (
        (noise.anchor_scale, (s2 + GRID_VARIANCE) / weight),
        (noise.scale, squared_norm * (s2 + GRID_VARIANCE) / (1 - weight)),
    ):
        assert Fraction(math.nextafter(scale, 0.0)) ** 2 < needed <= Fraction(scale) ** 2


@given(positive, st.integers(1, 10**9), st.integers(1, 5000), st.one_of(st.just(Fraction(0)), weights))
def test_share_is_never_exceeded_and_hardly_wasted(
    mu2: Fraction, sensitivity2: int, squared_norm: int, weight: Fraction
) -> None:
    used = spent(party_noise("a", mu2, sensitivity2, squared_norm, weight), sensitivity2, squared_norm)
    assert used <= mu2
    if sensitivity2 >= 100**2 * mu2:  # what `check_spec` asks of a grid
        assert used >= mu2 * (1 - Fraction(1, 1000))


def test_without_an_anchor_there_is_no_anchor_scale() -> None:
    assert party_noise("a", Fraction(1), 400, 4, Fraction(0)).anchor_scale is None


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_a_scale_within_the_price_of_the_grid_fits_no_budget(scale: float) -> None:
    noise = party_noise("a", Fraction(1), 400, 1, Fraction(0)).model_copy(update={"scale": scale})
    assert spent(noise, 400, 1) > 10**20


# Published numbers.


def test_grid_variance_of_three_columns() -> None:
    spec = build_spec({"a": numerics(3)}, mechanism="rows", rows=10, grid_bits=10)
    assert spec.terms.noise[0].scale ** 2 == pytest.approx(175124096.0125, rel=1e-10)
    assert spec.terms.noise[0].scale / 1024 == pytest.approx(12.9232872192, rel=1e-10)


@pytest.mark.parametrize("outputs", [1, 16])
def test_noise_of_three_mixed_columns(outputs: int) -> None:
    spec = build_spec({"a": numerics(3)}, rows=40, outputs=outputs, anchor_weight="0", grid_bits=20)
    assert spec.terms.noise[0].scale / math.sqrt(outputs) / 2**20 == pytest.approx(12.92328707, rel=1e-9)


def test_parties_of_three_two_and_one_column_share_one_noise() -> None:
    names = iter(numerics(6))
    parties = {party: tuple(next(names) for _ in range(d)) for party, d in (("a", 3), ("b", 2), ("c", 1))}
    spec = build_spec(parties, mechanism="rows", grid_bits=20)
    for noise in spec.terms.noise:
        assert noise.scale / 2**20 == pytest.approx(18.27628785, rel=1e-9)


# The worst replaced patient.

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "numbers": numerics(3),
    "both kinds": (numeric("age", 20.0, 100.0), categorical("sex", "f", "m"), categorical("stage", "I", "II", "III")),
    "one category": (categorical("smoker", "yes"),),
    "numbers, weighed": numerics(3),
    "both kinds, weighed": (numeric("age", 20.0, 100.0), categorical("sex", "f", "m"), categorical("stage", "I", "II")),
}
WEIGHTS = {"numbers, weighed": {"x1": 2, "x2": 16}, "both kinds, weighed": {"sex": 3, "age": 2}}
SETTINGS = [("mixed", "1/10"), ("mixed", "3/10"), ("mixed", "0"), ("rows", "0"), ("buckets", "1/10"), ("buckets", "0")]


def small_spec(columns: str, mechanism: str, weight: str, subject_rows: int, epsilon: float) -> ReleaseSpec:
    return build_spec(
        {"a": COLUMNS[columns]},
        mechanism="rows" if mechanism == "rows" else "mixed",
        mixing="buckets" if mechanism == "buckets" else "bernoulli",
        rows=60 * subject_rows if mechanism == "buckets" else 12,
        outputs=3,
        anchor_weight=weight,
        rows_per_subject=subject_rows,
        epsilon=epsilon,
        weights=WEIGHTS.get(columns),
    )


def price(spec: ReleaseSpec, change: npt.NDArray[np.int64]) -> Fraction:
    """mu^2 of one pair of neighbours: squared changes over the variances that count, in rationals."""
    noise = spec.terms.noise_of("a")
    squares = [sum(int(x) ** 2 for x in row) for row in change]
    total = Fraction(0)
    if noise.anchor_scale is not None:
        total += Fraction(squares.pop(0)) / (Fraction(noise.anchor_scale) ** 2 - 4)
    return total + Fraction(sum(squares)) / (Fraction(noise.scale) ** 2 - 4)


def cost_of_replacing(
    spec: ReleaseSpec,
    table: Mapping[str, RawColumn],
    where: list[int],
    old: Mapping[str, RawColumn],
    new: Mapping[str, RawColumn],
) -> Fraction:
    columns = spec.parties[0].columns
    base = bound(table, columns, spec.grid_bits)
    before, after = base.copy(), base.copy()
    before[where] = bound(old, columns, spec.grid_bits)
    after[where] = bound(new, columns, spec.grid_bits)
    weighed = (weighted(BoundedRows(codes, columns, spec.grid_bits), spec, "a") for codes in (before, after))
    first, second = (integer_query([codes], spec, spec.terms) for codes in weighed)
    return price(spec, second - first)


def adversarial(columns: tuple[Column, ...], rows: int, generator: np.random.Generator) -> dict[str, RawColumn]:
    """Cells of the kinds that have broken sensitivities before: vertices, extremes, unreadable, unknown, ordinary."""
    raw: dict[str, RawColumn] = {}
    for column in columns:
        if isinstance(column, NumericColumn):
            wild = [
                column.lower,
                column.upper,
                column.lower,
                column.upper,
                math.nan,
                math.inf,
                -math.inf,
                1e300,
                -1e300,
            ]
            ordinary = generator.uniform(column.lower, column.upper, rows)
            raw[column.name] = np.where(generator.random(rows) < 0.8, generator.choice(wild, rows), ordinary)
        else:
            options: list[str | None] = [*column.levels, "other", "unheard of", None]
            raw[column.name] = [options[int(i)] for i in generator.integers(0, len(options), rows)]
    return raw


def vertex(columns: tuple[Column, ...], rows: int, *, high: bool) -> dict[str, RawColumn]:
    return {
        column.name: np.full(rows, column.upper if high else column.lower)
        if isinstance(column, NumericColumn)
        else [column.levels[0] if high else "other"] * rows
        for column in columns
    }


@pytest.mark.parametrize(("subject_rows", "epsilon"), [(1, 5.0), (2, 0.3)])
@pytest.mark.parametrize(("mechanism", "weight"), SETTINGS)
@pytest.mark.parametrize("columns", COLUMNS)
def test_no_replaced_patient_costs_more_than_the_share(
    columns: str, mechanism: str, weight: str, subject_rows: int, epsilon: float
) -> None:
    spec = small_spec(columns, mechanism, weight, subject_rows, epsilon)
    declared = COLUMNS[columns]
    share = Fraction(spec.terms.noise[0].mu2)
    generator = np.random.default_rng(99)
    table = random_raw(declared, spec.rows, generator)
    for _ in range(40):
        where = [int(i) for i in generator.choice(spec.rows, subject_rows, replace=False)]
        old, new = (adversarial(declared, subject_rows, generator) for _ in range(2))
        assert cost_of_replacing(spec, table, where, old, new) <= share


def equal_columns(spec: ReleaseSpec) -> list[int]:
    """Two patients with the same column of B: twelve columns of three signs must repeat, and so must four in three buckets."""
    if not isinstance(spec.terms, MixedTerms):
        return [0, 1]
    signs = mixer(spec.terms, spec).signs(0, 12).T.tolist()
    return next([i, j] for j in range(12) for i in range(j) if signs[i] == signs[j])


@pytest.mark.parametrize(("subject_rows", "epsilon"), [(1, 0.3), (2, 5.0)])
@pytest.mark.parametrize(("mechanism", "weight"), SETTINGS)
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_pair_of_vertices_costs_the_whole_share(
    columns: str, mechanism: str, weight: str, subject_rows: int, epsilon: float
) -> None:
    spec = small_spec(columns, mechanism, weight, subject_rows, epsilon)
    declared = COLUMNS[columns]
    table = random_raw(declared, spec.rows, np.random.default_rng(7))
    old, new = (vertex(declared, subject_rows, high=high) for high in (False, True))
    worst = cost_of_replacing(spec, table, equal_columns(spec)[:subject_rows], old, new)
    noise = spec.terms.noise[0]
    assert worst == spent(noise, spec.terms.squared_sensitivity(spec, "a"), spec.terms.squared_norm)
    assert Fraction(noise.mu2) * (1 - Fraction(1, 1000)) <= worst <= Fraction(noise.mu2)
