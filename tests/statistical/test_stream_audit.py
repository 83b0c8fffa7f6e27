"""Empirical audit of whole streams on the worst pairs of neighbours: one event, one patient with two rows, and broken ones.

The broken control is a hospital that draws the noise of a checkpoint anew when it starts again, and so shows it twice.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.mechanisms.base import StreamState
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Audit, Outputs, audit, audit_alike
from tests.statistical.constants import CONTROL_RUNS, JOINT_RUNS, KNOWN_RUNS
from tests.support.joint import summed
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import build_spec, numeric
from tests.support.streams import first_spec, following, multiplied

COLUMNS = {"a": (numeric("x"),), "b": (numeric("y"),), "c": (numeric("z"),)}
ROWS, CHECKPOINTS = 2, 3
NEIGHBOURS = (1.0, -1.0)
"""Cells of y and z; with 1 for the constant and for x they make orthogonal rows, which are the farthest apart."""

Place = tuple[int, int]
"""A checkpoint and a patient's place in it."""


def specs_of(columns: Mapping[str, Any], q: int = 1, factor: str = "square-root") -> list[ReleaseSpec]:
    """All checkpoints' specs; mu near 8: few runs measure it to 2 %."""
    base = build_spec(columns, rows=ROWS, outputs=ROWS, epsilon=64.0, grid_bits=12, rows_per_subject=q)
    found = [first_spec(base, of="moments", checkpoints=CHECKPOINTS, factor=factor)]
    for _ in range(1, CHECKPOINTS):
        found.append(following(found[-1], ROWS))
    return found


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint needs but noise."""

    spec: ReleaseSpec
    tables: Mapping[str, BoundedRows]
    products: Mapping[str, Products]
    increments: Mapping[str, Any]


def prepared(specs: list[ReleaseSpec], cell: float, places: tuple[Place, ...]) -> list[Checkpoint]:
    """Exact numbers of a stream in which these patients have this cell for y and z, and all other cells are 1."""
    found = []
    for number, spec in enumerate(specs, 1):
        tables = {
            part.party: BoundedRows(
                bound(
                    {each.name: _cells(each.name, number, cell, places) for each in part.columns},
                    part.columns,
                    spec.grid_bits,
                ),
                part.columns,
                spec.grid_bits,
            )
            for part in spec.parties
        }
        products = multiplied(spec, tables)
        increments = {
            party: mechanism_of(spec).exact(rows, spec, party, products.get(party)) for party, rows in tables.items()
        }
        found.append(Checkpoint(spec, tables, products, increments))
    return found


def _cells(name: str, number: int, cell: float, places: tuple[Place, ...]) -> Any:
    return np.array([cell if name != "x" and (number, place) in places else 1.0 for place in range(ROWS)])


def outputs(
    stream: list[Checkpoint], noises: Mapping[str, NoiseSource], runs: int, drawn_twice: int | None = None
) -> Outputs:
    """(runs, r) all that is released of a stream: all parties' blocks added up, where masks cancel."""
    return np.array([_released(stream, noises, drawn_twice) for _ in range(runs)])


def _released(stream: list[Checkpoint], noises: Mapping[str, NoiseSource], drawn_twice: int | None) -> Outputs:
    sent: dict[str, Any] = dict.fromkeys(noises)
    shown = []
    for number, each in enumerate(stream, 1):
        made = {}
        for party, noise in noises.items():
            own = {at: earlier.increments[party] for at, earlier in enumerate(stream[:number], 1)}
            arguments = each.tables[party], each.spec, party, noise, each.products.get(party)
            blocks = [
                privatize(*arguments, kept=StreamState(own, sent[party]))[0].values
                for _ in range(2 if number == drawn_twice else 1)
            ]
            made[party] = np.vstack([blocks[0], *(block[-1:] for block in blocks[1:])])
            sent[party] = blocks[0]
        shown.append(summed(each.spec, made.values())[-2 if number == drawn_twice else -1 :])
    return np.vstack(shown).astype(np.float64).ravel()


def nominal(specs: list[ReleaseSpec]) -> float:
    return math.sqrt(check_spec(specs[0]).joint_mu2)


