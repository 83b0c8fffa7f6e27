"""Our way through a table of unknown scale: ranges of columns without bounds, then moments of clipped rows.

Ranges are the mechanism's own integers, counts of decades among them; the rest is as in `accuracy.ranges`, and all of it is GDP
under replace-one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common.fits import fit_moments
from benchmarks.common.moment_releases import GRID_BITS, both_rounds, bounded
from benchmarks.plug_and_play.tables import Schema, raw
from dprelease.arrays import Floats
from dprelease.data.bounding import bound
from dprelease.estimators.result import FAR
from dprelease.mechanisms.moments.entries import code


def predictions(
    schema: Schema, train: pd.DataFrame, test: pd.DataFrame, mu: float, random: np.random.Generator
) -> Floats:
    """(rows of `test`,) predictions of the outcome, features clipped at the published ranges; mu-GDP for `train`.

    Args:
        schema: of both.
        train: rows of three institutions.
        test: other rows.
        mu: budget of ranges and moments together.
        random: of the noise.
    """
    parties = schema.declared
    cells = raw(train, tuple(column for part in parties.values() for column in part))
    moments, _ = both_rounds(bounded(cells, parties), mu, random)
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
