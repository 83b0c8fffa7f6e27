"""Several spellings of one level: read as that level, refused where a text would mean two, and covered by a public act."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from party_node.source.first_look import look_at
from tests.party_node.tables import csv, settings

SEX: dict[str, Any] = {"kind": "categorical", "levels": ["female", "male"]}
SPELT = {"c": SEX | {"spellings": {"female": ["F", "1"], "male": "M"}}}


@pytest.mark.parametrize(
    ("keys", "source", "words"),
    [
        ({"spellings": {"femal": ["F"]}}, {}, "column c: spellings: 'femal' is not one of its levels"),
        ({"spellings": {"female": ["x"], "male": ["x"]}}, {}, "column c: spellings: 'x' means something already"),
        ({"spellings": {"female": ["male"]}}, {}, "column c: spellings: 'male' means something already"),
        ({"spellings": {"female": ["?"]}, "missing": "?"}, {}, "column c: spellings: '.' means something already"),
        ({"spellings": {"female": ["?"]}}, {"missing": ["?"]}, "column c: spellings: '.' is a missing cell"),
        ({"spellings": {"female": [""]}}, {}, "column c: spellings"),
    ],
)
def test_a_text_means_one_thing(tmp_path: Path, keys: dict[str, Any], source: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(tmp_path / "rows.csv", {"c": SEX | keys}, **source)
    assert re.search(words, str(caught.value))


def test_numbers_have_none(tmp_path: Path) -> None:
    number = {"kind": "numeric", "lower": 0, "upper": 1, "spellings": {"1": ["one"]}}
    with pytest.raises(ValidationError, match="column x: spellings: only categories have them"):
        settings(tmp_path / "rows.csv", {"x": number})


def test_another_spelling_is_another_column_for_a_public_act(tmp_path: Path) -> None:
    plain, spelt = (settings(tmp_path / "rows.csv", each).declared["c"] for each in ({"c": SEX}, SPELT))
    again = SEX | {"spellings": {"male": ["M"], "female": ["1", "F"]}}
    assert plain.origin == "c" != spelt.origin
    assert settings(tmp_path / "rows.csv", {"c": again}).declared["c"].origin == spelt.origin
    indicator = {"yes": {"derived": {"indicator": "c", "level": "female"}}}
    derived = [settings(tmp_path / "rows.csv", {**each, **indicator}).declared["yes"] for each in ({"c": SEX}, SPELT)]
    assert derived[0].origin != derived[1].origin


def test_a_look_at_several_rows_a_patient_counts_both_and_shows_texts_of_levels(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,c,x\na,F,2\na,W,0\nb,male,0\n")
    number = {"kind": "numeric", "lower": 0, "upper": 1, "aggregate": "mean"}
    look = look_at(settings(path, {"c": SEX | {"aggregate": "last"}, "x": number}, rows="last"))
    assert look.size == "3 rows of 2 patients"
    assert [each.text for each in look.columns["c"].examples] == ["F", "W"]
    assert not look.columns["x"].examples  # 2 and 0 are 1, which is within the bounds
