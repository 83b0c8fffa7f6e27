"""Mechanisms side by side: what each is expected to give, from when on it would pay, and one sentence that recommends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain, starmap
from typing import Any

from dprelease.data.columns import needs_bounds
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed
from dprelease.mechanisms.registry import mechanism_named, names, names_for_fits
from dprelease.one_line import aligned
from dprelease.planning.choice import OtherSpread, choice, other_spread, useful_from
from dprelease.planning.forecast import (
    MOST_EPSILON,
    MOST_ROWS,
    epsilon_needed,
    forecast,
    mean_variance,
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
        rows_needed: about the least n with which a fit is useful; None above `MOST_ROWS`.
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
        settings: one for each way to release.
        signals: assumed R^2, ascending.
        cells: one for each signal and mechanism, signal by signal.
    """

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
        asked = next(proposed(setting).trust for setting in self.settings if setting.plan == best)
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
        """What a weight of the outcome is worth in ranges; None where these are not recommended."""
        return next((known_outcome(each) for each in self.settings if each.plan == self.choice), None)

    def other_spread(self) -> OtherSpread | None:
        """With which other guess of the spread another way would be recommended."""
        return other_spread(self.settings, self.signals, self.choice)

    def lines(self) -> list[str]:
        """Everything as text: what was assumed, what would be released, what to expect, the recommendation."""
        first, releases = self.settings[0], [(each, proposed(each)) for each in self.settings]
        advice = [each.explain() for each in (self.weighing(), self.known(), self.other_spread()) if each is not None]
        target, width = first.target, sum(first.guess(name).width for name in first.features)
        weights = "".join(f", weight of {name} {weight}" for name, weight in first.weights.items())
        scope = target.scope + (" (moments: joint)" if target.scope == "per-party" else "")
        scope += f"; in moments {len(first.outcomes)} columns are outcomes only" if first.outcomes else ""
        return [
            NO_DATA,
            f"public: n = {first.rows}, {len(first.columns)} columns at {len(first.parties)} parties, {first.outcome} on "
            f"{width} features, (epsilon, delta) = ({target.epsilon:g}, {target.delta:g}), scope {scope}{weights}",
            f"guessed: numbers have variance {first.spread:.3g} (1/3 if they spread evenly over [-1, 1], their scaled "
            "range; of no account in ranges), levels are equally frequent, features uncorrelated; R^2 as in the first column",
            "",
            *aligned([("MECHANISM", "RELEASED", "NOISE SD"), *starmap(_released, releases)]),
            *(f"{each.plan}: {made.levels}" for each, made in releases if made.levels),
            *(f"{each.plan}: {made.reuse}" for each, made in releases if made.reuse),
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
        delta, rows = self.settings[0].target.delta, self.settings[0].rows
        if delta * rows >= 1:
            return [f"note: delta = {delta:g} is not below 1/n; such a release is refused unless delta is lowered"]
        if any((cell.rows_needed or 0) * delta >= 1 for cell in self.cells):
            return [
                f"note: more than {1 / delta:,.0f} patients ask for a smaller delta, and so for a few more patients"
            ]
        return []

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        first, advice = self.settings[0], (self.weighing(), self.known(), self.other_spread())
        weighing, known, other = (None if each is None else asdict(each) for each in advice)
        return {
            "data_read": False,
            "rows": first.rows,
            "parties": {name: [column.name for column in columns] for name, columns in first.parties.items()},
            "outcome": first.outcome,
            "features": list(first.features),
            "outcomes_only": list(first.outcomes),
            "target": first.target.model_dump(mode="json"),
            "weights": dict(first.weights),
            "spread": first.spread,
            "releases": {setting.plan: _release_json(setting, proposed(setting)) for setting in self.settings},
            "forecasts": [_cell_json(cell) for cell in self.cells],
            "recommendation": self.recommendation(),
            "recommended_weight": weighing,
            "known_outcome": known,
            "other_spread": other,
        }


def compare(setting: Setting, mechanisms: Sequence[str] = (), signals: Sequence[float] = SIGNALS) -> Comparison:
    """Forecasts for all mechanisms and assumptions.

    Args:
        setting: public numbers and guesses; its mechanism plays no part.
        mechanisms: which ones; all if empty. Those whose releases nobody fits on are left out; a stream is there where the
            setting is of one.
        signals: assumed R^2.

    Raises:
        InvalidInput: a signal is not in (0, 1], or no mechanism is left.
    """
    fitting = names_for_fits()
    settings = tuple(
        each
        for name in names()
        if (name in fitting and name in (mechanisms or fitting)) or (setting.stream and mechanism_named(name).continual)
        for each in mechanism_named(name).plans(replace(setting, mechanism=name))
    )
    if not settings:
        refused = needs_bounds(setting.columns)
        raise InvalidInput(
            refused or f"there is no fit to plan for {', '.join(mechanisms)}; there is for {', '.join(fitting)}"
        )
    assumed = tuple(sorted(set(signals)))
    cells = tuple(
        Cell(each.plan, forecast(each, signal), rows_needed(each, signal), epsilon_needed(each, signal))
        for signal in assumed
        for each in settings
    )
    return Comparison(settings, assumed, cells)


def _from(signal: float | None) -> str:
    return "nowhere" if signal is None else f"from R^2 = {signal:g} on"


def _released(setting: Setting, release: Proposed) -> tuple[str, ...]:
    return setting.plan, release.shape, f"{math.sqrt(mean_variance(setting, release)):.3g} {release.unit}"


def _charged(setting: Setting, release: Proposed) -> list[tuple[str, ...]]:
    """One line for each price, with the hospitals that pay it."""
    payers: dict[Fraction, list[str]] = {}
    for name, price in release.prices.items():
        payers.setdefault(price, []).append(name)
    delta = setting.target.delta
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
        return f"above {MOST_ROWS:.0e}"
    return f"{float(f'{rows:.1e}'):,.0f}"


def _release_json(setting: Setting, release: Proposed) -> dict[str, Any]:
    return {
        "k": release.outputs,
        "rho": None if release.anchor_weight is None else str(release.anchor_weight),
        "noise_sd": math.sqrt(mean_variance(setting, release)),
        **({"reuse": release.reuse} if release.reuse else {}),
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
