"""`coordinator release` and `align`: releases and alignment runs are proposed, and everybody sees where they stand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

import click

from coordinator.cli.dry_run_report import opened_with, report
from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.dry_run.dry_run import dry_run
from coordinator.lifecycle import STEPS, Cancelled, Stage, Topic
from coordinator.proposals import proposals
from coordinator.proposals.checks import LABELS, PublicSide
from coordinator.service.recovery import left_after, left_text
from coordinator.settings import CoordinatorSettings
from coordinator.store.agreements import Agreement, Happening
from coordinator.store.store import Store
from dprelease.cli.printing import explain_option, json_option, print_document, print_json
from dprelease.document.cells import Cell, Said
from dprelease.document.document import Document, Heading, Promise, Table
from dprelease.errors import Conflict, InvalidInput
from dprelease.files.settings import read_settings
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed, one_line
from dprelease.privacy.price import price_text
from dprelease.release.accounting import guarantee, trust
from dprelease.release.spec import ReleaseSpec
from dprelease.release.stream import checkpoint_of
from dprelease.spec_base import instant

SHORT = 12
"""Digits of a digest that people see."""
MORE = "Guarantee and trust: --explain"


def named(found: Agreement) -> str:
    """The title of a release; of a checkpoint, which one it is of which stream, too; the roster of an alignment run."""
    if found.record.kind is Topic.RUN:
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
        **{step: [party for party in record.parties if party in getattr(record, step)] for step in STEPS},
        "manifest": record.manifest,
    }


def agreement(
    found: Agreement, lines: Sequence[Happening] | None = None, more: Mapping[str, Cell] = MappingProxyType({})
) -> Document:
    """A release or an alignment run; as data, every mu^2 is an exact rational, ``"p/q"``."""
    run = found.record.kind is Topic.RUN
    stands = standing(found)
    state = Said(stands.pop("state"), f"{found.record.state}, {found.record.explain()}")
    body = _of_run(found.read_task()) if run else _of_release(found.read_spec())
    happened = [] if lines is None else [(instant(line.at), line.what) for line in lines]
    return Document(
        f"{found.record.kind} {found.digest}",
        {"name": named(found), "state": state, **body.facts, **more},
        () if lines is None else (Table.of("history", ("at", "what"), happened),),
        promise=body.promise,
        data={"title": found.title, "digest": found.digest, **stands, "created": instant(found.created), **body.data},
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
    given, words, at = guarantee(spec), mechanism_of(spec).statements(spec), checkpoint_of(spec)
    parties = {part.party: [column.name for column in part.columns] for part in spec.parties}
    charged = {part.party: part.mu2 for part in given.parties}
    prices = tuple(f"{party}: {price_text(mu2, given.delta)}" for party, mu2 in charged.items())
    aligned = f" (alignment run {spec.aligned[:SHORT]})" if spec.aligned is not None else ""
    shape = f"n = {spec.rows:,}{' at this checkpoint' if at else ''}{aligned}, mechanism {spec.mechanism}"
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


class _Checks(TypedDict):
    allow_large_delta: bool
    root: Path
    published: Path


@click.group()
def release() -> None:
    """Propose releases, and see where releases and alignment runs stand. Each may be named by the first digits of its digest.

    \b
    Example:
      coordinator release list
    """


@release.command()
@click.argument("request", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--allow-large-delta", is_flag=True, help="Accept delta >= 1/n.")
@click.option("--public-side", type=click.Choice(sorted(LABELS)), help="What the columns that are public are.")
@click.option("--dry-run", "dry", is_flag=True, help="Go the whole way on made-up, FAKE rows instead; propose nothing.")
@click.option("--rows", type=click.IntRange(min=1), help="Dry run: most FAKE patients; 100000, or k, if left out.")
@click.option("--target", "outcome", metavar="COLUMN", help="Dry run: fit it on the others; the last one if left out.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Dry run: folder for the FAKE release.")
@explain_option
@json_option
@with_settings
def create(
    settings: CoordinatorSettings,
    request: Path,
    allow_large_delta: bool,
    public_side: PublicSide | None,
    dry: bool,
    rows: int | None,
    outcome: str | None,
    keep: Path | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Check the REQUEST (a TOML file), fix the release spec and offer it to the parties.

    With --dry-run nobody is asked and nothing is charged: rows are made up from the declarations, and everything that a
    real release goes through is done with them, up to a fit.

    \b
    Example:
      coordinator release create study.toml
    where study.toml says:
      title = "Age and glucose"
      epsilon = 1.0
      delta = 1e-6
      [parties]
      north = ["age", "sex"]
      south = "*"
      [about]
      description = "Glucose and age of a cohort"
      licence = "CC-BY-4.0"
      creators = [{ name = "Example consortium" }]
    """
    wanted = read_settings(request, proposals.Request)
    if public_side is not None:
        wanted = wanted.model_copy(update={"public_side": public_side})
    if not dry and (rows, outcome, keep) != (None, None, None):
        raise InvalidInput("--rows, --target and --keep are for --dry-run")
    checks: _Checks = {"allow_large_delta": allow_large_delta, "root": settings.root, "published": settings.published}
    with opened(settings) as store:
        if dry:
            found = dry_run(store, wanted, utc_now(), outcome=outcome, rows=rows, keep=keep, **checks)
            _warn(found.similar, found.proposal.ranged)
            print_document(report(found), as_json=as_json, explain=True)
            for line in [] if as_json else opened_with(found):
                click.echo(line)
            return
        run_time = timedelta(hours=settings.run_hours)
        made = proposals.create(store, wanted, run_time, utc_now(), **checks)
        with store.reading() as tx:
            left, spec = left_after(tx, made.proposal.spec), made.proposal.spec
            others = [name for name in tx.alignments.parties(spec.aligned or "") if spec.party(name) is None]
    _warn(made.similar, made.proposal.ranged)
    if others:
        click.echo(
            f"warning: {listed(others)} takes no part, and alignment run {(spec.aligned or '')[:SHORT]} is its own as well: the "
            "release has only the patients that it has, too. Let it take part, or align the others by themselves: "
            "coordinator align start",
            err=True,
        )
    after = {party: str(mu2) for party, mu2 in left.items()}
    said = tuple(
        left_text(party, mu2, made.proposal.guarantee.party(party).mu2, wanted.delta) for party, mu2 in left.items()
    )
    more = {"plan": made.proposal.explanation or None, "left_after_mu2": Said(after, said)}
    print_document(agreement(made.release, more=more), as_json=as_json, explain=explain)


