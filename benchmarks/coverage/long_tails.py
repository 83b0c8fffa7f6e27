"""Made-up tables with rare levels and long tails: normal factors, each column a quantile function of its normal score.

Counts and amounts fill little of their public bounds, categories have levels that hardly anybody has and an ``other`` that
nobody need have, and what is to be predicted hangs together weakly: R^2 of least squares on the rows is 0 to 0.4. The least
noisy reading of such a release is that whatever fills little does not vary at all, which is wrong.

    stays     hospital stays: twelve numbers, among them counts of earlier visits, and three categories; 71,518 patients;
    costs     insurance: amounts with log-normal tails, rare diagnoses as 0/1, a region with rare levels; 40,000 patients;
    labs      laboratory: gamma and log-normal values, wide bounds, a ward and a smoking status; 150,000 patients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.stats import gamma, lognorm, nbinom, norm

from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn

FACTORS = 3


@dataclass(frozen=True)
class Number:
    """A number: its public bounds, and its value at a normal score."""

    lower: float
    upper: float
    value: Callable[[Floats], Floats]


Parts = tuple[float, ...]
"""Shares of a category's levels, ``other`` last."""


@dataclass(frozen=True)
class Table:
    """A population.

    Attributes:
        patients: n.
        contents: column to what is in it.
        shared: part of a score's variance that the common factors make.
    """

    patients: int
    contents: Mapping[str, Number | Parts]
    shared: float = 0.4

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declarations."""
        return tuple(_declared(name, content) for name, content in self.contents.items())

    def gram(self, random: np.random.Generator) -> Floats:
        """[1 z]^T [1 z] of freshly drawn patients whose factors weigh as freshly drawn."""
        loads = np.abs(random.normal(size=(FACTORS, len(self.contents)))) * (random.random((FACTORS, 1)) < 0.8)
        loads *= (
            np.sqrt(self.shared / np.maximum((loads**2).sum(axis=0), 1e-9)) * random.random(len(self.contents)) ** 0.5
        )
        rest = np.sqrt(1 - (loads**2).sum(axis=0))
        scores = random.normal(size=(self.patients, FACTORS)) @ loads
        scores += rest * random.normal(size=scores.shape)
        coded = [_coded(content, scores[:, place]) for place, content in enumerate(self.contents.values())]
        x = np.column_stack([np.ones(self.patients), *coded])
        found: Floats = x.T @ x
        return found


def drawn(table: Table, random: np.random.Generator, most: int = 60_000) -> Floats:
    """(n, released columns) patients of a table in scaled units; three columns in ten go against their factors.

    Args:
        table: which.
        random: of the loads and the patients.
        most: patients.
    """
    patients = min(table.patients, most)
    loads = np.abs(random.normal(size=(FACTORS, len(table.contents))))
    loads *= np.sqrt(table.shared / (loads**2).sum(axis=0)) * random.random(len(table.contents)) ** 0.5
    loads *= random.choice([-1, 1], size=(1, len(table.contents)), p=[0.3, 0.7])
    scores = random.normal(size=(patients, FACTORS)) @ loads
    scores += np.sqrt(1 - (loads**2).sum(axis=0)) * random.normal(size=scores.shape)
    coded = [np.asarray(_coded(content, scores[:, place])) for place, content in enumerate(table.contents.values())]
    return np.hstack([each[:, None] if each.ndim == 1 else each for each in coded])


def _declared(name: str, content: Number | Parts) -> Column:
    if isinstance(content, Number):
        return NumericColumn(name=name, lower=content.lower, upper=content.upper, fill=content.lower)
    return CategoricalColumn(name=name, levels=tuple(f"{name}{place}" for place in range(1, len(content))))


def _coded(content: Number | Parts, score: Floats) -> Floats:
    """(n,) in scaled units, or (n, levels) indicators."""
    if isinstance(content, Number):
        kept = np.clip(content.value(score), content.lower, content.upper)
        return 2 * (kept - content.lower) / (content.upper - content.lower) - 1
    place: npt.NDArray[np.int64] = np.searchsorted(np.cumsum(content)[:-1], norm.cdf(score))
    return np.eye(len(content))[place]


def _count(mean: float, size: float, upper: float, least: float = 0.0) -> Number:
    def value(score: Floats) -> Floats:
        ends = np.linspace(-6, 6, 1201)  # counts are steps; a table of them is much faster than as many inversions
        found: Floats = (
            least + nbinom.ppf(norm.cdf(ends), size, size / (size + mean))[np.searchsorted(ends, np.clip(score, -6, 6))]
        )
        return found

    return Number(least, upper, value)


def _tail(median: float, spread: float, upper: float) -> Number:
    return Number(0, upper, lambda score: lognorm.ppf(norm.cdf(score), spread, scale=median))


def _hump(mean: float, shape: float, upper: float) -> Number:
    return Number(0, upper, lambda score: gamma.ppf(norm.cdf(score), shape, scale=mean / shape))


def _normal(lower: float, upper: float, mean: float, sd: float) -> Number:
    return Number(lower, upper, lambda score: mean + sd * score)


def _indicator(share: float) -> Number:
    return Number(0, 1, lambda score: (score > norm.ppf(1 - share)) * 1.0)


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "stays": Table(
            71_518,
            {
                "age": _normal(0, 100, 66, 16),
                "female": _indicator(0.53),
                "stay": _count(3.3, 1.3, 14, 1),
                "race": (0.75, 0.18, 0.02, 0.007, 0.043),
                "admission": (0.5, 0.18, 0.2, 0.12),
                "lab": _normal(0, 132, 43, 20),
                "procedures": _count(1.43, 0.8, 6),
                "medications": _count(15.7, 4.5, 81),
                "diagnoses": _normal(1, 16, 7.2, 2),
                "outpatient": _count(0.28, 0.09, 42),
                "emergency": _count(0.10, 0.07, 76),
                "inpatient": _count(0.178, 0.18, 21),
                "insulin": _indicator(0.51),
                "changed": _indicator(0.76),
                "readmitted": (0.6, 0.31, 0.09, 0.0),
            },
        ),
        "costs": Table(
            40_000,
            {
                "age": _normal(18, 100, 50, 17),
                "visits": _count(4, 0.6, 200),
                "drugs": _tail(200, 1.5, 50_000),
                "hospital": _tail(800, 1.3, 100_000),
                "days": _count(0.9, 0.1, 120),
                "diabetes": _indicator(0.08),
                "transplant": _indicator(0.002),
                "region": (0.55, 0.3, 0.1, 0.03, 0.02, 0.0),
                "retired": _indicator(0.28),
                "income": _tail(30_000, 0.5, 250_000),
            },
        ),
        "labs": Table(
            150_000,
            {
                "age": _normal(0, 110, 58, 18),
                "crp": _tail(4, 1.4, 500),
                "creatinine": _tail(1, 0.35, 20),
                "ferritin": _tail(110, 0.9, 10_000),
                "glucose": _hump(6, 12, 40),
                "haemoglobin": _normal(3, 22, 13.5, 1.8),
                "troponin": _tail(0.01, 1.6, 50),
                "smoking": (0.55, 0.25, 0.2, 0.0),
                "ward": (0.6, 0.25, 0.1, 0.04, 0.008, 0.002),
                "died": _indicator(0.03),
                "stay": _count(5, 0.9, 100, 1),
            },
        ),
    }
)
