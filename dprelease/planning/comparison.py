"""Mechanisms side by side: what each is expected to give, from when on it would pay, and one sentence that recommends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain, starmap
from typing import Any

from dprelease.data.columns import needs_bounds
from dprelease.document.text import aligned
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.expected_error import Forecast
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, names, names_for_fits
from dprelease.planning.choice import OtherSpread, choice, other_spread, useful_from
from dprelease.planning.forecast import (
    MOST_EPSILON,
    Proposed,
    epsilon_needed,
    forecast,
    proposed,
    rows_needed,
)
from dprelease.planning.weighting import KnownOutcome, Weighing, known_outcome, outcome_weight
from dprelease.privacy.price import price_text

SIGNALS = (0.1, 0.3, 0.5, 0.9)
"""R^2 that are assumed unless somebody knows better."""

_HEAD = ("R^2", "MECHANISM", "EXPECTED R^2", "OF THE MEAN", "COEFFICIENTS OFF BY", "PAYS FROM n", "FROM epsilon")

NO_DATA = (
    "No data were read and nothing is spent: all of this follows from public numbers and from guesses about the data."
)


@dataclass(frozen=True)
class Cell:
    """One mechanism under one assumption.

    Attributes:
        mechanism: its name, and how where there are several ways.
        forecast: what is expected.
        rows_needed: about the least n with which a fit is useful; None where no possible one is.
        epsilon_needed: about the least epsilon; None above `MOST_EPSILON`.
    """

    mechanism: str
    forecast: Forecast
    rows_needed: int | None
    epsilon_needed: float | None


@dataclass(frozen=True)
class Comparison:
    """Several mechanisms under several assumptions.

    Attributes:
        asked: from which the ways follow.
        settings: one for each way to release.
        signals: assumed R^2, ascending.
        cells: one for each signal and mechanism, signal by signal.
    """

    asked: Setting
    settings: tuple[Setting, ...]
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
        return {each.plan: [cell.forecast for cell in self.of(each.plan)] for each in self.settings}

    def recommendation(self) -> str:
        """One sentence: which mechanism to choose, or when one would pay."""
        best = self.choice
        if best is None:
            return self._none()
        useful = {name: useful_from(found) for name, found in self._ways().items()}
        others = [f"{name} {_from(useful[name])}" for name in useful if name != best]
        compared = f" ({', '.join(others)})" if others else ""
        asked = next(proposed(setting).noise.trust for setting in self.settings if setting.plan == best)
        trust = f"; {asked}" if asked else ""
        return f"Choose {best}: expected to beat the mean and keep most of the signal {_from(useful[best])}{compared}{trust}."

    def _none(self) -> str:
        text = "Choose none of them for a regression: the mean is expected to predict about as well"
        hopes = [cell for cell in self.cells if cell.rows_needed is not None]
        if not hopes:
            return f"{text}, with any n."
        middle = self.signals[len(self.signals) // 2]
        best = min(hopes, key=lambda cell: (cell.forecast.signal != middle, cell.rows_needed))
        epsilon = "" if best.epsilon_needed is None else f" or from epsilon = {best.epsilon_needed:.2g}"
        return (
            f"{text}; {best.mechanism} would pay from about {_patients(best.rows_needed)} patients{epsilon} "
            f"if R^2 = {best.forecast.signal:g}."
        )

    def weighing(self) -> Weighing | None:
        """Which weight to give the outcome, if the middle R^2 is right; None where only moments are compared."""
        weighable = [setting for setting in self.settings if mechanism_named(setting.mechanism).weighs_columns]
        return outcome_weight(weighable[0], self.signals[len(self.signals) // 2]) if weighable else None

    def known(self) -> KnownOutcome | None:
        """The worth of a weight of the outcome in ranges; None where these are not recommended."""
        return next((known_outcome(each) for each in self.settings if each.plan == self.choice), None)

    def other_spread(self) -> OtherSpread | None:
        """With which other guess of the spread another way would be recommended."""
        return other_spread(self.settings, self.signals, self.choice)

    def lines(self) -> list[str]:
        """Everything as text: what was assumed, what would be released, what to expect, the recommendation."""
        draft, fit, asked = self.asked.draft, self.asked.fit, self.asked.asked
        releases = [(each, proposed(each)) for each in self.settings]
        advice = [each.explain() for each in (self.weighing(), self.known(), self.other_spread()) if each is not None]
        target, width = draft.target, sum(fit.guess(name).width for name in fit.features)
        weights = "".join(f", weight of {name} {weight}" for name, weight in asked.get("weights", {}).items())
        scope = target.scope + (" (moments: joint)" if target.scope == "per-party" else "")
        outcomes = len(asked.get("outcomes") or ())
        scope += f"; in moments {outcomes} columns are outcomes only" if outcomes else ""
        return [
            NO_DATA,
            f"public: n = {draft.agreed.rows}, {len(fit.columns)} columns at {len(draft.columns)} parties, {fit.outcome} on "
            f"{width} features, (epsilon, delta) = ({target.epsilon:g}, {target.delta:g}), scope {scope}{weights}",
            f"guessed: numbers have variance {fit.spread:.3g} (1/3 if they spread evenly over [-1, 1], their scaled "
            "range; of no account in ranges), levels are equally frequent, features uncorrelated; R^2 as in the first column",
            "",
            *aligned([("MECHANISM", "RELEASED", "NOISE SD"), *starmap(_released, releases)]),
            *(f"{each.plan}: {made.noise.levels}" for each, made in releases if made.noise.levels),
            *(f"{each.plan}: {made.noise.reuse}" for each, made in releases if made.noise.reuse),
            "",
            *aligned([("MECHANISM", "LEDGER OF", "IS CHARGED"), *chain(*starmap(_charged, releases))]),
            "",
            *aligned([_HEAD, *map(_row, self.cells)]),
            "",
            *self._notes(),
            *advice,
            self.recommendation(),
        ]

    def _notes(self) -> list[str]:
        delta, rows = self.asked.draft.target.delta, self.asked.draft.agreed.rows
        if delta * rows >= 1:
            return [f"note: delta = {delta:g} is not below 1/n; such a release is refused unless delta is lowered"]
        if any((cell.rows_needed or 0) * delta >= 1 for cell in self.cells):
            return [
                f"note: more than {1 / delta:,.0f} patients ask for a smaller delta, and so for a few more patients"
            ]
        return []

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        draft, fit, asked = self.asked.draft, self.asked.fit, self.asked.asked
        advice = self.weighing(), self.known(), self.other_spread()
        weighing, known, other = (None if each is None else asdict(each) for each in advice)
        return {
            "data_read": False,
            "rows": draft.agreed.rows,
            "parties": {name: [column.name for column in columns] for name, columns in draft.columns.items()},
            "outcome": fit.outcome,
            "features": list(fit.features),
            "outcomes_only": list(asked.get("outcomes") or ()),
            "target": draft.target.model_dump(mode="json"),
            "weights": dict(asked.get("weights", {})),
            "spread": fit.spread,
            "releases": {setting.plan: _release_json(proposed(setting)) for setting in self.settings},
            "forecasts": [_cell_json(cell) for cell in self.cells],
            "recommendation": self.recommendation(),
            "recommended_weight": weighing,
            "known_outcome": known,
            "other_spread": other,
        }


def compare(setting: Setting, mechanisms: Sequence[str] = (), signals: Sequence[float] = SIGNALS) -> Comparison:
    """Forecasts for all mechanisms and assumptions.

    Args:
        setting: public numbers and guesses. Its mechanism's keys count for every other mechanism that has them.
        mechanisms: which ones; if empty, the setting's and all others whose releases one fits on.
        signals: assumed R^2.

    Raises:
        InvalidInput: a signal is not in (0, 1], or no mechanism is left.
    """
    fitting = names_for_fits()
    settings = tuple(
        each
        for mechanism in map(mechanism_named, names())
        if (mechanism.name in (mechanisms or fitting) if mechanism.fits else mechanism.name == setting.mechanism)
        for each in mechanism.plans(_asked_of(mechanism, setting))
    )
    if not settings:
        refused = needs_bounds(setting.fit.columns)
        raise InvalidInput(
            refused or f"there is no fit to plan for {', '.join(mechanisms)}; there is for {', '.join(fitting)}"
        )
    assumed = tuple(sorted(set(signals)))
    cells = tuple(
        Cell(each.plan, forecast(each, signal), rows_needed(each, signal), epsilon_needed(each, signal))
        for signal in assumed
        for each in settings
    )
    return Comparison(setting, settings, assumed, cells)


def _asked_of(mechanism: Mechanism[Any], setting: Setting) -> Setting:
    """The same of another mechanism."""
    asked = {key: value for key, value in setting.asked.items() if key in mechanism.options.model_fields}
    return replace(setting, mechanism=mechanism.name, asked=asked)


def _from(signal: float | None) -> str:
    return "nowhere" if signal is None else f"from R^2 = {signal:g} on"


def _released(setting: Setting, release: Proposed) -> tuple[str, ...]:
    return setting.plan, release.noise.shape, f"{math.sqrt(release.mean_variance()):.3g} {release.noise.unit}"


def _charged(setting: Setting, release: Proposed) -> list[tuple[str, ...]]:
    """One line for each price, with the hospitals that pay it."""
    payers: dict[Fraction, list[str]] = {}
    for name, price in release.prices.items():
        payers.setdefault(price, []).append(name)
    delta = setting.draft.target.delta
    return [(setting.plan, ", ".join(names), price_text(price, delta)) for price, names in payers.items()]


def _row(cell: Cell) -> tuple[str, ...]:
    found = cell.forecast
    return (
        f"{found.signal:g}",
        cell.mechanism,
        _share(found.r2) + ("" if found.useful else " (as the mean)"),
        _share(found.constant_r2),
        f"{found.coefficient_error:.0%}",
        _patients(cell.rows_needed),
        f"{cell.epsilon_needed:.2g}" if cell.epsilon_needed is not None else f"above {MOST_EPSILON:g}",
    )


def _share(r2: float) -> str:
    return f"{round(r2, 3) + 0.0:.3f}"  # never -0.000


def _patients(rows: int | None) -> str:
    """Two digits of a number of patients."""
    if rows is None:
        return "none"
    return f"{float(f'{rows:.1e}'):,.0f}"


def _release_json(release: Proposed) -> dict[str, Any]:
    return {
        **mechanism_of(release.spec).words(release.spec).figures,
        "noise_sd": math.sqrt(release.mean_variance()),
        **({"reuse": release.noise.reuse} if release.noise.reuse else {}),
        "charged_mu2": {name: str(price) for name, price in release.prices.items()},
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    found = cell.forecast
    return {
        "mechanism": cell.mechanism,
        "assumed_r2": found.signal,
        "expected_r2": found.r2,
        "constant_r2": found.constant_r2,
        "kept": found.kept,
        "coefficient_error": found.coefficient_error,
        "useful": found.useful,
        "rows_needed": cell.rows_needed,
        "epsilon_needed": cell.epsilon_needed,
    }
