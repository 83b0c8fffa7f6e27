"""Logistic regression on the modelled joint against maximum likelihood on the rows: error, slope and coverage of 95 % intervals.

Rows are drawn with replacement from a real table, and the truth is maximum likelihood on all of it. Errors are in standard errors
of a fit to the rows at hand, which has 1. The slope is that of the mean estimates on the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.common.files import FOLDER, at_hand
from benchmarks.common.moment_releases import noisy_moments
from benchmarks.common.report import Results, main
from demo.redbook import survey
from dprelease.analyses import Analysis, logistic
from dprelease.analyses.weighted_logit import Logit
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, Column
from dprelease.errors import InvalidInput
from dprelease.privacy.gaussian import mu_of
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import coded, viewed

EPSILON, DELTA, PARTIES = 1.0, 1e-5, 3
SIZES = (5_000, 20_000)
SEED = 30


def banded(values: pd.Series[float], *cuts: float) -> pd.Series[str]:
    """Bands of a number, as a hospital declares them."""
    names = [f"< {cuts[0]}", *(f"{low} to {high}" for low, high in pairwise(cuts)), f">= {cuts[-1]}"]
    return pd.Series(np.array(names)[np.searchsorted(cuts, values, side="right")], index=values.index)


def adult() -> pd.DataFrame:
    """People of a census."""
    table = pd.read_csv(FOLDER / "adult" / "adult.csv.gz")
    return pd.DataFrame(
        {
            "income": np.where(table["income"] == ">50K", "yes", "no"),
            "sex": table["sex"],
            "married": np.where(table["marital_status"].str.startswith("Married"), "yes", "no"),
            "husband": np.where(table["relationship"] == "Husband", "yes", "no"),
            "white": np.where(table["race"] == "White", "yes", "no"),
            "gain": np.where(table["capital_gain"] > 0, "yes", "no"),
            "age": banded(table["age"], 30, 40, 50),
            "education": banded(table["education_num"], 9, 10, 13),
            "hours": banded(table["hours_per_week"], 40, 41),
        }
    )


def nhefs() -> pd.DataFrame:
    """Participants of a survey, with their deaths."""
    table = pd.read_csv(FOLDER / "nhefs" / "nhefs.csv.gz")
    yes = {name: np.where(table[name] == 1, "yes", "no") for name in ("death", "sex", "race", "qsmk")}
    return pd.DataFrame(yes | {"age": banded(table["age"], 40, 55)})


def redbook() -> pd.DataFrame:
    """Wives of a survey."""
    table = survey()
    return pd.DataFrame(
        {
            "affair": np.where(table["affairs"] > 0, "yes", "no"),
            "happy": np.where(table["rate_marriage"] >= 4, "yes", "no"),
            "religious": np.where(table["religious"] >= 3, "yes", "no"),
            "age": banded(table["age"], 27, 37),
            "years": banded(table["yrs_married"], 6, 13),
        }
    )


def support2() -> pd.DataFrame:
    """Seriously ill adults."""
    table = pd.read_csv(FOLDER / "survival" / "support2.csv.gz")
    return pd.DataFrame(
        {
            "death": np.where(table["hospdead"] == 1, "yes", "no"),
            "sex": table["sex"],
            "diabetes": np.where(table["diabetes"] == 1, "yes", "no"),
            "cancer": table["ca"],
            "age": banded(table["age"], 50, 65, 75),
            "conditions": banded(table["num_co"], 1, 3),
            "heart": banded(table["hrt"], 80, 110),
        }
    )


TABLES: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
    "Adult": ("adult/adult.csv.gz", lambda: adult().drop(columns="husband")),
    "NHEFS": ("nhefs/nhefs.csv.gz", nhefs),
    "Redbook": ("", redbook),
    "SUPPORT2": ("survival/support2.csv.gz", support2),
}
"""Name to file and reader; the outcome is the first column."""


RARE = {"seldom": -2.5, "as often as others": 0.0, "nearly always": 2.5}
"""How often patients of a rare level have the outcome, and its log odds ratio."""


def _rare(effect: float) -> pd.DataFrame:
    """An outcome of a fifth or of half, which patients of a level of 3 % have more often or less."""
    random, n = np.random.default_rng(SEED), 200_000
    rare, one = random.random(n) < 0.03, random.random(n) < 0.4
    score = (0.0 if effect else -1.4) + effect * rare + 0.5 * one
    cells = {"ill": random.random(n) < expit(score), "rare": rare, "one": one}
    return pd.DataFrame({name: np.where(each, "yes", "no") for name, each in cells.items()})


@dataclass(frozen=True)
class Measured:
    """What came out of all draws.

    Attributes:
        error: root mean square over coefficients and draws, in standard errors of a fit to rows.
        slope: of the mean estimates on the truth, both without their means; NaN of one truth alone.
        held: share of intervals that hold the truth.
        width: of intervals over those of fits to rows, the median.
        told: share of draws that are not refused.
    """

    error: float
    slope: float
    held: float
    width: float
    told: float


def columns_of(table: pd.DataFrame) -> tuple[Column, ...]:
    """Declarations of a table of levels."""
    found: list[Column] = []
    for name in table:
        levels = tuple(
            sorted(set(table[name]), key=lambda level: (level.startswith(">="), not level.startswith("<"), level))
        )
        found.append(CategoricalColumn(name=str(name), levels=levels, exhaustive=True, fill=levels[0]))
    return tuple(found)


@dataclass(frozen=True)
class Regression:
    """A regression on a release, and its counterpart on rows.

    Attributes:
        analysed: the release, the outcome's column and those of features, to the analysis.
        value: column of the outcome to what rows are fitted to.
        model: family and link.
    """

    analysed: Callable[[Release, str, list[str]], Analysis]
    value: Callable[[pd.Series[str]], Floats]
    model: type[Logit]


LOGISTIC = Regression(
    lambda release, outcome, on: logistic(release, f"{outcome}=yes", on),
    lambda cells: np.asarray(cells == "yes", np.float64),
    Logit,
)


def _on_rows(table: pd.DataFrame, names: tuple[str, ...], regression: Regression) -> tuple[Floats, Floats]:
    """Maximum likelihood on rows with the same indicators: coefficients and standard errors."""
    design: list[Floats] = [np.ones(len(table))]
    for name in names:
        feature, value = name.split("=", 1)
        design.append(np.asarray(table[feature] == value, float))
    rows, at = np.unique(np.column_stack(design), axis=0, return_inverse=True)
    yes = regression.value(table.iloc[:, 0])
    whole, with_it = (np.bincount(at, each, len(rows)) / len(table) for each in (np.ones_like(yes), yes))
    fit = regression.model.of(rows, whole, with_it)
    return fit.coef[1:], np.sqrt(np.diag(fit.inverse)[1:] / len(table))


def releases(table: pd.DataFrame, n: int, draws: int) -> Iterator[tuple[pd.DataFrame, Release]]:
    """Samples of n rows, drawn with replacement, and a release of each."""
    columns, random, mu = columns_of(table), np.random.default_rng(SEED), mu_of(EPSILON, DELTA)
    rows = coded(columns, {column.name: table[column.name].to_numpy() for column in columns})
    for _ in range(draws):
        places = random.integers(len(table), size=n)
        x = np.column_stack([np.ones(n), rows[places]])
        yield table.iloc[places], viewed(columns, noisy_moments(x.T @ x, n, mu, PARTIES, random, columns))


def measure(
    table: pd.DataFrame, n: int, draws: int, regression: Regression = LOGISTIC, counted: Collection[str] = ()
) -> Measured:
    """Release and fit as many samples of n rows; `counted` are features whose coefficients count, all if empty."""
    outcome = str(table.columns[0])
    off: list[Floats] = []
    held: list[Floats] = []
    widths: list[Floats] = []
    pairs: list[Floats] = []
    truths: dict[tuple[str, ...], Floats] = {}
    refused = 0
    for sample, release in releases(table, n, draws):
        try:
            found = regression.analysed(release, outcome, list(table.columns[1:])).tables["coefficients"]
        except InvalidInput:
            refused += 1
            continue
        of = [place for place, name in enumerate(found.names) if not counted or name.split("=", 1)[0] in counted]
        if found.names not in truths:
            truths[found.names] = _on_rows(table, found.names, regression)[0]
        truth = truths[found.names][of]
        errors = _on_rows(sample, found.names, regression)[1][of]
        (lower, upper), estimate = (end[of] for end in found.interval()), found.estimate[of]
        off.append(((estimate - truth) / errors) ** 2)
        held.append(((lower <= truth) & (truth <= upper)).astype(float))
        widths.append((upper - lower) / (2 * 1.96 * errors))
        pairs.append(np.column_stack([truth, estimate]))
    told = 1 - refused / draws
    if not off:
        return Measured(np.nan, np.nan, np.nan, np.nan, told)
    truth, estimate = np.concatenate(pairs).T
    slope = float(np.polyfit(truth, estimate, 1)[0]) if np.ptp(truth) else np.nan
    error = float(np.sqrt(np.concatenate(off).mean()))
    return Measured(error, slope, float(np.concatenate(held).mean()), float(np.median(np.concatenate(widths))), told)


def run(quick: bool) -> Results:
    """Error, slope and coverage of logistic regressions of released categories, (epsilon, delta) = (1, 1e-5), three hospitals."""
    results = Results()
    for name, (path, read) in TABLES.items():
        if not at_hand(name, path):
            continue
        table = read()
        for n in SIZES[:1] if quick else SIZES:
            found = measure(table, n, 1 if quick else 20)
            about = f"{name}, {n:,} patients"
            results.add(f"{about}: share of releases that are not refused", found.told)
            if found.told:
                results.add(f"{about}: error in standard errors of a fit to rows", found.error, 2.6)
                results.add(f"{about}: slope of estimates on the truth, least", found.slope, 0.92, ">=")
                results.add(f"{about}: slope of estimates on the truth, most", found.slope, 1.05)
                results.add(
                    f"{about}: coverage of 95 % intervals", found.held, 0.88 if name == "Redbook" else 0.9, ">="
                )
                results.add(f"{about}: width of intervals over those of rows", found.width)
    for often, effect in RARE.items():
        found = measure(_rare(effect), SIZES[0], 2 if quick else 300, counted=("rare",))
        about = f"level of 3 % who have the outcome {often}, {SIZES[0]:,} patients"
        results.add(f"{about}: coverage of 95 % intervals", found.held, None if quick else 0.92, ">=")
    return results


if __name__ == "__main__":
    main("logistic", run)
