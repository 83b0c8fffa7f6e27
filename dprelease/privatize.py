"""The whole way of the data inside a hospital: bounded rows in, a block that may be shown to anybody out.

    bounded rows -> exact integer query (anchor and public mix) -> discrete Gaussian noise -> block

Everything in front of this function reads patients' data; everything behind it only ever sees released bytes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.block import Block, expected_header
from dprelease.bounding import BoundedRows
from dprelease.errors import DataRefused
from dprelease.mixing import BernoulliMixing
from dprelease.noise import NoiseSource
from dprelease.public_stream import PublicStream
from dprelease.spec import ReleaseSpec


def privatize(bounded: BoundedRows, spec: ReleaseSpec, party: str, noise: NoiseSource) -> Block:
    """One party's block.

    Guarantee: for tables that differ in all cells of one patient (replace-one), the block is mu_j-GDP on the grid with
    mu_j^2 = `accounting.guarantee(spec).party(party).mu2`; derived in `dprelease.calibration`. It holds for every fixed
    public matrix B, so B needs no secrecy (privacy.md 2.1).

    Args:
        bounded: the party's rows in canonical order, (n, d_j) codes.
        spec: a spec that `accounting.check_spec` accepted.
        party: name of the party in the spec.
        noise: secret noise; `SecureNoise` outside tests.

    Returns:
        The block; with mechanism ``mixed`` the anchor row comes first.

    Raises:
        DataRefused: the rows are not those the spec describes.
    """
    part = spec.party(party)
    if part is None or bounded.columns != part.columns or bounded.grid_bits != spec.grid_bits:
        raise DataRefused("these rows were bounded under other declarations than the spec's")
    if len(bounded.codes) != spec.rows:
        raise DataRefused(f"the source has {len(bounded.codes)} rows where the spec says {spec.rows}")
    exact = integer_query(bounded.codes, spec)
    scales = spec.noise_of(party)
    header = expected_header(spec, party)
    drawn = noise.discrete_gaussian(scales.scale, (spec.squared_norm() if spec.mixing else spec.rows, header.columns))
    if scales.anchor_scale is not None:
        drawn = np.vstack([noise.discrete_gaussian(scales.anchor_scale, (1, header.columns)), drawn])
    return Block(header, exact + drawn)


def integer_query(codes: npt.NDArray[np.int32], spec: ReleaseSpec) -> npt.NDArray[np.int64]:
    """The exact integers that noise is added to: [1^T Q; B Q] for ``mixed``, Q for ``rows``; (rows, d_j) int64."""
    if spec.mixing is None:
        return codes.astype(np.int64)
    stream = PublicStream(bytes.fromhex(spec.mixing.seed))
    mixed = BernoulliMixing(stream, spec.mixing.outputs, spec.rows).apply([codes])
    if not Fraction(spec.anchor_weight):
        return mixed
    return np.vstack([codes.sum(axis=0, dtype=np.int64), mixed])
