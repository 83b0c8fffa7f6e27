"""A party's only block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dprelease import privatization
from dprelease.arrays import Integers
from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms.moments.mechanism import MomentsMechanism
from dprelease.mechanisms.noisy_rows.mechanism import MixedMechanism, RowsMechanism
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.release.block import Block
from dprelease.release.spec import ReleaseSpec


def privatize(
    bounded: BoundedRows, spec: ReleaseSpec, party: str, noise: NoiseSource, products: Products | None = None
) -> Block:
    """The block of a party that sends one."""
    (block,) = privatization.privatize(bounded, spec, party, noise, products)
    return block


@contextmanager
def exact_once() -> Iterator[None]:
    """Within it, what noise is added to is computed once for each table, spec and party: an audit draws thousands of releases."""
    with pytest.MonkeyPatch.context() as patch:
        for mechanism in (MomentsMechanism, MixedMechanism, RowsMechanism):
            patch.setattr(mechanism, "exact", _once(mechanism.exact))
        yield


def _once(exact: Any) -> Any:
    made: dict[tuple[int, int, str], tuple[BoundedRows, ReleaseSpec, Integers]] = {}

    def kept(self: Any, rows: BoundedRows, spec: ReleaseSpec, party: str, *others: Any) -> Integers:
        key = id(rows), id(spec), party  # of objects that live as long as this
        if key not in made:
            made[key] = rows, spec, exact(self, rows, spec, party, *others)
            made[key][-1].flags.writeable = False
        return made[key][-1]

    return kept
