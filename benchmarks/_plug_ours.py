"""Our way through a table of unknown scale: bounds from noisy counts of decades, then ranges, then moments of clipped rows.

The first step is simulated here, and no mechanism of this library has it: bounds are declared by hospitals. It spends a third of
the ranges' budget. A column of a share mu_c is counted in 121 cells,

    |x| < 1e-6,  and four to a decade up to 1e9 on either side,

the counts are released as those of mechanism ``ranges`` are, by the square-root factor of prefix sums, and bounds are the outer
edges of the cells of two quantiles q and 1 - q, with

    q = min(1/4, max(3 %, 2.5 noise standard deviations of a prefix count)).

The rest is as in `_accuracy_ranges`, and all of it is GDP under replace-one.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchmarks._accuracy_ours import CURIOUS
from benchmarks._accuracy_ranges import GRID_BITS, clipped_moments, published_ranges
from benchmarks._plug_tables import Schema, raw
from dprelease.data.bounding import BoundedRows, bound
from dprelease.estimators.choice import fit_moments
from dprelease.estimators.result import FAR
from dprelease.mechanisms.moments.clipping_rule import Situation, choose_clipping
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.ranges.distribution import isotonic
from dprelease.mechanisms.ranges.prefix_sums import factor, recovery, squared_sensitivity
from dprelease.release.release import Floats

DECADES_SHARE, RANGES_SHARE = 0.05, 0.10
"""Parts of mu^2 that decades and ranges take."""
LEAST_SHARE, MOST_SHARE, SURE = 0.03, 0.25, 2.5
"""Of rows beyond either bound: at least, at most, and in noise standard deviations."""

_POSITIVE = 10.0 ** np.linspace(-6, 9, 61)
EDGES: Floats = np.concatenate([-_POSITIVE[::-1], _POSITIVE])
"""(122,) ends of the cells."""
CELLS = len(EDGES) - 1


def noisy_bounds(cells: Floats, mu: float, random: np.random.Generator) -> tuple[float, float]:
    """Bounds of one column, mu-GDP.

    Args:
        cells: (n,).
        mu: of this column's decades.
        random: of the noise.
    """
    counts = np.histogram(np.clip(cells, EDGES[0], EDGES[-1]), EDGES)[0]
    scale, inverse = math.sqrt(squared_sensitivity(CELLS)) / mu, recovery(CELLS)
    released = factor(CELLS) @ counts + scale * random.normal(size=CELLS - 1)
    below = np.clip(isotonic(inverse @ released / len(cells)), 0, 1)
    error = scale * float(np.sqrt((inverse**2).sum(axis=1).max())) / len(cells)
    share = min(MOST_SHARE, max(LEAST_SHARE, SURE * error))
    # Cell c lies between the prefix counts c - 1 and c.
    low = int(np.searchsorted(below, share, "right"))
    high = int(np.searchsorted(below, 1 - share, "left"))
    return float(EDGES[low]), float(EDGES[high + 1])


def predictions(
    schema: Schema, train: pd.DataFrame, test: pd.DataFrame, mu: float, random: np.random.Generator
) -> Floats:
    """(rows of `test`,) predictions of the outcome, features clipped at the published ranges; mu-GDP for `train`.

    Args:
        schema: of both.
        train: rows of three institutions.
        test: other rows.
        mu: budget of all three steps.
        random: of the noise.
    """
    own = mu * math.sqrt(DECADES_SHARE / len(schema.numbers))
    bounds = {name: noisy_bounds(train[name].to_numpy(np.float64), own, random) for name in schema.numbers}
    columns = schema.declared(bounds)
    bounded = {
        party: BoundedRows(bound(raw(train, part), part, GRID_BITS), part, GRID_BITS) for party, part in columns.items()
    }
    ranges = published_ranges(bounded, mu * math.sqrt(RANGES_SHARE), random)
    left = mu * math.sqrt(1 - DECADES_SHARE - RANGES_SHARE)
    situation = Situation(left, len(train), len(columns), CURIOUS, GRID_BITS)
    moments = clipped_moments(bounded, choose_clipping(columns, ranges, situation, {}), situation, random)
    seen, layout = moments.layout.columns, moments.layout
    target = moments.names.index(schema.target) + 1
    features = [
        place for place in range(1, len(moments.names) + 1) if place != target and not layout.first_level[place - 1]
    ]
    fit = fit_moments(moments, features, [target], intercept=True)
    rows = np.ldexp(code(bound(raw(test, seen), seen, GRID_BITS), seen).astype(np.float64), -GRID_BITS)
    found = fit.offsets[0] + rows[:, np.array(features) - 1] @ fit.weights[:, 0]
    _, midpoint, half_width = moments.lookup(schema.target)
    predicted: Floats = midpoint + half_width * np.clip(found, -1 - 2 * FAR, 1 + 2 * FAR)
    return predicted
