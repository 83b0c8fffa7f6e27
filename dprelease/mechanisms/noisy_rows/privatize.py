"""Bounded rows in, noisy integers out.

bounded rows -> weighted -> exact integer query (anchor and public mix) -> discrete Gaussian noise
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dprelease.arrays import Codes, Integers, PieceMap, one_by_one
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import private_weights, released_names
from dprelease.mechanisms.base import NoiseScaling
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing, BucketMixing, MixingMatrix
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, NoisyRowsTerms
from dprelease.privacy.noise import NoiseSource
from dprelease.privacy.public_stream import PublicStream
from dprelease.spec_base import SpecBase


def drawn(spec: SpecBase, terms: NoisyRowsTerms, party: str, noise: NoiseSource, scaling: NoiseScaling) -> Integers:
    """(rows, a) one party's noise for its a released private columns; that of the anchor row first, if there is one.

    Guarantee: added to `integer_query`, for tables that differ in all private cells of one patient (replace-one), it gives
    mu_j-GDP on the grid with mu_j^2 = `calibration.spent`; derived in `dprelease.mechanisms.noisy_rows.calibration`. It holds
    for every fixed public matrix B, so B needs no secrecy.

    Args:
        spec: a spec that `accounting.check_spec` accepted.
        terms: its terms.
        party: name of the party in the spec.
        noise: secret noise; `SecureNoise` outside tests.
        scaling: of the declared scales.
    """
    width, outputs = len(released_names(spec.part(party).private)), terms.released_rows(spec)
    if not width:
        return np.zeros((outputs, 0), np.int64)
    scales = terms.noise_of(party)
    anchors = 1 if terms.rho else 0
    found = noise.discrete_gaussian(scaling.scale(scales.scale), (outputs - anchors, width))
    if scales.anchor_scale is not None:
        found = np.vstack([noise.discrete_gaussian(scaling.scale(scales.anchor_scale), (1, width)), found])
    return found


def weighted(bounded: BoundedRows, spec: SpecBase, party: str) -> Codes:
    """(n, a) private codes Q, each column times its public weight; int32 holds 16 * 2^24."""
    part = spec.part(party)
    return bounded.private * private_weights(part.columns, part.weights)


def integer_query(
    codes: Iterable[Codes], spec: SpecBase, terms: NoisyRowsTerms, run: PieceMap = one_by_one
) -> Integers:
    """The exact integers that noise is added to: [1^T Q; B Q] for ``mixed``, Q for ``rows``; (n, d) to (rows, d) int64.

    Args:
        codes: Q in pieces, from `weighted`; for ``mixed`` one is held at a time.
        spec: the spec.
        terms: its terms.
        run: makes the mixtures of each piece.
    """
    if not isinstance(terms, MixedTerms):
        return np.concatenate([*codes]).astype(np.int64)
    sums: list[Integers] = []

    def added_up() -> Iterator[Codes]:
        for piece in codes:
            sums.append(piece.sum(axis=0, dtype=np.int64))
            yield piece

    mixed = mixer(terms, spec).apply(added_up(), run)
    return np.vstack([np.sum(sums, axis=0), mixed]) if terms.rho else mixed


def mixer(terms: MixedTerms, spec: SpecBase) -> MixingMatrix:
    """The public mixing matrix B of a spec."""
    stream = PublicStream(bytes.fromhex(terms.mixing.seed))
    kind = BucketMixing if terms.mixing.kind == "buckets" else BernoulliMixing
    return kind(stream, terms.mixing.outputs, spec.rows)
