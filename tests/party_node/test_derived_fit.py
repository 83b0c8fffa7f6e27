"""From two hospitals' files to a stranger's fit: a curve is found because one of them declared a square."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dprelease.data.columns import Column
from dprelease.estimators import fit
from dprelease.identity.signing import key_fingerprint
from learner.cli.main import main
from learner.client.library import Opened
from party_node.source.scan import BoundedTable, scan
from tests.learner.world import Sealed, World, stored, verified
from tests.party_node.tables import KEY, csv, settings
from tests.support.joint import compute
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec

ROWS, GRID_BITS = 3000, 10
CURVATURE, BOTTOM, SPREAD = 0.02, 55.0, 3.0
GENERATOR = np.random.default_rng(1)
AGE = GENERATOR.uniform(20, 98, ROWS)
OUTCOME = 20 + CURVATURE * (AGE - BOTTOM) ** 2 + GENERATOR.normal(0, SPREAD, ROWS)
COLUMNS: dict[str, dict[str, dict[str, Any]]] = {
    "north": {
        "age": {"kind": "numeric", "lower": 18, "upper": 100, "unit": "years"},
        "curve": {"derived": {"square": "age", "plus": -59}},
        "raw_curve": {"derived": {"square": "age"}},
    },
    "south": {"y": {"kind": "numeric", "lower": 0, "upper": 60}},
}


def tables(folder: Path, chosen: tuple[str, ...]) -> dict[str, tuple[tuple[Column, ...], BoundedTable]]:
    """Each hospital's columns and its table as its node reads it, in the file's own order."""
    found = {}
    for seed, (party, values) in enumerate({"north": ("age", AGE), "south": ("y", OUTCOME)}.items()):
        name, cells = values
        order = np.random.default_rng(seed).permutation(ROWS)
        path = csv(folder, f"id,{name}\n" + "".join(f"{at},{cells[at]}\n" for at in order.tolist()), f"{party}.csv")
        described = settings(path, COLUMNS[party])
        columns = tuple(column for column in described.declarations() if column.name in chosen)
        found[party] = columns, scan(described, KEY, columns, GRID_BITS).table()
    return found


def opened(folder: Path, *chosen: str) -> Opened:
    """A release of joint moments at epsilon = 1, published, fetched and verified."""
    made = tables(folder, chosen)
    assert len({table.alignment.digest for _, table in made.values()}) == 1
    assert not any(table.implausible for _, table in made.values())
    world = World(folder, {party: columns for party, (columns, _) in made.items()})
    keys = {name: key_fingerprint(member.key.public_key()) for name, member in world.parties.items()}
    spec = build_spec(world.columns, mechanism="moments", rows=ROWS, grid_bits=GRID_BITS, keys=keys)
    session = compute(
        spec,
        {party: table.bounded for party, (_, table) in made.items()},
        {party: SeededNoise(number) for number, party in enumerate(made)},
    )
    blocks = {party: block.to_bytes() for party, block in session.blocks.items()}
    identities = {party: world.seal(party, spec, block) for party, block in blocks.items()}
    sealed = Sealed(spec, blocks, identities, tuple(world.approval(party, spec) for party in blocks))
    return verified(stored(folder / "storage", world, sealed), world, folder / "home")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened(tmp_path_factory.mktemp("curve"), "age", "curve", "y")


def explained(release: Opened, features: list[str], values: np.ndarray[Any, Any]) -> float:
    """Share of the outcome's variance that a fit explains among the patients themselves."""
    fitted = fit(release.release, ["y"], features)
    predicted = np.ravel(fitted.intercept)[0] + values @ np.ravel(fitted.coef)
    return float(1 - np.mean((OUTCOME - predicted) ** 2) / np.var(OUTCOME))


def test_the_fit_finds_the_curvature(release: Opened) -> None:
    """Least squares without privacy explain 0.91; a line explains a tenth."""
    values = np.column_stack([AGE, (AGE - 59) ** 2])
    whole = np.column_stack([np.ones(ROWS), values])
    residual = OUTCOME - whole @ np.linalg.lstsq(whole, OUTCOME, rcond=None)[0]
    best = 1 - np.var(residual) / np.var(OUTCOME)
    assert explained(release, ["age"], values[:, :1]) < 0.2
    assert 0.9 * best < explained(release, ["age", "curve"], values) <= best
    found = fit(release.release, ["y"], ["age", "curve"]).inference
    assert found is not None
    truth = np.array([2 * CURVATURE * (59 - BOTTOM), CURVATURE])  # y = 20 + c (age - 59)^2 + 2 c (59 - 55) age + ...
    assert (abs(found.estimate[0] - truth) < 4 * found.standard_error[0]).all()
    assert found.estimate[0, 1] > 10 * found.standard_error[0, 1]


def test_a_square_that_is_not_taken_from_the_middle_is_hidden_by_noise(tmp_path: Path) -> None:
    """Why docs/party.md advises to subtract the middle: the very same model, and less than half of it found."""
    found = opened(tmp_path, "age", "raw_curve", "y")
    assert explained(found, ["age", "raw_curve"], np.column_stack([AGE, AGE**2])) < 0.5


def test_the_command_line_says_what_the_column_is(release: Opened, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["--home", str(release.folder.path.parents[2] / "home"), *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    folder = str(release.folder.path)
    assert "curve is derived: (age - 59)^2" in run("describe", folder)
    assert json.loads(run("describe", folder, "--json"))["derivations"] == {"curve": "(age - 59)^2"}
    fitted = json.loads(run("fit", folder, "--target", "y", "--features", "age,curve", "--json"))
    assert [row["value"] for row in fitted["predictor"]][1:] == fit(release.release, ["y"], ["age", "curve"]).coef[
        0
    ].tolist()
    page, card = tmp_path / "page.html", tmp_path / "card.json"
    run("report", folder, "--target", "y", "--output", str(page))
    assert "0 to 1681; derived: (age - 59)^2" in page.read_text()
    run("card", folder, "--target", "y", "--output", str(card))
    derived = {each["name"]: each["derivation"] for each in json.loads(card.read_text())["data"]}
    assert derived == {"age": "", "curve": "(age - 59)^2", "y": ""}
