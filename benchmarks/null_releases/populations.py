"""Populations of which it is known what can be found: an outcome that hangs on the first feature, or on nothing.

    normal      eight numbers that hardly leave half of their bounds
    heavy       numbers with Student's law of 3 degrees and lognormal ones in wide bounds, a skewed count, a binary, a category
    levels      a category of twenty levels, fifteen of them rare, and two numbers
    collinear   six numbers of which each two have the correlation .9, and a lognormal outcome
    wide        seventy numbers like those of normal; and thirty, of which none, the features or the outcome is public

They are released in public bounds, in ranges of a first round, with an outcome-only column, or as mixed rows, without the
network and the hospitals between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from benchmarks.common.block_releases import mixed
from benchmarks.common.moment_releases import CURIOUS, GRID_BITS, both_rounds, bounded, clipped_moments, noisy_moments
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn, squared_sensitivity
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments, OutcomeMoments
from dprelease.mechanisms.noisy_rows.calibration import plan_mixing
from dprelease.privacy.gaussian import mu_of
from dprelease.release.reaches import Reach, reaches_of
from dprelease.spec_base import Target
from tests.dprelease.analyses.releases import coded
from tests.dprelease.estimators.outcome_only import outcome_only_of

OUTCOME, DELTA = "y", 1e-6
PUBLIC_FEATURES, PUBLIC_OUTCOME = "public features", "public outcome"
NEXT_TO_NONE = 1e6
"""mu at which noise is less than rounding."""
Cells = dict[str, np.ndarray]
Columns = tuple[Column, ...]


@dataclass(frozen=True)
class Drawn:
    """Patients.

    Attributes:
        columns: declarations, the outcome last.
        cells: column to (n,) raw values or names of levels.
    """

    columns: Columns
    cells: Cells

    @property
    def patients(self) -> int:
        """n."""
        return len(self.cells[OUTCOME])

    @property
    def rows(self) -> Floats:
        """(n, p + 1) scaled values within bounds, a constant first."""
        values = np.clip(coded(self.columns, self.cells), -1, 1)
        return np.column_stack([np.ones(len(values)), values])

    @property
    def parties(self) -> dict[str, Columns]:
        """Two hospitals, each with half of the columns."""
        half = len(self.columns) // 2
        return {"north": self.columns[:half], "south": self.columns[half:]}


def drawn(shape: str, patients: int, effect: float, random: np.random.Generator) -> Drawn:
    """Fresh patients; `effect` is the slope of the outcome on the first feature."""
    columns, cells, (lower, upper), residual = _SHAPES[shape](patients, random)
    first = next(iter(cells))
    cells[OUTCOME] = residual + (effect * cells[first] if effect else 0.0)
    return Drawn((*columns, _number(OUTCOME, lower, upper, public=shape == PUBLIC_OUTCOME)), cells)


def in_public_bounds(found: Drawn, epsilon: float, random: np.random.Generator) -> tuple[NoisyMoments, Floats]:
    """A release of moments, and the (p + 1, p + 1) moments per patient that it is about."""
    exact = found.rows.T @ found.rows
    parties = len(found.parties)
    return noisy_moments(
        exact, found.patients, mu_of(epsilon, 1e-5), parties, random, found.columns
    ), exact / found.patients


def in_ranges(
    found: Drawn, epsilon: float, random: np.random.Generator
) -> tuple[NoisyMoments, Floats, tuple[Reach, ...]]:
    """The same in ranges of a first round, out of one budget, and how far they reach; the moments are those of clipped rows."""
    held, mu = bounded(found.cells, found.parties), mu_of(epsilon, DELTA)
    released, ranges = both_rounds(held, mu, random)
    clipping = released.clipping
    assert clipping is not None  # noqa: S101 - there are ranges
    noiseless = ClippingInputs(NEXT_TO_NONE, found.patients, len(held), CURIOUS, GRID_BITS)
    exact = clipped_moments(held, clipping, noiseless, random)
    return released, exact.gram / found.patients, reaches_of(clipping, found.parties, ranges)


def with_outcome_apart(
    found: Drawn, epsilon: float, random: np.random.Generator
) -> tuple[OutcomeMoments, Floats, Floats]:
    """A release with an outcome that is nothing else, its moments, and the (n, a) public cells."""
    rows, shown = found.rows, Layout(found.columns).public[1:]
    moments = outcome_only_of(rows[:, 1:], found.columns, (OUTCOME,), random, epsilon)
    return moments, rows.T @ rows / found.patients, rows[:, 1:][:, shown]


def as_mixed_rows(found: Drawn, epsilon: float, random: np.random.Generator) -> tuple[RegressionRows, Floats]:
    """Mixed rows for the whole row's budget, k by the rule, and the moments; every level of a category is a column."""
    exact = found.rows.T @ found.rows / found.patients
    plan = plan_mixing(found.patients, found.parties, Target(scope="joint", epsilon=epsilon, delta=DELTA))
    noise = np.full(len(exact) - 1, squared_sensitivity(found.columns) / mu_of(epsilon, DELTA) ** 2)
    return mixed(exact, found.patients, plan.outputs, float(plan.anchor_weight), noise, random), exact


