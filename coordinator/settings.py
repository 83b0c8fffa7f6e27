"""coordinator.toml: what `coordinator init` writes and the office may edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from dprelease.data.columns import Name
from dprelease.errors import InvalidInput
from dprelease.files.settings import LocalPath, Settings
from dprelease.wire.transport import check_address

SQLITE = "sqlite:///"


def _database_url(text: str, info: ValidationInfo) -> str:
    """A bare path is an SQLite file; a relative one lies beside the settings file."""
    if "://" in text and not text.startswith(SQLITE):
        return text
    base = (info.context or {}).get("base")
    path = text.removeprefix(SQLITE)
    if not path:
        raise ValueError("sqlite:/// wants a file, e.g. sqlite:///coordinator.sqlite")
    return f"{SQLITE}{path if base is None else base / path}"


def _checked_address(address: str) -> str:
    try:
        check_address(address)
    except InvalidInput as error:
        raise ValueError(error.message) from error
    return address


Address = Annotated[str, AfterValidator(_checked_address)]
"""host:port."""

PARTY_DAYS = 90


class CallLimits(Settings):
    """How much one caller may ask for.

    Attributes:
        calls_per_second: of one party or the hub, in the long run; five seconds' worth may come at once.
        enrolments_per_minute: attempts to enrol from one network address.
        longest_reason: characters that are kept of a reason to decline.
    """

    calls_per_second: Annotated[float, Field(gt=0)] = 50.0
    enrolments_per_minute: Annotated[int, Field(ge=1)] = 20
    longest_reason: Annotated[int, Field(ge=0)] = 500


class CoordinatorSettings(Settings):
    """Settings of the coordinator.

    Attributes:
        consortium: its name; must be the one that the database was made for.
        database: URL of the database, or the path of an SQLite file.
        listen: where parties and the hub call, with their certificates.
        listen_enrolment: where hospitals enrol; they have no certificate yet.
        public_address: the first of these as others reach it; part of every enrolment.
        enrolment_address: the second as others reach it; part of every invite.
        hub_address: the hub's listener for parties, as they reach it.
        root: the consortium's root certificate.
        certificate: the coordinator's certificate.
        key: its private key.
        authority_key: the root's private key.
        published: folder of published releases, as the hub keeps them, whose ranges later releases use.
        certificate_days: validity of a party's certificate.
        run_hours: how long blocks may take after the last approval.
        tick_seconds: how often deadlines are looked at.
        reflection: offer gRPC reflection.
        limits: how much one caller may ask for.
    """

    consortium: Name
    database: Annotated[str, AfterValidator(_database_url), Field(validate_default=True)] = (
        "sqlite:///coordinator.sqlite"
    )
    listen: Address = "0.0.0.0:7441"
    listen_enrolment: Address = "0.0.0.0:7442"
    public_address: Address
    enrolment_address: Address
    hub_address: Address
    root: LocalPath
    certificate: LocalPath
    key: LocalPath
    authority_key: LocalPath
    published: LocalPath = Field(default=Path("hub/storage/published"), validate_default=True)
    certificate_days: Annotated[int, Field(ge=1, le=3650)] = PARTY_DAYS
    run_hours: Annotated[int, Field(ge=1, le=8760)] = 72
    tick_seconds: Annotated[float, Field(gt=0, le=3600)] = 5.0
    reflection: bool = False
    limits: CallLimits = CallLimits()
