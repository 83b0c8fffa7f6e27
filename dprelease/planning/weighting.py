"""Which weight a release should give the outcome of a fit, from public numbers and guesses alone.

In `mixed` and `rows` a party multiplies the codes of a column by its weight w before noise that is the same for all its columns,
and learners divide by w. With c the column's contrast and D that of the other columns that share the noise (of its party, or of
all parties for a joint target), noise variances become

    s_y^2 = (D + w^2 c) / (mu^2 w^2) of the outcome,    s_i^2 = (D + w^2 c) / mu^2 of the others.

If noise outweighs everything else, the error of a fit goes like s_y^2 sum_i s_i^2 (formula (1) of
`dprelease.mechanisms.expected_error`), for a joint target like (D + w^2 c)^2 / w^2: least where w^2 c = D, so that the outcome
has half of the sensitivity. The error that patients and mixing leave asks for a smaller weight. So the error that the planner
expects is compared for every weight; with R^2 between .1 and .9 it hardly matters which is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.data.columns import LARGEST_WEIGHT, numbers
from dprelease.mechanisms.assumptions import Scenario
from dprelease.planning.forecast import forecast, proposed

NONE = "none"
"""Value of a request's key ``ranges`` if numbers are coded in public bounds."""

KNOWN = 1.7
"""Weight of an outcome that is known beforehand, in ranges: docs/methods.md, Clipped rows."""

USUAL_SIGNAL = 0.5
"""R^2 that is assumed unless somebody knows better."""


@dataclass(frozen=True)
class Weighing:
    """A weight for the outcome of a fit.

    Attributes:
        outcome: name of its column.
        weight: w; 1 where no other is expected to do better.
        error: expected error of the fit before shrinking, over that with weight 1.
        others: standard deviation of the noise of the columns that share it, over that with weight 1.
        joint: whether these are the columns of all parties; otherwise those of the outcome's.
    """

    outcome: str
    weight: int
    error: float
    others: float
    joint: bool

    def explain(self) -> str:
        """Sentences: what to ask for, what it gives and what it costs."""
        if self.weight == 1:
            return f"Blocks: a larger weight of {self.outcome} is not expected to make this fit better."
        whose = "all other columns" if self.joint else "its hospital's other columns"
        return (
            f"Blocks: with weights = {{ {self.outcome} = {self.weight} }} the error of this fit is expected to be "
            f"{self.error:.2f} times that without; the noise of {whose} grows {self.others:.2f} times."
        )


@dataclass(frozen=True)
class KnownOutcome:
    """Gain and loss of moments in ranges by the weight `KNOWN` of an outcome.

    Attributes:
        outcome: name of its column.
        weight: w.
        noise: standard deviation of the noise of its products with other columns, over that without a weight, rows clipped alike.
        others: the same of products of other columns.
    """

    outcome: str
    weight: float
    noise: float
    others: float

    def explain(self) -> str:
        """Sentences: what to ask for, what it gives and what it costs."""
        return (
            f"If it is known beforehand that {self.outcome} will be the outcome, ranges allow outcome_weight = {{ {self.outcome} = "
            f"{self.weight:g} }}. It makes the noise of this outcome about {self.noise:.2f} times as large, and that of fits of "
            f"other outcomes about {self.others:.2f} times, with rows clipped alike."
        )


def known_outcome(scenario: Scenario) -> KnownOutcome | None:
    """The worth of a weight of the outcome; None in public bounds, and if the mechanism has or takes none."""
    fit = scenario.fit
    outcome = next(column for column in fit.columns if column.name == fit.outcome)
    coded = scenario.asked.get("ranges", NONE) != NONE
    if not coded or outcome not in numbers(fit.columns) or scenario.asked.get("outcome_weight"):
        return None
    weighed = scenario.asking(outcome_weight={outcome.name: KNOWN})
    before, after = (proposed(each).noise.columns for each in (scenario, weighed))
    noise, others = (math.sqrt(after[name] / before[name]) for name in (outcome.name, fit.features[0]))
    return KnownOutcome(outcome.name, KNOWN, noise, others)


def outcome_weight(scenario: Scenario, signal: float = USUAL_SIGNAL) -> Weighing:
    """The weight with which the least error is expected of a fit; the smaller of two that are alike.

    Args:
        scenario: public numbers and guesses, of mechanism ``mixed`` or ``rows``; the outcome's own weight plays no part.
        signal: R^2, a guess in (0, 1].

    Raises:
        InvalidInput: `signal` is not in that range.
    """
    outcome, joint = scenario.fit.outcome, scenario.draft.target.scope == "joint"
    owner, column = next(
        (name, column)
        for name, columns in scenario.draft.columns.items()
        for column in columns
        if column.name == outcome
    )
    given: Mapping[str, int] = scenario.asked.get("weights", {})
    tried = {
        weight: scenario.asking(weights={**given, outcome: weight})
        for weight in range(1, 2 if column.public else LARGEST_WEIGHT + 1)
    }
    errors = {weight: forecast(each, signal).error_ratio for weight, each in tried.items()}
    best = min(errors, key=lambda weight: errors[weight])
    if best == 1:
        return Weighing(outcome, 1, 1.0, 1.0, joint)
    before, after = (proposed(tried[weight]).noise.variance[owner] for weight in (1, best))
    return Weighing(outcome, best, errors[best] / errors[1], math.sqrt(after / before), joint)
