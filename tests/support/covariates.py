"""Made-up patients with covariates, whose hazards are proportional, and releases of their exits."""

from __future__ import annotations

from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from dprelease.analyses import Analysis
from dprelease.data.exits import Exits
from dprelease.release.release import Release
from tests.support.exits import BINARY, Numbers, Places, exit_columns, exit_release, places_of

CUTS = (0.15, 0.3, 0.5, 1.0, 1.5)
SHAPES: dict[str, dict[str, tuple[float, ...]]] = {
    "plain": {"age": (0.0, 0.5, 1.0), "sex": (0.0, 0.2), "treated": (0.0, -0.5)},
    "collinear": {"age": (0.0, 0.5, 1.0), "stage": (0.0, 0.3, 0.6), "treated": (0.0, -0.5)},
    "twenty levels": {"site": (0.0, *np.linspace(-0.4, 0.4, 19).tolist()), "treated": (0.0, -0.5)},
}
"""Log hazard ratios of the levels of each covariate to its first one."""


class Patients(NamedTuple):
    """Causes of rates, of which the first has the ratios of a shape times `effect`; the treated are older."""

    n: int = 5000
    effect: float = 1.0
    rate: tuple[float, ...] = (0.6,)
    lost: float = 0.3
    shape: str = "plain"

    @property
    def levels(self) -> dict[str, str]:
        """Levels of each covariate, a letter each."""
        return {name: ascii_lowercase[: len(ratios)] for name, ratios in SHAPES[self.shape].items()}

    def drawn(self, seed: int) -> tuple[dict[str, Places], Numbers, Places]:
        """(covariates, time, cause), the cause -1 for a loss."""
        random = np.random.default_rng([seed, self.n])
        age, even = random.choice(3, self.n, p=[0.4, 0.35, 0.25]), random.random(self.n)
        stage = np.where(random.random(self.n) < 0.85, age, random.integers(0, 3, self.n))
        drawn = {"age": age, "sex": (even < 0.5).astype(int), "stage": stage, "site": (even * 20).astype(int)}
        drawn["treated"] = (
            random.random(self.n) < 0.3 + (0.02 * drawn["site"] if self.shape[0] == "t" else 0.2 * age)
        ).astype(int)
        of = {name: drawn[name] for name in self.levels}
        log = self.effect * sum(np.array(SHAPES[self.shape][name])[places] for name, places in of.items())
        factors = [np.exp(log), *(np.ones(self.n) for _ in self.rate[1:])]
        ends = [random.exponential(1 / (rate * each)) for rate, each in zip(self.rate, factors, strict=True)]
        left = np.minimum(random.exponential(1 / self.lost, self.n), 3.0)
        time = np.minimum(np.min(ends, axis=0), left)
        return of, time, np.where(time < left, np.argmin(ends, axis=0), -1)


def released(people: Patients, seed: int = 0, sd: float = 0.0, **more: Places) -> Release:
    """A release of the exits, an indicator `died` of the first cause, the covariates, and `more` binaries."""
    of, time, cause = people.drawn(seed)
    exits = Exits(CUTS, ("event",) if len(people.rate) == 1 else ("death", "transplant"))
    levels = {name: tuple(letters) for name, letters in people.levels.items()}
    columns = exit_columns(exits, {"died": BINARY, **levels, **dict.fromkeys(more, BINARY)})
    places = {"exit": places_of(exits, time, cause), "died": (cause == 0).astype(int), **of, **more}
    return exit_release(columns, places, sd, np.random.default_rng([seed, 2]) if sd else None)


def true_ratios(people: Patients, found: Analysis) -> Numbers:
    """Log hazard ratios of the first cause to the references that an analysis told."""
    ratios, told = SHAPES[people.shape], dict(part.split(": ") for part in found.facts["reference"].split("; "))

    def of(name: str, levels: str) -> float:
        return float(np.mean([ratios[name][people.levels[name].index(level)] for level in levels.split(" or ")]))

    named = [name.split(": ")[-1].split("=") for name in found.tables["hazard ratios"].names]
    return people.effect * np.array([of(name, level) - of(name, told[name]) for name, level in named])
