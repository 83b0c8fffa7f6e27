"""Features within public bounds, and many simulated outcomes of them, for PRIMO's experiments.

    haplotypes   1000 Genomes phase 3, 5008 haplotypes (kg_805_haplotypes), a random choice of its 805 SNPs. A row is a haplotype,
                 as in the paper; a person is two rows, for whom every mu is twice as large.
    genotypes    1000 Genomes phase 1, 1092 persons (kg_phase1_thinned), a random choice of its 14,079 SNPs; a row is a person.
    Gaussian     independent normal features, rows shortened to a public norm; the paper's appendix.
    mosaics      more haplotypes than there are: each copies stretches of real ones, changing over at random. They stand in for
                 the samples of a GAN in the paper, whose database is not public.

The paper centres features by their means, which is not private. Here alleles are centred by the midpoint of their public range,
and one more feature is constant, coded as an allele that everybody has: rows of alleles are +-1/2, of genotypes -1, 0, 1, and
so |x|^2 is public. The files are looked for where `common.paper_data` looks; without them haplotypes of three made-up
populations take their place.

Outcomes have mean 0, which every fit may know, so that no mean is paid for, and a standard deviation of a quarter of their public
bound 1, to which they are clipped: half of the variance is a function of the features, half is noise. That function is linear
with normal weights, or for Gaussian features a multilayer perceptron with two hidden layers. The paper's own scales are not in
the text at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.common.files import FOLDER
from benchmarks.paper_primo.calibration import Body
from dprelease.arrays import Floats
from dprelease.estimators.moments.public_columns import PublicSide

Single = npt.NDArray[np.float32]
Functions = Callable[[Floats], Floats]

OUTCOME_SD = 0.25
SIGNAL = 0.5
"""Part of an outcome's variance that is a function of the features."""
HIDDEN = 32
CHANGE = 0.2
"""Probability that a mosaic goes on with another haplotype at the next SNP."""
CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class Features:
    """Rows within public bounds.

    Attributes:
        name: of the data.
        x: (n, d).
        body: what bounds a row.
        radius2: R^2 >= |x|^2, public.
        bound: b >= |x_c|, public; of the ball its radius.
        source: where the rows come from, in words.
    """

    name: str
    x: Floats
    body: Body
    radius2: float
    bound: float
    source: str

    def outcomes(self, count: int, random: np.random.Generator, law: Literal["linear", "mlp"] = "linear") -> Single:
        """(n, count) outcomes within [-1, 1].

        Args:
            count: l.
            random: of functions and noise.
            law: of the functions.
        """
        function = linear(self.x, count, random) if law == "linear" else perceptron(self.x, count, random)
        return noisy(function(self.x), random)


@dataclass(frozen=True, eq=False)
class Sums:
    """All that a release and its errors depend on.

    Attributes:
        rows: n.
        xx: (d, d) X^T X.
        xy: (d, l) X^T Y.
        total: (l,) sums of outcomes.
        square: (l,) sums of their squares.
        largest2: max |y_i|^2 over rows.
        side: Y = U S V^T without U; decomposed when first asked for.
    """

    rows: int
    xx: Floats
    xy: Floats
    total: Floats
    square: Floats
    largest2: float
    side: Callable[[], PublicSide]

    @classmethod
    def of(cls, x: Floats, y: Single) -> Sums:
        """From rows."""
        xx, xy, total, square, largest2 = _sums(x, y)
        return cls(len(x), xx, xy, total, square, largest2, cache(partial(_side, y)))

    def mse(self, weights: Floats) -> Floats:
        """(l,) mean squared errors of (d, l) weights on the rows themselves, as in the paper."""
        fitted = (weights * (self.xx @ weights - 2 * self.xy)).sum(axis=0)
        found: Floats = (self.square + fitted) / self.rows
        return found

    def r_squared(self, weights: Floats) -> Floats:
        """(l,) 1 - mse / variance: 0 for the constant predictor."""
        variance = self.square / self.rows - (self.total / self.rows) ** 2
        found: Floats = 1 - self.mse(weights) / variance
        return found

    def least_squares(self) -> Floats:
        """(d, l) weights of OLS, by the Moore-Penrose inverse."""
        found: Floats = np.linalg.pinv(self.xx, hermitian=True) @ self.xy
        return found


def haplotypes(snps: int, random: np.random.Generator) -> Features:
    """5008 haplotypes at a random choice of SNPs, and the constant: d = snps + 1."""
    alleles, source = _alleles()
    return _of_alleles("haplotypes", alleles[:, random.choice(alleles.shape[1], snps, replace=False)], source)


def mosaics(rows: int, snps: int, random: np.random.Generator) -> Features:
    """Any number of haplotypes pieced together from real ones, at a random choice of SNPs."""
    alleles, source = _alleles()
    chosen = np.sort(random.choice(alleles.shape[1], snps, replace=False))
    found, copied = np.empty((rows, snps), np.int8), random.integers(len(alleles), size=rows)
    for place, snp in enumerate(chosen):
        change = random.random(rows) < CHANGE
        copied = np.where(change, random.integers(len(alleles), size=rows), copied)
        found[:, place] = alleles[copied, snp]
    return _of_alleles("mosaics", found, f"mosaics of {source}")


def genotypes(snps: int, random: np.random.Generator) -> Features:
    """1092 persons at a random choice of SNPs, and the constant."""
    found, source = _genotypes()
    chosen = found[:, random.choice(found.shape[1], snps, replace=False)].astype(np.float64) - 1
    x = np.column_stack([np.ones(len(chosen)), chosen])
    return Features("genotypes", x, "box", float(snps + 1), 1.0, source)


