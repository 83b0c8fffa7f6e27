"""Donors in, noisy integers out: their ridge weights for the target, and their values from the intervention on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.arrays import Integers
from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms.synthetic_control.ridge import Law, ridge_weights
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase


def noisy_panel(
    rows: BoundedRows, spec: SpecBase, terms: SyntheticControlTerms, noise: NoiseSource
) -> tuple[Integers, Integers]:
    """(n, 1) weights in steps of 2^-24 and (n, T - T0) codes on the grid, both with noise.

    Guarantee: for donors that differ in one person's whole series, before and after (replace-one), together mu-GDP on the grid
    with mu^2 = Delta_int^2/(sigma_f^2 - 4) + 4 q (T - T0) G^2/(sigma_Z^2 - 4). Delta_int has room for the rounding of weights and
    for their numerical error, which `ridge_weights` certifies. With Laplace noise they are epsilon-differentially private with
    epsilon = sqrt(n) Delta_int/t_f + 2 q (T - T0) G/t_Z, and delta = 0. Derived in docs/guarantees.md 21.

    Args:
        rows: (n, T) codes.
        spec: a spec that `accounting.check_spec` accepted.
        terms: its terms.
        noise: secret noise; `SecureNoise` outside tests.
    """
    problem = terms.problem(spec)
    before, bits = problem.before, spec.grid_bits
    weights = ridge_weights(rows.codes[:, :before], problem.codes(bits), Fraction(terms.penalty), bits)[:, None]
    after = rows.codes[:, before:].astype(np.int64)
    return (
        weights + _drawn(noise, terms.law, terms.weights_scale, weights.shape),
        after + _drawn(noise, terms.law, terms.donors_scale, after.shape),
    )


def _drawn(noise: NoiseSource, law: Law, scale: float, shape: tuple[int, ...]) -> Integers:
    rows, columns = shape
    if law == "laplace":
        return noise.discrete_laplace(int(scale), (rows, columns))
    return noise.discrete_gaussian(scale, (rows, columns))