def fitted_on(columns: Columns) -> tuple[list[int], int]:
    """Places of the features, without the first level of a category and ``other``, and of the outcome."""
    layout = Layout(columns)
    places = [
        place
        for place, (variable, first) in enumerate(zip(layout.variables, layout.first_level, strict=True), 1)
        if not first and not variable.name.endswith("=other")
    ]
    return places[:-1], places[-1]


Shape = Callable[[int, np.random.Generator], tuple[list[Column], Cells, tuple[float, float], Floats]]


def _normal(
    n: int, random: np.random.Generator, count: int = 8, *, public: bool = False
) -> tuple[list[Column], Cells, tuple[float, float], Floats]:
    names = [f"x{place}" for place in range(count)]
    cells: Cells = {name: random.normal(size=n) for name in names}
    return [_number(name, -4, 4, public=public) for name in names], cells, (-4, 4), random.normal(size=n)


def _heavy(n: int, random: np.random.Generator) -> tuple[list[Column], Cells, tuple[float, float], Floats]:
    cells: Cells = {
        "t": random.standard_t(3, size=n),
        "wider": random.standard_t(3, size=n),
        "amount": np.exp(random.normal(size=n)),
        "count": random.negative_binomial(0.3, 0.375, size=n).astype(float),
        "sex": random.choice(["f", "m"], n),
        "ward": random.choice(list("abcde"), n, p=[0.6, 0.25, 0.1, 0.04, 0.01]),
    }
    columns: list[Column] = [
        _number("t", -15, 15),
        _number("wider", -25, 25),
        _number("amount", 0, 40),
        _number("count", 0, 40),
    ]
    columns += [CategoricalColumn(name="sex", levels=("f",)), CategoricalColumn(name="ward", levels=tuple("abcd"))]
    return columns, cells, (-20, 20), random.standard_t(3, size=n)


def _levels(n: int, random: np.random.Generator) -> tuple[list[Column], Cells, tuple[float, float], Floats]:
    shares = np.append(np.full(5, 0.188), np.full(15, 0.004))
    sites = tuple(f"s{place}" for place in range(20))
    cells: Cells = {
        "even": random.uniform(-1, 1, n),
        "b": random.normal(size=n),
        "site": random.choice(sites, n, p=shares),
    }
    columns: list[Column] = [_number("even", -1, 1), _number("b", -6, 6)]
    return [*columns, CategoricalColumn(name="site", levels=sites[:-1])], cells, (-6, 6), random.normal(size=n)


def _collinear(n: int, random: np.random.Generator) -> tuple[list[Column], Cells, tuple[float, float], Floats]:
    shared, names = random.normal(size=n), [f"x{place}" for place in range(6)]
    cells: Cells = {name: np.sqrt(0.9) * shared + np.sqrt(0.1) * random.normal(size=n) for name in names}
    return [_number(name, -5, 5) for name in names], cells, (-10, 30), np.exp(random.normal(size=n))


_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "normal": _normal,
        "heavy": _heavy,
        "levels": _levels,
        "collinear": _collinear,
        "wide": partial(_normal, count=70),
        "thirty": partial(_normal, count=30),
        PUBLIC_FEATURES: partial(_normal, count=30, public=True),
        PUBLIC_OUTCOME: partial(_normal, count=30),
    }
)


def _number(name: str, lower: float, upper: float, *, public: bool = False) -> NumericColumn:
    return NumericColumn(name=name, lower=lower, upper=upper, fill=(lower + upper) / 2, public=public)
