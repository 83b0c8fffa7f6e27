"""Shares of zero for an element, one of each party: unknown to everybody else, and known to cancel.

Parties i and j share a seed k_ij. The share of party i for an element with label y is the exclusive or, over all j, of
F(k_ij, y), so the shares of all parties cancel, and those of any fewer parties are independent and uniform to whoever lacks one
of the seeds among them. F is AES-256 of one block, cut to 64 bits: a pseudorandom function on distinct labels up to terms of 2^-128
times their number squared.

Source: Kolesnikov, Matania, Pinkas, Rosulek and Trieu 2017, "Practical Multi-party Private Set Intersection from Symmetric-Key
Techniques", the variant with unconditional zero-sharing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.arrays import pieces
from dprelease.mpc.ring import Words

LABEL_BYTES = 16


def pseudorandom(seed: bytes, labels: npt.NDArray[np.uint8]) -> Words:
    """F(seed, label) for (n, 16) distinct labels, under 32 secret bytes for one purpose: (n,) uint64."""
    # Labels are distinct, so that no two blocks are alike, and nothing is ever decrypted: a function, not a mode.
    cipher = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()  # noqa: S305
    found, start = np.empty(len(labels), np.uint64), 0
    for piece in pieces(labels):
        words = np.frombuffer(cipher.update(piece.tobytes()), "<u8").reshape(-1, LABEL_BYTES // 8)
        found[start : start + len(piece)] = words[:, 0]
        start += len(piece)
    return found


def shares(seeds: Iterable[bytes], labels: npt.NDArray[np.uint8]) -> Words:
    """A party's share of zero for (n, 16) distinct labels, from the seed that it shares with each of the others: (n,) uint64."""
    total = np.zeros(len(labels), np.uint64)
    for seed in seeds:
        total ^= pseudorandom(seed, labels)
    return total
