"""A catalogue: declarations only, and every name once."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dprelease.catalogue import Catalogue
from dprelease.data.columns import Column
from tests.support.specs import categorical, numeric


def catalogue(*columns: Column, **changes: object) -> Catalogue:
    return Catalogue.model_validate(
        {
            "party": "north",
            "roster": "roster-1",
            "rows": 40,
            "rows_per_subject": 1,
            "alignment": "0" * 64,
            "columns": columns,
            **changes,
        }
    )


def test_bytes_give_back_the_catalogue() -> None:
    given = catalogue(numeric("age"), categorical("sex", "female"))
    assert Catalogue.from_bytes(given.to_bytes()) == given
    assert given.column("sex") == categorical("sex", "female")
    assert given.column("sex=female") is None


@pytest.mark.parametrize("twin", [numeric("sex"), categorical("sex", "female"), categorical("sex", "male")])
def test_a_name_stands_for_one_column(twin: Column) -> None:
    with pytest.raises(ValidationError, match="must be distinct"):
        catalogue(categorical("sex", "female"), twin)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": 10**4000},
        {"rows_per_subject": 0},
        {"rows_per_subject": 10**300},
        {"subjects": 2**53 + 1},
        {"batches": ({"number": 1, "rows": 2**53 + 1, "alignment": "0" * 64},)},
        {"alignment": "0"},
        {"party": "no rth"},
        {"mean": 1.0},
        {"columns": ()},
        {"columns": ({"kind": "categorical", "name": "sex", "levels": ("female", "m" * 201)},)},
        {"columns": ({"kind": "numeric", "name": "age", "lower": 0.0, "upper": 120.0, "unit": "y" * 201},)},
    ],
)
def test_catalogues_without_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        catalogue(**{"columns": (numeric("age"),)} | changes)


def test_the_largest_table_and_the_longest_names_are_taken() -> None:
    longest = (categorical("sex", "f" * 200), numeric("age", unit="y" * 200))
    assert catalogue(*longest, rows=2**53, rows_per_subject=1_000_000).rows == 2**53
