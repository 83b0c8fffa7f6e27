"""Published releases of joint moments of one, two and three hospitals, as files."""

from collections.abc import Mapping
from pathlib import Path

from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column
from dprelease.release.spec import ReleaseSpec
from learner.client.library import Opened
from tests.learner.world import World, stored, verified
from tests.support.joint import exact_gram
from tests.support.specs import categorical, numeric, random_rows

AGE, GLUCOSE = numeric("age", 0.0, 120.0, unit="years"), numeric("glucose", 2.0, 30.0, unit="mmol/l")
SMOKER, STAGE = categorical("smoker", "yes"), categorical("stage", "I", "II")

COLUMNS: Mapping[int, Mapping[str, tuple[Column, ...]]] = {
    1: {"north": (AGE, SMOKER, GLUCOSE, STAGE)},
    2: {"north": (AGE, SMOKER), "south": (GLUCOSE, STAGE)},
    3: {"north": (AGE, SMOKER), "south": (GLUCOSE,), "east": (STAGE,)},
}
"""Number of hospitals to columns: numbers, a binary and a category of more levels, the same whoever holds them."""

VARIABLES = ("age", "smoker=yes", "glucose", "stage=I", "stage=II", "stage=other")
ROWS = 3000


def opened(world: World, folder: Path, **spec: object) -> Opened:
    """A published release, verified as a learner does."""
    sealed = world.sealed(**{"mechanism": "moments", "rows": ROWS, **spec})  # type: ignore[arg-type]
    return verified(stored(folder / "storage", world, sealed), world, folder / "home")


def tables(spec: ReleaseSpec) -> dict[str, BoundedRows]:
    return {part.party: random_rows(spec, part.party) for part in spec.parties}


def truth(spec: ReleaseSpec) -> list[list[float]]:
    """The matrix without noise, scaled units."""
    unit = 4**spec.grid_bits
    return [[int(entry) / unit for entry in row] for row in exact_gram(spec, tables(spec))]
