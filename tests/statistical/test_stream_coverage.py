"""Intervals at every checkpoint of a stream: over simulated streams, with fresh patients and fresh noise, they hold the truth.

All intervals of a stream are read from its last block, as by a learner who came late.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dprelease.data.bounding import BoundedRows, bound
from dprelease.estimators import fit
from dprelease.mechanisms.base import StreamState
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privatization import privatize
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric
from tests.support.streams import first_spec, following

COLUMNS = (numeric("x"), numeric("z"), numeric("y"))
SLOPES = np.array([0.4, -0.3])
CHECKPOINTS, STREAMS = 6, 300
LEVEL, CHANCE = 0.95, 1e-4
"""Probability of a false alarm, of one number."""


def specs_of(inner: str, rows: int, epsilon: float, factor: str, **options: Any) -> list[ReleaseSpec]:
    base = build_spec({"north": COLUMNS}, rows=rows, epsilon=epsilon, grid_bits=14)
    found = [first_spec(base, of=inner, checkpoints=CHECKPOINTS, factor=factor, **options)]
    while len(found) < CHECKPOINTS:
        found.append(following(found[-1], rows))
    return found


def patients(rows: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """y is 0.1 + 0.4 x - 0.3 z and an even error; x and z go together, and nobody is out of bounds."""
    x, own, error = generator.uniform(-1, 1, (3, rows))
    z = 0.5 * x + 0.5 * own
    return {"x": x, "z": z, "y": 0.1 + SLOPES[0] * x + SLOPES[1] * z + 0.2 * error}


def last_release(specs: list[ReleaseSpec], seed: int) -> Release:
    """The last checkpoint of a stream of fresh patients."""
    generator, noise = np.random.default_rng(seed), SeededNoise(10**6 + seed)
    increments: dict[int, Any] = {}
    sent = None
    for number, spec in enumerate(specs, 1):
        rows = BoundedRows(bound(patients(spec.rows, generator), COLUMNS, spec.grid_bits), COLUMNS, spec.grid_bits)
        increments[number] = mechanism_of(spec).exact(rows, spec, "north", None)
        (block,) = privatize(rows, spec, "north", noise, kept=StreamState(increments, sent))
        sent = block.values
    return Release(specs[-1], {"north": (block,)}, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inner", "factor", "rows", "epsilon"),
    [("moments", "square-root", 1500, 2.0), ("moments", "tree", 1500, 2.0), ("mixed", "square-root", 400, 300.0)],
)
def test_intervals_hold_the_truth_at_every_checkpoint(inner: str, factor: str, rows: int, epsilon: float) -> None:
    specs = specs_of(inner, rows, epsilon, factor)
    held, claimed = np.zeros((2, CHECKPOINTS, 2))
    for seed in range(STREAMS):
        for number, release in last_release(specs, seed).checkpoints().items():
            found = fit(release, ["y"], ["x", "z"], "ols").inference
            lower, upper = (ends[0] for ends in found.interval(LEVEL))
            claimed[number - 1] += found.identified[0]
            held[number - 1] += (lower <= SLOPES) & (upper >= SLOPES) & found.identified[0]
    assert (claimed >= 0.95 * STREAMS).all()
    least, most = binom.ppf([CHANCE, 1 - CHANCE], claimed[..., None], LEVEL).transpose(2, 0, 1)
    assert (least <= held).all()
    assert (held <= most).all()
