"""Description, licence and makers of a release: what people need to find it, to cite it and to use it.

It is part of the spec, so every hospital approves it and every signature covers it. Without a licence nobody may lawfully use
data again.

Source: schema.org/Dataset, Croissant 1.1 (required fields), DataCite 4.6 (mandatory fields), SPDX License List.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dprelease.canonical import Name, ShortText, Value
from dprelease.one_line import listed, nearest, one_line

LICENCES = (
    "CC0-1.0",
    "CC-BY-4.0",
    "CC-BY-SA-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-NC-ND-4.0",
    "ODbL-1.0",
    "ODC-By-1.0",
    "PDDL-1.0",
    "CDLA-Permissive-2.0",
    "CDLA-Sharing-1.0",
    "OGL-UK-3.0",
    "etalab-2.0",
    "DL-DE-BY-2.0",
    "DL-DE-ZERO-2.0",
)
"""Licences for data, by their identifiers in the SPDX list."""
MOST_EPSILON = 1000.0
"""Largest budget that a consortium declares."""
DECLARED = "epsilon = {:g} for all releases of the same patients, as the consortium declares"
_OWN = re.compile(r"LicenseRef-[A-Za-z0-9.-]{1,60}")
_ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]")


def _licence(text: str) -> str:
    if text not in LICENCES and not _OWN.fullmatch(text):
        near = nearest(text, LICENCES) or f"; take one of {listed(LICENCES)}, or LicenseRef-NAME for one of your own"
        raise ValueError(f"{text!r} is no licence for data that SPDX lists{near}")
    return text


def _orcid(text: str) -> str:
    """Its last digit is that of ISO 7064, MOD 11-2."""
    if not text:
        return text
    digits = text.replace("-", "")
    if _ORCID.fullmatch(text):
        total = 0
        for digit in digits[:-1]:
            total = (total + int(digit)) * 2
        if "0123456789X"[(12 - total % 11) % 11] == digits[-1]:
            return text
    raise ValueError(f"{text!r} is no ORCID iD such as 0000-0002-1825-0097; check its digits")


def _printable(text: str) -> str:
    if one_line(text) != text:
        raise ValueError("only letters that can be printed, on one line")
    return text


_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_ROR = re.compile(rf"https://ror\.org/0[{_CROCKFORD}]{{6}}[0-9]{{2}}")


def _ror(text: str) -> str:
    """Its last two digits make 100 times the number of the six before them, in Crockford's base 32, 1 modulo 97 (ISO 7064)."""
    if not text or (_ROR.fullmatch(text) and _sum_of(text[-8:]) == 1):
        return text
    raise ValueError(f"{text!r} is no ROR identifier such as https://ror.org/05gq02987; check its letters and digits")


def _sum_of(text: str) -> int:
    number = 0
    for letter in text[:6]:
        number = 32 * number + _CROCKFORD.index(letter)
    return (100 * number + int(text[6:])) % 97


MayBeEmpty = Annotated[ShortText, AfterValidator(_printable)]
Line = Annotated[MayBeEmpty, Field(min_length=1)]
Paragraph = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(_printable)]


class Creator(Value):
    """A person or an organisation.

    Attributes:
        name: as it is cited.
        orcid: ORCID iD of a person.
        ror: identifier of an organisation, https://ror.org/...
    """

    name: Line
    orcid: Annotated[str, AfterValidator(_orcid)] = ""
    ror: Annotated[str, AfterValidator(_ror)] = ""


_CONCEPT = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*):[!-~]+")
_CONCEPT_PAGES = {
    "OMOP": "https://athena.ohdsi.org/search-terms/terms/{}",
    "SNOMED": "http://snomed.info/id/{}",
    "LOINC": "https://loinc.org/{}",
}


def _concept(text: str) -> str:
    if not text or _CONCEPT.fullmatch(text):
        return text
    raise ValueError(f"{text!r} is no code of a vocabulary such as SNOMED:271649006, LOINC:8480-6 or OMOP:3004249")


