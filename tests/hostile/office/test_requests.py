"""Requests that the office's own people get wrong: `coordinator release create` refuses them before any hospital is asked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import main
from coordinator.clock import utc_now
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.files.settings import read_settings
from tests.coordinator.office import Office, catalogue, founded
from tests.hostile.faults import Fault, Kind, each
from tests.support.specs import ABOUT

HONEST: dict[str, object] = {"title": "Age", "epsilon": 1.0, "delta": 1e-6, "parties": {"north": ["age"]}}


def asks(what: str, error: type[InvalidInput | SpecRefused], **changed: object) -> Fault:
    unchanged = "no release is made; a mended request is offered"
    return Fault(
        f"the office asks for {what}", "coordinator", Kind.LOCAL, error, unchanged, lambda: {**HONEST, **changed}
    )


REQUESTS = [
    asks("epsilon = 0", InvalidInput, epsilon=0.0),
    asks("epsilon < 0", InvalidInput, epsilon=-1.0),
    asks("an epsilon that is no number", InvalidInput, epsilon="much"),
    asks("delta = 0", InvalidInput, delta=0.0),
    asks("delta >= 1/n", InvalidInput, delta=0.01),
    asks("more than a party's whole cap", InvalidInput, epsilon=50.0),
    asks("k = 0", InvalidInput, k=0),
    asks("k > n", InvalidInput, k=1001),
    asks("a weight rho of 1", InvalidInput, rho=1),
    asks("an unknown mechanism", InvalidInput, mechanism="magic"),
    asks("a grid too coarse", SpecRefused, grid_bits=1),
    asks("a grid too fine: integers reach 2^53", SpecRefused, epsilon=1e-9, delta=1e-9, grid_bits=24),
    asks("a party that never enrolled", InvalidInput, parties={"west": "*"}),
    asks("a column that is not offered", InvalidInput, parties={"north": ["income"]}),
    asks("a column twice", InvalidInput, parties={"north": ["age", "age"]}),
    asks("a party called ../x", InvalidInput, parties={"../x": "*"}),
]


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """An office with one enrolled hospital."""
    path = founded(tmp_path / "office", utc_now()).settings
    store = Store.open(read_settings(path, CoordinatorSettings).database)
    office = Office(store)
    office.enrol("north", now=utc_now())
    office.report(catalogue("north"), now=utc_now())
    yield path
    store.close()


def _create(config: Path, request: dict[str, object]) -> Result:
    parties = request["parties"]
    assert isinstance(parties, dict)
    lines = [f"{key} = {json.dumps(value)}" for key, value in request.items() if key != "parties"]
    lines += [ABOUT, "[parties]", *(f"{json.dumps(name)} = {json.dumps(columns)}" for name, columns in parties.items())]
    path = config.parent / "request.toml"
    path.write_text("\n".join(lines))
    return CliRunner().invoke(main, ["release", "create", str(path), "--json", "--config", str(config)])


@each(REQUESTS)
def test_a_request_that_cannot_be_met_makes_no_release(config: Path, fault: Fault) -> None:
    refused = _create(config, fault.act())
    assert refused.exit_code == fault.exit_code, refused.output
    assert refused.stderr.startswith("error: ")
    listed = CliRunner().invoke(main, ["release", "list", "--json", "--config", str(config)])
    assert json.loads(listed.output) == []
    made = _create(config, HONEST)
    assert made.exit_code == 0, made.output


FAULTS = REQUESTS
