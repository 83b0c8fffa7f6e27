"""Figures that compare made-up rows with real ones that no method has seen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.tables.data import Coded
from dprelease.arrays import Floats, Integers

MOST_SETS = 120
"""Sets of three columns that are compared, always the same ones."""
TESTED = 8000
"""Real rows that models are tested on."""


def variation(table: Coded, made_up: Integers, real: Integers, order: int) -> float:
    """Mean total variation distance of tables of so many columns."""
    sets = list(itertools.combinations(range(len(table.sizes)), order))
    if len(sets) > MOST_SETS:
        sets = [sets[at] for at in np.random.default_rng(0).choice(len(sets), MOST_SETS, replace=False)]
    return float(np.mean([_apart(table, made_up, real, each) for each in sets]))


def _apart(table: Coded, made_up: Integers, real: Integers, columns: tuple[int, ...]) -> float:
    sizes = [table.sizes[column] for column in columns]
    shares = []
    for rows in (made_up, real):
        flat = np.ravel_multi_index(tuple(rows[:, columns].T), sizes)
        shares.append(np.bincount(flat, minlength=int(np.prod(sizes))) / len(rows))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def cramers_v(table: Coded, rows: Integers) -> float:
    """Largest Cramer's V of two columns."""
    found = []
    for first, second in itertools.combinations(range(len(table.sizes)), 2):
        cells = np.zeros((table.sizes[first], table.sizes[second]))
        np.add.at(cells, (rows[:, first], rows[:, second]), 1.0)
        cells = cells[cells.sum(axis=1) > 0][:, cells.sum(axis=0) > 0]
        expected = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / len(rows)
        least = max(1, min(cells.shape) - 1)
        found.append(float(np.sqrt(((cells - expected) ** 2 / expected).sum() / len(rows) / least)))
    return max(found)


def aucs(table: Coded, made_up: Integers, real: Integers, *, boosting: bool = True) -> tuple[float, ...]:
    """Areas under the curve, on real rows, of logistic regression and of boosting that were trained on made-up ones."""
    from sklearn.linear_model import LogisticRegression  # slow to load
    from sklearn.metrics import roc_auc_score

    features = [column for column in range(len(table.sizes)) if column != table.outcome]
    y, truth = made_up[:, table.outcome], real[:TESTED, table.outcome]
    if len(np.unique(y)) < 2:
        return (0.5,) * (1 + boosting)

    def hot(rows: Integers) -> Floats:
        parts = [np.eye(table.sizes[column])[rows[:, column]][:, 1:] for column in features]
        return np.concatenate(parts, axis=1)

    models: list[tuple[Any, Any]] = [(LogisticRegression(C=1.0, max_iter=200), hot)]
    if boosting:
        from sklearn.ensemble import HistGradientBoostingClassifier

        models.append((HistGradientBoostingClassifier(max_iter=50, random_state=0), lambda rows: rows[:, features]))
    found = [model.fit(seen(made_up), y).predict_proba(seen(real[:TESTED]))[:, 1] for model, seen in models]
    return tuple(float(roc_auc_score(truth, chance)) for chance in found)