class ColumnAbout(Value):
    """Meaning of one column.

    Attributes:
        name: of the column.
        label: what it is called in full.
        unit: of its numbers, where the hospital's declaration has none.
        concept: its code with the vocabulary in front, e.g. ``LOINC:8480-6``.
    """

    name: Name
    label: MayBeEmpty = ""
    unit: MayBeEmpty = ""
    concept: Annotated[ShortText, AfterValidator(_concept)] = ""

    @property
    def words(self) -> str:
        """Name, label, unit and code on one line."""
        return f"{self.name}: {', '.join(part for part in (self.label, self.unit, self.concept) if part)}"

    @property
    def concept_url(self) -> str:
        """Page of the code; empty for a vocabulary other than OMOP, SNOMED and LOINC."""
        system, _, code = self.concept.partition(":")
        return _CONCEPT_PAGES.get(system, "").format(code)


def _by_name(data: Any) -> Any:
    """A request names columns by keys; a spec has a list."""
    if not isinstance(data, dict):
        return data
    return [{**each, "name": name} if isinstance(each, dict) else each for name, each in data.items()]


def _distinct(columns: tuple[ColumnAbout, ...]) -> tuple[ColumnAbout, ...]:
    for each in columns:
        if not (each.label or each.unit or each.concept):
            raise ValueError(f"column {each.name!r}: say its label, unit or concept, or leave it out")
    if len({each.name for each in columns}) < len(columns):
        raise ValueError("a column is named once")
    return columns


Curator = Literal["", "Government", "Industry", "Nonprofit"]
"""Kinds of publishers in the public registry of deployments; empty where it is not said."""


class About(Value):
    """Description, licence and makers of a release.

    Attributes:
        description: what the data are, for somebody who finds them.
        licence: SPDX identifier, or ``LicenseRef-NAME``.
        creators: whom to cite.
        contact: address for questions.
        keywords: for searches.
        intended_use: what it was made for.
        period: when the data were collected, e.g. ``2015/2019``.
        region: where.
        columns: meaning of single columns; left out of canonical bytes where there is none.
        budget: epsilon that all releases of the same patients together keep to, at the release's delta; 0 where none is declared.
            Ledgers of the hospitals enforce theirs, whatever stands here.
        curator: kind of the consortium, which publishes; left out of canonical bytes where it is not said.
    """

    description: Paragraph
    licence: Annotated[str, AfterValidator(_licence)]
    creators: Annotated[tuple[Creator, ...], Field(min_length=1, max_length=100)]
    contact: MayBeEmpty = ""
    keywords: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    intended_use: Annotated[str, Field(max_length=4000), AfterValidator(_printable)] = ""
    period: MayBeEmpty = ""
    region: MayBeEmpty = ""
    columns: Annotated[
        tuple[ColumnAbout, ...],
        BeforeValidator(_by_name),
        AfterValidator(_distinct),
        Field(exclude_if=lambda columns: not columns),
    ] = ()
    budget: Annotated[float, Field(ge=0, le=MOST_EPSILON, exclude_if=lambda budget: not budget)] = 0.0
    curator: Annotated[Curator, Field(exclude_if=lambda curator: not curator)] = ""

    @model_validator(mode="before")
    @classmethod
    def _licence_is_there(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.get("licence"):
            raise ValueError(NO_LICENCE)
        return data

    def of(self, name: str) -> ColumnAbout | None:
        """Meaning of a column; None where nothing is said."""
        return next((each for each in self.columns if each.name == name), None)

    @property
    def meanings(self) -> tuple[str, ...]:
        """Meanings of single columns, a line each."""
        return tuple(each.words for each in self.columns)

    @property
    def cited(self) -> str:
        """Names of the creators."""
        return "; ".join(creator.name for creator in self.creators)

    @property
    def licence_url(self) -> str:
        """Page of the licence; empty for one that SPDX does not list."""
        return f"https://spdx.org/licenses/{self.licence}.html" if self.licence in LICENCES else ""

    @property
    def facts(self) -> dict[str, str | tuple[str, ...]]:
        """Facts of a document, but for what single columns mean."""
        found: dict[str, str | tuple[str, ...]] = {
            "description": self.description,
            "licence": self.licence,
            "creators": self.cited,
            "contact": self.contact,
            "keywords": ", ".join(self.keywords),
            "intended_use": self.intended_use,
            "period": self.period,
            "region": self.region,
            "curator": self.curator,
            "budget": DECLARED.format(self.budget) if self.budget else "",
        }
        return {name: value for name, value in found.items() if value}


NO_LICENCE = (
    "a release needs a licence, for without one nobody may use the data again; add to the request: "
    '[about] description = "...", licence = "CC-BY-4.0", creators = [{ name = "..." }]'
)
"""Why a request is refused."""
