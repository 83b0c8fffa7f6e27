"""The terms of a synthetic control, and what a request asks of them: target, intervention, penalty, and noise of both parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from dprelease.canonical import Name, Rational
from dprelease.data.columns import Column, numbers, unbounded
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.draft import Draft, read_rational, read_weight
from dprelease.mechanisms.synthetic_control.ridge import (
    WEIGHT_BITS,
    WORST_CONDITION,
    Law,
    default_penalty,
    root_up,
    squared_donors,
    squared_weights,
    squared_weights_on_grid,
)
from dprelease.one_line import listed
from dprelease.privacy.calibration import DIGITS, epsilon_within, least_scale, mu2_of_epsilon, mu2_of_scales
from dprelease.spec_base import SpecBase, Terms

SEVERAL = (
    "a synthetic control has one hospital, which holds its donors: donors of several hospitals are different people, so "
    "ask each hospital for a release of its own against the same target, and `learner counterfactual A B` combines them"
)
MOST_TIMES = 1000
"""Largest T0."""
LARGEST_TERM = 1 << 32
"""Largest numerator and denominator of lambda."""


@dataclass(frozen=True)
class ControlProblem:
    """A public target and how donors are to follow it.

    Attributes:
        columns: the donors' values by time, in the order of time.
        donors: n, rows.
        series: target's value at each time, in the columns' units.
        intervention: name of the first column after it.
        penalty: lambda.
    """

    columns: tuple[Column, ...]
    donors: int
    series: tuple[float, ...]
    intervention: str
    penalty: Fraction

    @property
    def before(self) -> int:
        """T0; -1 where the intervention is no time of the series."""
        names = [column.name for column in self.columns]
        return names.index(self.intervention) if self.intervention in names else -1

    @property
    def after(self) -> int:
        """T1, times from the intervention on."""
        return len(self.columns) - self.before

    @property
    def badly_conditioned(self) -> bool:
        """Tells whether doubles could be too coarse to solve for weights, whatever the donors are."""
        return 2 * self.donors * self.before > WORST_CONDITION * self.penalty

    def codes(self, grid_bits: int) -> tuple[int, ...]:
        """(T0,) codes of the target before the intervention, in exact arithmetic.

        Args:
            grid_bits: b.
        """
        found = []
        for column, value in zip(self.columns[: self.before], self.series, strict=False):
            found.append(
                round((Fraction(value) - Fraction(column.midpoint)) / Fraction(column.half_width) * 2**grid_bits)
            )
        return tuple(found)

    def wrong(self, grid_bits: int) -> str:
        """The fault in it and its cure; empty if there is none."""
        times, before = len(self.columns), self.before
        unfit = [column.name for column in self.columns if column not in numbers(self.columns)]
        if unfit:
            return f"donors' values are private numbers; leave out {listed(unfit)}, or declare numbers"
        unknown = listed(column.name for column in unbounded(self.columns))
        if unknown:
            return f"{unknown} has unknown bounds, and series are scaled by theirs; declare lower and upper from a codebook"
        if before < 0:
            return f"the intervention {self.intervention} is no time of the series; name one of its columns after the first"
        if before < 1:
            return "weights need a time before the intervention (T0 >= 1); name a later column"
        if before > MOST_TIMES:
            return f"{before} times before the intervention are too many; leave out all but the last {MOST_TIMES}"
        if len(self.series) != times:
            return (
                f"the target's series has {len(self.series)} values and the donors' {times} columns; give one for each"
            )
        if self.donors < 2:
            return "one donor is no synthetic control: its noisy series would be all of it; two or more are needed"
        if self.penalty <= 0:
            return f"lambda must be positive, not {self.penalty}: without a penalty one donor may move the weights without bound"
        if max(self.penalty.numerator, self.penalty.denominator) > LARGEST_TERM:
            return f"lambda has too many digits: numerator and denominator reach {LARGEST_TERM} at most"
        if self.badly_conditioned:
            return f"lambda is too small for {self.donors} donors at {before} times; leave it out, and it follows from the others"
        return self._wrong_target(grid_bits)

    def _wrong_target(self, grid_bits: int) -> str:
        codes = self.codes(grid_bits)
        for column, code in zip(self.columns, codes, strict=False):
            if abs(code) > 1 << grid_bits:
                return f"the target lies outside the donors' public bounds at {column.name}; mend the number, or widen the bounds"
        if not any(codes):
            return (
                "the target is at the middle of the bounds at all times before the intervention, so every weight is 0"
            )
        return ""


class SyntheticControlTerms(Terms):
    """Terms of one hospital's release of a synthetic control.

    Attributes:
        mu2: mu^2 of the release.
        intervention: name of the first column after it.
        series: the target's value at each column's time, in its unit; public.
        penalty: lambda.
        weights_share: share of mu^2 that the weights have; the donors' series have the rest.
        weights_scale: noise scale of a weight, steps of 2^-24.
        donors_scale: of a donor's code after the intervention, steps of the grid.
        law: of the noise. A scale is that of a discrete Gaussian, or the integer t of exp(-|x|/t); left out of canonical bytes
            where it is Gaussian.
    """

    mechanism: Literal["synthetic-control"] = "synthetic-control"
    mu2: Rational
    intervention: Name
    series: Annotated[tuple[float, ...], Field(min_length=2)]
    penalty: Rational
    weights_share: Rational
    weights_scale: Annotated[float, Field(gt=0)]
    donors_scale: Annotated[float, Field(gt=0)]
    law: Annotated[Law, Field(exclude_if=lambda law: law == "gaussian")] = "gaussian"

    def least_rows(self, spec: SpecBase) -> int:
        """All donors: how many there are is in the penalty."""
        return spec.rows

    @classmethod
    def least(
        cls,
        problem: ControlProblem,
        mu2: Fraction,
        share: Fraction,
        series_per_donor: int,
        grid_bits: int,
        law: Law = "gaussian",
    ) -> SyntheticControlTerms:
        """Terms with the least noise that costs mu^2.

        Args:
            problem: in which nothing is wrong.
            mu2: of the release, positive.
            share: of the weights, in (0, 1).
            series_per_donor: q.
            grid_bits: b.
            law: of the noise.
        """
        if law == "gaussian":
            weights, donors = sensitivities(problem, series_per_donor, grid_bits)
            scales = least_scale(weights, mu2 * share), least_scale(donors, mu2 * (1 - share))
        else:
            epsilon = epsilon_within(mu2) or Fraction(1, DIGITS)
            moved = absolute_sensitivities(problem, series_per_donor, grid_bits)
            parts = zip(moved, (share, 1 - share), strict=True)
            weights, donors = (math.ceil(each / (epsilon * part)) for each, part in parts)
            scales = float(weights), float(donors)
        return cls(
            mu2=str(mu2),
            intervention=problem.intervention,
            series=problem.series,
            penalty=str(problem.penalty),
            weights_share=str(share),
            weights_scale=scales[0],
            donors_scale=scales[1],
            law=law,
        )

    def price(self, problem: ControlProblem, series_per_donor: int, grid_bits: int) -> Fraction:
        """mu^2 that the noise scales really cost; arguments as of `least`."""
        if self.law == "laplace":
            return mu2_of_epsilon(self.epsilon(problem, series_per_donor, grid_bits))
        weights, donors = sensitivities(problem, series_per_donor, grid_bits)
        parts = (weights, self.weights_scale), (donors, self.donors_scale)
        return mu2_of_scales(parts, lambda each: sum(each, Fraction(0)))

    def epsilon(self, problem: ControlProblem, series_per_donor: int, grid_bits: int) -> Fraction:
        """Pure epsilon of Laplace noise; arguments as of `least`."""
        weights, donors = absolute_sensitivities(problem, series_per_donor, grid_bits)
        return weights / Fraction(self.weights_scale) + donors / Fraction(self.donors_scale)

    def deviations(self, grid_bits: int) -> tuple[float, float]:
        """Standard deviations of the noise of a weight, and of a donor's value in scaled units; for Laplace noise rounded up."""
        factor = 1.0 if self.law == "gaussian" else math.sqrt(2)
        return factor * self.weights_scale / 2**WEIGHT_BITS, factor * self.donors_scale / 2**grid_bits

    def problem(self, spec: SpecBase) -> ControlProblem:
        """The target, and how donors are to follow it."""
        return ControlProblem(spec.columns, spec.rows, self.series, self.intervention, Fraction(self.penalty))

    def consistent(self, spec: SpecBase) -> None:
        """Tells whether there is one hospital with donors, and the target fits its columns."""
        if len(spec.parties) != 1:
            raise ValueError(SEVERAL)
        if any(part.weights for part in spec.parties):
            raise ValueError(
                "mechanism 'synthetic-control' has no weights of columns; lambda and the share are its own"
            )
        if spec.target.scope != "joint":
            raise ValueError("a synthetic control has one target for a donor's whole series: scope 'joint'")
        if not 0 < Fraction(self.weights_share) < 1:
            raise ValueError("weights_share lies between 0 and 1: weights and donors' series both need noise")
        wrong = self.problem(spec).wrong(spec.grid_bits)
        if wrong:
            raise ValueError(wrong)


def norm2_of(codes: tuple[int, ...], grid_bits: int) -> Fraction:
    """|y|^2 in scaled units."""
    return Fraction(sum(code * code for code in codes), 4**grid_bits)


def sensitivities(problem: ControlProblem, series_per_donor: int, grid_bits: int) -> tuple[int, int]:
    """Squared, in grid steps: of the weights, and of the donors' codes after the intervention."""
    norm2 = norm2_of(problem.codes(grid_bits), grid_bits)
    weights = squared_weights(norm2, problem.before, problem.penalty, series_per_donor)
    return squared_weights_on_grid(weights, problem.donors), squared_donors(problem.after, series_per_donor, grid_bits)


def absolute_sensitivities(problem: ControlProblem, series_per_donor: int, grid_bits: int) -> tuple[int, int]:
    """In L1, grid steps: of the weights, which are n, and of the donors' codes, of which one person has q rows."""
    squared, _ = sensitivities(problem, series_per_donor, grid_bits)
    return root_up(Fraction(problem.donors * squared)), 2 * series_per_donor * problem.after << grid_bits


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
