"""A whole joint computation in one process, without a network: the real sessions of all parties, and their blocks."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, Integers
from dprelease.data.bounding import BoundedRows
from dprelease.identity.signing import new_private_key
from dprelease.mechanisms.moments.privatize import coded, schedule_of
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc import in_memory
from dprelease.mpc.exchange import masked, share
from dprelease.mpc.modulus import MODULI
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import Pair, deal, read_randomness
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.release.block import Block
from dprelease.release.spec import ReleaseSpec
from tests.support.blocks import privatize


@dataclass
class Session:
    """One session with fresh randomness.

    Attributes:
        shares: party to its share of the product for each of its pairs.
        matrices: party to what it multiplied.
        blocks: party to block.
    """

    shares: dict[str, Mapping[Pair, Words]]
    matrices: dict[str, Codes]
    blocks: dict[str, Block] = field(default_factory=dict)


def compute(
    spec: ReleaseSpec,
    tables: Mapping[str, BoundedRows],
    noise: Mapping[str, NoiseSource],
    masks: Mapping[frozenset[str], bytes] | None = None,
) -> Session:
    """Every party's block.

    Args:
        spec: of mechanism ``moments``.
        tables: party to its rows.
        noise: party to its source.
        masks: pair of parties to the seed that they share; made up unless given.
    """
    session = multiply(spec, tables)
    shared = masks or {
        frozenset((pair.first, pair.second)): bytes([number % 256]) * 32
        for number, pair in enumerate(schedule_of(spec).pairs)
    }
    session.blocks = seal(spec, tables, session, noise, shared)
    return session


def multiply(spec: ReleaseSpec, tables: Mapping[str, BoundedRows]) -> Session:
    """The real sessions of all parties up to their products, under keys of nobody; no block."""
    matrices = {party: coded(table, spec) for party, table in tables.items()}
    if len(tables) == 1:
        return Session({party: {} for party in tables}, matrices)
    identities = {party: new_private_key() for party in tables}
    made = in_memory.multiply(
        schedule_of(spec), matrices, identities, dict.fromkeys(tables, "5e" * 32), lambda name: nullcontext()
    )
    return Session({party: products.shares for party, products in made.items()}, matrices)


def multiply_directly(spec: ReleaseSpec, tables: Mapping[str, BoundedRows]) -> Session:
    """The arithmetic of a session alone (deals, masked columns, shares of products), for audits of thousands of them.

    That messages between parties are sealed, signed and checked is `multiply`'s, and costs a hundred times as much.
    """
    schedule = schedule_of(spec)
    codes = {party: coded(table, spec) for party, table in tables.items()}
    dealt = {
        (receiver, dealer): read_randomness(message, schedule, receiver, dealer)
        for dealer in dict.fromkeys(pair.dealer for pair in schedule.pairs)
        for receiver, message in deal(schedule, dealer).items()
    }
    columns = {key: list(masked(codes[key[0]], each.mask, schedule)) for key, each in dealt.items()}
    shares: dict[str, dict[Pair, Words]] = {party: {} for party in tables}
    for pair in schedule.pairs:
        for party in (pair.first, pair.second):
            partner = columns[pair.other(party), pair.dealer]
            shares[party][pair] = share(pair, party, codes[party], dealt[party, pair.dealer], partner, schedule)
    return Session(dict(shares), codes)


def seal(
    spec: ReleaseSpec,
    tables: Mapping[str, BoundedRows],
    session: Session,
    noise: Mapping[str, NoiseSource],
    masks: Mapping[frozenset[str], bytes],
) -> dict[str, Block]:
    """Every party's block from a session's products; each call draws other noise, which no party would ever do."""
    return {
        party: privatize_moments(
            tables[party],
            spec,
            party,
            session.shares[party],
            {peer: masks[frozenset((party, peer))] for peer in tables if peer != party},
            noise[party],
            session.matrices[party],
        )
        for party in tables
    }


def exact_gram(spec: ReleaseSpec, tables: Mapping[str, BoundedRows]) -> npt.NDArray[np.object_]:
    """[c Z]^T [c Z] in Python integers, (p+1, p+1), c the code of the constant."""
    clipping = joint_moments(spec).clipping
    unit = 1 << spec.grid_bits if clipping is None else clipping.constant
    rows = [coded(tables[part.party], spec) for part in spec.parties]
    whole = np.hstack([np.full((spec.rows, 1), unit, np.int64), *rows]).astype(object)
    gram: npt.NDArray[np.object_] = whole.T @ whole
    return gram


def summed(spec: ReleaseSpec, values: Iterable[Integers]) -> Integers:
    """What anybody who has all parties' blocks can compute, whatever they add up to; rows as of one block."""
    modulus = MODULI[spec.terms.modulo]
    return modulus.signed(modulus.combined((1, own) for own in values).view(np.uint64))


def entries(spec: ReleaseSpec, gram: npt.NDArray[np.object_]) -> list[int]:
    """The noisy entries of a matrix, in the layout's order."""
    return [int(gram[row, column]) for row, column in zip(layout_of(spec).rows, layout_of(spec).cols, strict=True)]


def privatize_moments(
    rows: BoundedRows,
    spec: ReleaseSpec,
    party: str,
    shares: Mapping[Pair, Words],
    masks: Mapping[str, bytes],
    noise: NoiseSource,
    matrix: Codes | None = None,
) -> Block:
    """A party's block of joint moments from what a session left."""
    made = coded(rows, spec) if matrix is None else matrix
    return privatize(rows, spec, party, noise, Products(made, shares, masks))
