"""P's part of a proof: the bits that it sends with its masked columns, and its answers to two challenges.

Source: docs/range_proofs.md 3, steps 1, 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from dprelease.arrays import let_go
from dprelease.errors import InvalidInput
from dprelease.mpc.proof.claim import Bits
from dprelease.mpc.proof.plan import SEED_BYTES, ProofPlan
from dprelease.mpc.proof.sweeps import ColumnRows, Side, line_products, matrices
from dprelease.mpc.ring import Words


class RangeProver:
    """P towards one receiver. The same arguments give the same bytes; two challenges give answers under independent masks.

    Guarantee: R, whatever challenges it tells to whom, learns that the claim is true of every row, and nothing else. All that P
    sends is for R alone. D, who knows its shares, would read bits from M or T.

    Args:
        plan: the public parameters.
        codes: (n, d), Q.
        masks: rows of A as dealt.
        seed: 32 bytes that D dealt to P for proofs; secret from every receiver.
        chi: 32 bytes that P drew and gives to R with its columns; secret from D.
        plain: (n, units) our bits by the claim, from where they are kept.

    Raises:
        InvalidInput: codes or a seed have another shape than the plan.
    """

    def __init__(
        self,
        plan: ProofPlan,
        codes: npt.NDArray[np.signedinteger],
        masks: ColumnRows,
        seed: bytes,
        chi: bytes,
        plain: Bits,
    ) -> None:
        if codes.shape != (plan.rows, plan.width) or {len(seed), len(chi)} != {SEED_BYTES}:
            raise InvalidInput(f"codes of shape {codes.shape}, or a seed, do not fit the plan of the proof")
        self.plan, self._codes, self._seed, self._chi = plan, codes, seed, chi
        self._stream = plan.bit_masks(seed)
        self._dealer = Side(self._masks, masks)
        self._plain = plain
        self._receiver = Side(self.masked_bits, self.masked_columns)

    def bits(self, chunks: Iterable[tuple[int, int]]) -> Iterator[Bits]:
        """The chunks of u, (r, units), from even rows on: what P sends beside its masked columns, the same under one dealer."""
        return (self.masked_bits(first, rows) for first, rows in chunks)

    def first(self, challenge: bytes) -> bytes:
        """Shares of M and every K under c1: 8 (units 32^2 + sum of d_B^2) bytes."""
        plan = self.plan
        made = matrices(plan, plan.combination(challenge), self._receiver, self._dealer)
        shares = plan.matrix_share(self._seed, challenge)
        return plan.field.encode(plan.field.subtract(*pair) for pair in zip(made, shares, strict=True))

    def second(self, first: bytes, second: bytes) -> bytes:
        """Share of T under c1 and c2: 8 33^2 bytes."""
        plan = self.plan
        lines = plan.lines_share(self._seed, first, second)
        blindings = plan.chi(self._chi), lines.psi
        challenges = plan.combination(first), plan.directions(second)
        made = line_products(plan, *challenges, blindings, (self._receiver, self._dealer))
        return plan.field.encode([plan.field.subtract(made, lines.share)])

    def plain_bits(self, first: int, rows: int) -> Bits:
        """The bits of these rows, bare: they never leave P."""
        found = np.array(self._plain[first : first + rows])
        let_go(self._plain)
        return found

    def masked_bits(self, first: int, rows: int) -> Bits:
        """Rows of u."""
        return self.plain_bits(first, rows) ^ self._masks(first, rows)

    def masked_columns(self, first: int, rows: int) -> Words:
        """Rows of U = Q + A."""
        codes = self.plan.field.elements(self._codes[first : first + rows])
        return self.plan.field.add(codes, self._dealer.columns(first, rows))

    def _masks(self, first: int, rows: int) -> Bits:
        return self.plan.masks(self._stream, first, rows)
