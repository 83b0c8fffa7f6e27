"""Description, licence and makers of a release: what people need to find it, to cite it and to use it.

It is part of the spec, so every hospital approves it and every signature covers it. Without a licence nobody may lawfully use
data again.

Source: schema.org/Dataset, Croissant 1.1 (required fields), DataCite 4.6 (mandatory fields), SPDX License List.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from dprelease.canonical import ShortText, Value
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


Line = Annotated[ShortText, Field(min_length=1), AfterValidator(_printable)]
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
    ror: Annotated[str, Field(pattern=r"^(https://ror\.org/0[a-z0-9]{8})?$")] = ""


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
    """

    description: Paragraph
    licence: Annotated[str, AfterValidator(_licence)]
    creators: Annotated[tuple[Creator, ...], Field(min_length=1, max_length=100)]
    contact: ShortText = ""
    keywords: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    intended_use: Annotated[str, Field(max_length=4000), AfterValidator(_printable)] = ""
    period: ShortText = ""
    region: ShortText = ""

    @model_validator(mode="before")
    @classmethod
    def _licence_is_there(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.get("licence"):
            raise ValueError(NO_LICENCE)
        return data

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
        """Facts of a document."""
        found: dict[str, str | tuple[str, ...]] = {
            "description": self.description,
            "licence": self.licence,
            "creators": self.cited,
            "contact": self.contact,
            "keywords": ", ".join(self.keywords),
            "intended_use": self.intended_use,
            "period": self.period,
            "region": self.region,
        }
        return {name: value for name, value in found.items() if value}


NO_LICENCE = (
    "a release needs a licence, for without one nobody may use the data again; add to the request: "
    '[about] description = "...", licence = "CC-BY-4.0", creators = [{ name = "..." }]'
)
"""Why a request is refused."""
