"""Releases of a table by the library itself, in one process: declared columns, spec, noise, blocks, fit.

What a hospital, the hub and a learner do, without the network between them: `check_spec` judges the spec, `privatize` draws
secret noise for the exact integers of every party, `fit` reads the release. Only the products of two parties' columns are
worked out in the clear here; hospitals compute the same integers on masked columns.

A release as published is one of these too: its columns are declared on [-1, 1], and a party of d_j columns that adds noise
for d_max with the classic sigma claims mu_j^2 = d_j / (d_max sigma^2), which is below what the target allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np

from benchmarks.common.block_releases import DELTA, Blocks
from benchmarks.common.moment_releases import CURIOUS, bounded
from benchmarks.common.moment_releases import PUBLIC_GRID_BITS as GRID_BITS
from dprelease.arrays import Floats
from dprelease.canonical import sha256
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, NumericColumn, integer_sensitivity, weights_of
from dprelease.estimators import fit
from dprelease.mechanisms.moments.calibration import share_scales
from dprelease.mechanisms.moments.entries import EntryKind, variables
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import JointMoments
from dprelease.mechanisms.noisy_rows.calibration import party_noise, shares
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, Mixing, RowsTerms
from dprelease.privacy.calibration import budget
from dprelease.privacy.noise import SecureNoise
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import PartyColumns, Target, Terms
from tests.support.joint import privatize_moments

Parties = Mapping[str, tuple[Column, ...]]
Model = tuple[float, Floats]
"""Intercept, 0 where none is fitted, and weights; in the units of the table."""


def declared(widths: Sequence[int], lower: float, upper: float = 1.0) -> dict[str, tuple[Column, ...]]:
    """Parties with as many numbers each as given, x0 and so on, all with the same bounds."""
    names = iter(range(sum(widths)))
    return {
        f"party{index}": tuple(
            NumericColumn(name=f"x{next(names)}", lower=lower, upper=upper, fill=(lower + upper) / 2)
            for _ in range(width)
        )
        for index, width in enumerate(widths)
    }


def default_model(rows: Floats, parties: Parties, epsilon: float, weights: Mapping[str, int] | None = None) -> Model:
    """The default on blocks, `epsilon` for each party's block.

    Args:
        rows: (n, p), the outcome last.
        parties: to declared columns.
        epsilon: at `DELTA`.
        weights: column to weight, where it is not 1.
    """
    blocks = Blocks(len(rows), parties, epsilon, weights or {})
    rho, sensitivity2 = blocks.plan.anchor_weight, _sensitivity2(parties, blocks.weights)
    charges = shares(budget(_target("per-party", epsilon)), "per-party", sensitivity2)
    return _of_blocks(rows, parties, epsilon, charges, blocks.plan.outputs, rho, ["calibrated"], blocks.weights)[0]


def published_models(
    rows: Floats, parties: Parties, epsilon: float, methods: Sequence[str], outputs: int | None = None
) -> list[Model]:
    """RMGM, or DGM and BGM, on one release as published.

    Args:
        rows: as of `default_model`.
        parties: columns declared on [-1, 1].
        epsilon: as of `default_model`.
        methods: to fit by.
        outputs: k, for RMGM.
    """
    widest = max(map(len, parties.values()))
    sigma = Fraction(Blocks(len(rows), parties, epsilon).sigma)
    charges = {name: Fraction(len(columns), widest) / sigma**2 for name, columns in parties.items()}
    rounded = {name: Fraction(round(charge * 10**15), 10**15) for name, charge in charges.items()}
    return _of_blocks(rows, parties, epsilon, rounded, outputs, Fraction(0), methods)


def moments_model(rows: Floats, parties: Parties, epsilon: float) -> Model:
    """The default on joint moments, `epsilon` for the whole row; arguments as of `default_model`."""
    target = _target("joint", epsilon)
    coded = variables(tuple(column for columns in parties.values() for column in columns))
    mu2 = budget(target)
    scales = share_scales(sensitivity(coded), mu2, len(parties), CURIOUS, GRID_BITS, 1)
    scale, diagonal = scales[EntryKind.PRODUCT], scales[EntryKind.SQUARE]
    noise = JointMoments(curious=CURIOUS, dealer="rotating", mu2=str(mu2), scale=scale, diagonal_scale=diagonal)
    spec = _spec(parties, len(rows), target, noise)
    tables = _bounded(rows, parties)
    schedule, secret = schedule_of(spec), SecureNoise()
    codes = {name: table.codes.astype(np.float64) for name, table in tables.items()}  # products stay below 2^53
    products = {pair: (codes[pair.first].T @ codes[pair.second]).astype(np.int64) for pair in schedule.pairs}
    blocks = {}
    for name, table in tables.items():
        shares = {
            pair: (product if name == pair.first else 0 * product).view(np.uint64)
            for pair, product in products.items()
            if pair.has(name)
        }
        masks = {peer: bytes.fromhex(sha256(repr(sorted((name, peer))).encode())) for peer in tables if peer != name}
        blocks[name] = (privatize_moments(table, spec, name, shares, masks, secret),)
    return _fitted(Release(spec, blocks, check_spec(spec).words()), "shrinkage")


def _of_blocks(
    rows: Floats,
    parties: Parties,
    epsilon: float,
    charges: Mapping[str, Fraction],
    outputs: int | None,
    rho: Fraction,
    methods: Sequence[str],
    weights: Mapping[str, int] | None = None,
) -> list[Model]:
    mixing = None if outputs is None else Mixing(outputs=outputs, seed=sha256(repr((len(rows), outputs)).encode()))
    sensitivity2 = _sensitivity2(parties, weights or {})
    noise = tuple(party_noise(name, charges[name], sensitivity2[name], outputs or 1, rho) for name in parties)
    terms = RowsTerms(noise=noise) if mixing is None else MixedTerms(mixing=mixing, anchor_weight=str(rho), noise=noise)
    spec = _spec(parties, len(rows), _target("per-party", epsilon), terms, weights)
    words, secret = check_spec(spec).words(), SecureNoise()
    tables = _bounded(rows, parties)
    blocks = {name: privatize(table, spec, name, secret) for name, table in tables.items()}
    release = Release(spec, blocks, words)
    return [_fitted(release, method) for method in methods]


def _target(scope: Literal["joint", "per-party"], epsilon: float) -> Target:
    return Target(scope=scope, epsilon=epsilon, delta=DELTA)


def _sensitivity2(parties: Parties, weights: Mapping[str, int]) -> dict[str, int]:
    return {
        name: integer_sensitivity(columns, 1, GRID_BITS, weights_of(columns, weights))
        for name, columns in parties.items()
    }


def _spec(
    parties: Parties, rows: int, target: Target, terms: Terms, weights: Mapping[str, int] | None = None
) -> ReleaseSpec:
    return ReleaseSpec(
        title="a benchmark",
        consortium="benchmark",
        roster="roster-1",
        rows=rows,
        rows_per_subject=1,
        alignment=sha256(b"rows in order"),
        grid_bits=GRID_BITS,
        target=target,
        parties=tuple(
            PartyColumns(
                party=name, key=sha256(name.encode()), columns=columns, weights=weights_of(columns, weights or {})
            )
            for name, columns in parties.items()
        ),
        terms=terms,
        created="2026-01-01T00:00:00Z",
        expires="2026-01-02T00:00:00Z",
    )


def _bounded(rows: Floats, parties: Parties) -> dict[str, BoundedRows]:
    names = [column.name for columns in parties.values() for column in columns]
    return bounded(dict(zip(names, rows.T, strict=True)), parties, GRID_BITS)


def _fitted(release: Release, method: str) -> Model:
    names = release.spec.released
    result = fit(release, [names[-1]], list(names[:-1]), method)
    return float(result.intercept[0]), result.coef[0]
