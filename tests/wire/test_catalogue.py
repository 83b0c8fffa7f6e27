"""The catalogue: what a party tells about its table, and nothing more."""

from __future__ import annotations

import pytest

from dprelease.catalogue import Catalogue
from dprelease.errors import InvalidInput
from tests.support.specs import categorical, numeric

CATALOGUE = Catalogue(
    party="north",
    roster="cohort",
    rows=40,
    rows_per_subject=1,
    alignment="ab" * 32,
    columns=(numeric("age", 0.0, 120.0), categorical("sex", "female", "male")),
)


def altered(**fields: object) -> bytes:
    copy = CATALOGUE.model_copy(update=fields)
    return copy.to_bytes()


def test_it_reads_back_and_finds_its_columns() -> None:
    assert Catalogue.from_bytes(CATALOGUE.to_bytes()) == CATALOGUE
    assert CATALOGUE.column("sex") == CATALOGUE.columns[1]
    assert CATALOGUE.column("weight") is None


def test_it_has_no_field_for_a_cell_or_an_identifier() -> None:
    fields = {"format", "party", "roster", "rows", "rows_per_subject", "alignment", "columns", "batches", "identifiers"}
    fields |= {"subjects", "aligned", "comparable"}
    assert set(Catalogue.model_fields) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"rows": 0},
        {"rows_per_subject": 0},
        {"columns": ()},
        {"columns": (numeric("age"), numeric("age"))},
        {"alignment": "AB" * 32},
        {"alignment": "ab"},
        {"party": "north ward"},
        {"format": 2},
    ],
)
def test_one_that_means_nothing_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="not a valid Catalogue"):
        Catalogue.from_bytes(altered(**fields))


def test_other_bytes_of_the_same_catalogue_are_refused() -> None:
    with pytest.raises(InvalidInput, match="canonical"):
        Catalogue.from_bytes(CATALOGUE.to_bytes().replace(b'"rows":40', b'"rows": 40'))
