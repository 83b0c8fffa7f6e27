"""Claims that range proofs show of each hospital's masked columns in joint moments, and what their error adds to delta.

A party's matrix has a column for each variable (`entries`), public ones too. With H the column's weight, or G without clipping,
a claim says

    number      -H, .., H            binary      -H or H            level      0 or H, exactly one of its category
    a norm of clipping: the squares of the party's private numbers add up to at most R
    a stated norm: the squares of its public outcomes add up to at most min(T2, their number) G^2

No category is open: each value is a column, ``other`` and ``missing`` too. An ordered category is a number here.

**Sensitivity rests on nothing else.** Columns of an altered hospital are fixed before any block is made, the same on both sides of
a pair of neighbours, and rows of them are in the sets over which each formula is a maximum:

* `sensitivity`: boxes, binaries and one-hot groups, public ones in P2 = 1 + their number;
* `RowBounds`: weights in P2 and A, and the norms, each over one party's private numbers;
* `Moves`: R^2 and S^2 count boxes, binaries and groups. T2 is either their number or stated, and then a norm of the claim.

Published rows play no part in a formula, nor does a basis of them. Each row of a patient with q is in its set, and q moves add up.

Source: docs/range_proofs.md 7; tests search for pairs of rows that are further apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from dprelease.data.column import Variable
from dprelease.data.columns import Column
from dprelease.mechanisms.moments.clipping import numbers_of
from dprelease.mechanisms.moments.entries import variables
from dprelease.mechanisms.moments.terms import JointMoments, joint_moments
from dprelease.mpc.messages import MOST_ROUNDS
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.spec_base import SpecBase

Parties = Mapping[str, tuple[Column, ...]]
"""Party to its declared columns, in the spec's order."""


def claim_of(spec: SpecBase, party: str) -> Claim:
    """The claim about a party's matrix, whose columns are `privatize.coded`'s, in a spec of joint moments."""
    return _claim(spec.columns_by_party, joint_moments(spec), spec.grid_bits, party)


def unproved(parties: Parties, terms: JointMoments, grid_bits: int) -> str | None:
    """Why no claim can be made, and how to mend it; None where one can.

    Args:
        parties: their columns.
        terms: of the release; `range_proofs` does not count.
        grid_bits: b.
    """
    if len(parties) < 2:
        return "one hospital alone shows nobody masked columns; leave out range_proofs"
    if terms.modulus is None:
        return "range proofs need the prime field, and these blocks are computed modulo 2^64; propose the release anew"
    for party in parties:
        if _claim(parties, terms, grid_bits, party).largest >= FIELD.p:
            return f"sums of a row of {party} could wrap modulo 2^61 - 1; lower grid_bits, or release fewer columns"
    return None


def proof_error(collusion_threshold: int) -> Fraction:
    """The bound of what delta grows by in one session: the probability that some false claim is accepted.

    Each of t altered provers faces an honest verifier in each of at most 64 rounds. Its columns are fixed before any challenge. If
    those of the proof are out of bounds, the proof errs with less than 6/p. Else it can only show others different ones, and the
    comparison errs with less than 3/p. Only one of the two is possible, hence t 64 6/p. The event does not depend on honest data,
    so it adds to delta without a factor e^epsilon. The advantage against AES-256, HKDF, SHA-256 and signatures comes in addition.

    Source: docs/range_proofs.md 5 and 7.
    """
    return Fraction(6 * MOST_ROUNDS * collusion_threshold, FIELD.p)


def power_of_two(bound: Fraction) -> str:
    """A bound as a power of two with one decimal, rounded up: 2^-51.4."""
    return f"2^{math.ceil(10 * math.log2(bound)) / 10:.1f}"


def _claim(parties: Parties, terms: JointMoments, grid_bits: int, party: str) -> Claim:
    own, clipping, unit = parties[party], terms.clipping, 1 << grid_bits
    everything = [column.name for columns in parties.values() for column in columns]
    weight = dict(zip(everything, (unit,) * len(everything) if clipping is None else clipping.weights, strict=True))
    found, groups = variables(own), dict[int, list[int]]()
    for place, variable in enumerate(found):
        if variable.level:
            groups.setdefault(variable.column, []).append(place)
    norms = [(norm.columns, norm.squared) for norm in (() if clipping is None else clipping.norms)]
    norms = [norm for norm in norms if norm[0] == numbers_of(own)]
    shown = tuple(column.name for column in own if column.public and column.name in terms.outcomes)
    if terms.public_norm2 is not None and shown:
        stated: Fraction = min(terms.public_norm2, Fraction(len(shown)))
        norms.append((shown, math.floor(stated * unit**2)))
    return Claim(
        columns=tuple(_values(variable, weight[own[variable.column].name]) for variable in found),
        groups=tuple(OneHot(tuple(places), weight[own[column].name]) for column, places in groups.items()),
        norms=tuple(
            RowNorm(tuple(place for place, each in enumerate(found) if own[each.column].name in names), squared)
            for names, squared in norms
        ),
    )


def _values(variable: Variable, weight: int) -> GridInterval:
    """The codes of a variable of this weight."""
    if variable.level:
        return GridInterval(0, weight, weight)
    return GridInterval(-weight, weight, 1 if variable.measured else 2 * weight)
