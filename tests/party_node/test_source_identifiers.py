"""The normal form of identifiers: one patient, however two exports write it."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from dprelease.errors import DataRefused
from party_node.declarations.identifiers import IdentifierSettings
from party_node.source.first_look import look_at
from tests.party_node.tables import csv, parquet, read, settings

NHS, ISBN, CARD = "9434765919", "080442957X", "4539578763621486"

CASES: list[tuple[dict[str, Any], list[str], str]] = [
    ({}, ["7"], "7"),
    ({"whole_numbers": True}, ["1", "001", "1.0", "1.", "01.00", "1.0000"], "1"),
    ({"whole_numbers": True}, ["0", "000", "0.0"], "0"),
    ({"strip_leading_zeros": True}, ["A17", "00A17"], "A17"),
    ({"strip_leading_zeros": True}, ["0", "000"], "0"),
    ({"case": "upper"}, ["a17", "A17"], "A17"),
    ({"case": "lower"}, ["M\u00dcller", "m\u00fcller"], "m\u00fcller"),
    ({"remove": " -"}, ["943 476-5919", NHS, "-9434765919 "], NHS),
    ({"remove": " ", "check_digit": "mod11"}, ["943 476 5919", NHS], NHS),
    ({"case": "upper", "check_digit": "mod11"}, ["080442957x", ISBN], ISBN),
    ({"check_digit": "luhn"}, [CARD], CARD),
    ({"remove": ".", "case": "upper", "strip_leading_zeros": True, "pattern": r"[A-Z]\d+"}, ["0a.17", "A17"], "A17"),
]

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *(({"whole_numbers": True}, text, "no whole numbers") for text in ("1.5", "A1", "-1", "1.000", "1e3", "\u0663")),
    ({"whole_numbers": True}, "9007199254740992.0", "floats of 9007199254740992 or more"),
    ({"pattern": "[0-9]{3}"}, "12", "do not match pattern = '[0-9]{3}'"),
    ({"pattern": "[0-9]{3}"}, "1234", "do not match"),
    ({"pattern": r"\d"}, "\u0663", "do not match"),
    ({"check_digit": "mod11"}, "9434765918", 'check_digit = "mod11"'),
    ({"check_digit": "mod11"}, "X", "check_digit"),
    ({"check_digit": "luhn"}, "4539578763621487", 'check_digit = "luhn"'),
    ({"check_digit": "luhn"}, "a", "check_digit"),
]


@pytest.mark.parametrize(("rules", "written", "normal"), CASES)
def test_ways_of_writing_one_identifier(rules: dict[str, Any], written: list[str], normal: str) -> None:
    form = IdentifierSettings(**rules)
    assert form.normal(written, "id") == [normal] * len(written)
    assert form.normal([normal], "id") == [normal]
    assert form.normal([None, ""], "id") in ([None, None], [None, ""])


@pytest.mark.parametrize(("rules", "written", "message"), REFUSED)
def test_what_a_rule_forbids_has_the_table_refused_with_a_count(
    tmp_path: Path, rules: dict[str, Any], written: str, message: str
) -> None:
    path = csv(tmp_path, f"id,x,c\n{written},0,u\n")
    with pytest.raises(DataRefused, match=f"^1 identifiers in id .*{re.escape(message)}") as refused:
        read(path, identifiers=rules)
    assert f" {written} " not in str(refused.value)


def test_two_exports_of_the_same_patients_have_equal_digests(tmp_path: Path) -> None:
    rules = {"whole_numbers": True}
    rest = {"x": [0.0, 0.5, 1.0], "c": ["u", "v", "u"]}
    first = read(csv(tmp_path, "id,x,c\n001,0,u\n2.0,0.5,v\n 30,1,u\n"), identifiers=rules)
    floats = read(parquet(tmp_path, {"id": pa.array([1.0, 2.0, 30.0]), **rest}), identifiers=rules)
    whole = read(parquet(tmp_path, {"id": [1, 2, 30], **rest}))
    assert first.alignment.digest == floats.alignment.digest == whole.alignment.digest
    assert first.bounded.digest() == floats.bounded.digest() == whole.bounded.digest()
    with pytest.raises(DataRefused, match="no whole ones"):
        read(parquet(tmp_path, {"id": pa.array([1.5, 2.0, 30.0]), **rest}), identifiers=rules)
    with pytest.raises(DataRefused, match="last digits may be another patient's"):  # 2^53 + 1 is no double
        read(parquet(tmp_path, {"id": pa.array([float(2**53 + 1), 2.0, 30.0]), **rest}), identifiers=rules)
    looked = settings(parquet(tmp_path, {"id": pa.array([1.0, 2.0, 30.0]), **rest}), identifiers=rules)
    assert look_at(looked).problems == []


def test_patients_that_a_rule_makes_one_are_a_repeated_identifier(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,x,c\n1,0,u\n01,0.5,v\n")
    assert read(path).alignment.rows == 2
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        read(path, identifiers={"strip_leading_zeros": True})
    with pytest.raises(DataRefused, match="1 rows have no identifier"):
        read(csv(tmp_path, "id,x,c\n--,0,u\n"), identifiers={"remove": "-"})


@pytest.mark.parametrize("rules", [{"pattern": "["}, {"case": "title"}, {"check_digit": "mod10"}, {"trim": True}])
def test_rules_without_sense_are_refused(tmp_path: Path, rules: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(tmp_path / "rows.csv", identifiers=rules)
