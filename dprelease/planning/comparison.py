"""Mechanisms side by side: what each is expected to give, from when on it would pay, and one sentence that recommends.

**Weights.** Public numbers and guesses alone tell the best weight of the outcome of a fit.

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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dprelease.data.columns import LARGEST_WEIGHT, needs_bounds, numbers
from dprelease.document.cells import Said, price
from dprelease.document.document import Document, Heading, Table
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.draft import NONE
from dprelease.mechanisms.expected_error import Forecast
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, names, names_for_fits
from dprelease.one_line import counted
from dprelease.planning.forecast import (
    MOST_EPSILON,
    OtherSpread,
    Proposed,
    choice,
    epsilon_needed,
    forecast,
    other_spread,
    proposed,
    rows_needed,
    useful_from,
)

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


SIGNALS = (0.1, 0.3, 0.5, 0.9)
"""R^2 that are assumed unless somebody knows better."""

_FORECASTS = (
    Heading("assumed_r2", "R^2"),
    "mechanism",
    Heading("expected_r2", "expected R^2"),
    Heading("constant_r2", "R^2 of the mean"),
    Heading("useful", "against the mean"),
    Heading("coefficient_error", "relative coefficient error"),
    Heading("rows_needed", "patients needed"),
    Heading("epsilon_needed", "epsilon needed"),
    Heading("kept", detail=True),
)

NO_DATA = "A plan reads no data and spends nothing: it follows from public numbers and from guesses about the data."


@dataclass(frozen=True)
class Cell:
    """One mechanism under one assumption."""

    scenario: Scenario
    forecast: Forecast

    @property
    def mechanism(self) -> str:
        """Its name, and how where there are several ways."""
        return self.scenario.plan

    @cached_property
    def rows_needed(self) -> int | None:
        """About the least n with which a fit is useful; None where no possible one is."""
        return rows_needed(self.scenario, self.forecast.signal)

    @cached_property
    def epsilon_needed(self) -> float | None:
        """About the least epsilon; None above `MOST_EPSILON`."""
        return epsilon_needed(self.scenario, self.forecast.signal)


@dataclass(frozen=True)
class Comparison:
    """Several mechanisms under several assumptions.

    Attributes:
        asked: from which the ways follow.
        scenarios: one for each way to release.
        signals: assumed R^2, ascending.
        cells: one for each signal and mechanism, signal by signal.
    """

    asked: Scenario
    scenarios: tuple[Scenario, ...]
    signals: tuple[float, ...]
    cells: tuple[Cell, ...]

    def of(self, mechanism: str) -> tuple[Cell, ...]:
        """One mechanism's cells, by signal."""
        return tuple(cell for cell in self.cells if cell.mechanism == mechanism)

    @property
    def choice(self) -> str | None:
        """Which way to release is recommended; None where all fail."""
        return choice(self._ways())

    def _ways(self) -> dict[str, list[Forecast]]:
        return {each.plan: [cell.forecast for cell in self.of(each.plan)] for each in self.scenarios}

    def recommendation(self) -> str:
        """One sentence: which mechanism to choose, or when one would pay."""
        best = self.choice
        if best is None:
            return self._none()
        useful = {name: useful_from(found) for name, found in self._ways().items()}
        others = [f"{name} {_from(useful[name])}" for name in useful if name != best]
        compared = f" ({', '.join(others)})" if others else ""
        asked = next(proposed(scenario).noise.trust for scenario in self.scenarios if scenario.plan == best)
        trust = f"; {asked}" if asked else ""
        return f"Choose {best}: expected to beat the mean and keep most of the signal {_from(useful[best])}{compared}{trust}."

    def _none(self) -> str:
        text = "Choose none of them for a regression: the mean is expected to predict about as well"
        hopes = [cell for cell in self.cells if cell.rows_needed is not None]
        if not hopes:
            return f"{text}, with any n."
        middle = self.signals[len(self.signals) // 2]
        best = min(hopes, key=lambda cell: (cell.forecast.signal != middle, cell.rows_needed))
        epsilon = "" if best.epsilon_needed is None else f" or epsilon = {best.epsilon_needed:.2g}"
        return (
            f"{text}; {best.mechanism} needs about {_patients(best.rows_needed)} patients{epsilon} "
            f"if R^2 = {best.forecast.signal:g}."
        )

    def weighing(self) -> Weighing | None:
        """Which weight to give the outcome, if the middle R^2 is right; None where only moments are compared."""
        weighable = [scenario for scenario in self.scenarios if mechanism_named(scenario.mechanism).weighs_columns]
        return outcome_weight(weighable[0], self.signals[len(self.signals) // 2]) if weighable else None

    def known(self) -> KnownOutcome | None:
        """The worth of a weight of the outcome in ranges; None where these are not recommended."""
        return next((known_outcome(each) for each in self.scenarios if each.plan == self.choice), None)

    def other_spread(self) -> OtherSpread | None:
        """With which other guess of the spread another way would be recommended."""
        return other_spread(self.scenarios, self.signals, self.choice)

    def document(self) -> Document:
        """All of it: the recommendation first, then forecasts, releases and prices."""
        draft, fit, asked = self.asked.draft, self.asked.fit, self.asked.asked
        weighing, known, other = self.weighing(), self.known(), self.other_spread()
        releases = {each.plan: proposed(each) for each in self.scenarios}
        target, outcomes = draft.target, tuple(asked.get("outcomes") or ())
        facts = {
            "recommendation": self.recommendation(),
            "release": (
                f"n = {draft.agreed.rows:,}, {len(fit.columns)} columns at {len(draft.columns)} parties, "
                f"(epsilon, delta) = ({target.epsilon:g}, {target.delta:g}), scope {target.scope}"
                + (" (moments: joint)" if target.scope == "per-party" else "")
                + (f"; in moments {counted(len(outcomes), 'column')} for outcomes only" if outcomes else "")
                + "".join(f", weight of {name} {weight}" for name, weight in asked.get("weights", {}).items())
            ),
            "fit": f"{fit.outcome} on {sum(fit.guess(name).width for name in fit.features)} features",
            "guesses": (
                f"Numbers have variance {fit.spread:.3g}; evenly over their scaled range [-1, 1] it is 1/3.",
                "Ranges need no guess of a variance.",
                "Levels are equally frequent, and features are uncorrelated.",
            ),
        }
        data = {
            "data_read": False,
            "rows": draft.agreed.rows,
            "parties": {name: [column.name for column in columns] for name, columns in draft.columns.items()},
            "outcome": fit.outcome,
            "features": fit.features,
            "outcomes_only": outcomes,
            "target": target.model_dump(mode="json"),
            "weights": dict(asked.get("weights", {})),
            "spread": fit.spread,
            "recommended_weight": weighing and asdict(weighing),
            "known_outcome": known and asdict(known),
            "other_spread": other and asdict(other),
        }
        advice = (each.explain() for each in (other, known, weighing) if each is not None)
        return Document(
            "Plan of a release",
            facts,
            (
                self._forecasts(),
                _releases(releases),
                charges({plan: made.prices for plan, made in releases.items()}, target.delta),
            ),
            (*self._notes(), *advice, NO_DATA),
            data=data,
        )

    def _forecasts(self) -> Table:
        rows = [
            (
                Said(cell.forecast.signal, f"{cell.forecast.signal:g}"),
                cell.mechanism,
                _share(cell.forecast.r2),
                _share(cell.forecast.constant_r2),
                Said(cell.forecast.useful, "better" if cell.forecast.useful else "no better than the mean"),
                Said(cell.forecast.coefficient_error, f"{cell.forecast.coefficient_error:.0%}"),
                Said(cell.rows_needed, _patients(cell.rows_needed)),
                Said(cell.epsilon_needed, _epsilon(cell.epsilon_needed)),
                cell.forecast.kept,
            )
            for cell in self.cells
        ]
        return Table.of("forecasts", _FORECASTS, rows)

    def _notes(self) -> list[str]:
        delta, rows = self.asked.draft.target.delta, self.asked.draft.agreed.rows
        if delta * rows >= 1:
            return [f"delta = {delta:g} is not below 1/n. Such a release is refused unless delta is lowered."]
        if any((cell.rows_needed or 0) * delta >= 1 for cell in self.cells):
            return [f"More than {1 / delta:,.0f} patients need a smaller delta, and so a few more patients."]
        return []


def compare(scenario: Scenario, mechanisms: Sequence[str] = (), signals: Sequence[float] = SIGNALS) -> Comparison:
    """Forecasts for all mechanisms and assumptions.

    Args:
        scenario: public numbers and guesses. Its mechanism's keys count for every other mechanism that has them.
        mechanisms: which ones; if empty, the scenario's and all others whose releases one fits on.
        signals: assumed R^2.

    Raises:
        InvalidInput: a signal is not in (0, 1], or no mechanism is left.
    """
    fitting = names_for_fits()
    scenarios = tuple(
        each
        for mechanism in map(mechanism_named, names())
        if (mechanism.name in (mechanisms or fitting) if mechanism.fits else mechanism.name == scenario.mechanism)
        for each in mechanism.plans(_asked_of(mechanism, scenario))
    )
    if not scenarios:
        refused = needs_bounds(scenario.fit.columns)
        raise InvalidInput(
            refused or f"there is no fit to plan for {', '.join(mechanisms)}; there is for {', '.join(fitting)}"
        )
    assumed = tuple(sorted(set(signals)))
    cells = tuple(Cell(each, forecast(each, signal)) for signal in assumed for each in scenarios)
    return Comparison(scenario, scenarios, assumed, cells)


def _asked_of(mechanism: Mechanism[Any], scenario: Scenario) -> Scenario:
    """The same of another mechanism."""
    asked = {key: value for key, value in scenario.asked.items() if key in mechanism.options.model_fields}
    return replace(scenario, mechanism=mechanism.name, asked=asked)


def _from(signal: float | None) -> str:
    return "nowhere" if signal is None else f"from R^2 = {signal:g} on"


def _releases(releases: Mapping[str, Proposed]) -> Table:
    headings = (
        "mechanism",
        "released",
        Heading("noise_sd", "noise sd"),
        Heading("charged_mu2", detail=True),
        Heading("reuse", detail=True),
        Heading("terms", detail=True),
    )
    rows, below = [], []
    for plan, made in releases.items():
        deviation, noise = math.sqrt(made.mean_variance()), made.noise
        shown = Said(deviation, f"{deviation:.3g} {noise.unit}")
        terms = mechanism_of(made.spec).statements(made.spec).figures
        rows.append((plan, noise.shape, shown, made.prices, noise.reuse, terms))
        below += [f"{plan}: {sentence}" for sentence in (noise.levels, noise.reuse) if sentence]
    return Table.of("releases", headings, rows, below=tuple(below))


def charges(prices: Mapping[str, Mapping[str, Fraction]], delta: float) -> Table:
    """One line for each price, with the hospitals that pay it; prices are mu^2 by way to release and hospital."""
    rows = []
    for plan, charged in prices.items():
        payers: dict[Fraction, list[str]] = {}
        for name, mu2 in charged.items():
            payers.setdefault(mu2, []).append(name)
        rows += [(plan, Said(names, ", ".join(names)), price(mu2, delta)) for mu2, names in payers.items()]
    return Table.of("charges", ("mechanism", "hospitals", Heading("charged", "charged to each")), rows)


def _share(r2: float) -> Said:
    return Said(r2, f"{round(r2, 3) + 0.0:.3f}")  # never -0.000


def _patients(rows: int | None) -> str:
    """Two digits of a number of patients."""
    return "none" if rows is None else f"{float(f'{rows:.1e}'):,.0f}"


def _epsilon(epsilon: float | None) -> str:
    return f"above {MOST_EPSILON:g}" if epsilon is None else f"{epsilon:.2g}"
