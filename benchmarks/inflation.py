"""Logistic regression on the modelled joint where features nearly follow from one another, as `benchmarks.logistic` does it.

Counted are coefficients of the features with a variance inflation between 4 and 10. Two tables are made up: a binary and its near
copy, and bands of two numbers that go together. Their effects are opposite, which is where a model that takes features for less
dependent errs most. The third is Adult with `married` and `husband`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit

from benchmarks.common.files import at_hand
from benchmarks.common.report import Results, main
from benchmarks.logistic import LOGISTIC, SEED, TABLES, adult, columns_of, measure
from dprelease.arrays import Mask
from tests.dprelease.analyses.releases import released

ROWS, DRAWS = 60_000, 300
SIZES = (1_000, 5_000, 20_000)
AGREE, TOGETHER = 0.965, 0.975
"""Share of patients whose copy agrees; correlation of the two numbers."""
REACH = 0.92, 0.985
"""Of a coverage of 95 % intervals."""


def _told(cells: Mask) -> npt.NDArray[np.str_]:
    return np.where(cells, "yes", "no")


def _copies() -> pd.DataFrame:
    random = np.random.default_rng(SEED)
    one, ward = random.random(ROWS) < 0.5, random.integers(0, 4, ROWS)
    copy = one ^ (random.random(ROWS) > AGREE)
    third = random.random(ROWS) < np.where(one, 0.6, 0.3)
    ill = random.random(ROWS) < expit(-1.2 + 0.8 * one - 0.5 * copy + 0.6 * third + 0.3 * ward)
    cells = {"ill": ill, "one": one, "copy": copy, "third": third}
    return pd.DataFrame({name: _told(of) for name, of in cells.items()} | {"ward": np.array(list("abcd"))[ward]})


def _bands(
    cuts: Sequence[float] = (-0.7, 0, 0.7),
    together: float = TOGETHER,
    effects: tuple[Sequence[float], Sequence[float]] = ((0, 0.3, 0.7, 1.2), (0, -0.2, -0.5, -0.6)),
) -> pd.DataFrame:
    random = np.random.default_rng(SEED)
    numbers = random.multivariate_normal([0, 0], [[1, together], [together, 1]], ROWS)
    one, other = (np.searchsorted(cuts, each) for each in numbers.T)
    third = random.random(ROWS) < 0.5
    effect = np.array(effects[0])[one] + np.array(effects[1])[other] + 0.5 * third
    ill = _told(random.random(ROWS) < expit(-0.8 + effect))
    return pd.DataFrame({"ill": ill, "one": one.astype(str), "other": other.astype(str), "third": _told(third)})


INFLATED: dict[str, tuple[str | None, Callable[[], pd.DataFrame], tuple[str, ...]]] = {
    "near copies": (None, _copies, ("one", "copy")),
    "bands that go together": (None, _bands, ("one", "other")),
    "five bands that go together": (
        None,
        lambda: _bands((-0.9, -0.3, 0.3, 0.9), 0.95, ((0, 0.3, 0.7, 1, 1.4), (0, -0.2, -0.5, -0.6, -0.9))),
        ("one", "other"),
    ),
    "Adult, husbands": (
        TABLES["Adult"][0],
        lambda: adult()[["income", "sex", "married", "husband", "age"]],
        ("married", "husband"),
    ),
}
"""Name to file, table and the features that nearly follow from one another."""


def run(quick: bool) -> Results:
    """Coverage of logistic regressions with variance inflations of 4 to 10, (epsilon, delta) = (1, 1e-5), three hospitals."""
    results, sizes, draws = Results(), SIZES[1:2] if quick else SIZES, 5 if quick else DRAWS
    tables = {name: read() for name, (path, read, _) in INFLATED.items() if at_hand(name, path)}
    with ProcessPoolExecutor() as pool:
        made = {
            (name, n): pool.submit(measure, table, n, draws, counted=INFLATED[name][2])
            for name, table in tables.items()
            for n in sizes
        }
        for name, table in tables.items():
            exact = released(columns_of(table), {str(each): table[each].to_numpy() for each in table})
            inflation = LOGISTIC.analysed(exact, str(table.columns[0]), list(table.columns[1:])).facts["inflation"]
            results.add(f"{name}: largest variance inflation", float(inflation.split()[0]))
            for n in sizes:
                found, about = made[name, n].result(), f"{name}, {n:,} patients"
                results.add(f"{about}: share of releases that are not refused", found.told)
                results.add_between(f"{about}: coverage of 95 % intervals", found.held, None if quick else REACH)
                results.add(f"{about}: slope of estimates on the truth", found.slope)
                results.add(f"{about}: width of intervals over those of rows", found.width)
    return results


if __name__ == "__main__":
    main("inflation", run)
