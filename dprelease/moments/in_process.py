"""A whole joint computation in one process, for dry runs: the real sessions of all parties, then every party's block.

Source: joint_moments.md "Protocol", steps 2 to 8.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.block import Block
from dprelease.bounding import BoundedRows
from dprelease.moments.basis import coded
from dprelease.moments.products import schedule_of
from dprelease.mpc.in_memory import Step, multiply
from dprelease.noise import NoiseSource
from dprelease.privatization import privatize_moments
from dprelease.signing import PrivateKey
from dprelease.spec import ReleaseSpec


def compute(
    spec: ReleaseSpec,
    tables: Mapping[str, BoundedRows],
    identities: Mapping[str, PrivateKey],
    commitments: Mapping[str, str],
    noise: NoiseSource,
    step: Step,
) -> dict[str, Block]:
    """Every party's block.

    Args:
        spec: of mechanism ``moments``, that `accounting.check_spec` accepted.
        tables: party to its rows.
        identities: party to the key that signs for it; the spec names these keys.
        commitments: party to what its approval says about its rows.
        noise: secret noise.
        step: told about every step.

    Raises:
        DataRefused: the rows are not those the spec describes.
    """
    matrices = {party: coded(table, spec, party) for party, table in tables.items()}
    if len(matrices) == 1:
        with step("draw noise"):
            return {party: privatize_moments(table, spec, party, {}, {}, noise) for party, table in tables.items()}
    made = multiply(schedule_of(spec), matrices, identities, commitments, step)
    with step("draw noise"):
        return {
            party: privatize_moments(table, spec, party, made[party].shares, made[party].masks, noise, matrices[party])
            for party, table in tables.items()
        }
