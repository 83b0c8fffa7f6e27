"""All sessions in one process: the products are exact and every step is told."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from dprelease.errors import IntegrityError
from dprelease.identity.signing import new_private_key
from dprelease.mpc.in_memory import multiply
from dprelease.mpc.schedule import Schedule

NAMES = ("a", "b", "c", "d", "e", "f", "g")
KEYS = {name: new_private_key() for name in NAMES}


def products(count: int, rotating: bool, rows: int = 9, groups: int = 0) -> tuple[list[str], bool]:
    widths = {name: place + 1 for place, name in enumerate(NAMES[:count])}
    schedule = Schedule("5e" * 32, widths, 9, 12, 1, rotating, groups=groups)
    generator = np.random.default_rng(count)
    matrices = {name: generator.integers(-4096, 4097, (rows, width)).astype(np.int32) for name, width in widths.items()}
    told: list[str] = []

    @contextmanager
    def step(name: str) -> Iterator[None]:
        told.append(name)
        yield

    keys = {name: KEYS[name] for name in widths}
    made = multiply(schedule, matrices, keys, dict.fromkeys(widths, "11" * 32), step)
    exact = all(
        (
            (made[pair.first].shares[pair] + made[pair.second].shares[pair]).view(np.int64)
            == matrices[pair.first].astype(np.int64).T @ matrices[pair.second]
        ).all()
        for pair in schedule.pairs
    )
    return told, exact


@pytest.mark.parametrize(("count", "rotating", "groups"), [(2, False, 0), (3, True, 0), (7, True, 3)])
def test_products_are_exact_and_every_step_is_told(count: int, rotating: bool, groups: int) -> None:
    told, exact = products(count, rotating, groups=groups)
    assert exact
    assert told == [
        "exchange session keys",
        "deal randomness",
        "mask and encrypt columns",
        "confirm what was seen",
        "multiply masked columns",
    ]


def test_a_matrix_of_another_length_is_refused() -> None:
    with pytest.raises(IntegrityError, match="sent a columns that the schedule of this release does not have"):
        products(2, rotating=False, rows=8)
