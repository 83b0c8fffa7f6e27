"""Composition in time: a mechanism in ranges that another one publishes in a first round of the same release.

Blocks of the last round depend on no row of the first but by what it published, so the release costs what both cost: mu^2 adds
up (adaptive composition, docs/guarantees.md 19). Neither mechanism knows of the other.

The first round is a whole mechanism of its own, with terms of its own in the spec. Weights, norms, noise scales and price of the
last round are fixed beside them, before anybody has looked at a row. The ranges follow from what the first round published, and
then the spec is that of a release in published ranges: its numbers have the ends of their ranges for bounds, and rows are coded
in them, unless the terms say otherwise. Both rounds together: docs/guarantees.md 19.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from dprelease.arrays import Codes, Integers
from dprelease.canonical import read_part
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, numbers, unbounded
from dprelease.data.ranges import REACH, Range, seen, share
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds, Inputs, Mechanism, Values
from dprelease.mechanisms.draft import FIRST, Draft, ProposedTerms
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.mpc.schedule import Schedule
from dprelease.spec_base import SpecBase, Terms

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Scenario
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

TWO_ROUNDS = (
    "Two rounds are in it: ranges of single columns, with {percent} % of mu^2, of which each hospital is charged what its own "
    "columns cost, and then {last} of rows as coded in these ranges."
)

ROUNDS = "two rounds: the ranges of private numbers are those that the first publishes"

OWN_RANGES = "In the first round each hospital added the whole noise to the ranges of its own columns."

CLIPPED = "{what} are of numbers as clipped to the ranges that the first round published."

COMES_FIRST = "a release of ranges comes first, for a part of the budget"

Round = tuple[Mechanism[Any], SpecBase]
"""A mechanism, and the spec as it reads it."""


def read_within(data: object, info: ValidationInfo) -> object:
    """Terms within other terms from plain data, by the function that the mechanism of the latter hands in."""
    if data is None or isinstance(data, Terms):
        return data
    if info.context is None:
        raise ValueError("terms within others are read as part of a spec")
    return info.context(data)


FirstTerms = Annotated[
    SerializeAsAny[Terms] | None, BeforeValidator(read_within), Field(exclude_if=lambda first: first is None)
]
"""Terms of the mechanism of the first round; None, and left out of canonical bytes, where there is one round."""


class TermsInRanges(Terms):
    """Terms of a mechanism that may code numbers in ranges.

    Attributes:
        first: terms of the mechanism whose blocks come first and publish these ranges; None without such a round.
    """

    first: FirstTerms = None

    @property
    def names(self) -> tuple[str, ...]:
        """The mechanism of the first round, if there is one, and this one."""
        return (*(self.first.names if self.first else ()), self.mechanism)

    def in_ranges(self, spec: SpecBase, ranges: Sequence[Range]) -> SpecBase:
        """The spec that is left once the ranges are known, in which these numbers have the ends of their ranges for bounds.

        Args:
            spec: whose terms these are.
            ranges: of all private numbers, in the spec's order.
        """
        return with_terms(_seen(spec, ranges), self.model_copy(update={"first": None}))

    def consistent(self, spec: SpecBase) -> None:
        """Refuses terms of a first round that do not fit the rest of the spec."""
        if self.first is not None:
            self.first.consistent(unweighted(spec))


def coded(rows: BoundedRows, earlier: EarlierRounds) -> tuple[BoundedRows, SpecBase]:
    """The rows of one party in the ranges of the first round, clipped to them, and the spec in which columns have their ends."""
    left = earlier.left
    assert left is not None  # noqa: S101 - nobody builds on the first round before it is read
    found = {each.name: each for each in earlier.view.ranges}
    known = {column.name: column for column in left.columns}
    columns = tuple(known[column.name] for column in rows.columns)
    if columns == rows.columns:
        return rows, left
    codes, place = rows.codes.copy(), 0
    for column, now in zip(rows.columns, columns, strict=True):
        if now != column:
            codes[:, place] = found[column.name].code(codes[:, place], rows.grid_bits, 1 << rows.grid_bits)
        place += len(column.released)
    return BoundedRows(codes, columns, rows.grid_bits), left


def _seen(spec: SpecBase, ranges: Sequence[Range]) -> SpecBase:
    """The spec in which the private numbers of these ranges have their ends for bounds."""
    parts = tuple(part.model_copy(update={"columns": seen(part.columns, ranges)}) for part in spec.parties)
    return spec.model_copy(update={"parties": parts})


def _any_ranges(columns: tuple[Column, ...]) -> tuple[Range, ...]:
    """A range of each number without bounds; the sensitivity of numbers in ranges is the same whichever they are."""
    return tuple(Range.whole(column.name) for column in unbounded(numbers(columns)))


def unweighted(spec: SpecBase) -> SpecBase:
    """The spec without weights of columns, which are about the last round alone."""
    return spec.model_copy(update={"parties": tuple(part.model_copy(update={"weights": ()}) for part in spec.parties)})


def with_terms(spec: SpecBase, terms: Terms) -> SpecBase:
    """The same spec with other terms, as the mechanism of these reads it."""
    return spec.model_copy(update={"terms": terms})


class Then(Mechanism[TermsInRanges]):
    """`last` after `first`; `Mechanism` says what each method is. Specs without a first round are of `last` alone (`mechanism_of`).

    Args:
        first: what it reads has ``ranges`` of all private numbers, and its terms guess how far these reach.
        last: its terms are `TermsInRanges`, and key ``ranges`` of its options may be `FIRST`. Its blocks come from one round.
    """

    def __init__(self, first: Mechanism[Any], last: Mechanism[Any]) -> None:
        self._first, self.last = first, last
        self.name, self.purpose, self.terms, self.options = last.name, last.purpose, last.terms, last.options
        self.by_part = last.by_part
        self.checks_sum, self.noun = first.checks_sum or last.checks_sum, last.noun or last.name
        self.row_per_patient, self.weighs_columns, self.fits = last.row_per_patient, last.weighs_columns, last.fits

    def _rounds(self, spec: SpecBase) -> tuple[Round, Round]:
        """Both. Nothing that anybody asks of the last before the first is published depends on the ranges."""
        return (self._first, self._before(spec)), (self.last, self._alone(spec))

    def _before(self, spec: SpecBase) -> SpecBase:
        """The spec as the first round's mechanism reads it."""
        first = self.own(spec).first
        assert first is not None, spec.mechanism  # noqa: S101 - callers got the mechanism from the spec
        return unweighted(with_terms(spec, first))

    def _alone(self, spec: SpecBase) -> SpecBase:
        """The spec as the last round's mechanism reads it before ranges are known: no code of its round is on the decade scale."""
        alone = self.own(spec).model_copy(update={"first": None})
        return with_terms(_seen(spec, _any_ranges(spec.columns)), alone)

    def read_terms(self, data: object) -> TermsInRanges:
        return read_part(self.terms, data, self._first.read_terms)

    def propose(self, options: Any, draft: Draft) -> ProposedTerms:
        if options.ranges != FIRST:
            return self.last.propose(options, draft)
        spent, known = share(draft.agreed.rows, draft.everything), _any_ranges(draft.everything)
        columns = {party: seen(own, known) for party, own in draft.columns.items()}
        # A request that the last round cannot meet is refused in its own words.
        found = self.last.propose(options, replace(draft, columns=columns, part=draft.part * (1 - spent)))
        before = self._first.propose(Settings(), replace(draft, part=draft.part * spent))
        return replace(
            found,
            terms=found.terms.model_copy(update={"first": before.terms}),
            charges={party: mu2 + before.charges[party] for party, mu2 in found.charges.items()},
            explanation=f"First {before.explanation}; then {found.explanation}",
        )

    def cost(self, spec: SpecBase) -> Cost:
        before, found = (mechanism.cost(own) for mechanism, own in self._rounds(spec))
        rounds = {self._first.name: before.charges, self.name: found.charges}
        return replace(found.after(before), rounds=rounds)

    def check(self, spec: SpecBase) -> None:
        for mechanism, own in self._rounds(spec):
            mechanism.check(own)

    def rounds(self, spec: SpecBase) -> tuple[int, ...]:
        return tuple(blocks for mechanism, own in self._rounds(spec) for blocks in mechanism.rounds(own))

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return tuple(shape for mechanism, own in self._rounds(spec) for shape in mechanism.shapes(own, party))

    def schedule(self, spec: SpecBase) -> Schedule | None:
        found = self.last.schedule(spec)
        return None if found is None else replace(found, task=spec.digest())

    def earlier(self, spec: SpecBase, values: Values) -> EarlierRounds:
        if not any(values.values()):
            return EarlierRounds(values)
        found = self._first.read(self._before(spec), values, np.zeros((spec.rows, 0), np.int32), FIRST_ROUND)
        return EarlierRounds(values, found, self.own(spec).in_ranges(spec, found.ranges))

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: EarlierRounds = FIRST_ROUND) -> Codes:
        return self.last.matrix(*coded(rows, earlier))

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        if inputs.earlier.left is None:
            return self._first.privatize(self._before(spec), party, inputs)
        rows, left = coded(inputs.rows, inputs.earlier)
        return self.last.privatize(left, party, replace(inputs, rows=rows))

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> Any:
        assert earlier.left is not None  # noqa: S101 - nobody reads the last round without the first
        return self.last.read(earlier.left, values, public, FIRST_ROUND)

    def ranged(self, spec: SpecBase) -> frozenset[str]:
        return frozenset(name for mechanism, own in self._rounds(spec) for name in mechanism.ranged(own))

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        found = self.last.guarantee(self._alone(spec), figures, joint, delta, alone=False)
        percent = round(100 * self._first.cost(self._before(spec)).joint / self.cost(spec).joint)
        return (*found, TWO_ROUNDS.format(percent=percent, last=self.noun))

    def statements(self, spec: SpecBase) -> Statements:
        first, found = (mechanism.statements(own) for mechanism, own in self._rounds(spec))
        return replace(
            found,
            would_publish=f"first {first.would_publish}; then {found.would_publish}",
            details=(ROUNDS, *first.details, *found.details),
            trust=(*found.trust, OWN_RANGES),
            about=found.about or (CLIPPED.format(what=self.noun.capitalize()),),
            content=f"{found.content}, in ranges of its own first round",
            summary=f"{found.summary}, in ranges of its own first round",
            shape=", ".join(part for part in (found.shape, "ranges first") if part),
            figures={**found.figures, "ranges": "first"},
            checks=(*first.checks, *found.checks),
        )

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        found = self.last.released_noise(self._alone(spec), times)
        return replace(found, in_ranges=True, trust=f"{found.trust}; {COMES_FIRST}" if found.trust else "")

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        before = self._before(spec)
        reach = REACH * before.terms.guess(before).reach  # type: ignore[attr-defined]
        # A cell is a part of its range, which reaches so many standard deviations.
        return self.last.forecast(self._alone(spec), replace(fit, spread=reach**-2), signal, times)

    def plans(self, scenario: Scenario) -> tuple[Scenario, ...]:
        return self.last.plans(scenario)

    def check_public(self, rows: BoundedRows, spec: SpecBase, party: str) -> None:
        self.last.check_public(rows, self._alone(spec), party)

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        return self.last.review_reasons(self._alone(spec), party, named=named)
