"""A release or an alignment run at the office, for people and as plain data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from coordinator.lifecycle.status import Kind
from coordinator.store.agreements import Agreement
from coordinator.store.history import Happening
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.price import price_text
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.release.stream import checkpoint_of
from dprelease.release.trust import trust
from dprelease.spec_base import instant


def named(found: Agreement) -> str:
    """The title of a release; of a checkpoint, which one it is of which stream, too; the roster of an alignment run."""
    if found.record.kind is Kind.RUN:
        return f"patients of {found.title} (alignment run)"
    at = checkpoint_of(found.read_spec())
    return found.title if at is None else f"{found.title} (checkpoint {at.number} of stream {at.stream[:12]})"


def standing(found: Agreement) -> dict[str, Any]:
    """Where an agreement stands, as plain data."""
    record = found.record
    return {
        "kind": record.kind.value,
        "state": record.state.value,
        "explanation": record.explain(),
        "waits_for": list(record.waits_for),
        "since": instant(record.since),
        "deadline": None if record.deadline is None else instant(record.deadline),
        "approved": [party for party in record.parties if party in record.approved],
        "declined": [party for party in record.parties if party in record.declined],
        "received": [party for party in record.parties if party in record.received],
        "finished": [party for party in record.parties if party in record.finished],
        "manifest": record.manifest,
    }


def describe(found: Agreement, lines: tuple[Happening, ...] | None = None) -> dict[str, Any]:
    """An agreement as plain data, with its history if given; every mu^2 is an exact rational, ``"p/q"``."""
    described = {"digest": found.digest, "title": found.title, **standing(found), "created": instant(found.created)}
    described |= _of_run(found.read_task()) if found.record.kind is Kind.RUN else _of_release(found.read_spec())
    if lines is not None:
        described["history"] = [{"at": instant(line.at), "what": line.what} for line in lines]
    return described


def _of_run(task: Task) -> dict[str, Any]:
    return {
        "roster": task.roster,
        "patients": {member.party: member.patients for member in task.members},
        "identifiers": task.identifiers,
        "expires": task.expires,
    }


def _of_release(spec: ReleaseSpec) -> dict[str, Any]:
    given = guarantee(spec)
    described: dict[str, Any] = {
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
    return described


def print_agreement(found: Agreement) -> None:
    """A release or an alignment run for people."""
    click.echo(f"{found.record.kind} {found.digest}")
    click.echo(f"{named(found)}: {found.record.state}, {found.record.explain()}")
    if found.record.kind is Kind.RELEASE:
        _print_release(found.read_spec())
        return
    for party, patients in describe(found)["patients"].items():
        click.echo(f"{party}: {patients} patients")


def _print_release(spec: ReleaseSpec) -> None:
    described = _of_release(spec)
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
