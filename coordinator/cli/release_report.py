"""A release at the office, for people and as plain data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from coordinator.store.agreements import Agreement
from coordinator.store.history import Happening
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.price import price_text
from dprelease.release.accounting import guarantee
from dprelease.release.stream import checkpoint_of
from dprelease.release.trust import trust
from dprelease.spec_base import instant


def named(found: Agreement) -> str:
    """The title of a release; of a checkpoint, which one it is of which stream, too."""
    at = checkpoint_of(found.read_spec())
    return found.title if at is None else f"{found.title} (checkpoint {at.number} of stream {at.stream[:12]})"


def standing(found: Agreement) -> dict[str, Any]:
    """Where a release stands, as plain data."""
    record = found.record
    return {
        "state": record.state.value,
        "explanation": record.explain(),
        "waits_for": list(record.waits_for),
        "since": instant(record.since),
        "deadline": None if record.deadline is None else instant(record.deadline),
        "approved": [party for party in record.parties if party in record.approved],
        "declined": [party for party in record.parties if party in record.declined],
        "received": [party for party in record.parties if party in record.received],
        "manifest": record.manifest,
    }


def describe(found: Agreement, lines: tuple[Happening, ...] | None = None) -> dict[str, Any]:
    """A release as plain data, with its history if given; every mu^2 is an exact rational, ``"p/q"``."""
    spec = found.read_spec()
    given = guarantee(spec)
    described: dict[str, Any] = {
        "digest": found.digest,
        "title": found.title,
        **standing(found),
        "created": instant(found.created),
        "rows": spec.rows,
        **({"aligned": spec.aligned} if spec.aligned is not None else {}),
        "label": spec.guarantee,
        "public_columns": [column.name for column in spec.public],
        "weights": spec.weights,
        "mechanism": spec.mechanism,
        **mechanism_of(spec).words(spec).figures,
        "outcomes": list(spec.outcomes),
        "parties": {part.party: [column.name for column in part.columns] for part in spec.parties},
        "delta": given.delta,
        "joint_epsilon": given.joint_epsilon,
        "epsilon": {part.party: part.epsilon for part in given.parties},
        "charged_mu2": {part.party: str(part.mu2) for part in given.parties},
        "guarantee": list(given.words()),
        "trust": list(trust(spec)),
    }
    at = checkpoint_of(spec)
    if at is not None:
        described |= {"stream": at.stream, "checkpoint": at.number}
    if lines is not None:
        described["history"] = [{"at": instant(line.at), "what": line.what} for line in lines]
    return described


def print_release(found: Agreement) -> None:
    """A release for people."""
    described, spec = describe(found), found.read_spec()
    click.echo(f"release {found.digest}")
    click.echo(f"{named(found)}: {found.record.state}, {found.record.explain()}")
    for party, columns in described["parties"].items():
        click.echo(f"{party}: {', '.join(columns)}")
    for party, mu2 in described["charged_mu2"].items():
        click.echo(f"{party} is charged {price_text(Fraction(mu2), described['delta'])}")
    for sentence in (*described["guarantee"], *described["trust"]):
        click.echo(sentence)
    aligned = f" (alignment run {spec.aligned[:12]})" if spec.aligned is not None else ""
    whom = " at this checkpoint" if "checkpoint" in described else ""
    shape = f"n = {described['rows']}{whom}{aligned}, mechanism {described['mechanism']}"
    own = mechanism_of(spec).words(spec).shape
    shape += f", {own}" if own else ""
    if described["weights"]:
        shape += ", weights " + ", ".join(f"{name} = {weight}" for name, weight in described["weights"].items())
    click.echo(shape)