@release.command("next")
@click.argument("prefix", metavar="ID")
@click.option("--checkpoint", type=click.IntRange(min=2), help="Its number; what lies between is left out for good.")
@json_option
@with_settings
def propose_next(settings: CoordinatorSettings, prefix: str, checkpoint: int | None, as_json: bool) -> None:
    """Offer the next checkpoint of a stream to its parties: the rows of the next batch, which all of them have.

    ID names any checkpoint of the stream. Nothing is charged, and parties that approved the stream approve by themselves.

    \b
    Example:
      coordinator release next 3fa9c1
    """
    run_time = timedelta(hours=settings.run_hours)
    with opened(settings) as store:
        made = proposals.propose_next(store, prefix, run_time, utc_now(), number=checkpoint)
    print_document(agreement(made), as_json=as_json)


def _warn(similar: Agreement | None, ranged: Agreement | None) -> None:
    """Say what a proposal pays for although it was published, or is about to be."""
    if similar is not None:
        told = f"{similar.digest[:SHORT]} ({similar.record.state}) has the same columns and mechanism; the parties will pay twice"
        click.echo(f"warning: {told}", err=True)
    if ranged is not None:
        told = f"{ranged.digest[:SHORT]} has published ranges of all these numbers, which moments use at no charge"
        click.echo(f"warning: {told} unless a request says otherwise; this release pays for new ones", err=True)


@release.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only what is not over.")
@json_option
@with_settings
def list_releases(settings: CoordinatorSettings, only_open: bool, as_json: bool) -> None:
    """List releases and alignment runs, oldest first, and whom each one waits for.

    \b
    Example:
      coordinator release list --open --json
    """
    with opened(settings) as store, store.reading() as tx:
        found = tx.agreements.open() if only_open else tx.agreements.all()
    if as_json:
        print_json([agreement(one).to_json() for one in found])
    else:
        print_document(Document("", tables=(agreements(found),)))


