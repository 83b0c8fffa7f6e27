"""Derived columns from party.toml to catalogue, check, card, approval and block; and public ones."""

import json

import pytest

from dprelease.errors import DataRefused
from tests.party_node.world import ROWS, Hospital, World

SQUARE = '[columns.age_squared]\nderived = { square = "age" }\n[columns.sex]'
SENIOR = '[columns.senior]\nderived = { indicator = "age", from = 65 }\nfill = "other"\n[columns.sex]'


@pytest.fixture
def squared(world: World) -> World:
    """The north derives the square of age, and has reported it."""
    world.north.edit(r"^\[columns.sex\]", SQUARE)
    world.north.cycle()
    return world


def declare(hospital: Hospital, *names: str) -> None:
    result = hospital.run("public", "declare", *names, "--irrevocable")
    assert result.exit_code == 0, result.output


def complaint(hospital: Hospital) -> str:
    return hospital.run("check", "--offline", "--json").stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            'derived = { log = "age", plus = 1 }\nupper = 4',
            "age_squared is derived in another way than the release says",
        ),
        ("source_only", "age_squared of the release is no longer declared in party.toml"),
    ],
    ids=["another formula", "a source"],
)
def test_another_formula_does_not_stand_in_for_the_approved_one(squared: World, change: str, words: str) -> None:
    spec = squared.spec()
    keys = change if "derived" in change else 'kind = "numeric"\nlower = 0\nupper = 9\nfrom = "age"\nsource_only = true'
    squared.north.edit("^derived = .*", keys)
    with pytest.raises(DataRefused, match=words):
        squared.north.hospital_state().table(spec)


def test_a_source_that_turned_unreadable_holds_a_release_of_what_is_derived_from_it(squared: World) -> None:
    north = squared.north
    squared.north.edit(r"^upper = 120", "upper = 120\nsource_only = true")
    squared.north.cycle()
    release = squared.propose()
    header, *lines = north.source.read_text().splitlines()
    north.source.write_text("\n".join([header, *(line.replace(",", ",1000", 1) for line in lines)]) + "\n")
    north.cycle(2)
    assert north.status(release) == "waiting"
    assert f"column age: 0 missing, 0 unreadable, {ROWS} outside bounds" in north.record(release).note
    assert [line["what"] for line in json.loads(complaint(north)) if not line["ok"]] == ["column age"]


# Public columns.


def test_what_is_derived_from_public_columns_alone_is_not_private(squared: World) -> None:
    declare(squared.north, "age")
    assert "age_squared reads age, which is public under another name; leave it out" in complaint(squared.north)
    declare(squared.north, "age_squared")
    assert [column.public for column in squared.north.hospital_state().columns()] == [True, True, False]
    listed = json.loads(squared.north.run("public", "list", "--json").stdout)
    assert [line["source"] for line in listed] == ["age", "age"]


def test_a_public_derived_column_makes_its_sources_public(world: World) -> None:
    world.north.edit(r"^\[columns.sex\]", SENIOR)
    declare(world.north, "senior")
    assert "column age reads age, which is public under another name" in complaint(world.north)
    world.north.edit(r"^upper = 120", "upper = 120\nsource_only = true")
    assert [column.public for column in world.north.hospital_state().columns()] == [True, False]
    assert "senior" in world.north.run("public", "list").output
    assert world.north.hospital_state().make_catalogue().columns[0].public


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("from = 65", "from = 66"), ("^upper = 120", "upper = 130")],
    ids=["formula", "bounds of the source"],
)
def test_an_act_covers_the_formula_and_what_it_is_computed_from(world: World, pattern: str, text: str) -> None:
    world.north.edit(r"^\[columns.sex\]", SENIOR)
    world.north.edit(r"^upper = 120", "upper = 120\nsource_only = true")
    declare(world.north, "senior")
    world.north.edit(pattern, text)
    assert "senior was declared public with other bounds, levels, formula, source or rows" in complaint(world.north)
    declare(world.north, "senior")
    assert [column.public for column in world.north.hospital_state().columns()] == [True, False]


def test_a_product_with_a_public_column_is_still_private(world: World) -> None:
    world.north.edit(r"levels = .*", 'levels = ["female"]')
    world.north.edit(r"^\[columns.sex\]", '[columns.both]\nderived = { product = ["age", "sex"] }\n[columns.sex]')
    declare(world.north, "age")
    assert {column.name: column.public for column in world.north.hospital_state().columns()} == {
        "age": True,
        "both": False,
        "sex": False,
    }


def test_what_is_derived_from_an_identifier_cannot_be_public(world: World) -> None:
    text = '[columns.number]\nkind = "numeric"\nlower = 0\nupper = 9\nfrom = "patient"\nsource_only = true\n'
    world.north.edit(
        r"^\[columns.sex\]",
        text + '[columns.small]\nderived = { indicator = "number", to = 5 }\nfill = "other"\n[columns.sex]',
    )
    assert "reads patient, which identifies patients" in world.north.run("public", "declare", "small").output
    assert "column number is only read, never released" in world.north.run("public", "declare", "number").output
