"""Numbers without bounds in party.toml: how they are declared, read and derived, and what they cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.data.columns import CategoricalColumn, NumericColumn
from dprelease.data.decades import decade_values
from tests.party_node.tables import GRID_BITS, csv, read, settings
from tests.party_node.world import World

FERRITIN: dict[str, Any] = {"kind": "numeric", "bounds": "unknown", "unit": "ug/l"}
COLUMNS = {"ferritin": FERRITIN, "age": {"kind": "numeric", "lower": 18, "upper": 100}}


def declared(**more: dict[str, Any]) -> dict[str, NumericColumn | CategoricalColumn]:
    return {each.name: each for each in settings(Path("rows.csv"), COLUMNS | more).declarations()}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"lower": 0}, "leave out lower and upper, or bounds"),
        ({"upper": 1000}, "leave out lower and upper, or bounds"),
        ({"bounds": "none"}, "bounds"),
        ({"fill": 1e10}, "fill"),
        ({"kind": "categorical", "levels": ["yes"]}, "bounds"),
        ({"public": True}, "party-node public declare ferritin"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        declared(ferritin=FERRITIN | changed)


@pytest.mark.parametrize(
    ("derived", "more", "lower", "upper", "bounds"),
    [
        ({"log": "ferritin", "plus": 1}, {}, -1e9, 1e9, "unknown"),
        ({"square": "ferritin"}, {"lower": 0, "upper": 1e6}, 0.0, 1e6, "declared"),
        ({"product": ["age", "ferritin"]}, {"bounds": "unknown"}, -1e9, 1e9, "unknown"),
        ({"log": "age"}, {"bounds": "unknown"}, -1e9, 1e9, "unknown"),
    ],
)
def test_what_is_derived(
    derived: dict[str, Any], more: dict[str, Any], lower: float, upper: float, bounds: str
) -> None:
    found = declared(x={"derived": derived, **more})["x"]
    assert isinstance(found, NumericColumn)
    assert (found.lower, found.upper, found.bounds) == (lower, upper, bounds)
    assert NumericColumn.from_bytes(found.to_bytes()) == found


def test_derived_columns_that_are_refused() -> None:
    with pytest.raises(ValueError, match="column x: upper: none follows for log"):
        declared(x={"derived": {"log": "ferritin"}, "lower": 0})
    with pytest.raises(ValueError, match="leave out lower and upper"):
        declared(x={"derived": {"log": "age"}, "bounds": "unknown", "lower": 0})
    indicator = declared(x={"derived": {"indicator": "ferritin", "from": 300}, "fill": "other"})["x"]
    assert isinstance(indicator, CategoricalColumn)


def test_cells_are_read_as_ever_and_counted(tmp_path: Path) -> None:
    lines = {"P1": "36.6", "P2": "", "P3": "much", "P4": "-7", "P5": "1e300", "P6": "0", "P7": "1e-12", "P8": "5e8"}
    text = "id,ferritin,age\n" + "".join(f"{name},{cell},50\n" for name, cell in lines.items())
    found = read(csv(tmp_path, text), COLUMNS)
    values = sorted(decade_values(found.bounded.codes[:, 0], GRID_BITS).tolist())
    expected = sorted([36.6, 0.0, 0.0, -7.0, 1e9, 0.0, 0.0, 5e8])
    np.testing.assert_allclose(values, expected, rtol=2.0**-GRID_BITS, atol=1e-8)
    counted = found.findings["ferritin"]
    assert (counted.missing, counted.unreadable, counted.outside) == (1, 1, 1)


def test_it_cannot_be_public(world: World) -> None:
    world.north.edit(r"(\[columns.age\]\nkind = .numeric.\n)lower = .*\nupper = .*\n", r'\1bounds = "unknown"\n')
    result = world.north.run("public", "declare", "age", "--irrevocable")
    assert result.exit_code != 0
    assert "column age has unknown bounds; a public column has some: declare lower and upper" in result.output
