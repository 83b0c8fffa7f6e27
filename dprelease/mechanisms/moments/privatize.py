"""One party's share of the noisy Gram matrix: which entries it has, exact products, noise, and masks that cancel in the sum.

bounded rows -> exact share of the Gram matrix -> discrete Gaussian noise -> masks -> share that says nothing alone

Products between two parties are `dprelease.mpc`'s.

Source: docs/protocol.md, step 6; docs/format.md 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, Integers, PieceMap, one_by_one, pieces
from dprelease.data.bounding import BoundedRows
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import NoiseScaling
from dprelease.mechanisms.moments.claims import claim_of
from dprelease.mechanisms.moments.clipping import clip_rows
from dprelease.mechanisms.moments.entries import code, variables
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc.modulus import MODULI
from dprelease.mpc.ring import Words, product
from dprelease.mpc.schedule import Pair, Schedule
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

EVERYBODY = -1
"""Stands for the party that has the constant: each multiplies it with its own columns."""


def coded(rows: BoundedRows, spec: SpecBase) -> Codes:
    """(n, variables) what a party multiplies: its rows coded, and clipped where the spec says so, each by itself.

    Args:
        rows: of the party, some or all, on the public grid.
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


def exact_share(made: Products, spec: SpecBase, party: str, run: PieceMap = one_by_one) -> Integers:
    """(1, E) the party's share of every exact entry, in the spec's modulus; all parties' add up to exact data.

    Args:
        made: what the session left, and the coded rows (n, d_j) that it multiplied.
        spec: of joint moments, that `accounting.check_spec` accepted.
        party: name of the party in the spec.
        run: makes the party's own products of each piece.

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
    return _share(made.matrix, spec, schedule, party, made.shares, run).view(np.int64).reshape(1, -1)


def drawn(spec: SpecBase, noise: NoiseSource, scaling: NoiseScaling) -> Integers:
    """(1, E) one party's noise.

    Guarantee: for tables that differ in all private cells of one patient (replace-one), the sum of all parties' exact shares and
    noise is mu-GDP on the grid with mu^2 = `accounting.guarantee(spec).joint_mu2`, also for up to t curious parties that subtract
    their own; derived in `calibration`. It must be drawn once for a release, ever: two shares over different inputs differ by
    exact data.

    Args:
        spec: of joint moments.
        noise: secret noise; `SecureNoise` outside tests.
        scaling: of the declared scales.
    """
    layout, terms = layout_of(spec), joint_moments(spec)
    found = np.zeros((1, layout.entries), np.int64)
    for kind in terms.kinds:
        chosen = layout.kinds == kind
        found[:, chosen] = noise.discrete_gaussian(scaling.scale(terms.scales[kind]), (1, int(chosen.sum())))
    return found


def masked(values: Integers, spec: SpecBase, party: str, masks: Mapping[str, bytes]) -> Integers:
    """(rows, E) noisy shares hidden by masks that cancel in the sum over parties.

    A share alone is then uniform to whoever lacks one of its masks.

    Args:
        values: (rows, E), elements or signed integers.
        spec: of joint moments.
        party: name of the party in the spec.
        masks: peer to the seed that we share with it, which must never hide anything else.

    Raises:
        InvalidInput: a mask is missing.
    """
    order = [part.party for part in spec.parties]
    if set(masks) != set(order) - {party}:
        raise InvalidInput("a block of joint moments needs a mask with every peer")
    modulus = MODULI[joint_moments(spec).modulo]
    total = modulus.elements(np.ascontiguousarray(values))
    for peer, seed in masks.items():
        mask = modulus.read(seed, 0, *values.shape)
        first = order.index(party) < order.index(peer)
        total = modulus.add(total, mask) if first else modulus.subtract(total, mask)
    return total.view(np.int64)


def _share(
    codes: Codes, spec: SpecBase, schedule: Schedule, party: str, shares: Mapping[Pair, Words], run: PieceMap
) -> Words:
    """(E,) the party's share of every noisy entry: its own products, its sums, its shares of its pairs', zero elsewhere."""
    layout = layout_of(spec)
    owner, local = places(schedule)
    row, column = layout.rows, layout.cols
    mine = schedule.parties.index(party)
    clipping = joint_moments(spec).clipping
    constant = None if clipping is None else clipping.constant
    own = OwnMoments.of(codes, layout.outcome[np.flatnonzero(owner == mine)], schedule, constant, run)
    total, modulus = np.zeros(layout.entries, np.uint64), schedule.modulus
    chosen = (owner[row] == mine) & (owner[column] == mine)
    total[chosen] = modulus.elements(own.at(local[row[chosen]], local[column[chosen]]).view(np.int64))
    chosen = (owner[row] == EVERYBODY) & (owner[column] == mine)
    total[chosen] = modulus.elements(own.sums[local[column[chosen]]].view(np.int64))
    for pair, share in shares.items():
        first, second = schedule.parties.index(pair.first), schedule.parties.index(pair.second)
        for left, right in ((row, column), (column, row)):
            chosen = (owner[left] == first) & (owner[right] == second)
            total[chosen] = share[local[left[chosen]], local[right[chosen]]]
    return total


@lru_cache(maxsize=8)
def schedule_of(spec: SpecBase) -> Schedule:
    """The schedule of a release's products and proofs: a matrix has a column for each variable of its party.

    The latest ones are remembered: each look at a session asks for one, with all that is looked up in it.

    Raises:
        InvalidInput: it is of another mechanism.
    """
    terms = joint_moments(spec)
    return Schedule(
        task=spec.digest(),
        widths={part.party: len(variables(part.columns)) for part in spec.parties},
        rows=spec.rows,
        bits=spec.grid_bits,
        collusion_threshold=terms.curious,
        rotating=terms.dealer == "rotating",
        groups=terms.groups,
        modulus=MODULI[terms.modulo],
        claims={part.party: claim_of(spec, part.party) for part in spec.parties if terms.range_proofs},
    )


def places(schedule: Schedule) -> tuple[Integers, Integers]:
    """For each entry of x = (1, z): the number of the party that has it, and its column in that party's matrix.

    The constant is `EVERYBODY`'s.
    """
    owner, local = [EVERYBODY], [0]
    for number, width in enumerate(schedule.widths.values()):
        owner += [number] * width
        local += range(width)
    return np.array(owner), np.array(local)


@dataclass(frozen=True, eq=False)
class OwnMoments:
    """Exact moments of one party's d variables, of which f are features. They need nobody else.

    Attributes:
        outcome: (d,) which are outcomes only.
        sums: (d,) c 1^T Q, c the code of the constant.
        across: (f, d) products of the features with all.
        squares: (d,) of all.
    """

    outcome: npt.NDArray[np.bool_]
    sums: Words
    across: Words
    squares: Words

    @classmethod
    def of(
        cls,
        codes: Codes,
        outcome: npt.NDArray[np.bool_],
        schedule: Schedule,
        constant: int | None = None,
        run: PieceMap = one_by_one,
    ) -> OwnMoments:
        """O(n f d).

        Args:
            codes: (n, d).
            outcome: (d,) which are outcomes only.
            schedule: of the spec.
            constant: its code; the grid's unit unless given.
            run: makes the sums of each piece.
        """
        bits, d = schedule.bits, codes.shape[1]
        across = np.zeros((int((~outcome).sum()), d), np.uint64)
        sums, squares = np.zeros(d, np.int64), np.zeros(d, np.int64)
        for found in run(partial(_own_sums, outcome, bits), pieces(codes)):
            across += found[0]
            sums += found[1]
            squares += found[2]
        return cls(outcome, (sums * (constant or 1 << bits)).view(np.uint64), across, squares.view(np.uint64))

    def at(self, row: Integers, column: Integers) -> Words:
        """Products of pairs of variables, of which one is a feature or both are the same."""
        outcome_only = self.outcome[row]
        feature = np.cumsum(~self.outcome)[np.where(outcome_only, column, row)] - 1
        both = outcome_only & self.outcome[column]
        found: Words = (
            self.across[np.where(both, 0, feature), np.where(outcome_only, row, column)]
            if len(self.across)
            else self.squares[row]
        )
        return np.where(both, self.squares[row], found)


def _own_sums(outcome: npt.NDArray[np.bool_], bits: int, codes: Codes) -> tuple[Words, Integers, Integers]:
    """Products of the features with all, sums and squares, over some rows."""
    across = product(np.ascontiguousarray(codes[:, ~outcome]), codes, left_bits=bits, right_bits=bits)
    return across, codes.sum(axis=0, dtype=np.int64), np.einsum("ij,ij->j", codes, codes, dtype=np.int64)
