"""What a release is about: what is required, what is refused and why."""

from typing import Any

import pytest

from dprelease.about import LICENCES, About, Creator
from dprelease.canonical import canonical_bytes, read_data
from dprelease.errors import InvalidInput
from dprelease.release.spec import ReleaseSpec
from tests.support.specs import build_spec

WHOLE: dict[str, Any] = {
    "description": "Blood pressure",
    "licence": "CC-BY-4.0",
    "creators": [
        {"name": "A. Author", "orcid": "0000-0002-1825-0097"},
        {"name": "A clinic", "ror": "https://ror.org/05gq02987"},
    ],
    "keywords": ["blood pressure"],
}


def test_it_is_part_of_the_spec_and_specs_without_it_keep_their_bytes() -> None:
    bare = build_spec()
    assert b"about" not in bare.to_bytes()
    spec = bare.model_copy(update={"about": read_data(About, WHOLE, "it")})
    assert ReleaseSpec.from_bytes(spec.to_bytes()).about == spec.about
    assert spec.digest() != bare.digest()
    assert spec.about is not None
    assert spec.about.facts == {
        "description": "Blood pressure",
        "licence": "CC-BY-4.0",
        "creators": "A. Author; A clinic",
        "keywords": "blood pressure",
    }
    assert spec.about.licence_url == "https://spdx.org/licenses/CC-BY-4.0.html"


def test_own_licences_have_names_and_no_page() -> None:
    assert read_data(About, {**WHOLE, "licence": "LicenseRef-Trial"}, "it").licence_url == ""
    assert len(set(LICENCES)) == len(LICENCES)


COLUMNS = {"age": {"label": "Age at baseline", "concept": "SNOMED:397669002"}, "sex": {"concept": "LOINC:46098-0"}}


def test_meanings_of_columns_are_signed_and_absent_where_nothing_is_said() -> None:
    spec = build_spec(about=read_data(About, WHOLE, "it"))
    assert b"columns" not in canonical_bytes(spec.about.model_dump(mode="json"))
    named = build_spec(about=read_data(About, {**WHOLE, "columns": COLUMNS}, "it"))
    assert ReleaseSpec.from_bytes(named.to_bytes()) == named
    assert named.digest() != spec.digest()
    by_key = named.to_bytes().replace(
        canonical_bytes(named.about.model_dump(mode="json")["columns"]), canonical_bytes(COLUMNS)
    )
    assert by_key != named.to_bytes()
    with pytest.raises(InvalidInput):  # a second spelling of the same would be a second digest
        ReleaseSpec.from_bytes(by_key)
    age = named.about.of("age")
    assert (age.words, age.concept_url) == ("age: Age at baseline, SNOMED:397669002", "http://snomed.info/id/397669002")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"agge": {"label": "Age"}}, "agge is no column of the release; did you mean 'age'"),
        ({"age": {"unit": "months"}}, "age is declared in 'years'; leave out its unit"),
        ({"sex": {"unit": "years"}}, "sex is no number; leave out its unit"),
    ],
)
def test_meanings_are_of_columns_of_the_release(columns: dict[str, Any], told: str) -> None:
    data = build_spec().model_dump(mode="json") | {"about": {**WHOLE, "columns": columns}}
    with pytest.raises(InvalidInput, match=told):
        read_data(ReleaseSpec, data, "the request")


def test_a_budget_of_all_releases_is_signed_and_absent_where_none_is_declared() -> None:
    bare = build_spec(about=read_data(About, WHOLE, "it"))
    assert b"budget" not in bare.to_bytes()
    declared = build_spec(about=read_data(About, {**WHOLE, "budget": 3}, "it"))
    assert ReleaseSpec.from_bytes(declared.to_bytes()) == declared
    assert (
        declared.about.facts["budget"]
        == "epsilon = 3 for all releases of the same patients, as the consortium declares"
    )
    with pytest.raises(InvalidInput):  # a second spelling of none
        ReleaseSpec.from_bytes(declared.to_bytes().replace(b'"budget":3.0', b'"budget":0.0'))
    low = declared.target.epsilon / 2
    data = declared.model_dump(mode="json") | {"about": {**WHOLE, "budget": low}}
    with pytest.raises(InvalidInput, match=f"epsilon = {low:g} is for all releases, and this one alone takes"):
        read_data(ReleaseSpec, data, "the request")
    data["target"]["scope"] = "per-party"  # its epsilon is not that of all hospitals together
    read_data(ReleaseSpec, data, "the request")


@pytest.mark.parametrize("identifier", ["05gq02987", "04wxnsj81", "02nr0ka47", "05dxps055", "03vek6s52"])
def test_identifiers_of_organisations_are_known_by_their_check_digits(identifier: str) -> None:
    read_data(Creator, {"name": "A", "ror": f"https://ror.org/{identifier}"}, "it")
    for place in range(1, 9):  # every other letter or digit at any one place is found out
        for letter in "0123456789abcdefghjkmnpqrstvwxyz"[: 32 if place < 7 else 10]:
            changed = identifier[:place] + letter + identifier[place + 1 :]
            if changed != identifier:
                with pytest.raises(InvalidInput, match="ROR"):
                    read_data(Creator, {"name": "A", "ror": f"https://ror.org/{changed}"}, "it")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"licence": ""}, "a release needs a licence, for without one nobody may use the data again"),
        ({"licence": "CC-BY4.0"}, "'CC-BY4.0' is no licence for data that SPDX lists; did you mean 'CC-BY-4.0'"),
        ({"licence": "mine"}, "or LicenseRef-NAME for one of your own"),
        ({"creators": []}, "creators"),
        ({"creators": [{"name": "A", "orcid": "0000-0002-1825-0098"}]}, "is no ORCID iD such as"),
        ({"creators": [{"name": "A", "ror": "https://example.org"}]}, "ror"),
        ({"creators": [{"name": "A", "ror": "https://ror.org/05gq02988"}]}, "is no ROR identifier such as"),
        ({"creators": [{"name": "A", "ror": "https://ror.org/05gq20987"}]}, "check its letters and digits"),
        ({"contact": "a\x1b[2J"}, "only letters that can be printed"),
        ({"period": "2015\n2019"}, "only letters that can be printed"),
        ({"region": "\u202eWales"}, "only letters that can be printed"),
        ({"columns": {"age": {}}}, "say its label, unit or concept"),
        ({"columns": {"age": {"concept": "397669002"}}}, "is no code of a vocabulary such as SNOMED:271649006"),
        ({"columns": {"age": {"label": "x" * 201}}}, "label"),
        ({"columns": {"age": {"label": "x\ty"}}}, "only letters that can be printed"),
        ({"columns": [{"name": "age", "label": "x"}, {"name": "age", "label": "y"}]}, "a column is named once"),
        ({"description": "two\nlines"}, "only letters that can be printed, on one line"),
        ({"curator": "Hospital"}, "'Government', 'Industry' or 'Nonprofit'"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_refused_and_why(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_data(About, {**WHOLE, **changed}, "it")
