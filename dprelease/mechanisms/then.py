"""Composition in time: a mechanism in ranges that another one publishes in a first round of the same release.

Blocks of the last round depend on no row of the first but by what it published, so the release costs what both cost: mu^2 adds
up (adaptive composition, docs/guarantees.md 19). Neither mechanism knows of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.arrays import Codes, Integers
from dprelease.canonical import read_part, sha256
from dprelease.data.bounding import BoundedRows
from dprelease.data.ranges import share
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import FIRST_ROUND, Earlier, Inputs, Mechanism
from dprelease.mechanisms.draft import FIRST, Draft, Numbers
from dprelease.mechanisms.first_round import TermsInRanges, with_terms
from dprelease.mechanisms.statement import Cost, Words
from dprelease.mpc.schedule import Schedule
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Setting
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

TWO_ROUNDS = (
    "Two rounds are in it: ranges of single columns, with {percent} % of mu^2, of which each hospital is charged what its own "
    "columns cost, and then {last} of rows as coded in these ranges."
)

OWN_RANGES = "In the first round each hospital added the whole noise to the ranges of its own columns."

COMES_FIRST = "a release of ranges comes first, for a part of the budget"

Round = tuple[Mechanism[Any], SpecBase]
"""A mechanism, and the spec as it reads it."""


class Then(Mechanism[TermsInRanges]):
    """`last`, after `first` where a request or a spec has such a round; `Mechanism` says what each method is.

    Args:
        first: what it reads has ``ranges`` of all private numbers.
        last: its terms are `TermsInRanges`, and key ``ranges`` of its options may be `FIRST`. Its blocks come from one round.
    """

    def __init__(self, first: Mechanism[Any], last: Mechanism[Any]) -> None:
        self._first, self._last = first, last
        self.name, self.purpose, self.terms, self.options = last.name, last.purpose, last.terms, last.options
        self.checks_sum = first.checks_sum or last.checks_sum
        self.row_per_patient, self.weighs_columns, self.fits = last.row_per_patient, last.weighs_columns, last.fits
        self._latest: tuple[str, Any, SpecBase] | None = None

    def _rounds(self, spec: SpecBase) -> tuple[Round, ...]:
        """One or two. Nothing that anybody asks of the last before the first is published depends on the ranges."""
        first = self.own(spec).first
        if first is None:
            return ((self._last, spec),)
        return (self._first, with_terms(spec, first)), (self._last, self._alone(spec))

    def _alone(self, spec: SpecBase) -> SpecBase:
        """The spec as the last round's mechanism reads it before ranges are known."""
        return with_terms(spec, self.own(spec).model_copy(update={"first": None}))

    def read_terms(self, data: object) -> TermsInRanges:
        return read_part(self.terms, data, self._first)

    def propose(self, options: Any, draft: Draft) -> Numbers:
        if options.ranges != FIRST:
            return self._last.propose(options, draft)
        spent = share(draft.agreed.rows, draft.everything)
        # A request that the last round cannot meet is refused in its own words.
        found = self._last.propose(options, replace(draft, part=draft.part * (1 - spent)))
        before = self._first.propose(Settings(), replace(draft, part=draft.part * spent))
        return replace(
            found,
            terms=found.terms.model_copy(update={"first": before.terms}),
            charges={party: mu2 + before.charges[party] for party, mu2 in found.charges.items()},
            explanation=f"First {before.explanation}; then {found.explanation}",
        )

    def cost(self, spec: SpecBase) -> Cost:
        *before, last = ((mechanism.name, mechanism.cost(own)) for mechanism, own in self._rounds(spec))
        name, found = last
        for earlier, cost in before:
            found = replace(found.after(cost), rounds={earlier: cost.charges, name: found.charges})
        return found

    def check(self, spec: SpecBase) -> None:
        for mechanism, own in self._rounds(spec):
            mechanism.check(own)

    def rounds(self, spec: SpecBase) -> tuple[int, ...]:
        return tuple(blocks for mechanism, own in self._rounds(spec) for blocks in mechanism.rounds(own))

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return tuple(shape for mechanism, own in self._rounds(spec) for shape in mechanism.shapes(own, party))

    def schedule(self, spec: SpecBase) -> Schedule | None:
        found = self._last.schedule(spec)
        return None if found is None else replace(found, task=spec.digest())

    def check_round(self, spec: SpecBase, earlier: Earlier) -> None:
        self._known(spec, earlier)

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: Earlier = FIRST_ROUND) -> Codes:
        return self._last.matrix(rows, self._known(spec, earlier))

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        made, (*before, _) = len(inputs.earlier.get(party, ())), self._rounds(spec)
        for mechanism, own in before:
            if made < sum(mechanism.rounds(own)):
                return mechanism.privatize(own, party, inputs)
        return self._last.privatize(self._known(spec, inputs.earlier), party, inputs)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes, upto: int | None = None
    ) -> Any:
        last = {party: blocks[-1:] for party, blocks in values.items()}
        return self._last.read(self._known(spec, _before_the_last(values)), last, public)

    def first_ranges(self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]]) -> Any:
        return self._read_first(spec, _before_the_last(values))[0]

    def ranged(self, spec: SpecBase) -> frozenset[str]:
        return frozenset(name for mechanism, own in self._rounds(spec) for name in mechanism.ranged(own))

    def _known(self, spec: SpecBase, earlier: Earlier) -> SpecBase:
        """The spec with the ranges that everybody recomputes from the first round; itself without one."""
        return self._read_first(spec, earlier)[1]

    def _read_first(self, spec: SpecBase, earlier: Earlier) -> tuple[Any, SpecBase]:
        """Results of the first round, None without one; and the spec that is left for the last."""
        terms = self.own(spec)
        if terms.first is None:
            return None, spec
        blocks = [sha256(block.tobytes()) for part in spec.parties for block in earlier[part.party]]
        name, latest = ":".join([spec.digest(), *blocks]), self._latest
        if latest is None or latest[0] != name:  # to read takes a tenth of a second a column, and a session asks often
            found = self._first.read(with_terms(spec, terms.first), earlier, np.zeros((spec.rows, 0), np.int32))
            left = with_terms(spec, terms.in_ranges(found.ranges).model_copy(update={"first": None}))
            self._latest = latest = name, found, left
        return latest[1:]

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        *before, (_, own) = self._rounds(spec)
        found = self._last.guarantee(own, figures, joint, delta, alone=not before)
        whole = self.cost(spec).joint
        percents = (round(100 * mechanism.cost(each).joint / whole) for mechanism, each in before)
        return (*found, *(TWO_ROUNDS.format(percent=percent, last=self.name) for percent in percents))

    def words(self, spec: SpecBase) -> Words:
        *before, found = (mechanism.words(own) for mechanism, own in self._rounds(spec))
        for first in before:
            found = replace(
                found,
                would_publish=f"first {first.would_publish}; then {found.would_publish}",
                details=(
                    "two rounds: the ranges of private numbers are those that the first publishes",
                    *found.details,
                ),
                trust=(*found.trust, OWN_RANGES),
                content=f"{found.content}, in ranges of its own first round",
                summary=f"{found.summary}, in ranges of its own first round",
                shape=f"{found.shape}, ranges first",
                figures={**found.figures, "ranges": "first"},
                checks=(*first.checks, *found.checks),
            )
        return found

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        *before, (_, own) = self._rounds(spec)
        found = self._last.released_noise(own, times)
        return replace(found, trust=f"{found.trust}; {COMES_FIRST}") if before and found.trust else found

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        return self._last.forecast(self._alone(spec), fit, signal, times)

    def plans(self, setting: Setting) -> tuple[Setting, ...]:
        return self._last.plans(setting)

    def check_public(self, rows: BoundedRows, spec: SpecBase, party: str) -> None:
        self._last.check_public(rows, self._alone(spec), party)

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        return self._last.review_reasons(self._alone(spec), party, named=named)


def _before_the_last(values: Mapping[str, tuple[Integers, ...]]) -> Earlier:
    """Blocks of all parties before the last round."""
    return {party: blocks[:-1] for party, blocks in values.items()}
