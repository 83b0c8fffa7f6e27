"""The whole way of the data inside a hospital: bounded rows in, blocks that may be shown to anybody out.

    bounded rows -> the mechanism's exact integer query -> discrete Gaussian noise -> blocks

Public columns, which their owner declared so, are part of the block as they are.

Everything in front of this function reads patients' data; everything behind it only ever sees released bytes.
"""

from __future__ import annotations

from dprelease.arrays import PieceMap, one_by_one
from dprelease.data.bounding import BoundedRows
from dprelease.errors import DataRefused
from dprelease.mechanisms.base import FIRST_ROUND, NO_STREAM_STATE, EarlierRounds, Inputs, StreamState
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.release.block import Block, expected_header
from dprelease.release.spec import ReleaseSpec


def privatize(
    bounded: BoundedRows,
    spec: ReleaseSpec,
    party: str,
    noise: NoiseSource,
    products: Products | None = None,
    earlier: EarlierRounds = FIRST_ROUND,
    kept: StreamState = NO_STREAM_STATE,
    run: PieceMap = one_by_one,
) -> tuple[Block, ...]:
    """One party's blocks of one round, by sequence number.

    Guarantee: for tables that differ in all private cells of one patient (replace-one), what `accounting.guarantee` says of
    the spec; derived by its mechanism (docs/guarantees.md).

    Args:
        bounded: the party's rows in canonical order, (n, d_j) codes.
        spec: a spec that `accounting.check_spec` accepted.
        party: name of the party in the spec.
        noise: secret noise; `SecureNoise` outside tests.
        products: what the session left, where the mechanism has one.
        earlier: what the rounds before gave; the blocks are those of the round after.
        kept: of a stream, the increment of this checkpoint among the others.
        run: makes what pieces of the rows add up to; all noise is drawn here.

    Returns:
        The blocks. No noise is drawn for public columns.

    Raises:
        DataRefused: the rows are not those the spec describes.
        InvalidInput: the products are not those that the mechanism needs.
    """
    check_rows(bounded, spec, party)
    none, mechanism = bounded.public[:0, :0], mechanism_of(spec)
    made = mechanism.privatize(spec, party, Inputs(bounded, noise, products, earlier, kept, run))
    return tuple(
        Block(expected_header(spec, party, at), values, none if at else bounded.public)
        for at, values in enumerate(made, len(earlier.values.get(party, ())))
    )


def check_rows(bounded: BoundedRows, spec: ReleaseSpec, party: str) -> None:
    """Refuse rows that are not those the spec describes.

    Raises:
        DataRefused: other declarations, another grid, or another number of rows.
    """
    part = spec.party(party)
    if part is None or bounded.columns != part.columns or bounded.grid_bits != spec.grid_bits:
        raise DataRefused("these rows were bounded under other declarations than the spec's")
    if len(bounded.codes) != spec.rows:
        raise DataRefused(f"the source has {len(bounded.codes)} rows where the spec says {spec.rows}")
