"""Coverage of slopes of the true rows in ranges: made-up tables, and the rows that the truth is of."""

from __future__ import annotations

import numpy as np

from benchmarks.coverage.reaches import World, held


def test_rows_are_scaled_variables_and_models_leave_out_their_own_column() -> None:
    world = World.of("costs")
    assert world.rows.shape == (40_000, len(world.layout.variables))
    assert np.abs(world.rows).max() <= 1
    names = [each.name for each in world.layout.variables]
    assert world.rows[:, names.index("transplant")].mean() < -0.99
    for y, x in world.models:
        assert y not in x
        assert len(x) == 2 or world.layout.variables[y].name in world.outcomes
    full = {names[i] for i in world.models[-1][1]}
    assert {"age", "region=region2"} <= full
    assert not {"region=region1", "region=other", "visits"} & full


def test_intervals_hold_slopes_of_the_true_rows_of_long_tails() -> None:
    found = held("stays", 20_000, 1.0, 1)
    assert found.held > 0.9
    assert found.known > 0.9
    assert found.length < 0.2
