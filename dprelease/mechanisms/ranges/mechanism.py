"""Mechanism ``ranges`` behind the contract; every private numeric column has an equal share of the target."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.arrays import Codes, Integers
from dprelease.data.columns import numbers
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.data.ranges import parts
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import COARSEST, EarlierRounds, Inputs, Mechanism, Values
from dprelease.mechanisms.draft import Draft, ProposedTerms
from dprelease.mechanisms.ranges.box import WIDTH as DECADES_WIDTH
from dprelease.mechanisms.ranges.released import NO_FIT, Ranges
from dprelease.mechanisms.ranges.terms import (
    CELLS,
    FIRST_SHARE,
    NOBODY,
    WIDTH,
    RangesTerms,
    largest,
    largest_decade,
    numbers_without_bounds,
    split,
    squared_sensitivity,
)
from dprelease.mechanisms.statement import OWN_NOISE, Cost, Statements, own_blocks
from dprelease.spec_base import SpecBase

_LARGEST = 1 << 62


TRUST = (
    "Each hospital added the whole noise to its own columns; no other party, the coordinator or the hub saw a row.",
    OWN_NOISE,
)
RECOMPUTED = "ranges recomputed: every centre and scale follows from the noisy numbers beside it"
BOXES_RECOMPUTED = (
    "bounds of columns without any recomputed: every box follows from the noisy counts of decades beside it"
)


class RangesMechanism(Mechanism[RangesTerms]):
    """Centre and scale of private numeric columns; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "ranges"
    purpose = "centre, scale and quantiles of single numbers, for readers, and for later releases, which use them at no charge"
    terms = RangesTerms
    checks_sum = True
    fits = False
    no_fit = NO_FIT

    def propose(self, options: Settings, draft: Draft) -> ProposedTerms:
        columns, mu2 = len(numbers(draft.everything)), draft.mu2
        unknown = len(numbers_without_bounds(draft.everything))
        if not columns:
            raise InvalidInput(NOBODY)
        if draft.target.scope != "joint":
            raise InvalidInput("mechanism 'ranges' has one target for the whole row: write scope = \"joint\"")
        terms = RangesTerms.least(mu2, draft.everything, draft.agreed.rows_per_subject)
        plan = f"ranges: {columns} private numeric columns, each with {1 / parts(draft.everything)} of mu^2"
        plan += f", and {unknown} without bounds with half as much again" if unknown else ""
        plan += "".join(f"; {doubt}" for doubt in terms.scales.doubts(draft.agreed.rows))
        return ProposedTerms(terms, split(mu2, draft.columns), plan)

    def cost(self, spec: SpecBase) -> Cost:
        """mu^2 of every party's columns; a patient is in every column, so together they are one Gaussian mechanism of the sum."""
        terms = self.own(spec)
        each, more = (spent(spec.rows_per_subject) for spent in (terms.scales.spent, terms.scales.spent_on_decades))
        charges = {
            part.party: each * len(numbers(part.columns)) + more * len(numbers_without_bounds(part.columns))
            for part in spec.parties
        }
        return Cost(sum(charges.values(), Fraction(0)), charges, charges)

    def check(self, spec: SpecBase) -> None:
        """Refuse scales that are not the least for mu^2, a target so wide that the grid shows, or integers of 2^62."""
        terms = self.own(spec)
        columns, mu2, q = spec.columns, Fraction(terms.mu2), spec.rows_per_subject
        if mu2 <= 0:
            raise SpecRefused(f"mu^2 = {terms.mu2} is not positive")
        if terms != RangesTerms.least(mu2, columns, q):
            raise SpecRefused(
                f"the noise scales are not those of {len(numbers(columns))} private numeric columns and mu^2"
            )
        if q**2 * squared_sensitivity(CELLS) < COARSEST**2 * mu2 / parts(columns) * FIRST_SHARE:
            raise SpecRefused("epsilon is so large that the grid of the counts would be too coarse; lower it")
        if max(*largest(spec, terms), largest_decade(spec, terms)) >= _LARGEST:
            raise SpecRefused("released integers could reach 2^62; fewer patients or a larger epsilon would do")

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        part = spec.part(party)
        own = (len(numbers(part.columns)), WIDTH)
        if self.own(spec).decades_scale is None:
            return (own,)
        return (len(numbers_without_bounds(part.columns)), DECADES_WIDTH), own

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        from dprelease.mechanisms.ranges.privatize import noisy_blocks  # slow to load, and only hospitals ask

        return noisy_blocks(inputs.rows, spec, self.own(spec), inputs.noise)

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> Ranges:
        from dprelease.mechanisms.ranges.read import read  # slow to load, and only learners ask

        return read(spec, self.own(spec), values)

    def ranged(self, spec: SpecBase) -> frozenset[str]:
        return frozenset(column.name for column in numbers(spec.columns))

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        """The guarantee as sentences; arguments as of `Mechanism.guarantee`."""
        return own_blocks("the ranges of all numeric columns of a patient", "no range", figures, joint, delta)

    def statements(self, spec: SpecBase) -> Statements:
        """Every other sentence."""
        terms = self.own(spec)
        columns = len(numbers(spec.columns))
        which = "1 private numeric column" if columns == 1 else f"{columns} private numeric columns"
        unknown = [column.name for column in numbers_without_bounds(spec.columns)]
        return Statements(
            would_publish=(
                f"centre and scale of each of {which}, over all {spec.rows} patients, with their noisy sources: "
                f"{CELLS - 1} counts of rows below points of its public bounds, a sum and a sum of squares; nobody's row"
                + (
                    f"; before that {DECADE_CELLS - 1} counts for the bounds of each of {len(unknown)} without"
                    if unknown
                    else ""
                )
            ),
            details=(
                "readers learn each column's mean, spread and quantiles, with errors; nothing on how columns go together",
                "it is made for later releases, which may code columns by these centres and scales for less noise",
                "public bounds stay as they are and stay public: cells are clipped to them first, here and later",
                *(
                    f"{name} has no public bounds: it gets some from noisy counts of decades, which take a third of what it costs"
                    for name in unknown
                ),
                *terms.scales.doubts(spec.rows),
            ),
            trust=TRUST,
            content=f"centre and scale of {which}",
            summary=f"ranges: centre, scale and distribution of {which}",
            figures={"columns": columns} | ({"without_bounds": len(unknown)} if unknown else {}),
            checks=(RECOMPUTED, *([BOXES_RECOMPUTED] if unknown else [])),
        )


RANGES = RangesMechanism()
