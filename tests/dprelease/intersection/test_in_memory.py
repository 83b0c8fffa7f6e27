"""Every party finds the elements that all have, and nobody more: against Python's sets."""

import numpy as np
import pytest

from benchmarks.intersection.in_memory import intersect
from dprelease.intersection.key_value_store import Bytes
from tests.dprelease.intersection.driver import KEYS, NAMES, ring_of


def drawn(generator: np.random.Generator, sizes: tuple[int, ...], common: int) -> dict[str, Bytes]:
    """Random subsets of a small population, so that pairs have much in common, with just so many that all have."""
    population = generator.integers(0, 256, (common + 2 * max(sizes), 32), np.uint8)
    found = {}
    for party, (name, size) in enumerate(zip(NAMES, sizes, strict=False)):
        # Patient number x is not in the hospital x mod m, so none but the first ones are everywhere.
        some = [place for place in range(common, len(population)) if place % len(sizes) != party]
        chosen = [*range(common), *generator.permutation(some)[: size - common]]
        found[name] = population[generator.permutation(chosen)]
    return found


@pytest.mark.parametrize(
    ("sizes", "common"),
    [
        ((1, 1), 1),
        ((1, 1), 0),
        ((300, 2), 2),
        ((60, 60), 60),
        ((60, 50), 0),
        ((100, 80, 90), 33),
        ((1, 500, 3), 1),
        ((30, 40, 50, 60, 30), 12),
    ],
)
def test_everybody_finds_what_all_have(sizes: tuple[int, ...], common: int) -> None:
    elements = drawn(np.random.default_rng(sum(sizes)), sizes, common)
    sets = {name: set(map(bytes, rows)) for name, rows in elements.items()}
    expected = set.intersection(*sets.values())
    assert len(expected) == common
    found = intersect(ring_of(*sizes), elements, {name: KEYS[name] for name in elements}, workers=1)
    for name, result in found.items():
        assert {bytes(row) for row in elements[name][result.positions]} == expected
