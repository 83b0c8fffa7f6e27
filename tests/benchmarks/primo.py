"""Rows at the corners of a box, for tests of PRIMO's experiments."""

import numpy as np

from benchmarks.paper_primo.data import Features


def box(rows: int, width: int, random: np.random.Generator) -> Features:
    """(rows, width) of entries +-1/2, the first of them constant."""
    x = random.choice([-0.5, 0.5], (rows, width))
    x[:, 0] = 0.5
    return Features("box", x, "box", width / 4, 0.5, "drawn")
