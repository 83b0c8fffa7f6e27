"""Correlated randomness from a dealer: multiplication triples (Beaver 1991) for matrices, from which two parties get their product.

For a pair j < k the dealer draws a mask seed a for every party it deals to and a seed r_jk for every pair, expands A_j = PRG(a_j)
and A_k = PRG(a_k), n x d each, and computes C_jk = A_j^T A_k. Party j gets a_j and r_jk, party k gets a_k and
C_jk - PRG(r_jk), an n-free d_j x d_k matrix that looks uniform to k, because r_jk is known to j alone.

A deal is a plain byte string, whose form follows from the schedule: the mask seed, a seed of proofs where the dealer helps with
one, then for each of the receiver's pairs, in the schedule's order, the seed r (32 bytes, to the first) or the correction
(8 d_j d_k bytes, row by row, to the second).

Source: docs/protocol.md, step 3; bytes in docs/format.md 15.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError
from dprelease.mpc.encryption import Draw
from dprelease.mpc.proof.parts import encoded_answer
from dprelease.mpc.proof.same import Fingerprint
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import SEED_BYTES, WORD_BYTES, Pair, Schedule


def deal(
    schedule: Schedule, dealer: str, draw: Draw = secrets.token_bytes, kept: DealtSeeds | None = None
) -> Mapping[str, bytes]:
    """Fresh randomness for all pairs of a dealer: receiver to its deal. Every call draws anew.

    The deals must be sealed to their receivers and forgotten before any masked column leaves a hospital. Memory is bounded by a
    chunk of rows; O(n d_j d_k) operations for each pair.

    Kept are the seeds that proofs and the comparison of columns need; all others live in this call only.
    """
    pairs = schedule.dealt_by(dealer)
    masks = {name: draw(SEED_BYTES) for name in schedule.receivers(dealer)}
    products = _products(schedule, pairs, masks)
    proofs = {name: draw(SEED_BYTES) if schedule.verifiers(name, dealer) else b"" for name in masks}
    if kept is not None:
        kept.keep(schedule, dealer, masks, proofs)
    dealt = {name: seed + proofs[name] for name, seed in masks.items()}
    for pair in pairs:
        seed = draw(SEED_BYTES)
        correction = schedule.modulus.subtract(products[pair], _pad(seed, schedule, pair))
        dealt[pair.first] += seed
        dealt[pair.second] += correction.astype("<u8").tobytes()
    return dealt


class DealtSeeds:
    """Seeds that a dealer holds, in memory alone, until each has served once: a proof, or else the comparison of columns.

    A dealer that has lost them answers no more, and the session is begun anew. Two answers about one proof would show its
    verifier single rows (docs/range_proofs.md 3).
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[Schedule, bytes, bytes]] = {}  # of (prover, verifier), or (prover, "")

    def keep(self, schedule: Schedule, dealer: str, masks: Mapping[str, bytes], proofs: Mapping[str, bytes]) -> None:
        """Hold the seeds of a deal, and none of an earlier one; arguments as `deal` has them."""
        serve = [*schedule.proofs(dealer), *((prover, "") for prover in schedule.compared(dealer))]
        self._open = {(prover, each): (schedule, masks[prover], proofs[prover]) for prover, each in serve}

    def answer(
        self, session: str, prover: str, receiver: str, challenges: bytes, same: Fingerprint | None = None
    ) -> bytes:
        """The one answer about a proof: 8 (lines + 3) bytes, to 96 bytes of challenges. Its seeds are let go of first.

        The fingerprint of the prover's masks is taken on the way.

        Raises:
            Conflict: it was answered, or the seeds are gone.
        """
        (schedule, mask, proof), width = self._taken(prover, receiver)
        first, second, third = (challenges[at : at + SEED_BYTES] for at in range(0, 3 * SEED_BYTES, SEED_BYTES))
        plan = schedule.proof_plan(prover, receiver, session)
        rows = partial(schedule.modulus.read, mask, width=width)
        return encoded_answer(plan, rows, proof, (first, second, third), same)

    def compare(self, prover: str, same: Fingerprint) -> None:
        """Take the fingerprint of a prover's masks, where no answer does. The seed is let go of first.

        Raises:
            Conflict: it was taken, or the seed is gone.
        """
        (schedule, mask, _), width = self._taken(prover, "")
        for _chunk in same.through(schedule.modulus.read(mask, *rows, width) for rows in schedule.row_chunks()):
            pass

    def _taken(self, prover: str, verifier: str) -> tuple[tuple[Schedule, bytes, bytes], int]:
        """Seeds that serve once, and the number of the prover's columns."""
        held = self._open.pop((prover, verifier), None)
        if held is None:
            raise Conflict(f"the dealer of {prover} has answered {verifier or 'everybody'}, or holds nothing any more")
        return held, held[0].widths[prover]

    def forget(self) -> None:
        """Let go of everything: the session is given up, or over."""
        self._open.clear()


