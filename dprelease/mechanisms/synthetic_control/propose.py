"""From a request to the terms of a synthetic control."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from dprelease.data.columns import Name
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.draft import Draft, ProposedTerms, read_rational, read_weight
from dprelease.mechanisms.synthetic_control.ridge import Law, default_penalty
from dprelease.mechanisms.synthetic_control.terms import SEVERAL, ControlProblem, SyntheticControlTerms

OBJECTIVE = (
    "objective perturbation is not private as published: its proof bounds the weights by 1 while the minimiser ranges over all "
    "of them, so that no epsilon holds; use perturbation = 'output', which needs less noise"
)


class SyntheticControlOptions(Settings):
    """Keys of a request for a synthetic control.

    Attributes:
        intervention: name of the first column after it.
        series: the target's value at each column's time, in the order of the columns; it becomes public.
        penalty: lambda; `default_penalty` when absent.
        weights_share: share of mu^2 for the weights.
        perturbation: where noise is added; only ``output`` is private.
        law: of the noise; ``laplace`` makes the release pure epsilon, with several times the noise at the same price.
    """

    intervention: Name
    series: Annotated[tuple[float, ...], Field(min_length=1)]
    penalty: float | str | None = None
    weights_share: float | str = "1/2"
    perturbation: Literal["output", "objective"] = "output"
    law: Law = "gaussian"


def asked(options: SyntheticControlOptions, draft: Draft) -> tuple[ControlProblem, Fraction]:
    """The problem that a request sets, and the share of the weights.

    Raises:
        InvalidInput: what is asked for is not private or not offered, there is more than one party, a target or intervention does
            not fit the columns, or a number is out of range.
    """
    if options.perturbation == "objective":
        raise InvalidInput(OBJECTIVE)
    if len(draft.columns) != 1:
        raise InvalidInput(SEVERAL)
    if draft.target.scope != "joint":
        raise InvalidInput(
            "mechanism 'synthetic-control' has one target for a donor's whole series: write scope = \"joint\""
        )
    share = read_weight("weights_share", options.weights_share)
    if not share:
        raise InvalidInput("weights_share must be above 0: weights need noise as well")
    (columns,) = draft.columns.values()
    named = [column.name for column in columns]
    before = named.index(options.intervention) if options.intervention in named else 0
    if options.penalty is None:
        penalty = default_penalty(
            draft.agreed.rows, max(before, 1), max(len(columns) - before, 1), draft.mu2, options.law
        )
    else:
        penalty = read_rational("penalty", options.penalty)
    problem = ControlProblem(columns, draft.agreed.rows, options.series, options.intervention, penalty)
    wrong = problem.wrong(draft.grid_bits)
    if wrong:
        raise InvalidInput(wrong)
    return problem, share


def propose(options: SyntheticControlOptions, draft: Draft) -> ProposedTerms:
    """Terms of mechanism ``synthetic-control``; raises as `asked`."""
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
