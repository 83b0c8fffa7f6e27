"""A release or an alignment run at the office, for people and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from coordinator.lifecycle.status import Kind
from coordinator.store.agreements import Agreement
from coordinator.store.history import Happening
from dprelease.document.cells import Cell, Said
from dprelease.document.document import Document, Heading, Promise, Table
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.price import price_text
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.release.stream import checkpoint_of
from dprelease.release.trust import trust
from dprelease.spec_base import instant

SHORT = 12
"""Digits of a digest that people see."""
MORE = "Guarantee and trust: --explain"


def named(found: Agreement) -> str:
    """The title of a release; of a checkpoint, which one it is of which stream, too; the roster of an alignment run."""
    if found.record.kind is Kind.RUN:
        return f"patients of {found.title} (alignment run)"
    at = checkpoint_of(found.read_spec())
    return found.title if at is None else f"{found.title} (checkpoint {at.number} of stream {at.stream[:12]})"


def standing(found: Agreement) -> dict[str, Any]:
    """State of an agreement, as plain data."""
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


def agreement(
    found: Agreement, lines: Sequence[Happening] | None = None, more: Mapping[str, Cell] = MappingProxyType({})
) -> Document:
    """A release or an alignment run; as data, every mu^2 is an exact rational, ``"p/q"``.

    Args:
        found: at the office.
        lines: of its history.
        more: further facts.
    """
    run = found.record.kind is Kind.RUN
    stands = standing(found)
    state = Said(stands.pop("state"), f"{found.record.state}, {found.record.explain()}")
    body = _of_run(found.read_task()) if run else _of_release(found.read_spec())
    happened = [] if lines is None else [(instant(line.at), line.what) for line in lines]
    return Document(
        f"{found.record.kind} {found.digest}",
        {"name": named(found), "state": state, **body.facts, **more},
        () if lines is None else (Table.of("history", ("at", "what"), happened),),
        promise=body.promise,
        data={
            "title": found.title,
            "digest": found.digest,
            **stands,
            "created": instant(found.created),
            **body.data,
        },
    )


def agreements(found: Sequence[Agreement]) -> Table:
    """One line for each release and alignment run."""
    rows = [
        (Said(one.digest, one.digest[:SHORT]), one.record.state.value, named(one), one.record.explain())
        for one in found
    ]
    return Table.of("agreements", (Heading("digest", "id"), "state", "title", "explanation"), rows)


def _of_run(task: Task) -> Document:
    patients = {member.party: member.patients for member in task.members}
    said = tuple(f"{party}: {count:,} patients" for party, count in patients.items())
    return Document(
        "",
        {"patients": Said(patients, said)},
        data={"roster": task.roster, "identifiers": task.identifiers, "expires": task.expires},
    )


def _of_release(spec: ReleaseSpec) -> Document:
    given, words, at = guarantee(spec), mechanism_of(spec).words(spec), checkpoint_of(spec)
    parties = {part.party: [column.name for column in part.columns] for part in spec.parties}
    charged = {part.party: part.mu2 for part in given.parties}
    prices = tuple(f"{party}: {price_text(mu2, given.delta)}" for party, mu2 in charged.items())
    aligned = f" (alignment run {spec.aligned[:SHORT]})" if spec.aligned is not None else ""
    shape = f"n = {spec.rows}{' at this checkpoint' if at else ''}{aligned}, mechanism {spec.mechanism}"
    weights = ", ".join(f"{name} = {weight}" for name, weight in spec.weights.items())
    return Document(
        "",
        {
            "parties": Said(parties, tuple(f"{party}: {', '.join(columns)}" for party, columns in parties.items())),
            "charged_mu2": Said({party: str(mu2) for party, mu2 in charged.items()}, prices),
            "shape": ", ".join(filter(None, (shape, words.shape, weights and f"weights {weights}"))),
        },
        promise=Promise(MORE, given.words(), trust(spec)),
        data={
            "rows": spec.rows,
            **({"aligned": spec.aligned} if spec.aligned is not None else {}),
            "label": spec.guarantee,
            "public_columns": [column.name for column in spec.public],
            "weights": spec.weights,
            "mechanism": spec.mechanism,
            **words.figures,
            "outcomes": list(spec.outcomes),
            "delta": given.delta,
            "joint_epsilon": given.joint_epsilon,
            "epsilon": {part.party: part.epsilon for part in given.parties},
            **({"stream": at.stream, "checkpoint": at.number} if at is not None else {}),
        },
    )
