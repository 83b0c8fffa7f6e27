"""A verified release of joint moments for other tools: the named matrix as it was released, or rows that have its moments.

The rows are for tools that fit on rows and on nothing else. With m the repaired means, S = L L^T the repaired
covariance of p variables and H a (p + 1) x p matrix whose columns are orthonormal and orthogonal to 1,

    X = 1 m^T + sqrt(p + 1) H L^T

has mean m and covariance S (divide by the number of rows), so any least squares on X are those on the repaired matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.mechanisms.moments.released import Moments
from dprelease.mechanisms.view import CONSTANT, SQUARES
from learner.client.library import Opened
from learner.export.table import ExportTable, about

MEANING_OF_ENTRIES = (
    "Each entry is a sum over all patients: of the product of two columns in scaled units, plus noise. "
    f"{CONSTANT} is 1 for every patient, so its row holds plain sums."
)
MEANING_OF_NOISE = (
    "noise_sd is the standard deviation of an entry's noise, in the unit of the entry; 0 where the entry is exact or zero "
    "by definition. An indicator's own entry repeats its entry with the constant, noise included; all other noise on and "
    "above the diagonal is independent."
)
MEANING_OF_SQUARES = (
    f"Rows are the constant and the features; products of two outcomes are not released. Row {SQUARES} has every column's sum "
    "of its own squares."
)
MEANING_OF_ROWS = (
    "Rows are not patients. They are made up so that their means and their covariances (divided by the number of rows) "
    "are the released ones, repaired to be those of some table. n is not the number of rows. Coefficients of least squares "
    "are right; standard errors, p-values and intervals that a tool computes from these rows are meaningless."
)

_RANK = 1e-9


def matrix(opened: Opened) -> ExportTable:
    """The matrix of a verified release of moments, not repaired."""
    moments, meaning = opened.release.products, MEANING_OF_ENTRIES
    found = moments.released()
    if SQUARES in found.row_names:
        meaning = f"{MEANING_OF_ENTRIES} {MEANING_OF_SQUARES}"
    return ExportTable(
        names=found.names,
        row_names=found.row_names,
        values=found.values,
        meaning=MEANING_OF_ENTRIES,
        noise_sd=found.noise_sd,
        metadata=about(opened)
        | {
            "meaning_of_entries": meaning,
            "meaning_of_noise": MEANING_OF_NOISE,
            "row_names": list(found.row_names),
            "scale": "In original units a column is midpoint + half_width * scaled.",
            "columns": _columns(opened, moments),
        },
    )


def rows(opened: Opened) -> ExportTable:
    """p + 1 rows, in original units, that have the repaired moments of a verified release.

    Raises:
        InvalidInput: there are outcome-only columns: products of two of them are not known, so no rows have them.
    """
    moments = opened.release.moments()
    if opened.release.spec.outcomes:
        raise InvalidInput(
            "products of two outcomes are not released, so there are no rows with these moments; leave out --as"
        )
    gram, count = moments.rows * Evidence(moments).likely(), moments.rows
    columns = _columns(opened, moments)
    midpoint, half_width = (np.array([column[key] for column in columns[1:]]) for key in ("midpoint", "half_width"))
    mean = gram[0, 1:] / count
    spread, rank = _spread(gram[1:, 1:] / count - np.outer(mean, mean))
    return ExportTable(
        names=(CONSTANT, *moments.names),
        values=np.column_stack([np.ones(len(spread)), midpoint + half_width * (mean + spread)]),
        meaning=MEANING_OF_ROWS,
        metadata=about(opened)
        | {
            "rows": len(spread),
            "rank": rank,
            "meaning_of_rows": MEANING_OF_ROWS,
            "scale": "Original units; an indicator is 1 for its level and 0 otherwise. mean_noise_sd is that of the mean.",
            "columns": [
                {
                    "name": column["name"],
                    "unit": column["unit"],
                    "mean_noise_sd": float(column["half_width"] * sd / count),
                }
                for column, sd in zip(columns, moments.noise_sd[0], strict=True)
            ],
        },
    )


def _columns(opened: Opened, moments: Moments) -> list[dict[str, Any]]:
    found = [{"name": CONSTANT, "unit": "", "midpoint": 0.0, "half_width": 1.0}]
    for name in moments.names:
        _, midpoint, half_width = moments.lookup(name)
        unit = opened.release.column(name).unit
        found.append({"name": name, "unit": unit, "midpoint": float(midpoint), "half_width": float(half_width)})
    return found


def _spread(covariance: Floats) -> tuple[Floats, int]:
    """p + 1 rows with mean 0 and this covariance, and its rank."""
    size = len(covariance)
    deviation = np.sqrt(np.diag(covariance).clip(0))
    safe = np.where(deviation > 0, deviation, 1.0)
    # Of correlations, so that columns that fill little of their range keep their digits.
    values, vectors = np.linalg.eigh(covariance / np.outer(safe, safe))
    factor = vectors * np.sqrt(values.clip(0)) * deviation[:, None]
    step = np.arange(1.0, size + 1)
    contrasts = np.tril(np.ones((size, size))).T
    helmert = np.vstack([contrasts, np.zeros((1, size))])
    helmert[np.arange(1, size + 1), np.arange(size)] = -step
    helmert /= np.sqrt(step * (step + 1))
    return np.sqrt(size + 1) * helmert @ factor.T, int((values > _RANK * size).sum())
