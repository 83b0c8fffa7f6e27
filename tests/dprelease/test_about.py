"""What a release is about: what is required, what is refused and why."""

from typing import Any

import pytest

from dprelease.about import LICENCES, About
from dprelease.canonical import read_data
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


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"licence": ""}, "a release needs a licence, for without one nobody may use the data again"),
        ({"licence": "CC-BY4.0"}, "'CC-BY4.0' is no licence for data that SPDX lists; did you mean 'CC-BY-4.0'"),
        ({"licence": "mine"}, "or LicenseRef-NAME for one of your own"),
        ({"creators": []}, "creators"),
        ({"creators": [{"name": "A", "orcid": "0000-0002-1825-0098"}]}, "is no ORCID iD such as"),
        ({"creators": [{"name": "A", "ror": "https://example.org"}]}, "ror"),
        ({"description": "two\nlines"}, "only letters that can be printed, on one line"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_refused_and_why(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_data(About, {**WHOLE, **changed}, "it")
