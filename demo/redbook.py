"""The 1974 Redbook survey of 6,366 married women, split over three institutions as if it had been collected so.

Bounds come from the survey's published codebook, except the upper bound of `affairs`, for which the codebook has none:
60 is a public guess made without looking at the data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import statsmodels.api as sm

BOUNDS: dict[str, tuple[float, float, str]] = {
    "age": (17.5, 42.0, "years"),
    "educ": (9.0, 20.0, "years of schooling"),
    "religious": (1.0, 4.0, "1 not to 4 strongly"),
    "yrs_married": (0.5, 23.0, "years"),
    "children": (0.0, 5.5, "children"),
    "rate_marriage": (1.0, 5.0, "1 very poor to 5 very good"),
    "affairs": (0.0, 60.0, "time spent in affairs"),
    "occupation": (1.0, 6.0, "occupation class"),
    "occupation_husb": (1.0, 6.0, "occupation class"),
}
"""Column to (lower, upper, unit)."""

INSTITUTIONS: dict[str, tuple[str, ...]] = {
    "registry": ("age", "educ", "religious"),
    "clinic": ("yrs_married", "children", "rate_marriage", "affairs"),
    "insurer": ("occupation", "occupation_husb"),
}
"""Institution to its columns."""

ABOUT = """[about]
description = "Marriage and affairs of 6,366 women who answered a survey of the magazine Redbook in 1974"
licence = "CC0-1.0"
creators = [{ name = "R. C. Fair, A theory of extramarital affairs (1978)" }]
keywords = ["marriage", "survey"]
period = "1974"
region = "United States"
"""
"""Part of the office's request: what people need to find, cite and use the release."""

WAVES = 4
"""In as many parts the women come, for the stream."""


def survey() -> pd.DataFrame:
    """The survey with an identifier for each woman, index 0 to 6365, nine columns, ``person`` and ``wave``, a made-up one."""
    table: pd.DataFrame = sm.datasets.fair.load_pandas().data[list(BOUNDS)].astype(float)
    table["person"] = [f"R{number:05d}" for number in range(1, len(table) + 1)]
    table["wave"] = np.random.default_rng(len(table)).integers(1, WAVES + 1, len(table))
    return table


def write_files(folder: Path, table: pd.DataFrame) -> None:
    """Each institution's own file, in an order of its own, and its party.toml."""
    for number, (name, columns) in enumerate(INSTITUTIONS.items()):
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        order = np.random.default_rng(number).permutation(len(table))
        table.iloc[order][["person", "wave", *columns]].to_csv(home / "patients.csv", index=False)
        (home / "party.toml").write_text(_settings(name, columns))


def _settings(name: str, columns: tuple[str, ...]) -> str:
    lines = [
        f'name = "{name}"',
        'roster = "redbook-1974"',
        "same_patients = true",
        "",
        "[source]",
        'path = "patients.csv"',
        'subject = "person"',
        'batch = "wave"',
        "whole_batches = true",
    ]
    lines += ["", "[policy.limits]", "max_epsilon = 1.0", "max_delta = 1e-5", "min_rows = 1000"]
    if name != "clinic":  # at the clinic a person looks at every proposal
        lines += ["", "[policy.auto_approve]", "max_epsilon = 1.0", "max_total_epsilon = 2.0"]
        lines += ['mechanisms = ["ranges", "moments", "mixed", "stream"]']
    lines += ["", "[daemon]", "poll_seconds = 0.2"]
    for column in columns:
        lower, upper, unit = BOUNDS[column]
        lines += [
            "",
            f"[columns.{column}]",
            'kind = "numeric"',
            f"lower = {lower}",
            f"upper = {upper}",
            f'unit = "{unit}"',
        ]
    return "\n".join(lines) + "\n"


def least_squares(table: pd.DataFrame, target: str) -> float:
    """R^2 of the non-private fit of a target on all other columns, on the rows it was fitted to."""
    features = [column for column in BOUNDS if column != target]
    design = np.column_stack([np.ones(len(table)), table[features].to_numpy()])
    outcome = table[target].to_numpy()
    weights, *_ = np.linalg.lstsq(design, outcome, rcond=None)
    return r_squared(outcome, design @ weights)


def r_squared(outcome: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]) -> float:
    """Share of the outcome's variance that the prediction explains; negative when worse than the true mean."""
    return float(1 - ((outcome - predicted) ** 2).sum() / ((outcome - outcome.mean()) ** 2).sum())