def _products(schedule: Schedule, pairs: tuple[Pair, ...], seeds: Mapping[str, bytes]) -> dict[Pair, Words]:
    widths, modulus = schedule.widths, schedule.modulus
    sums = {pair: np.zeros((widths[pair.first], widths[pair.second]), np.uint64) for pair in pairs}
    for start, rows in schedule.row_chunks():
        masks = {name: modulus.read(seed, start, rows, widths[name]) for name, seed in seeds.items()}
        for pair in pairs:
            sums[pair] = modulus.add(sums[pair], modulus.product(masks[pair.first], masks[pair.second]))
    return sums


def _pad(seed: bytes, schedule: Schedule, pair: Pair) -> Words:
    """PRG(r_jk), (d_j, d_k)."""
    widths = schedule.widths
    rows, width = widths[pair.first], widths[pair.second]
    return schedule.modulus.read(seed, 0, rows * width, 1).reshape(rows, width)


@dataclass(frozen=True, repr=False)
class CorrelatedRandomness:
    """Correlated randomness of one party from one dealer: its mask, and an additive share of A_j^T A_k for each pair.

    Attributes:
        dealer: who.
        mask: seed of our mask A in this dealer's pairs.
        proof: seed of the dealer's side of our proofs; empty where it helps with none.
        shares: for each of our pairs of this dealer PRG(r), if we are first, or C - PRG(r), if we are second.
        digests: SHA-256 of every seed in it, by which a reuse is recognised.
    """

    dealer: str
    mask: bytes
    proof: bytes
    shares: Mapping[Pair, Words]
    digests: tuple[str, ...]


def read_randomness(data: bytes, schedule: Schedule, receiver: str, dealer: str) -> CorrelatedRandomness:
    """Take a deal apart.

    Raises:
        IntegrityError: it has another length than the schedule calls for, or a word that is no element.
    """
    who = dealer or "the coordinator"
    if len(data) != schedule.deal_size(receiver, dealer):
        raise IntegrityError(f"{who} dealt something of another shape than this release needs")
    widths, position = schedule.widths, schedule.seeds(receiver, dealer) * SEED_BYTES
    seeds, shares = [data[at : at + SEED_BYTES] for at in range(0, position, SEED_BYTES)], {}
    mask, proof = seeds[0], b"".join(seeds[1:])
    for pair in schedule.dealt_by(dealer):
        if receiver == pair.first:
            seeds.append(data[position : position + SEED_BYTES])
            shares[pair] = _pad(seeds[-1], schedule, pair)
            position += SEED_BYTES
        elif receiver == pair.second:
            shape = widths[pair.first], widths[pair.second]
            words = np.frombuffer(data, "<u8", shape[0] * shape[1], position)
            shares[pair] = schedule.modulus.canonical(words.reshape(shape).astype(np.uint64), f"what {who} dealt")
            position += WORD_BYTES * words.size
    return CorrelatedRandomness(dealer, mask, proof, shares, tuple(seed_digest(seed) for seed in seeds))


def seed_digest(seed: bytes) -> str:
    """A seed's name in a party's list of those that it has used; it does not give the seed away."""
    return sha256(b"dprelease/moments/seed/v1" + seed)
