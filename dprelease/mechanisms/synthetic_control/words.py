"""Every sentence that is printed about a synthetic control; some are part of the manifest's format."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.mechanisms.statement import Words
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms
from dprelease.privacy.price import rounded_up
from dprelease.spec_base import SpecBase

TRUST = (
    "The hospital computed the weights of its donors and added all noise itself; no other party, the coordinator or the hub "
    "saw a row.",
    "The target's series is public: it stands in the spec, and nothing of it is protected.",
)


def guarantee(
    spec: SpecBase, terms: SyntheticControlTerms, figures: Mapping[str, str | None], joint: str, delta: str
) -> tuple[str, ...]:
    """The guarantee as sentences; arguments as of `Mechanism.guarantee`."""
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


def words(spec: SpecBase, terms: SyntheticControlTerms) -> Words:
    """Every other sentence."""
    problem = terms.problem(spec)
    after = len(problem.columns) - problem.before
    return Words(
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
