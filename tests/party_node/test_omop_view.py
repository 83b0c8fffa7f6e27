"""The view of deploy/ out of a tiny OMOP data model on a real server, read by the settings that docs/party.md shows."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.reader import record_batches
from party_node.source.scan import scan
from tests.party_node.tables import GRID_BITS, KEY
from tests.support.databases import postgres_table, told
from tests.support.postgres import PASSWORD, Cluster

ROOT = Path(__file__).parents[2]
FEMALE, MALE, SYSTOLIC, BMI, MMHG, KPA, KG_M2, TYPE_2, BELOW = (
    8532,
    8507,
    3004249,
    3038553,
    8876,
    44777602,
    9531,
    201826,
    443729,
)

PERSONS = [(1, "p-1", FEMALE, 1950), (2, "p-2", MALE, 1980), (3, "p-3", 0, 1990), (4, "p-4", MALE, 2015)]
MEASURED = [
    (1, 1, SYSTOLIC, "2024-01-01", 180, MMHG),
    (2, 1, SYSTOLIC, "2025-06-01", 140, MMHG),
    (3, 1, SYSTOLIC, "2025-06-01", 142.5, MMHG),  # the same day, came later
    (4, 1, SYSTOLIC, "2026-02-01", 111, MMHG),  # too late
    (5, 1, BMI, "2020-01-01", 31.25, KG_M2),
    (6, 2, SYSTOLIC, "2025-01-01", 16, KPA),  # another unit
    (7, 2, SYSTOLIC, "2025-01-02", None, MMHG),
    (8, 2, BMI, "2025-01-01", 22, KG_M2),
    (9, 3, SYSTOLIC, "2025-12-31", 120, MMHG),
]
CONDITIONS = [
    (1, 1, BELOW, "2019-01-01"),
    (2, 1, TYPE_2, "2020-01-01"),
    (3, 2, TYPE_2, "2026-05-01"),
    (4, 3, 7, "2020-01-01"),
]
FOUND = {
    "p-1": (76, "female", "142.5", "31.25", "yes"),
    "p-2": (46, "male", None, "22", "no"),
    "p-3": (36, None, "120", None, "no"),
}


@pytest.fixture(scope="module")
def node(postgres: Cluster) -> dict[str, Any]:
    """`[source]` of a node that has the view's own user."""
    url = postgres.database()
    told(url, "CREATE SCHEMA cdm")
    person = "person_id integer, person_source_value varchar(50), gender_concept_id integer, year_of_birth integer"
    postgres_table(url, "cdm.person", person, PERSONS)
    measured = "measurement_id integer, person_id integer, measurement_concept_id integer, measurement_date date"
    postgres_table(url, "cdm.measurement", f"{measured}, value_as_number numeric, unit_concept_id integer", MEASURED)
    condition = (
        "condition_occurrence_id integer, person_id integer, condition_concept_id integer, condition_start_date date"
    )
    postgres_table(url, "cdm.condition_occurrence", condition, CONDITIONS)
    ancestry = "ancestor_concept_id integer, descendant_concept_id integer"
    postgres_table(url, "cdm.concept_ancestor", ancestry, [(TYPE_2, TYPE_2), (TYPE_2, BELOW), (7, 7)])
    script = re.sub(r"--.*", "", (ROOT / "deploy" / "omop_view.sql").read_text())
    told(url, *filter(str.strip, script.split(";")), f"ALTER ROLE dprelease_node PASSWORD '{PASSWORD}'")
    source = postgres.source(url)
    return {**source, "url": source["url"].replace("postgres@", "dprelease_node@")}


def settings(folder: Path, node: dict[str, Any], **changed: Any) -> PartySettings:
    """The settings of the page, for this server."""
    page = (ROOT / "docs" / "party.md").read_text().partition("## Data in a database\n")[2]
    shown = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])
    source = {**shown["source"], **node, **changed}
    return PartySettings.model_validate({"name": "north", "roster": "r", "state": folder, **shown, "source": source})


def test_the_view_has_one_row_a_patient(tmp_path: Path, node: dict[str, Any]) -> None:
    described = settings(tmp_path, node)
    names = ["age", "sex", "systolic", "bmi", "diabetes"]
    (batch,) = record_batches(described.source, names)
    rows = zip(*(batch[name].to_pylist() for name in ("patient_id", *names)), strict=True)
    assert {patient: tuple(cells) for patient, *cells in rows} == FOUND
    table = scan(described, KEY, described.declarations(), GRID_BITS).table()
    assert (table.alignment.rows, table.implausible) == (len(FOUND), frozenset())


def test_its_user_sees_nothing_else(tmp_path: Path, node: dict[str, Any]) -> None:
    query = "SELECT person_id::text AS patient_id, * FROM cdm.measurement"
    described = settings(tmp_path, node, table=None, query=query)
    with pytest.raises(DataRefused, match="permission denied for schema cdm"):
        scan(described, KEY, described.declarations(), GRID_BITS).table()
