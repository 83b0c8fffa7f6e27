"""A party's only block."""

from __future__ import annotations

from dprelease import privatization
from dprelease.block import Block
from dprelease.bounding import BoundedRows
from dprelease.mpc.session import Products
from dprelease.noise import NoiseSource
from dprelease.spec import ReleaseSpec


def privatize(
    bounded: BoundedRows, spec: ReleaseSpec, party: str, noise: NoiseSource, products: Products | None = None
) -> Block:
    """The block of a party that sends one."""
    (block,) = privatization.privatize(bounded, spec, party, noise, products)
    return block