def audited(
    specs: list[ReleaseSpec],
    places: tuple[Place, ...],
    noises: Mapping[str, NoiseSource],
    runs: int = KNOWN_RUNS,
    drawn_twice: int | None = None,
) -> Audit:
    """By an attacker who knows both tables."""
    streams = [prepared(specs, cell, places) for cell in NEIGHBOURS]
    exact = [outputs(each, dict.fromkeys(noises, ZeroNoise()), 1, drawn_twice)[0] for each in streams]
    terms: Any = specs[0].terms
    sd = np.where(layout_of(specs[0]).diagonal, terms.of.diagonal_scale, terms.of.scale)
    noise = np.tile(sd, len(exact[0]) // len(sd))
    return audit_alike(exact, noise, *(outputs(each, noises, runs, drawn_twice) for each in streams))


ALONE = {"a": tuple(column for own in COLUMNS.values() for column in own)}
EVENT: tuple[Place, ...] = ((2, 0),)
PATIENT: tuple[Place, ...] = ((2, 0), (2, 1))
"""Two rows of one patient at one checkpoint, the worst place for them."""


@pytest.mark.parametrize(
    ("places", "q", "runs", "within"),
    [
        pytest.param(EVENT, 1, JOINT_RUNS, 0.05, id="an event", marks=pytest.mark.slow),
        pytest.param(PATIENT, 2, JOINT_RUNS, 0.05, id="a patient with two rows", marks=pytest.mark.slow),
        pytest.param(PATIENT, 2, CONTROL_RUNS, 0.08, id="a patient with two rows, fewer streams"),
    ],
)
def test_a_stream_is_worth_what_is_stated(places: tuple[Place, ...], q: int, runs: int, within: float) -> None:
    """To an attacker who knows nothing."""
    specs = specs_of(ALONE, q)
    measured = audit(*(outputs(prepared(specs, cell, places), {"a": SeededNoise(q)}, runs) for cell in NEIGHBOURS))
    assert measured.standard_error < within / 3 * 1.05 * nominal(specs)
    assert measured.agrees(nominal(specs), errors=3)
    assert abs(measured.mu / nominal(specs) - 1) < within


def test_an_event_is_worth_what_is_stated() -> None:
    specs = specs_of(ALONE)
    assert audited(specs, EVENT, {"a": SeededNoise(1)}).agrees(nominal(specs), errors=3)


def test_a_curious_hospital_learns_what_is_stated() -> None:
    """One of three, which subtracts its own noise from all checkpoints."""
    specs = specs_of(COLUMNS, factor="tree")
    noises = {"a": SeededNoise(10), "b": ZeroNoise(), "c": SeededNoise(11)}
    assert audited(specs, ((1, 0),), noises).agrees(nominal(specs), errors=3)


def test_a_checkpoint_drawn_anew_is_caught() -> None:
    specs = specs_of(ALONE)
    measured = audited(specs, EVENT, {"a": SeededNoise(20)}, drawn_twice=2)
    assert measured.mu > 1.2 * nominal(specs)
    assert not measured.agrees(nominal(specs), errors=5)


def test_a_patient_with_more_rows_than_declared_is_caught() -> None:
    specs = specs_of(ALONE)
    measured = audited(specs, PATIENT, {"a": SeededNoise(30)})
    assert measured.agrees(2 * nominal(specs), errors=3)
    assert not measured.agrees(nominal(specs), errors=5)


def test_streams_with_the_same_noise_have_no_privacy() -> None:
    """Two checkpoints of one draw: their difference has no noise at all."""
    specs = specs_of(ALONE)
    first, second = (
        np.vstack([outputs(stream, {"a": _Same(seed)}, 1) for seed in range(CONTROL_RUNS // 8)])
        for stream in (prepared(specs, cell, EVENT) for cell in NEIGHBOURS)
    )
    assert audit(first, second).mu > 1000 * nominal(specs)


class _Same:
    """The same draw whenever it is asked."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Any:
        return SeededNoise(self._seed).discrete_gaussian(scale, shape)
