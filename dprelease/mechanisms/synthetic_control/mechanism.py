"""Mechanism ``synthetic-control`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from dprelease.arrays import Codes, Integers
from dprelease.errors import SpecRefused
from dprelease.mechanisms.base import COARSEST, EarlierRounds, Inputs, Mechanism, Values
from dprelease.mechanisms.draft import Draft, ProposedTerms
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.mechanisms.synthetic_control import released
from dprelease.mechanisms.synthetic_control.privatize import noisy_panel
from dprelease.mechanisms.synthetic_control.terms import (
    SyntheticControlOptions,
    SyntheticControlTerms,
    asked,
    sensitivities,
)
from dprelease.privacy.price import rounded_up
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.document.document import Document

_LARGEST = 1 << 62


TRUST = (
    "The hospital computed the weights of its donors and added all noise itself; no other party, the coordinator or the hub "
    "saw a row.",
    "The target's series is public: it stands in the spec, and nothing of it is protected.",
)


class SyntheticControl(Mechanism[SyntheticControlTerms]):
    """Ridge weights of donors for a public target; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "synthetic-control"
    purpose = "what a public series of one hospital would have been without a measure, from its private donors"
    terms = SyntheticControlTerms
    options = SyntheticControlOptions
    checks_sum = True
    row_per_patient = True
    fits = False
    no_fit = released.NO_FIT

    def propose(self, options: SyntheticControlOptions, draft: Draft) -> ProposedTerms:
        problem, share = asked(options, draft)
        q = draft.agreed.rows_per_subject
        terms = SyntheticControlTerms.least(problem, draft.mu2, share, q, draft.grid_bits, options.law)
        sd = terms.deviations(draft.grid_bits)
        pure = (
            f"Laplace, epsilon = {float(terms.epsilon(problem, q, draft.grid_bits)):.4g} with delta = 0, "
            if options.law == "laplace"
            else ""
        )
        plan = (
            f"synthetic control: {problem.donors} donors, T0 = {problem.before}, {problem.after} times after, lambda = "
            f"{problem.penalty}; noise {pure}sd {sd[0]:.4g} in a weight, {sd[1]:.4g} half-widths in a donor's value"
        )
        return ProposedTerms(
            terms,
            dict.fromkeys(draft.columns, terms.price(problem, q, draft.grid_bits)),
            plan,
            advice="lower epsilon, raise lambda, or release fewer times after it",
        )

    def cost(self, spec: SpecBase) -> Cost:
        """mu^2 of the weights and of the donors' series: one donor is in both, so together they are one mechanism of the sum."""
        terms = self.own(spec)
        whole = terms.price(terms.problem(spec), spec.rows_per_subject, spec.grid_bits)
        charges = {spec.parties[0].party: whole}
        return Cost(whole, charges, charges)

    def check(self, spec: SpecBase) -> None:
        """Refuse scales that are not the least for mu^2, a grid that shows, or integers of 2^62."""
        terms = self.own(spec)
        problem, mu2, q, bits = terms.problem(spec), Fraction(terms.mu2), spec.rows_per_subject, spec.grid_bits
        share = Fraction(terms.weights_share)
        if mu2 <= 0:
            raise SpecRefused(f"mu^2 = {terms.mu2} is not positive")
        if terms != SyntheticControlTerms.least(problem, mu2, share, q, bits, terms.law):
            raise SpecRefused("the noise scales are not those of the target, lambda, the share, the law and mu^2")
        scales = terms.weights_scale, terms.donors_scale
        moved = zip(sensitivities(problem, q, bits), scales, (share, 1 - share), ("weights", "donors"), strict=True)
        for squared, scale, part, what in moved:
            if squared < COARSEST**2 * mu2 * part if terms.law == "gaussian" else scale < COARSEST:
                raise SpecRefused(f"epsilon is so large that the grid of the {what} would be too coarse; lower it")
        if max(spec.rows << (2 * bits), *released.largest(spec, terms)) >= _LARGEST:
            raise SpecRefused("integers could reach 2^62; a coarser grid, fewer donors or a larger epsilon would do")

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        problem = self.own(spec).problem(spec)
        return (problem.donors, 1), (problem.donors, len(problem.columns) - problem.before)

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        return noisy_panel(inputs.rows, spec, self.own(spec), inputs.noise)

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> released.Panel:
        ((weights, donors),) = values.values()
        return released.read(spec, self.own(spec), weights, donors)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        """The guarantee as sentences; arguments as of `Mechanism.guarantee`."""
        terms = self.own(spec)
        (party,) = figures
        pure: tuple[str, ...] = ()
        if terms.law == "laplace":
            epsilon = rounded_up(float(terms.epsilon(terms.problem(spec), spec.rows_per_subject, spec.grid_bits)))
            pure = (f"Its noise is Laplace noise: by itself this release has epsilon = {epsilon} with delta = 0.",)
        return (
            f"(epsilon, delta) = ({joint}, {delta}) for one donor's whole series at {party}, before and after the intervention, "
            "provided the hospital added its declared noise.",
            "Releases of other hospitals against the same target cost their own donors only, if no person is a donor of two.",
            *pure,
        )

    def statements(self, spec: SpecBase) -> Statements:
        """Every other sentence."""
        terms = self.own(spec)
        problem = terms.problem(spec)
        after = len(problem.columns) - problem.before
        return Statements(
            would_publish=(
                f"a noisy weight for each of {spec.rows} donors, and {after} noisy values of each from {terms.intervention} on; "
                "none of the values before"
            ),
            details=(
                f"weights come from {problem.before} times before {terms.intervention}, by ridge regression of the target with "
                f"lambda = {terms.penalty}",
                "readers learn the target's path without the intervention, as these donors would have it, with error bands",
                "rows are numbered in the order of the alignment; values outside the public bounds are clipped to them first",
            ),
            trust=TRUST,
            content=f"synthetic control of {spec.rows} donors, {terms.intervention} on",
            summary=f"synthetic-control: weights of {spec.rows} donors for a public target, and their {after} values afterwards",
            shape=f"T0 = {problem.before}, lambda = {terms.penalty}"
            + (", Laplace noise" if terms.law == "laplace" else ""),
            figures={"before": problem.before, "after": after, "lambda": terms.penalty},
            checks=("every noisy weight and value within what the declared bounds and noise could give",),
        )

    def expected(self, options: SyntheticControlOptions, draft: Draft, spread: float) -> Document:
        from dprelease.mechanisms.synthetic_control.forecast import expectation  # only planners ask

        return expectation(options, draft, spread)


SYNTHETIC_CONTROL = SyntheticControl()
