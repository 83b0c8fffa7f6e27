"""A whole joint computation in one process, without a network: what the parties compute, message by message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dprelease.block import Block
from dprelease.bounding import BoundedRows
from dprelease.moments.layout import code
from dprelease.moments.products import schedule_of
from dprelease.mpc.correlated_randomness import Dealt, deal, read_deal
from dprelease.mpc.matrix_product import half, masked
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import Pair
from dprelease.noise import NoiseSource
from dprelease.spec import ReleaseSpec
from tests.support.joint import privatize_moments


@dataclass
class Session:
    """One session with fresh randomness.

    Attributes:
        dealt: (party, dealer) to what was dealt.
        columns: (party, dealer) to chunks of masked columns.
        halves: party to its half of the product for each of its pairs.
        blocks: party to block.
    """

    dealt: dict[tuple[str, str], Dealt] = field(default_factory=dict)
    columns: dict[tuple[str, str], list[Words]] = field(default_factory=dict)
    halves: dict[str, dict[Pair, Words]] = field(default_factory=dict)
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
    """A session up to its products: dealt, columns exchanged, halves computed, no block."""
    schedule, session = schedule_of(spec), Session()
    for dealer in dict.fromkeys(pair.dealer for pair in schedule.pairs):
        for receiver, message in deal(schedule, dealer).items():
            session.dealt[receiver, dealer] = read_deal(message, schedule, receiver, dealer)
    variables = {party: code(table.codes, table.columns) for party, table in tables.items()}
    for (party, dealer), dealt in session.dealt.items():
        session.columns[party, dealer] = list(masked(variables[party], dealt.mask, schedule))
    for party in schedule.parties:
        halves = session.halves[party] = {}
        for pair in schedule.pairs:
            if pair.has(party):
                peer = session.columns[pair.other(party), pair.dealer]
                own = session.dealt[party, pair.dealer]
                halves[pair] = half(pair, party, variables[party], own, peer, schedule)
    return session


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
            session.halves[party],
            {peer: masks[frozenset((party, peer))] for peer in tables if peer != party},
            noise[party],
        )
        for party in tables
    }


def exact_gram(spec: ReleaseSpec, tables: Mapping[str, BoundedRows]) -> npt.NDArray[np.object_]:
    """[G Z]^T [G Z] in Python integers, (p+1, p+1)."""
    unit = 1 << spec.grid_bits
    coded = [code(tables[part.party].codes, part.columns) for part in spec.parties]
    whole = np.hstack([np.full((spec.rows, 1), unit, np.int64), *coded]).astype(object)
    gram: npt.NDArray[np.object_] = whole.T @ whole
    return gram


def entries(spec: ReleaseSpec, gram: npt.NDArray[np.object_]) -> list[int]:
    """The noisy entries of a matrix, in the layout's order."""
    return [int(gram[row, column]) for row, column in zip(spec.layout.rows, spec.layout.cols, strict=True)]
