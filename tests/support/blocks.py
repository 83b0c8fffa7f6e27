"""A party's only block."""

from dprelease import privatization
from dprelease.data.bounding import BoundedRows
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
