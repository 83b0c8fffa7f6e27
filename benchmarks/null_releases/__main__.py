"""How often what a release prints as a finding is false, on data where nothing is to be found and on data with a known effect.

Patients, noise and release are drawn anew each time (`populations`); what is claimed of them is counted kind by kind
(`claims`). A kind may be false at its nominal rate, plus two standard errors of so many claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from benchmarks.common.report import Results, main
from benchmarks.null_releases.claims import (
    ALPHA,
    Claims,
    mixed_claims,
    outcome_only_claims,
    public_claims,
    ranged_claims,
    wide_claims,
)
from benchmarks.null_releases.populations import PUBLIC_FEATURES, PUBLIC_OUTCOME, drawn

WAYS: Mapping[str, Callable[..., Claims]] = MappingProxyType(
    {
        "public bounds": public_claims,
        "ranges": ranged_claims,
        "over 64 variables": wide_claims,
        "outcome-only column": outcome_only_claims,
        "mixed": mixed_claims,
    }
)
NOMINAL: Mapping[str, float] = MappingProxyType(
    {"better": 0.025, "R2": 0.1, "mean": 0.07, "spread": 0.07, "correlation, strong": 0.07, "correlation, weak": 0.07}
)
"""How often a claim may be false: 2 standard errors on one side, and intervals that hold 90 and 93 %; others `ALPHA`."""
RELEASES = 8
CHEAP = ("mixed", "outcome-only column")
"""Ways of release that are drawn ten times as often."""
OUTCOME_ONLY = ("thirty", PUBLIC_FEATURES, PUBLIC_OUTCOME)


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes:
        way: how rows are released.
        shape: of the population.
        patients: n.
        epsilon: of the whole row.
        effect: slope of the outcome on the first feature.
    """

    way: str
    shape: str
    patients: int
    epsilon: float
    effect: float

    def __str__(self) -> str:
        return f"{self.way}, {self.shape}, n = {self.patients:,}, epsilon = {self.epsilon:g}, slope {self.effect:g}"


SETTINGS = tuple(
    Setting(*each)
    for each in (
        ("public bounds", "normal", 50_000, 1.0, 0.0),
        ("public bounds", "normal", 2_000, 20.0, 0.0),
        ("public bounds", "normal", 60_000, 0.3, 0.3),
        ("public bounds", "heavy", 50_000, 1.0, 0.0),
        ("public bounds", "heavy", 10_000, 5.0, 0.0),
        ("public bounds", "heavy", 2_000, 3.0, 0.5),
        ("public bounds", "heavy", 60_000, 2.0, 0.5),
        ("public bounds", "levels", 20_000, 3.0, 0.0),
        ("public bounds", "levels", 50_000, 1.0, 0.5),
        ("public bounds", "collinear", 20_000, 20.0, 0.0),
        ("public bounds", "collinear", 300, 5.0, 0.7),
        ("ranges", "normal", 50_000, 1.0, 0.0),
        ("ranges", "heavy", 50_000, 1.0, 0.0),
        ("ranges", "levels", 6_000, 1.0, 0.0),
        ("ranges", "heavy", 6_000, 1.0, 0.7),
        ("ranges", "normal", 300, 3.0, 0.7),
        ("ranges", "collinear", 2_000, 1.0, 0.7),
        *(("mixed", "normal", n, epsilon, effect) for n, epsilon, effect in ((50_000, 1.0, 0.0), (60_000, 3.0, 0.3))),
        *(("mixed", "heavy", n, epsilon, effect) for n, epsilon, effect in ((60_000, 1.0, 0.0), (20_000, 20.0, 0.7))),
        ("mixed", "collinear", 6_000, 20.0, 0.0),
        *(("over 64 variables", "wide", 10_000, epsilon, effect) for epsilon, effect in ((5.0, 0.0), (15.0, 0.3))),
        *(("outcome-only column", shape, 50_000, 1.0, 0.3) for shape in OUTCOME_ONLY),
        *(("outcome-only column", shape, 20_000, 30.0, 0.0) for shape in OUTCOME_ONLY),
    )
)
"""Each drawn `RELEASES` times."""
QUICK = tuple(next(each for each in SETTINGS if each.way == way) for way in WAYS)


def run(quick: bool) -> Results:
    """How often what is printed as a finding is false."""
    results, whole = Results(), {way: {} for way in WAYS}  # type: ignore[var-annotated]
    for setting in QUICK if quick else SETTINGS:
        count = (3 if quick else RELEASES) * (10 if setting.way in CHEAP else 1)
        claims = repeated(setting, count)
        print(setting, flush=True)  # a full run takes minutes before its first figure
        results.details[str(setting)] = {kind: [sum(each), len(each)] for kind, each in claims.items()}
        for kind, each in claims.items():
            whole[setting.way].setdefault(kind, []).extend(each)
    for way, kinds in whole.items():
        for kind, each in kinds.items():
            rate = NOMINAL.get(kind, ALPHA)
            results.add(f"{way}: {kind}: false, of {len(each):,}", float(np.mean(each)), most(rate, len(each)))
    return results


def repeated(setting: Setting, releases: int, seed: int = 1) -> Claims:
    """All claims of so many releases of a setting, by kind."""
    found: Claims = {}
    for place in range(releases):
        random = np.random.default_rng([seed, place, setting.patients, SETTINGS.index(setting)])
        patients = drawn(setting.shape, setting.patients, setting.effect, random)
        for kind, each in WAYS[setting.way](patients, setting.epsilon, setting.effect, random).items():
            found.setdefault(kind, []).extend(each)
    return found


def most(rate: float, claims: int) -> float:
    """A nominal rate and two standard errors of so many claims."""
    return rate + 2 * math.sqrt(rate * (1 - rate) / claims)


if __name__ == "__main__":
    main("null_releases", run)
