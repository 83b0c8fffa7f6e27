"""What rows are clipped to."""

from __future__ import annotations

import numpy as np

from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipping import Clipping, Norm
from dprelease.mechanisms.moments.clipping_bias import Ball, balls
from dprelease.mechanisms.moments.entries import Layout
from tests.support.specs import categorical, numeric


def test_balls() -> None:
    columns = (numeric("x"), numeric("y"), categorical("b", "yes"), numeric("z"))
    clipping = Clipping(
        constant=100,
        weights=(300, 300, 100, 300),
        ranges=tuple(map(Range.whole, "xyz")),
        norms=(Norm(columns=("x", "y"), squared=2 * 100**2),),
        square_weight="1/2",
    )
    reach = 2**0.5 * 100 / 300
    together, alone = balls(clipping, Layout(columns))
    assert (together.places, alone) == ((1, 2), Ball((4,), (1.0,)))
    np.testing.assert_allclose(together.radii, reach)
