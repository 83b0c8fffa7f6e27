"""Two private regressions that need no bounds, for a curator who holds all rows: TukeyEM and Boosted AdaSSP.

TukeyEM (Amin, Joseph, Ribero and Vassilvitskii 2023, Easy differentially private linear regression): least squares on m parts of
the rows, and a model drawn by its approximate Tukey depth among the m: the least, over coordinates, of how many models lie on
either side. Models of depth below m/4 are never drawn; that this is private is first checked, with half of epsilon.

Boosted AdaSSP (Tang, Aydore, Kearns, Rho, Roth, Wang, Wang and Wu 2023, Improved differentially private regression via gradient
boosting): features are clipped to norm 1, one noisy Gram matrix and its ridge serve T rounds, and each round fits residuals that
are clipped to 1. Eigenvalue, Gram matrix and rounds have a third of mu^2 each, so that noise is sqrt(3)/mu and sqrt(3 T)/mu.

Both protect under add-or-remove, as published: under replace-one, as ours is, their noise would be up to twice as large.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.arrays import Floats

ROUNDS = 100
FAILURE = 0.05
"""rho: chance that the ridge is too small."""
_TIE = 1e-10
"""Models are moved so far that no two are equal in any coordinate."""


def tukey(
    x: Floats, y: Floats, models: int, epsilon: float, delta: float, random: np.random.Generator
) -> Floats | None:
    """(d,) one model of TukeyEM, (epsilon, delta)-private; None where its check fails.

    Args:
        x: (n, d) features, a constant among them.
        y: (n,) outcomes.
        models: m, with n/m >= d.
        epsilon: of both steps.
        delta: of both steps.
        random: of the split and the noise.
    """
    found = np.array(
        [
            np.linalg.lstsq(x[part], y[part], rcond=None)[0]
            for part in np.array_split(random.permutation(len(x)), models)
        ]
    )
    ranked = np.sort(found + _TIE * random.random(found.shape), axis=0)
    deepest, half = models // 2, epsilon / 2
    # log volume of depth >= i, i = 1, ..., m/2
    volumes = np.log(ranked[::-1][:deepest] - ranked[:deepest]).sum(axis=1)
    depth = models // 4
    if _distance(volumes, depth, half, delta) + random.laplace(0, 1 / half) < math.log(1 / (2 * delta)) / half:
        return None
    # Density e^(half depth / 2) within the boxes: the box of depth i, uniform, with what it adds to the density of the last.
    depths = np.arange(depth, deepest + 1)
    added = half * depths / 2 + np.log(np.where(depths > depth, -math.expm1(-half / 2), 1.0)) + volumes[depths - 1]
    chosen = int(depths[np.argmax(added + random.gumbel(size=len(added)))])
    return np.asarray(random.uniform(ranked[chosen - 1], ranked[-chosen]), np.float64)


def _distance(volumes: Floats, depth: int, epsilon: float, delta: float) -> int:
    """Rows that have to change, at the least, until the restricted mechanism is unsafe.

    It is the k up to which some g > 0 has V_(t-k-1) / V_(t+k+g+1) e^(-epsilon g/2) <= delta / (8 e^epsilon), V_i the volume
    of depth i and deeper, t the least depth; -1 where not even k = 0 has.
    """
    least = math.log(delta / 8) - epsilon
    for k in range(depth - 1):
        deeper = volumes[depth + k + 1 :]  # of depth t+k+g+1, g = 1, 2, ...
        gains = volumes[depth - k - 2] - deeper - epsilon / 2 * np.arange(1, len(deeper) + 1)
        if gains.min(initial=math.inf) > least:
            return k - 1
    return depth - 2


def boosted_adassp(x: Floats, y: Floats, mu: float, random: np.random.Generator) -> Floats:
    """(d,) the model of Boosted AdaSSP, mu-GDP, for features clipped by `clipped`.

    Args:
        x: (n, d) features, a constant among them.
        y: (n,) outcomes.
        mu: budget.
        random: of the noise.
    """
    x = clipped(x)
    d, sd = x.shape[1], math.sqrt(3) / mu
    exact, noise = x.T @ x, np.triu(random.normal(0, sd, (d, d)))
    seen = max(0.0, float(np.linalg.eigvalsh(exact)[0]) + sd * (random.normal() - math.sqrt(2 * math.log(1 / FAILURE))))
    ridge = max(0.0, sd * math.sqrt(d * math.log(2 * d**2 / FAILURE)) - seen)
    gram = exact + noise + np.triu(noise, 1).T + ridge * np.eye(d)
    model = np.zeros(d)
    for _ in range(ROUNDS):
        cross = x.T @ np.clip(y - x @ model, -1, 1) + random.normal(0, sd * math.sqrt(ROUNDS), d)
        model += np.linalg.solve(gram, cross)
    return model


def clipped(x: Floats) -> Floats:
    """Rows of norm at most 1."""
    found: Floats = x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    return found
