"""Synthetic rows by the fit of `learner synthesize` to a simulated release of three hospitals, one of which may be curious."""

from __future__ import annotations

import numpy as np

from benchmarks.common.moment_releases import noisy_moments
from benchmarks.tables.data import SOURCES, Coded
from benchmarks.tables.scores import aucs
from dprelease.arrays import Integers
from dprelease.estimators.joint.fit import fit_joint
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.gaussian import mu_of
from dprelease.privacy.public_stream import PublicNormals

EPSILON, DELTA = 1.0, 1e-5
SEED = 20261128
MADE_UP = 20_000


def release(table: Coded, people: Integers, mu: float, random: np.random.Generator) -> NoisyMoments:
    """Joint moments of people, with noise."""
    x = np.hstack([np.ones((len(people), 1)), table.coded(people)])
    return noisy_moments(x.T @ x, len(people), mu, 3, random, table.columns)


def mixture(table: Coded, people: Integers, mu: float, random: np.random.Generator, count: int) -> Integers:
    """So many rows of a release of people."""
    joint = fit_joint(release(table, people, mu, random), "rows", random.bytes(32))
    return joint.draw(count, PublicNormals(random.bytes(32)))


def lost(name: str, rows: int, draws: int) -> tuple[float, list[float]]:
    """Patients for each of noise, and the part of its distance from 1/2 that the AUC of logistic models loses in each draw."""
    table, mu, found = SOURCES[name][1](), mu_of(EPSILON, DELTA), []
    for draw in range(draws):
        random = np.random.default_rng([SEED, rows, draw])
        order = random.permutation(len(table.codes))
        people, others = table.codes[order[:rows]], table.codes[order[rows:]]
        of_rows, of_people = (
            aucs(table, each, others, boosting=False)[0] - 0.5
            for each in (mixture(table, people, mu, random, MADE_UP), people)
        )
        found.append(1 - of_rows / of_people)
    noise = release(table, people, mu, random).noise_sd.max()
    return rows / float(noise), found
