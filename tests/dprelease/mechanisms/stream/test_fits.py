"""Fits and descriptions read a later checkpoint as any release: they are about everybody so far."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.estimators.fitting import fit
from dprelease.release.spec import ReleaseSpec
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric
from tests.support.streams import Hospitals, first_spec, following

COLUMNS = {"a": (numeric("x"), numeric("y")), "b": (numeric("z"),), "c": (numeric("w"),)}
BATCHES = (3000, 2000, 4000)


def dependent(spec: ReleaseSpec, seed: int) -> dict[str, BoundedRows]:
    """Rows with w = x/2 - z/4 + something."""
    x, y, z, own = np.random.default_rng(seed).uniform(-1, 1, (4, spec.rows))
    raw = {"x": x, "y": y, "z": z, "w": x / 2 - z / 4 + own / 4}
    return {
        part.party: BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
        for part in spec.parties
    }


@pytest.mark.usefixtures("half_chains")
@pytest.mark.parametrize("of", ["moments", "mixed"])
def test_a_fit_at_a_later_checkpoint_is_that_of_everybody(of: str) -> None:
    """With little noise, weights are least squares of all three batches, within what noise leaves open."""
    base = build_spec(COLUMNS, rows=BATCHES[0], outputs=400, grid_bits=14, epsilon=500.0, delta=1e-6)
    hospitals = Hospitals(first_spec(base, of=of, checkpoints=3, **({"k": 400} if of == "mixed" else {})))
    hospitals.publish(SeededNoise(1), given=dependent(hospitals.spec, 1))
    for place, rows in enumerate(BATCHES[1:]):
        hospitals.spec = following(hospitals.spec, rows)
        release = hospitals.publish(SeededNoise(2 + place), given=dependent(hospitals.spec, 2 + place))
    found = fit(release, ("w",), ("x", "y", "z"))
    cells = hospitals.rows()
    x = np.hstack([np.ones((len(cells), 1)), cells[:, :3]])
    exact = np.linalg.lstsq(x, cells[:, 3], rcond=None)[0][1:]
    assert found.patients == len(cells) == sum(BATCHES)
    np.testing.assert_allclose(np.ravel(found.coef), exact, atol={"moments": 0.02, "mixed": 0.1}[of])