def gaussian(rows: int, width: int, random: np.random.Generator) -> Features:
    """Independent normal features; a row longer than sqrt(d) + 2, which hardly any is, is shortened."""
    x, radius = random.normal(size=(rows, width)), math.sqrt(width) + 2
    x *= np.minimum(1, radius / np.linalg.norm(x, axis=1))[:, None]
    return Features("Gaussian", x, "ball", radius**2, radius, "generated")


def linear(x: Floats, count: int, random: np.random.Generator) -> Functions:
    """l linear functions with normal weights, of mean 0 and on average variance 1 on the rows given."""
    mean = x.mean(axis=0)
    spread = math.sqrt(float(((x - mean) ** 2).sum() / len(x)))
    weights = random.normal(size=(x.shape[1], count)) / spread
    return lambda rows: (rows - mean) @ weights


def perceptron(x: Floats, count: int, random: np.random.Generator) -> Functions:
    """l functions tanh(tanh(x A) B) c with A and B in common, of mean 0 and on average variance 1 on the rows given."""
    scale = math.sqrt(float((x**2).sum() / len(x)))
    first = random.normal(size=(x.shape[1], HIDDEN)) * 3 / scale
    second = random.normal(size=(HIDDEN, HIDDEN)) * 3 / math.sqrt(HIDDEN)

    def hidden(rows: Floats) -> Floats:
        found: Floats = np.tanh(np.tanh(rows @ first) @ second)
        return found

    last = linear(hidden(x), count, random)
    return lambda rows: last(hidden(rows))


def noisy(functions: Floats, random: np.random.Generator) -> Single:
    """Outcomes of functions of mean 0 and variance 1."""
    found = random.standard_normal(functions.shape, dtype=np.float32)
    found *= OUTCOME_SD * math.sqrt(1 - SIGNAL)
    found += (OUTCOME_SD * math.sqrt(SIGNAL)) * functions.astype(np.float32)
    return np.clip(found, -1, 1, out=found)


def growing(features: Features, sizes: tuple[int, ...], count: int, random: np.random.Generator) -> Iterator[Sums]:
    """Sums over the first rows, for each of the sizes in rising order; outcomes are drawn piece by piece.

    Args:
        features: at least as many rows as the last size.
        sizes: n.
        count: l, less than every n.
        random: of functions and noise.
    """
    width = features.x.shape[1]
    functions = linear(features.x, count, random)
    xx, xy, yy = np.zeros((width, width)), np.zeros((width, count)), np.zeros((count, count))
    total, square, largest2, start = np.zeros(count), np.zeros(count), 0.0, 0
    for size in sizes:
        while start < size:
            rows = features.x[start : min(start + CHUNK, size)]
            y = noisy(functions(rows), random)
            *parts, largest = _sums(rows, y)
            xx, xy, total, square = (sums + part for sums, part in zip((xx, xy, total, square), parts, strict=True))
            yy += y.T @ y
            largest2, start = max(largest2, largest), start + len(rows)
        side = cache(partial(PublicSide.of_gram, yy.copy()))
        yield Sums(size, xx, xy, total, square, largest2, side)


def _sums(x: Floats, y: Single) -> tuple[Floats, Floats, Floats, Floats, float]:
    xy = (x.astype(np.float32).T @ y).astype(np.float64)
    square = np.einsum("ij,ij->j", y, y, dtype=np.float64)
    largest2 = float(np.einsum("ij,ij->i", y, y, dtype=np.float64).max())
    return x.T @ x, xy, y.sum(axis=0, dtype=np.float64), square, largest2


def _side(y: Single) -> PublicSide:
    """As `PublicSide.of_rows`, from the smaller of the two Gram matrices: outcomes with noise are well conditioned."""
    if len(y) >= y.shape[1]:
        return PublicSide.of_gram((y.T @ y).astype(np.float64))
    values, left = np.linalg.eigh((y @ y.T).astype(np.float64))
    singular = np.sqrt(values[::-1])
    return PublicSide(singular, (y.T @ left[:, ::-1].astype(np.float32)).astype(np.float64) / singular)


def _of_alleles(name: str, alleles: npt.NDArray[np.int8], source: str) -> Features:
    x = np.column_stack([np.full(len(alleles), 0.5), alleles - 0.5])
    return Features(name, x, "box", x.shape[1] / 4, 0.5, source)


@cache
def _alleles() -> tuple[npt.NDArray[np.int8], str]:
    path = FOLDER / "kg_805_haplotypes" / "haplotypes.csv.gz"
    if not path.exists():
        return _made_up(5008, 805), "made-up haplotypes"
    return pd.read_csv(path).iloc[:, 1:].to_numpy(np.int8), "1000 Genomes phase 3, 805 SNPs"


@cache
def _genotypes() -> tuple[npt.NDArray[np.int8], str]:
    path = FOLDER / "kg_phase1_thinned" / "genotypes.csv.gz"
    if not path.exists():
        pair = _made_up(2184, 2000)
        return pair[::2] + pair[1::2], "made-up genotypes"
    return pd.read_csv(path).iloc[:, 1:].to_numpy(np.int8), "1000 Genomes phase 1, thinned"


def _made_up(rows: int, snps: int) -> npt.NDArray[np.int8]:
    random = np.random.default_rng(805)
    common = random.uniform(0.05, 0.95, snps)
    frequencies = random.beta(4 * common, 4 * (1 - common), (3, snps))
    people = np.arange(rows) * 3 // rows
    return (random.random((rows, snps)) < frequencies[people]).astype(np.int8)
