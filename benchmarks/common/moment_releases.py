"""Releases of moments, simulated: in public bounds from a table's second moments, or of rows coded and clipped by a first round.

In public bounds the exact Gram matrix gets continuous Gaussian noise with the scales that a release would declare; a release's
noise is discrete, on a grid some 10^5 times finer than its scale. Ranges are the mechanism's own integers under rounded normal
noise. Moments after them are the exact products of the rows that hospitals would code and clip, with continuous noise again.
Everything after that is the learner's own code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from dprelease.arrays import Codes, Floats
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.column import RawColumn
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.ranges import share
from dprelease.mechanisms.moments.calibration import released_sd, share_scales
from dprelease.mechanisms.moments.clipping import Clipping, clip_rows
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs, choose_clipping
from dprelease.mechanisms.moments.entries import EntryKind, Layout, code
from dprelease.mechanisms.moments.released import NoisyMoments, noise_sd
from dprelease.mechanisms.moments.sensitivity import clipped_sensitivity, sensitivity
from dprelease.mechanisms.ranges.privatize import noisy_blocks
from dprelease.mechanisms.ranges.read import read
from dprelease.mechanisms.ranges.released import Ranges
from dprelease.mechanisms.ranges.terms import RangesTerms
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec

CURIOUS = 1
"""Hospitals that may put together what they know."""
GRID_BITS = 16
"""Of cells in ranges."""
PUBLIC_GRID_BITS = 12
"""Of cells in public bounds."""


def noisy_moments(
    exact: Floats,
    rows: int,
    mu: float,
    parties: int,
    random: np.random.Generator,
    columns: tuple[Column, ...] | None = None,
) -> NoisyMoments:
    """A release in public bounds.

    Args:
        exact: (p+1, p+1) sums of x x^T, x = (1, variables).
        rows: n.
        mu: budget of the whole row.
        parties: hospitals.
        random: of the noise.
        columns: declarations; numbers on [-1, 1] unless given.
    """
    numbers = (NumericColumn(name=f"column{place}", lower=-1, upper=1, fill=0) for place in range(1, len(exact)))
    layout = Layout(columns or tuple(numbers))
    bits = PUBLIC_GRID_BITS
    scales = share_scales(sensitivity(layout.variables), Fraction(mu) ** 2, parties, CURIOUS, bits, 1)
    diagonal_scale, scale = (
        released_sd(scales[kind], parties) * 4.0**-bits for kind in (EntryKind.SQUARE, EntryKind.PRODUCT)
    )
    sd = np.where(layout.diagonal, diagonal_scale, scale)
    values = exact[layout.rows, layout.cols] + sd * random.normal(size=layout.entries)
    return NoisyMoments(layout, layout.matrix(values, float(rows)), layout.matrix(sd, 0.0), rows)


def bounded(
    cells: Mapping[str, RawColumn], parties: Mapping[str, tuple[Column, ...]], grid_bits: int = GRID_BITS
) -> dict[str, BoundedRows]:
    """What each party holds after bounding."""
    return {
        party: BoundedRows(bound({each.name: cells[each.name] for each in own}, own, grid_bits), own, grid_bits)
        for party, own in parties.items()
    }


def both_rounds(
    held: Mapping[str, BoundedRows],
    mu: float,
    random: np.random.Generator,
    weights: Mapping[str, float] | None = None,
    k: float = 0.0,
) -> tuple[NoisyMoments, Ranges]:
    """Moments of rows coded and clipped by a release of ranges before them, and these ranges, mu-GDP together.

    Args:
        held: party to its rows.
        mu: budget of both releases.
        random: of the noise.
        weights: number to its weight, where it is not 1.
        k: how far rows are clipped.
    """
    parties = {party: rows.columns for party, rows in held.items()}
    n = len(next(iter(held.values())).codes)
    part = share(n, tuple(column for own in parties.values() for column in own))
    ranges = published_ranges(held, mu * math.sqrt(part), random)
    situation = ClippingInputs(mu * math.sqrt(1 - part), n, len(parties), CURIOUS, GRID_BITS)
    clipping = choose_clipping(parties, ranges.ranges, situation, weights or {}, k)
    return clipped_moments(held, clipping, situation, random), ranges


def published_ranges(held: Mapping[str, BoundedRows], mu: float, random: np.random.Generator) -> Ranges:
    """A release of mechanism ``ranges``, mu-GDP, as a reader has it."""
    parties = {party: rows.columns for party, rows in held.items()}
    columns = tuple(column for own in parties.values() for column in own)
    terms = RangesTerms.least(Fraction(mu) ** 2, columns, 1)
    spec = build_spec(parties, mechanism="ranges", rows=len(next(iter(held.values())).codes), grid_bits=GRID_BITS)
    return read(
        spec,
        terms,
        {
            party: noisy_blocks(rows, spec, terms, SeededNoise(int(random.integers(1 << 62))))
            for party, rows in held.items()
        },
    )


def clipped_moments(
    held: Mapping[str, BoundedRows], clipping: Clipping, situation: ClippingInputs, random: np.random.Generator
) -> NoisyMoments:
    """A release of mechanism ``moments`` of the rows coded and clipped."""
    layout = Layout(tuple(column for rows in held.values() for column in rows.columns))
    parties, bits = situation.parties, situation.grid_bits
    moved = clipped_sensitivity(layout, clipping, bits)
    scales = share_scales(moved, Fraction(situation.mu) ** 2, parties, situation.collusion_threshold, bits, 1)
    # Products of codes of 17 bits: sums below 2^53 are exact in doubles.
    rows = np.hstack(list(_coded(held, clipping))).astype(np.float64)
    gram = rows.T @ rows
    noise = noise_sd(layout, scales, parties) * random.normal(size=layout.entries)
    values = np.rint(gram[layout.rows, layout.cols] + noise).astype(np.int64)
    return NoisyMoments.read(layout, values, situation.rows, bits, scales, parties, 0, clipping)


def _coded(held: Mapping[str, BoundedRows], clipping: Clipping) -> Iterator[Codes]:
    """The constant, and each party's rows as it multiplies them."""
    yield np.full((len(next(iter(held.values())).codes), 1), clipping.constant, np.int32)
    used = 0
    for rows in held.values():
        weights = clipping.weights[used : used + len(rows.columns)]
        used += len(rows.columns)
        yield clip_rows(code(rows.codes, rows.columns), rows.columns, weights, clipping, rows.grid_bits)
