"""A small consortium for tests: an authority, parties with keys and catalogues, a store, a founded folder."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from coordinator.authority.authority import Authority
from coordinator.authority.founding import Founded, Founding, found
from coordinator.proposals.proposals import Request, create
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.canonical import read_data, sha256
from dprelease.catalogue import Batch, Catalogue
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn
from dprelease.identity.signing import PrivateKey, new_private_key
from dprelease.release.approval import SignedApproval, approve
from dprelease.release.spec import ReleaseSpec

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
RUN_TIME = timedelta(hours=72)
ALIGNMENT = sha256(b"the same patients in the same order")

AGE = NumericColumn(name="age", lower=0.0, upper=120.0, unit="years", fill=60.0)
SEX = CategoricalColumn(name="sex", levels=("female", "male"))
GLUCOSE = NumericColumn(name="glucose", lower=2.0, upper=30.0, unit="mmol/l", fill=16.0)
COLUMNS: dict[str, tuple[Column, ...]] = {"north": (AGE, SEX), "south": (GLUCOSE,)}

REQUEST = {
    "title": "Age and glucose",
    "parties": {"north": "*", "south": ["glucose"]},
    "epsilon": 1.0,
    "delta": 1e-6,
    "about": {"description": "Made-up rows", "licence": "CC0-1.0", "creators": [{"name": "A test"}]},
}


STUDY = """
title = "Age and glucose"
about = { description = "Made-up rows", licence = "CC0-1.0", creators = [{ name = "A test" }] }
epsilon = 1.0
delta = 1e-6
[parties]
north = "*"
south = ["glucose"]
"""
"""The same as a file."""


def catalogue(party: str, **changed: object) -> Catalogue:
    """A party's catalogue; all parties agree unless changed."""
    same = {"party": party, "roster": "cohort", "rows": 1000, "rows_per_subject": 1, "alignment": ALIGNMENT}
    return Catalogue.model_validate({**same, "columns": COLUMNS.get(party, (AGE,)), **changed})


def request(**changed: object) -> Request:
    """The usual request with some keys changed; None takes a key away."""
    fields = {key: value for key, value in {**REQUEST, **changed}.items() if value is not None}
    return read_data(Request, fields, "the request")


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Office:
    """A store with an authority and enrolled parties.

    Attributes:
        store: an empty store of the consortium `Trio`.
        authority: issues the parties' certificates.
        keys: party to private key, of those enrolled here.
        certificates: party to certificate, PEM.
    """

    store: Store
    authority: Authority = field(default_factory=lambda: Authority.found("Trio", NOW))
    keys: dict[str, PrivateKey] = field(default_factory=dict)
    certificates: dict[str, str] = field(default_factory=dict)

    def enrol(self, *parties: str, share: Fraction = Fraction(1, 3), now: datetime = NOW, days: int = 90) -> None:
        """Enrol parties at once, with fresh keys."""
        for party in parties:
            key = new_private_key()
            certificate = self.authority.issue(party, "party", key.public_key(), now, days).decode()
            with self.store.writing() as tx:
                tx.members.enrol(certificate, self.store.consortium.mu2 * share, now)
            self.keys[party], self.certificates[party] = key, certificate

    def report(self, *catalogues: Catalogue, now: datetime = NOW) -> None:
        with self.store.writing() as tx:
            for one in catalogues:
                tx.members.report_catalogue(one, now)

    def propose(self, now: datetime = NOW, **changed: object) -> Agreement:
        return create(self.store, request(**changed), RUN_TIME, now).release

    def release(self, digest: str) -> Agreement:
        with self.store.reading() as tx:
            return tx.releases.get(digest)

    def approval(
        self, spec: ReleaseSpec, party: str, now: datetime = NOW, commitment: str = "ab" * 32
    ) -> SignedApproval:
        return approve(spec, party, commitment, self.keys[party], self.certificates[party], now)


BATCH = 400
"""Rows of every batch."""


def batches(*numbers: int, rows: int = BATCH, who: bytes = b"patients") -> tuple[Batch, ...]:
    return tuple(Batch(number=each, rows=rows, alignment=sha256(who + b"%d" % each)) for each in numbers)


def grow(office: Office, *numbers: int, parties: tuple[str, ...] = ("north", "south"), **how: Any) -> None:
    """Parties report tables with these batches, and rows that belong to none."""
    for party in parties:
        whole = {"rows": BATCH * (len(numbers) + 1), "alignment": sha256(party.encode())}
        office.report(catalogue(party, batches=batches(*numbers, **how), **whole))


def two_hospitals(store: Store, now: datetime = NOW) -> Office:
    """An office in which north and south are enrolled and have reported what they offer."""
    office = Office(store)
    office.enrol("north", "south", now=now)
    office.report(catalogue("north"), catalogue("south"), now=now)
    return office


def founded(home: Path, now: datetime, **changed: object) -> Founded:
    """A consortium on loopback."""
    plan = {
        "name": "Trio",
        "hosts": ("localhost", "127.0.0.1"),
        "hub_hosts": ("localhost",),
        "epsilon": 3.0,
        "delta": 1e-6,
        "listen_host": "127.0.0.1",
    }
    return found(home, read_data(Founding, {**plan, **changed}, "the plan"), now)
