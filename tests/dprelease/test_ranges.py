"""Codes of cells in a range: exact integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.data.ranges import STEPS, Range


def test_codes_are_the_nearest_and_clipped() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        bits, largest = int(random.integers(1, 25)), int(random.integers(1, 1 << 24))
        centre = int(random.integers(-STEPS, STEPS, endpoint=True))
        half_width = int(random.integers(1, 16 * STEPS)) >> int(random.integers(0, 24)) or 1
        cells = random.integers(-(1 << bits), 1 << bits, 20, endpoint=True).astype(np.int32)
        found = Range(name="x", centre=centre, half_width=half_width).code(cells, bits, largest)
        for cell, code in zip(cells.tolist(), found.tolist(), strict=True):
            exact = Fraction((cell << (24 - bits)) - centre, half_width) * largest
            clipped = max(-largest, min(largest, exact))
            assert abs(clipped - code) <= Fraction(1, 2)
            assert abs(code) <= largest
        assert np.all(np.diff(found[np.argsort(cells)]) >= 0)


def test_the_public_box_is_a_range() -> None:
    cells = np.arange(-(1 << 8), (1 << 8) + 1, dtype=np.int32)
    whole = Range(name="x", centre=0, half_width=STEPS)
    assert np.array_equal(whole.code(cells, 8, 1 << 8), cells)
