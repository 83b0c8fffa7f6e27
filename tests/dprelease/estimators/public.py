"""Tables with public columns, and their moments with noise of a chosen scale."""

import numpy as np

from benchmarks.moments_utility import gram
from dprelease.data.columns import Column
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.support.specs import numeric

ROWS = 2000


def declared(public: int, private: int) -> tuple[Column, ...]:
    names = [f"column{index}" for index in range(public + private)]
    return tuple(numeric(name, public=index < public) for index, name in enumerate(names))


def table(features: int, outcomes: int, explained: float = 0.5, rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Correlated features and outcomes of which they explain a part, within [-1, 1]; neither has mean 0."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(rows, 2)) @ generator.normal(size=(2, features))
    x = 0.2 + 0.2 * shared / np.sqrt(2) + 0.2 * generator.normal(size=(rows, features))
    signal = x @ generator.normal(size=(features, outcomes))
    signal = (signal - signal.mean(axis=0)) / signal.std(axis=0)
    rest = generator.normal(size=(rows, outcomes))
    return np.clip(np.hstack([x, 0.1 + 0.2 * (explained**0.5 * signal + (1 - explained) ** 0.5 * rest)]), -1, 1)


def moments_of(
    rows: np.ndarray, columns: tuple[Column, ...], sd: float, generator: np.random.Generator | None = None
) -> NoisyMoments:
    """Moments of coded rows with noise of this sd per patient on every noisy entry, or declared only."""
    layout, exact = Layout(columns), gram(rows)
    noise = np.full(layout.entries, sd * len(rows))
    values = exact[layout.rows, layout.cols] + (noise * generator.normal(size=layout.entries) if generator else 0)
    known = exact[np.ix_(layout.public, layout.public)]
    return NoisyMoments(layout, layout.matrix(values, float(len(rows)), known), layout.matrix(noise, 0.0), len(rows))


def r_squared(rows: np.ndarray, x: list[int], y: list[int], offsets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    data = np.column_stack([np.ones(len(rows)), rows])
    return 1 - ((data[:, y] - offsets - data[:, x] @ weights) ** 2).mean(axis=0) / data[:, y].var(axis=0)


def least_squares(rows: np.ndarray, x: list[int], y: list[int], *, intercept: bool) -> np.ndarray:
    data = np.column_stack([np.ones(len(rows)), rows])
    return np.linalg.lstsq(data[:, [0, *x] if intercept else x], data[:, y], rcond=None)[0]
