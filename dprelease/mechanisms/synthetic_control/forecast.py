"""Expected error of the path from public numbers: what noise leaves open, and how far ridge regression draws it to the middle.

The target and the times are public, and so are n, lambda and the noise. A guess about donors is that they follow the target
before the intervention and stay at its level afterwards, with a variance about it that whoever plans expects. Their sum of
weights is then n v T0/(n v T0 + lambda/2), v the target's mean square over T0 times, and a reader's posterior of the expected
sums has the error that a band would show. Donors that do not follow the target make a worse control, which no forecast can say.
Source: docs/methods.md, "Synthetic control".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.document.cells import Said
from dprelease.document.document import Document, Heading, Table
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.synthetic_control.released import Sums, posterior
from dprelease.mechanisms.synthetic_control.terms import (
    ControlProblem,
    SyntheticControlOptions,
    SyntheticControlTerms,
    asked,
    norm2_of,
)

SURE = 1.96
"""Half the width of a 95 % interval, in standard errors."""
OTHERWISE = ((1, 1), (10, 1), (100, 1), (1, 10), (10, 10))
"""Factors of epsilon and of n beside which a request is shown."""
LARGEST_EPSILON = 1e6
_PATHS = (
    Heading("donors", "n"),
    "epsilon",
    Heading("penalty", "lambda"),
    Heading("error", "error of the path", digits=2),
    Heading("mean_error", "error of the mean effect", digits=2),
    Heading("pull", digits=2),
)


@dataclass(frozen=True)
class PathForecast:
    """Expected error of one release; half-widths of the bounds.

    Attributes:
        donors: n.
        epsilon: of the release.
        penalty: lambda.
        error: root mean square of what noise leaves open of the path at a time.
        mean_error: the same of its mean over the times from the intervention on, and so of the mean effect.
        pull: how far lambda draws the path to the middle of the bounds, with donors as guessed.
    """

    donors: int
    epsilon: float
    penalty: str
    error: float
    mean_error: float
    pull: float


def path_forecast(options: SyntheticControlOptions, draft: Draft, spread: float) -> PathForecast:
    """The expected error of the release that a request would make.

    Args:
        options: the request's.
        draft: the rest of it.
        spread: variance of donors about the target's level, scaled units.

    Raises:
        InvalidInput: as `asked`.
    """
    problem, share = asked(options, draft)
    terms = SyntheticControlTerms.least(
        problem, draft.mu2, share, draft.agreed.rows_per_subject, draft.grid_bits, options.law
    )
    norm2 = float(norm2_of(problem.codes(draft.grid_bits), draft.grid_bits))
    n, penalty, times = problem.donors, float(problem.penalty), np.ones(problem.after)
    followed = n * norm2 / (n * norm2 + penalty / 2)
    level = math.sqrt(norm2 / problem.before)
    weight_sd, donor_sd = terms.deviations(draft.grid_bits)
    sums = Sums(
        donors=n,
        total=followed,
        means=level * times,
        u2=(n - 1) * weight_sd**2,
        gram=(n - 1) * (spread + donor_sd**2) * np.eye(problem.after),
        product=0 * times,
        weight_sd=weight_sd,
        donor_sd=donor_sd,
        norm2_bound=norm2 / (2 * penalty),
    )
    covariance = posterior(sums)[1]
    return PathForecast(
        donors=n,
        epsilon=draft.target.epsilon,
        penalty=str(problem.penalty),
        error=math.sqrt(float(np.trace(covariance)) / problem.after),
        mean_error=math.sqrt(float(covariance.mean())),
        pull=(1 - followed) * level,
    )


def expectation(options: SyntheticControlOptions, draft: Draft, spread: float) -> Document:
    """The release of a request, and the same with more epsilon or more donors; arguments and errors as of `path_forecast`."""
    problem, _ = asked(options, draft)
    found = [
        path_forecast(options, _changed(draft, epsilon, donors), spread)
        for epsilon, donors in OTHERWISE
        if draft.target.epsilon * epsilon <= LARGEST_EPSILON and _possible(problem, options, donors)
    ]
    first, least = found[0], SURE * found[0].mean_error
    facts = {
        "told_from_noise": Said(least, f"a mean effect of at least {least:.2g} half-widths{_in_units(problem, least)}"),
        "told_from_the_pull": Said(first.pull, f"a mean effect of at least {first.pull:.2g} half-widths"),
        "guesses": (
            f"Donors follow the target before {problem.intervention}, stay at its level and have variance {spread:.3g} about it, "
            "scaled units.",
            "Donors that do not follow the target make a worse control; no plan can tell.",
        ),
    }
    below = (
        "Errors are standard errors for privacy noise, in half-widths of the bounds.",
        "The pull is the distance by which lambda draws the path to their middle.",
    )
    rows = [(each.donors, each.epsilon, each.penalty, each.error, each.mean_error, each.pull) for each in found]
    paths = Table.of("paths", _PATHS, rows, below=below)
    return Document("Plan of a release", facts, (paths,), data={"data_read": False, "spread": spread})


def _changed(draft: Draft, epsilon: int, donors: int) -> Draft:
    target = draft.target.model_copy(update={"epsilon": draft.target.epsilon * epsilon})
    return replace(draft.having(draft.agreed.rows * donors), target=target)


def _possible(problem: ControlProblem, options: SyntheticControlOptions, donors: int) -> bool:
    """True if a penalty that was asked for is large enough for so many donors."""
    more = replace(problem, donors=problem.donors * donors)
    return options.penalty is None or not more.badly_conditioned


def _in_units(problem: ControlProblem, half_widths: float) -> str:
    """The same in the unit of the target, where all times have the same bounds."""
    after = problem.columns[problem.before :]
    widths = {Fraction(each.half_width) for each in after}
    if len(widths) > 1:
        return ""
    unit = after[0].unit
    return f", {half_widths * float(widths.pop()):.3g}{f' {unit}' if unit else ''}"
