"""What docs/format.md says about the units of a release, and about the level that a regression leaves out."""

import numpy as np
import pytest

from dprelease.data.bounding import bound
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.release.release import Release
from tests.support.specs import build_spec, categorical, numeric
from tests.test_docs_format import FORMAT, table

UNITS = [numeric("age", 20.0, 90.0), categorical("smoker", "yes"), categorical("stage", "I", "II")]


def in_units(released: str) -> tuple[float, float]:
    """(midpoint, half-width) by the table of section 14."""
    written = {row[0]: (row[1], row[2]) for row in table(FORMAT, "released column", "midpoint", "half-width")}
    of_a_number, of_a_level, of_other, of_more = written.values()
    assert of_a_number == ("(lower + upper)/2", "(upper - lower)/2")
    if released == "age":
        return (20.0 + 90.0) / 2, (90.0 - 20.0) / 2
    found = of_more if released.startswith("stage") else of_a_level if released == "smoker=yes" else of_other
    return float(found[0]), float(found[1])


def test_values_in_their_units() -> None:
    """The sums of section 14 in units, from a release without noise, are those of the table."""
    spec = build_spec({"north": tuple(UNITS)}, mechanism="moments", rows=4, grid_bits=20)
    smoker = ["yes", "no", None, "yes"]
    cells = {"age": [30.0, 41.0, 90.0, 20.0], "smoker": smoker, "stage": ["II", "I", "III", "II"]}
    rows = bound(cells, tuple(UNITS), 20)
    table_ = {
        "age": np.array(cells["age"]),
        "smoker=yes": np.array([1.0, 0, 0, 1]),
        "smoker=other": np.array([0.0, 1, 1, 0]),
        "stage=I": np.array([0.0, 1, 0, 0]),
        "stage=II": np.array([1.0, 0, 0, 1]),
        "stage=other": np.array([0.0, 0, 1, 0]),
    }
    x = np.hstack([np.full((4, 1), 1 << 20), code(rows, tuple(UNITS))]).astype(float) / 2**20
    sums = x.T @ x
    layout = layout_of(spec)
    moments = NoisyMoments(layout, sums, np.zeros_like(sums), 4)
    for name, values in table_.items():
        i, a, g = moments.lookup(name)
        assert (a, g) == in_units(name)
        assert 4 * a + g * sums[0, i] == pytest.approx(values.sum(), abs=1e-3)
        for other, others in table_.items():
            k, c, h = moments.lookup(other)
            products = 4 * a * c + a * h * sums[0, k] + c * g * sums[0, i] + g * h * sums[i, k]
            assert products == pytest.approx(values @ others, abs=1e-3)


def test_rows_have_every_level_in_a_column_of_its_own() -> None:
    spec = build_spec({"north": tuple(UNITS)}, mechanism="rows", rows=4)
    midpoint, half_width = Release(spec, {}, ()).original_units()
    assert midpoint.tolist() == [55.0, 0, 0, 0, 0, 0]
    assert half_width.tolist() == [35.0, 1, 1, 1, 1, 1]
    assert "every value of a category has midpoint 0 and half-width 1" in " ".join(FORMAT.split())


def test_the_first_level_is_the_reference() -> None:
    release = Release(build_spec({"north": tuple(UNITS)}, mechanism="moments", rows=4), {}, ())
    names = ("age", "smoker", "stage")
    assert release.expand(names, reference=True) == ("age", "smoker=yes", "stage=II", "stage=other")
    assert release.expand(("stage=I",), reference=True) == ("stage=I",)
    assert release.expand(("stage",), reference=False) == ("stage=I", "stage=II", "stage=other")
    whole = (categorical("NAME", "yes", "no", exhaustive=True, fill="no"), numeric("age"))
    release = Release(build_spec({"north": whole}, mechanism="moments", rows=4), {}, ())
    assert release.expand(("NAME",), reference=True) == ("NAME=no",)
    assert "exhaustive levels `yes` and `no` the feature `NAME=no`" in " ".join(FORMAT.split())
    assert "leave out that of the first declared level, unless released columns are named" in " ".join(FORMAT.split())