@release.command()
@click.argument("prefix", metavar="ID")
@explain_option
@json_option
@with_settings
def show(settings: CoordinatorSettings, prefix: str, as_json: bool, explain: bool) -> None:
    """Show a release or an alignment run: its guarantee, who has decided, what happened.

    \b
    Example:
      coordinator release show 3fa9c1
    """
    with opened(settings) as store, store.reading() as tx:
        found = tx.agreements.find(prefix)
        lines = tx.history.of_agreement(found.digest)
    print_document(agreement(found, lines), as_json=as_json, explain=explain)


@release.command()
@click.argument("prefix", metavar="ID")
@click.option("--until-final", is_flag=True, help="Succeed only if the release gets published, or the run done.")
@click.option("--timeout", type=float, help="Seconds after which to stop watching.")
@click.option("--poll-seconds", type=click.FloatRange(0.01), default=1.0, show_default=True, help="How often to look.")
@json_option
@with_settings
def watch(
    settings: CoordinatorSettings,
    prefix: str,
    until_final: bool,
    timeout: float | None,
    poll_seconds: float,
    as_json: bool,
) -> None:
    """Print a line at every change, until the release or run is over, the time is up, or Ctrl-C.

    With --until-final the exit code is 0 only if it was published, or done.

    \b
    Example:
      coordinator release watch 3fa9c1 --until-final --timeout 3600
    """
    with opened(settings) as store:
        for seen in _changes(store, prefix, timeout, poll_seconds):
            described = {"digest": seen.digest, **standing(seen)}
            line = (
                json.dumps(described)
                if as_json
                else f"{instant(utc_now())}  {seen.record.state}  {seen.record.explain()}"
            )
            click.echo(line)
    record = seen.record
    if until_final and record.state not in {Stage.PUBLISHED, Stage.DONE}:
        raise Conflict(f"{record.kind} {seen.digest[:SHORT]} is {record.state}, not published: {record.explain()}")


@release.command()
@click.argument("prefix", metavar="ID")
@click.option("--reason", required=True, help="What the parties are told.")
@json_option
@with_settings
def cancel(settings: CoordinatorSettings, prefix: str, reason: str, as_json: bool) -> None:
    """Withdraw a release, until the hub may publish it, or an alignment run. Counted runs stay counted.

    \b
    Example:
      coordinator release cancel 3fa9c1 --reason "wrong columns"
    """
    with opened(settings) as store, store.writing() as tx:
        found = tx.agreements.advance(
            tx.agreements.find(prefix).digest, Cancelled(one_line(reason, settings.limits.longest_reason)), utc_now()
        )
    if as_json:
        print_json(agreement(found).to_json())
        return
    click.echo(f"{found.digest[:SHORT]} is {found.record.state}")


def _changes(store: Store, prefix: str, timeout: float | None, poll_seconds: float) -> Iterator[Agreement]:
    """The release or run now, and again whenever it changed; ends with a final state or the time."""
    end = None if timeout is None else time.monotonic() + timeout
    last: Agreement | None = None
    while True:
        with store.reading() as tx:
            now = tx.agreements.find(prefix) if last is None else tx.agreements.get(last.digest)
        if now != last:
            yield now
        last = now
        if now.record.final or (end is not None and time.monotonic() >= end):
            return
        time.sleep(poll_seconds)


@click.group()
def align() -> None:
    """Let hospitals find the patients that all of them have. Runs are listed and cancelled as releases are.

    \b
    Example:
      coordinator align start --roster cohort clinic-a clinic-b
      coordinator release list
    """


@align.command()
@click.option("--roster", required=True, help="Name of the set of patients.")
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True, max=8760),
    default=72.0,
    show_default=True,
    help="How long they have to approve.",
)
@click.argument("parties", nargs=-1, required=True)
@json_option
@with_settings
def start(settings: CoordinatorSettings, roster: str, hours: float, parties: tuple[str, ...], as_json: bool) -> None:
    """Offer an alignment run to PARTIES, two to ten hospitals, who have --hours to approve it.

    The numbers of patients that each announced are part of it. Nothing is computed before a person at every hospital approved,
    and every run counts towards what a hospital allows.

    \b
    Example:
      coordinator align start --roster cohort clinic-a clinic-b registry
    """
    run_time = timedelta(hours=settings.run_hours)
    with opened(settings) as store:
        made = proposals.propose_run(store, roster, parties, timedelta(hours=hours), run_time, utc_now())
    print_document(agreement(made), as_json=as_json)
