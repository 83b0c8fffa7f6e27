"""D's part of a proof: one answer, from what it dealt and R's three challenges. It sees no column.

    g = Y tau' + psi      z_1, z_2, z_3 = what D's columns and shares of M, K and T add to equations (1), (2) and (3)

Source: docs/range_proofs.md 3, step 6; the equations in `plan`.
"""

from __future__ import annotations

import numpy as np

from dprelease.errors import InvalidInput
from dprelease.mpc.proof.plan import SEED_BYTES, Challenges, Lines, Matrices, ProofPlan
from dprelease.mpc.proof.same import Fingerprint
from dprelease.mpc.proof.sweeps import (
    ColumnRows,
    OwnSums,
    RowEntries,
    Side,
    folded,
    of_directions,
    of_fold,
    of_matrices,
    repeated,
    traced,
)
from dprelease.mpc.ring import Words


def encoded_answer(
    plan: ProofPlan,
    masks: ColumnRows,
    seed: bytes,
    challenges: tuple[bytes, bytes, bytes],
    same: Fingerprint | None = None,
) -> bytes:
    """g and z: 8 (lines + 3) bytes. To be made once: two answers would show R entries of D's side.

    A fingerprint of the masks is taken on the way.

    Raises:
        InvalidInput: the seed has another length.
    """
    if len(seed) != SEED_BYTES:
        raise InvalidInput(f"a secret seed has {SEED_BYTES} bytes, not {len(seed)}")
    stream = plan.bit_masks(seed)
    side = Side(lambda start, rows: plan.masks(stream, start, rows), masks)
    shares = plan.matrix_share(seed, challenges[0]), plan.lines_share(seed, challenges[0], challenges[1])
    return plan.field.encode(dealer_answer(plan, plan.challenges(challenges), side, *shares, same))


def dealer_answer(
    plan: ProofPlan,
    challenges: Challenges,
    side: Side,
    matrices: Matrices,
    lines: Lines,
    same: Fingerprint | None = None,
) -> tuple[Words, Words]:
    """g, (lines,), and z, (3,), from a and A and D's shares of M, every K, T and psi."""
    first, second, third = challenges
    entries, own, found = RowEntries(plan, second.right), OwnSums(plan, first, -1), []
    for start, rows in plan.chunks():
        weights = repeated(third.right, rows)
        found.append(folded(plan, entries(side, start, rows), weights, lines.psi, start))
        own.add(side.columns(start, rows), first.alpha(start, rows), start, same)
    scalars = (
        own.total + of_matrices(plan, first, matrices),
        of_directions(plan, second, matrices) - traced(plan, lines.share),
        of_fold(plan, third, lines.share),
    )
    return np.concatenate(found).reshape(-1), np.array([each % plan.field.p for each in scalars], np.uint64)
