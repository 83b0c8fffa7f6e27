"""Fits on a release of ranges and one of moments of clipped rows after it, both out of one budget, simulated from a table.

Ranges are the mechanism's own integers under rounded normal noise. Moments are the exact products of the rows that hospitals
would code and clip by these ranges, with continuous Gaussian noise of the declared scales. Everything after that is the
learner's own code. R^2 is counted as predictions are made: features are clipped at the published ranges, outcomes are not, and
no row is shortened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from benchmarks.accuracy.ours import CURIOUS, r_squared
from benchmarks.accuracy.problem import Coding, Problem
from dprelease.arrays import Codes, Floats
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.ranges import share
from dprelease.mechanisms.moments.calibration import share_scales
from dprelease.mechanisms.moments.clipping import Clipping, clip_rows
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs, choose_clipping
from dprelease.mechanisms.moments.entries import Layout, by_kind, code
from dprelease.mechanisms.moments.released import NoisyMoments, noise_sd
from dprelease.mechanisms.moments.sensitivity import clipped_sensitivity
from dprelease.mechanisms.ranges.privatize import noisy_blocks
from dprelease.mechanisms.ranges.read import read
from dprelease.mechanisms.ranges.released import Ranges
from dprelease.mechanisms.ranges.terms import RangesTerms
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec

GRID_BITS = 16


def by_ranges(
    problem: Problem,
    targets: Sequence[str],
    mu: float,
    draws: int,
    random: np.random.Generator,
    weights: Mapping[str, float] | None = None,
) -> dict[str, Floats]:
    """R^2 of `shrinkage`, target to (draws,). Every draw is one release of ranges and one of moments, which all targets share.

    Args:
        problem: the table.
        targets: its outcomes.
        mu: budget of both releases together.
        draws: of both.
        random: of the noise.
        weights: number to its weight, where an outcome is known beforehand.
    """
    bounded, found = bounded_rows(problem), {target: np.empty(draws) for target in targets}
    for draw in range(draws):
        moments, _ = both_rounds(bounded, mu, random, weights)
        seen = in_ranges(problem, moments.layout.columns)
        for target in targets:
            found[target][draw] = r_squared(moments, seen.regression(target, seen.variables))
    return found


def bounded_rows(problem: Problem) -> dict[str, BoundedRows]:
    """What each institution holds after bounding."""
    codes = np.rint(np.ldexp(problem.released.rows, GRID_BITS)).astype(np.int32)
    parts = problem.table.parties
    ends = np.cumsum([sum(len(column.released) for column in columns) for columns in parts.values()])
    split = np.split(codes, ends[:-1], axis=1)
    return {
        party: BoundedRows(own, columns, GRID_BITS) for (party, columns), own in zip(parts.items(), split, strict=True)
    }


def both_rounds(
    bounded: Mapping[str, BoundedRows],
    mu: float,
    random: np.random.Generator,
    weights: Mapping[str, float] | None = None,
    k: float = 0.0,
) -> tuple[NoisyMoments, Ranges]:
    """Moments of rows coded and clipped by a release of ranges before them, and these ranges, mu-GDP together.

    Args:
        bounded: party to its rows.
        mu: budget of both releases.
        random: of the noise.
        weights: number to its weight, where it is not 1.
        k: how far rows are clipped.
    """
    parties = {party: rows.columns for party, rows in bounded.items()}
    n = len(next(iter(bounded.values())).codes)
    part = share(n, tuple(column for own in parties.values() for column in own))
    ranges = published_ranges(bounded, mu * math.sqrt(part), random)
    situation = ClippingInputs(mu * math.sqrt(1 - part), n, len(parties), CURIOUS, GRID_BITS)
    clipping = choose_clipping(parties, ranges.ranges, situation, weights or {}, k)
    return clipped_moments(bounded, clipping, situation, random), ranges


def published_ranges(bounded: Mapping[str, BoundedRows], mu: float, random: np.random.Generator) -> Ranges:
    """A release of mechanism ``ranges``, mu-GDP, as a reader has it."""
    parties = {party: rows.columns for party, rows in bounded.items()}
    columns = tuple(column for own in parties.values() for column in own)
    terms = RangesTerms.least(Fraction(mu) ** 2, columns, 1)
    spec = build_spec(parties, mechanism="ranges", rows=len(next(iter(bounded.values())).codes), grid_bits=GRID_BITS)
    return read(
        spec,
        terms,
        {
            party: noisy_blocks(rows, spec, terms, SeededNoise(int(random.integers(1 << 62))))
            for party, rows in bounded.items()
        },
    )


def clipped_moments(
    bounded: Mapping[str, BoundedRows], clipping: Clipping, situation: ClippingInputs, random: np.random.Generator
) -> NoisyMoments:
    """A release of mechanism ``moments`` of the rows coded and clipped."""
    layout = Layout(tuple(column for rows in bounded.values() for column in rows.columns))
    parties, bits = situation.parties, situation.grid_bits
    sensitivity = clipped_sensitivity(layout, clipping, bits)
    scales = by_kind(
        *share_scales(sensitivity, Fraction(situation.mu) ** 2, parties, situation.collusion_threshold, bits, 1)
    )
    # Products of codes of 17 bits: sums below 2^53 are exact in doubles.
    rows = np.hstack(list(_coded(bounded, clipping))).astype(np.float64)
    gram = rows.T @ rows
    noise = noise_sd(layout, scales, parties) * random.normal(size=layout.entries)
    values = np.rint(gram[layout.rows, layout.cols] + noise).astype(np.int64)
    return NoisyMoments.read(layout, values, situation.rows, bits, scales, parties, 0, clipping)


def _coded(bounded: Mapping[str, BoundedRows], clipping: Clipping) -> Iterator[Codes]:
    """The constant, and each party's rows as it multiplies them."""
    yield np.full((len(next(iter(bounded.values())).codes), 1), clipping.constant, np.int32)
    used = 0
    for rows in bounded.values():
        weights = clipping.weights[used : used + len(rows.columns)]
        used += len(rows.columns)
        yield clip_rows(code(rows.codes, rows.columns), rows.columns, weights, clipping, rows.grid_bits)


def in_ranges(problem: Problem, columns: tuple[Column, ...]) -> Problem:
    """The problem in the scaled units of published ranges, features clipped at them.

    Args:
        problem: in those of the public bounds.
        columns: declarations with ranges in place of bounds.
    """
    rows, outcomes = problem.variables.rows.copy(), {}
    for place, variable in enumerate(problem.layout.variables):
        old, new = problem.layout.columns[variable.column], columns[variable.column]
        if isinstance(old, NumericColumn) and isinstance(new, NumericColumn):
            moved, wider = (old.midpoint - new.midpoint) / new.half_width, old.half_width / new.half_width
            rows[:, place] = np.clip(moved + wider * rows[:, place], -1, 1)
            outcomes[old.name] = moved + wider * problem.outcomes[old.name]
    coding = Coding.of(problem.variables.names, problem.variables.redundant, rows)
    return replace(problem, variables=coding, outcomes=outcomes)
