"""Empirical audit of both rounds together, of two hospitals with a binary, at neighbours that nearly attain every sensitivity.

In each column of numbers the patient moves between the end of the public bounds and the centre of everybody else: between cells 1
and 211, which the counts of the first round move most at, while the next column of the same hospital moves the other way. In the
ranges that this publishes the patient's numbers of each hospital turn by a right angle at their norm, and the binary
cancels the constant. Only the two sums of a column are not at their worst, with 5 of D2^2 = 5.1447 (docs/guarantees.md 18).

The log-likelihood ratio of a release adds up its rounds: given the ranges, that of each is normal with standard deviation mu_r or
mu_m, computed exactly, and mean -+ half its square. Both are measured, and the ratio of a release has mu^2 = mu_r^2 + mu_m^2.
Several second rounds are drawn after each first one, which takes most of the time; no hospital would.
"""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.mechanisms.moments.privatize import coded
from dprelease.mechanisms.moments.released import add_up, limits
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.block import Block
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Audit, Sighting, audit_known
from tests.statistical.sightings import of_moments, of_ranges, together
from tests.support.joint import multiply_directly
from tests.support.noise import ScaledNoise, SeededNoise, ZeroNoise
from tests.support.rounds import after, first_blocks, in_published_ranges, ranges_first
from tests.support.specs import build_spec, categorical, numeric

COLUMNS: dict[str, tuple[Column, ...]] = {
    "north": (numeric("a"), numeric("b"), categorical("s", "yes")),
    "south": (numeric("c"), numeric("d")),
}
ROWS, EPSILON = 40, 300.0
CURIOUS = "south"
"""Its noise of the moments is known to the attacker; that of its ranges is nobody's share."""
RUNS, AGAIN = 20, 6
"""First rounds of each table, and second rounds after each."""
END, CENTRE = -1.0, 0.6445
PAIR: tuple[dict[str, float | str], ...] = (
    {"a": END, "b": CENTRE, "s": "yes", "c": END, "d": CENTRE},
    {"a": CENTRE, "b": END, "s": "no", "c": CENTRE, "d": END},
)

SPEC = ranges_first(build_spec(COLUMNS, mechanism="moments", rows=ROWS, grid_bits=16, epsilon=EPSILON))


def tables(cells: Mapping[str, float | str]) -> dict[str, BoundedRows]:
    """A patient with these cells, and others in a narrow band around the centre."""
    band = CENTRE + np.linspace(-0.03, 0.03, ROWS - 1)
    found = {}
    for party, own in COLUMNS.items():
        raw = {
            column.name: np.array([cells[column.name], *band])
            if isinstance(column, NumericColumn)
            else [str(cells[column.name]), *("yes", "no") * ROWS][:ROWS]
            for column in own
        }
        found[party] = BoundedRows(bound(raw, own, SPEC.grid_bits), own, SPEC.grid_bits)
    return found


TABLES = tuple(map(tables, PAIR))


@dataclass(frozen=True)
class FirstRound:
    """A first round, the table it is of, and the spec in its ranges."""

    rows: Mapping[str, BoundedRows]
    blocks: Mapping[str, tuple[Block, ...]]
    known: ReleaseSpec

    @property
    def seen(self) -> Sighting:
        return of_ranges(SPEC, {party: blocks[0] for party, blocks in self.blocks.items()}, TABLES)

    def moments(self, noise: NoiseSource, runs: int) -> list[Sighting]:
        """Second rounds that follow it; products by secret sharing, masks drawn anew for each."""
        shares, earlier = multiply_directly(self.known, self.rows).shares, after(SPEC, self.blocks)
        largest = limits(layout_of(SPEC), ROWS, SPEC.grid_bits, joint_moments(SPEC).scales, len(COLUMNS))
        released = []
        for _ in range(runs):
            mask = secrets.token_bytes(32)
            blocks: list[Block] = []
            for party, peer in zip(COLUMNS, reversed(COLUMNS), strict=True):
                products = Products(coded(self.rows[party], self.known), shares[party], {peer: mask})
                source = ZeroNoise() if party == CURIOUS else noise
                blocks += privatize(self.rows[party], SPEC, party, source, products, earlier)
            released.append(add_up([block.values for block in blocks], largest, FIELD))
        return of_moments(self.known, released, TABLES)


def first_rounds(noise: NoiseSource, runs: int) -> list[list[FirstRound]]:
    """So many of each table."""
    found: list[list[FirstRound]] = []
    for table in TABLES:
        made = [first_blocks(SPEC, table, noise) for _ in range(runs)]
        found.append([FirstRound(table, blocks, in_published_ranges(SPEC, blocks)) for blocks in made])
    return found


@pytest.fixture(scope="module")
def honest() -> list[list[FirstRound]]:
    return first_rounds(SeededNoise(1), RUNS)


def measured(firsts: list[list[FirstRound]], noise: NoiseSource) -> tuple[Audit, Audit]:
    """mu of the first round, and of both: the root of the sum of the squares of each round's."""
    ranges = audit_known(*([each.seen for each in of_table] for of_table in firsts))
    moments = audit_known(*([one for each in of_table for one in each.moments(noise, AGAIN)] for of_table in firsts))
    if math.isinf(ranges.mu):
        return ranges, ranges
    mu = math.hypot(ranges.mu, moments.mu)
    errors = (each.mu * each.standard_error / mu for each in (ranges, moments))
    return ranges, Audit(mu, math.hypot(*errors))


def nominal() -> float:
    return math.sqrt(check_spec(SPEC).joint_mu2)


def test_the_pair_nearly_attains_both_sensitivities(honest: list[list[FirstRound]]) -> None:
    """The standard deviation of the log-likelihood ratio of a release, which needs no draw but that of the ranges.

    Where noise makes a first range wide, the patient does not move from its end to its centre, and the sums move less.
    """
    terms: Any = joint_moments(SPEC)
    assert [norm.columns for norm in terms.clipping.norms] == [("a", "b"), ("c", "d")]
    attained = []
    for each in (each for of_table in honest for each in of_table):
        (moments,) = each.moments(ZeroNoise(), 1)
        spent = ((each.seen, terms.first.mu2), (moments, terms.mu2))
        parts = [float(seen.shift @ seen.shift) / float(Fraction(mu2)) for seen, mu2 in spent]
        both = np.linalg.norm(together(each.seen, moments).shift) / nominal()
        assert max(*parts, both) <= 1
        attained.append([*parts, both])
    assert np.all(np.median(attained, axis=0) > [0.98, 0.98, 0.99])
    assert np.min(attained) > 0.85


def test_both_rounds_together_reach_what_is_declared(honest: list[list[FirstRound]]) -> None:
    ranges, found = measured(honest, SeededNoise(2))
    first: Any = joint_moments(SPEC).first
    assert ranges.agrees(math.sqrt(Fraction(first.mu2)), errors=3)
    assert found.agrees(nominal(), errors=3)
    assert abs(found.mu / nominal() - 1) < 0.05


def test_moments_with_noise_a_tenth_too_small_are_caught(honest: list[list[FirstRound]]) -> None:
    _, found = measured(honest, ScaledNoise(SeededNoise(3), 0.9))
    assert found.mu > nominal() + 5 * found.standard_error


def test_ranges_without_noise_are_caught() -> None:
    _, found = measured(first_rounds(ZeroNoise(), 1), SeededNoise(4))
    assert found.mu == math.inf
