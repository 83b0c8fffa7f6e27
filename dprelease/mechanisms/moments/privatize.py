"""One party's share of the noisy Gram matrix: exact products, noise, and masks that cancel in the sum.

bounded rows -> exact share of the Gram matrix -> discrete Gaussian noise -> masks -> share that says nothing alone
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dprelease.arrays import Codes, Integers
from dprelease.data.bounding import BoundedRows
from dprelease.errors import InvalidInput
from dprelease.mechanisms.linear import Stretch
from dprelease.mechanisms.moments.clipping import clip_rows
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.own_products import EVERYBODY, OwnMoments, places, schedule_of
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.schedule import Pair
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase


def coded(rows: BoundedRows, spec: SpecBase) -> Codes:
    """(n, variables) what a party multiplies: its rows coded, and clipped where the spec says so.

    Args:
        rows: the party's, on the public grid.
        spec: of mechanism ``moments``.

    Raises:
        InvalidInput: a clipped row is longer than its norm allows; nothing may be made of it.
    """
    codes, clipping = code(rows.codes, rows.columns), joint_moments(spec).clipping
    if clipping is None:
        return codes
    weight = dict(zip(spec.columns, clipping.weights, strict=True))
    weights = tuple(weight[column] for column in rows.columns)
    return clip_rows(codes, rows.columns, weights, clipping, rows.grid_bits)


def exact_share(made: Products, spec: SpecBase, party: str) -> Integers:
    """(1, E) the party's share of every exact entry, modulo 2^64; all parties' add up to exact data.

    Args:
        made: what the session left, and the coded rows (n, d_j) that it multiplied.
        spec: of joint moments, that `accounting.check_spec` accepted.
        party: name of the party in the spec.

    Raises:
        InvalidInput: a half or a mask is missing, or does not belong here; nothing would hide the share then. Or the spec has
            no noise for some entry.
    """
    schedule, layout, terms = schedule_of(spec), layout_of(spec), joint_moments(spec)
    peers = set(schedule.parties) - {party}
    if set(made.shares) != {pair for pair in schedule.pairs if pair.has(party)} or set(made.masks) != peers:
        raise InvalidInput("a block of joint moments needs a half of every pair and a mask with every peer")
    if not set(layout.kinds.tolist()) <= {int(kind) for kind in terms.kinds}:
        raise InvalidInput("the spec declares no noise for some of what it releases")
    return _share(made.matrix, spec, party, made.shares).view(np.int64).reshape(1, -1)


def drawn(spec: SpecBase, noise: NoiseSource, stretch: Stretch) -> Integers:
    """(1, E) one party's noise.

    Guarantee: for tables that differ in all private cells of one patient (replace-one), the sum of all parties' exact shares and
    noise is mu-GDP on the grid with mu^2 = `accounting.guarantee(spec).joint_mu2`, also for up to t curious parties that subtract
    their own; derived in `calibration`. It must be drawn once for a release, ever: two shares over different inputs differ by
    exact data.

    Args:
        spec: of joint moments.
        noise: secret noise; `SecureNoise` outside tests.
        stretch: of the declared scales.
    """
    layout, terms = layout_of(spec), joint_moments(spec)
    found = np.zeros((1, layout.entries), np.int64)
    for kind in terms.kinds:
        chosen = layout.kinds == kind
        found[:, chosen] = noise.discrete_gaussian(stretch.scale(terms.scales[kind]), (1, int(chosen.sum())))
    return found


def masked(values: Integers, spec: SpecBase, party: str, masks: Mapping[str, bytes]) -> Integers:
    """(rows, E) noisy shares hidden by masks that cancel in the sum over parties.

    A share alone is then uniform to whoever lacks one of its masks.

    Args:
        values: (rows, E).
        spec: of joint moments.
        party: name of the party in the spec.
        masks: peer to the seed that we share with it, which must never hide anything else.

    Raises:
        InvalidInput: a mask is missing.
    """
    order = [part.party for part in spec.parties]
    if set(masks) != set(order) - {party}:
        raise InvalidInput("a block of joint moments needs a mask with every peer")
    total = np.ascontiguousarray(values).view(np.uint64)
    for peer, seed in masks.items():
        mask = SecretStream(seed).read_words(0, *values.shape)
        total = total + mask if order.index(party) < order.index(peer) else total - mask
    return total.view(np.int64)


def _share(codes: Codes, spec: SpecBase, party: str, shares: Mapping[Pair, Words]) -> Words:
    """(E,) the party's share of every noisy entry: its own products, its sums, its shares of its pairs', zero elsewhere."""
    schedule, layout = schedule_of(spec), layout_of(spec)
    owner, local = places(schedule)
    row, column = layout.rows, layout.cols
    mine = schedule.parties.index(party)
    clipping = joint_moments(spec).clipping
    constant = None if clipping is None else clipping.constant
    own = OwnMoments.of(codes, layout.outcome[np.flatnonzero(owner == mine)], schedule, constant)
    total = np.zeros(layout.entries, np.uint64)
    chosen = (owner[row] == mine) & (owner[column] == mine)
    total[chosen] = own.at(local[row[chosen]], local[column[chosen]])
    chosen = (owner[row] == EVERYBODY) & (owner[column] == mine)
    total[chosen] = own.sums[local[column[chosen]]]
    for pair, product in shares.items():
        first, second = schedule.parties.index(pair.first), schedule.parties.index(pair.second)
        for left, right in ((row, column), (column, row)):
            chosen = (owner[left] == first) & (owner[right] == second)
            total[chosen] = product[local[left[chosen]], local[right[chosen]]]
    return total
