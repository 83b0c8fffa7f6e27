"""Made-up releases: FAKE in every name, every other number as it is, cells that follow from the spec alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.canonical import sha256
from dprelease.data.bounding import RawColumn
from dprelease.errors import InvalidInput
from dprelease.release.accounting import check_spec, guarantee
from dprelease.release.fake import NOTE, SIGNAL, fake_cells, fake_rows, fake_spec, marked, note
from dprelease.release.spec import ReleaseSpec
from tests.support.rehearsals import made_up
from tests.support.specs import TWO_PARTIES, build_spec, categorical, numeric

ROWS = 4000
THREE = {
    "a": (numeric("x", 10.0, 20.0), categorical("colour", "red", "green")),
    "b": (numeric("z"), categorical("smokes", "yes")),
    "c": (numeric("y", -5.0, 0.0),),
}


def spec_of(mechanism: str = "mixed", **more: object) -> ReleaseSpec:
    """With keys that are the same every time, and so with the same cells."""
    real = build_spec(THREE, mechanism=mechanism, rows=ROWS, **more)  # type: ignore[arg-type]
    return fake_spec(real, {marked(name): sha256(name.encode()) for name in THREE}, ROWS)


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_all_names_say_fake_and_no_number_changes(mechanism: str) -> None:
    real = build_spec(mechanism=mechanism)
    fake, _ = made_up(real)
    assert (fake.title, fake.consortium, fake.roster) == ("FAKE: a test release", "FAKE-trial", "FAKE-roster-1")
    assert [part.party for part in fake.parties] == ["FAKE-north", "FAKE-south"]
    assert fake.alignment != real.alignment
    assert not {part.key for part in fake.parties} & {part.key for part in real.parties}
    named = {"title", "consortium", "roster", "alignment", "parties", "terms"}
    assert fake.model_dump(exclude=named) == real.model_dump(exclude=named)
    without = {"noise": {"__all__": {"party"}}}
    assert fake.terms.model_dump(exclude=without) == real.terms.model_dump(exclude=without)
    assert [part.columns for part in fake.parties] == [part.columns for part in real.parties]
    assert [part.mu2 for part in check_spec(fake).parties] == [part.mu2 for part in guarantee(real).parties]


def test_long_names_and_titles_are_cut_to_what_a_spec_allows() -> None:
    name, title = "n" * 64, "t" * 200
    assert len(marked(name)) == 64
    assert made_up(build_spec({name: TWO_PARTIES["south"]}, title=title))[0].title == f"FAKE: {'t' * 194}"
    one, other = "n" * 63 + "a", "n" * 63 + "b"
    with pytest.raises(InvalidInput):
        fake_spec(
            build_spec({one: TWO_PARTIES["north"], other: TWO_PARTIES["south"]}),
            dict.fromkeys([marked(one)], "0" * 64),
            40,
        )


def test_fewer_patients_but_not_fewer_than_mixing_rows() -> None:
    real = build_spec(rows=40, outputs=8)
    assert made_up(real, 8)[0].rows == 8
    with pytest.raises(InvalidInput, match="more mixing rows than patients"):
        made_up(real, 7)


def test_only_made_up_releases_carry_the_note() -> None:
    assert note(build_spec()) == ()
    assert note(spec_of()) == (NOTE,)


def numbers(cells: RawColumn) -> np.ndarray:
    return np.asarray(cells, np.float64)


def test_cells_follow_from_the_spec_and_from_nothing_else() -> None:
    one, other = spec_of(), spec_of("rows")
    assert np.array_equal(fake_cells(one, "y")["x"], fake_cells(one, "y")["x"])
    assert not np.array_equal(fake_cells(one, "y")["x"], fake_cells(other, "y")["x"])


def test_numbers_spread_evenly_over_their_ranges_and_categories_over_their_levels() -> None:
    cells = fake_cells(spec_of(), "y")
    for name, lower, upper in (("x", 10.0, 20.0), ("z", -1.0, 1.0), ("y", -5.0, 0.0)):
        scaled = (numbers(cells[name]) - lower) / (upper - lower)
        assert 0 < scaled.min() < 0.01 < 0.99 < scaled.max() < 1
        gap = np.abs(np.sort(scaled) - (np.arange(ROWS) + 0.5) / ROWS).max()
        assert gap < 2.5 / math.sqrt(ROWS)  # Kolmogorov's statistic; beyond it once in 100,000 draws
    counts = {level: list(cells["colour"]).count(level) for level in ("red", "green", "other")}
    assert sum(counts.values()) == ROWS
    assert all(abs(count - ROWS / 3) < 5 * math.sqrt(ROWS * 2 / 9) for count in counts.values())


@pytest.mark.parametrize("outcome", ["y", "x"])
def test_the_outcome_depends_on_the_others_and_they_on_nothing(outcome: str) -> None:
    cells = fake_cells(spec_of(), outcome)
    numeric_cells = {name: numbers(cells[name]) for name in ("x", "z", "y")}
    indicators = np.column_stack(
        [np.array(cells["colour"]) == "red", np.array(cells["colour"]) == "green", np.array(cells["smokes"]) == "yes"]
    ).astype(np.float64)
    others = [values for name, values in numeric_cells.items() if name != outcome]
    design = np.column_stack([np.ones(ROWS), indicators, *others])
    y = numeric_cells[outcome]
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert (
        abs(1 - left.var() / y.var() - SIGNAL) < 0.06
    )  # 5 standard errors of R^2, and a bend that lines do not follow
    assert abs(np.corrcoef(others)[0, 1]) < 5 / math.sqrt(ROWS)


def test_a_lone_column_is_made_up_too() -> None:
    spec, _ = made_up(build_spec({"solo": (numeric("x"),)}, rows=100))
    assert len(numbers(fake_cells(spec, "x")["x"])) == 100


def test_a_categorical_outcome_keeps_its_levels() -> None:
    cells = fake_cells(spec_of(), "colour")
    assert set(cells["colour"]) == {"red", "green", "other"}


def test_rows_are_bounded_the_way_a_hospital_bounds_its_own() -> None:
    spec = spec_of()
    rows = fake_rows(spec, "y")
    assert [table.columns for table in rows.values()] == [part.columns for part in spec.parties]
    assert {len(table.codes) for table in rows.values()} == {ROWS}
    unit = 1 << spec.grid_bits
    expected = np.rint((numbers(fake_cells(spec, "y")["x"]) - 15) / 5 * unit)
    assert np.array_equal(rows["FAKE-a"].codes[:, 0], expected)
