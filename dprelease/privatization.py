"""The whole way of the data inside a hospital: bounded rows in, a block that may be shown to anybody out.

    bounded rows -> weighted -> exact integer query (anchor and public mix) -> discrete Gaussian noise -> block
    bounded rows -> exact share of the Gram matrix -> discrete Gaussian noise -> masks that cancel in the sum -> block

Public columns, which their owner declared so, are part of the block as they are (privacy.md 3.4).

Everything in front of this function reads patients' data; everything behind it only ever sees released bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.block import Block, expected_header
from dprelease.bounding import BoundedRows
from dprelease.columns import private_weights
from dprelease.errors import DataRefused, InvalidInput
from dprelease.mixing import BernoulliMixing
from dprelease.moments.layout import code
from dprelease.moments.plan import EVERYBODY, Pair, Plan
from dprelease.moments.products import Codes, OwnMoments
from dprelease.moments.ring import SecretStream, Words
from dprelease.noise import NoiseSource
from dprelease.public_stream import PublicStream
from dprelease.spec import ReleaseSpec


def privatize(bounded: BoundedRows, spec: ReleaseSpec, party: str, noise: NoiseSource) -> Block:
    """One party's block.

    Guarantee: for tables that differ in all private cells of one patient (replace-one), the block is mu_j-GDP on the grid
    with mu_j^2 = `accounting.guarantee(spec).party(party).mu2`; derived in `dprelease.calibration`. It holds for every fixed
    public matrix B, so B needs no secrecy (privacy.md 2.1).

    Args:
        bounded: the party's rows in canonical order, (n, d_j) codes.
        spec: a spec that `accounting.check_spec` accepted.
        party: name of the party in the spec.
        noise: secret noise; `SecureNoise` outside tests.

    Returns:
        The block; with mechanism ``mixed`` the anchor row comes first. No noise is drawn for public columns.

    Raises:
        DataRefused: the rows are not those the spec describes.
    """
    check_rows(bounded, spec, party)
    header = expected_header(spec, party)
    if not header.columns:
        return Block(header, np.zeros((header.rows, 0), np.int64), bounded.public)
    exact = integer_query(weighted(bounded, spec, party), spec)
    scales = spec.noise_of(party)
    drawn = noise.discrete_gaussian(scales.scale, (spec.squared_norm() if spec.mixing else spec.rows, header.columns))
    if scales.anchor_scale is not None:
        drawn = np.vstack([noise.discrete_gaussian(scales.anchor_scale, (1, header.columns)), drawn])
    return Block(header, exact + drawn, bounded.public)


def weighted(bounded: BoundedRows, spec: ReleaseSpec, party: str) -> npt.NDArray[np.int32]:
    """(n, a) private codes Q, each column times its public weight; int32 holds 16 * 2^24."""
    part = spec.party(party)
    assert part is not None, party  # noqa: S101 - `check_rows` saw to it
    return bounded.private * private_weights(part.columns, part.weights)


def integer_query(codes: npt.NDArray[np.int32], spec: ReleaseSpec) -> npt.NDArray[np.int64]:
    """The exact integers that noise is added to: [1^T Q; B Q] for ``mixed``, Q for ``rows``; (n, d) to (rows, d) int64.

    Args:
        codes: Q, from `weighted`.
        spec: the spec.
    """
    if spec.mixing is None:
        return codes.astype(np.int64)
    stream = PublicStream(bytes.fromhex(spec.mixing.seed))
    mixed = BernoulliMixing(stream, spec.mixing.outputs, spec.rows).apply([codes])
    if not Fraction(spec.anchor_weight):
        return mixed
    return np.vstack([codes.sum(axis=0, dtype=np.int64), mixed])


def privatize_moments(
    bounded: BoundedRows,
    spec: ReleaseSpec,
    party: str,
    halves: Mapping[Pair, Words],
    masks: Mapping[str, bytes],
    noise: NoiseSource,
) -> Block:
    """One party's block of joint moments: its share of every noisy entry, its noise, its masks (joint_moments.md step 8).

    Guarantee: for tables that differ in all private cells of one patient (replace-one), the sum of all parties' blocks is
    mu-GDP on the grid with mu^2 = `accounting.guarantee(spec).joint_mu2`, also for up to t curious parties that subtract their own
    shares; derived in `dprelease.moments.scales`. A block alone is uniform to whoever lacks one of its masks. It must be
    made once for a release, ever: two blocks over different inputs differ by exact data (second_reading.md 5).

    Args:
        bounded: the party's rows in canonical order, (n, d_j) codes.
        spec: a spec of mechanism ``moments`` that `accounting.check_spec` accepted.
        party: name of the party in the spec.
        halves: our half of the product for each of our pairs, (d_first, d_second).
        masks: peer to the 32-byte seed that we share with it; every other party of the spec.
        noise: secret noise; `SecureNoise` outside tests.

    Raises:
        DataRefused: the rows are not those the spec describes.
        InvalidInput: a half or a mask is missing, or does not belong here; nothing would hide the block then. Or the spec has
            no noise for some entry.
    """
    check_rows(bounded, spec, party)
    plan, layout, moments = Plan(spec), spec.layout, spec.moments
    assert moments is not None  # noqa: S101 - the plan has refused other mechanisms
    if set(halves) != {pair for pair in plan.pairs if pair.has(party)} or set(masks) != set(plan.parties) - {party}:
        raise InvalidInput("a block of joint moments needs a half of every pair and a mask with every peer")
    if not set(layout.kinds.tolist()) <= {int(kind) for kind in moments.kinds}:
        raise InvalidInput("the spec declares no noise for some of what it releases")
    total = _share(code(bounded.codes, bounded.columns), plan, party, halves)
    drawn = np.zeros(layout.entries, np.int64)
    for kind in moments.kinds:
        chosen = layout.kinds == kind
        drawn[chosen] = noise.discrete_gaussian(moments.scales[kind], (1, int(chosen.sum())))[0]
    total += drawn.view(np.uint64)
    for peer, seed in masks.items():
        mask = SecretStream(seed).read_words(0, layout.entries, 1)[:, 0]
        total = total + mask if plan.parties.index(party) < plan.parties.index(peer) else total - mask
    return Block(expected_header(spec, party), total.view(np.int64).reshape(1, -1), bounded.public)


def _share(codes: Codes, plan: Plan, party: str, halves: Mapping[Pair, Words]) -> Words:
    """(E,) the party's share of every noisy entry: its own products, its sums, its halves of its pairs', zero elsewhere."""
    layout, owner, local = plan.spec.layout, *plan.places
    row, column = layout.rows, layout.cols
    mine = plan.parties.index(party)
    own = OwnMoments.of(codes, layout.outcome[np.flatnonzero(owner == mine)], plan)
    total = np.zeros(layout.entries, np.uint64)
    chosen = (owner[row] == mine) & (owner[column] == mine)
    total[chosen] = own.at(local[row[chosen]], local[column[chosen]])
    chosen = (owner[row] == EVERYBODY) & (owner[column] == mine)
    total[chosen] = own.sums[local[column[chosen]]]
    for pair, half in halves.items():
        first, second = plan.parties.index(pair.first), plan.parties.index(pair.second)
        for left, right in ((row, column), (column, row)):
            chosen = (owner[left] == first) & (owner[right] == second)
            total[chosen] = half[local[left[chosen]], local[right[chosen]]]
    return total


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
