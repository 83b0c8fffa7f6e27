"""`party-node review`: what is proposed, and a person's word on it. Nothing printed here crosses the boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType

import click

from dprelease.cli.printing import explain_option, json_option, print_document, print_json
from dprelease.document.cells import Cell, Said, price
from dprelease.document.document import Document, Heading, Promise, Table
from dprelease.errors import Conflict, DpReleaseError, InvalidInput
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.statement import Statements
from dprelease.one_line import counted
from dprelease.privacy.price import epsilon_figure, room_text, rounded_up
from dprelease.release.accounting import trust
from dprelease.release.spec import ReleaseSpec
from party_node.cli.options import with_hospital
from party_node.decision.decision import Assessment
from party_node.hospital import HospitalState
from party_node.source.findings import Findings
from party_node.state.journal import MOST_UNDECIDED, Record, Status

MORE = "Guarantee, trust, exact amounts and the columns of all hospitals: --explain"
"""Last line of a card."""


SEEN_HERE = "common_patients_seen_here_only"
"""Key of the one number of an alignment run that never leaves."""


def card(assessment: Assessment, record: Record, findings: Mapping[str, Findings] = MappingProxyType({})) -> Document:
    """The review card: what would be published and what it costs, from metadata alone, beside local counts.

    People see one epsilon, one price and what is left; all else is a detail.
    """
    spec, guarantee, balance = assessment.spec, assessment.guarantee, assessment.balance
    delta, words, own = spec.target.delta, mechanism_of(spec).statements(spec), spec.party(assessment.party)
    left = balance.remaining - assessment.cost
    told = {part.party: [name for column in part.columns for name in column.told] for part in spec.parties}
    at_delta = f"at delta = {rounded_up(delta)}"
    facts: dict[str, Cell | tuple[str, ...]] = {
        "status": Said(record.status.value, f"{record.status.value}: {record.note}".removesuffix(": ")),
        "patients": spec.rows,
        "would_publish": _published(spec, words),
        "licence": "none" if spec.about is None else f"{spec.about.licence}, by {spec.about.cited}",
        "own_columns": tuple(column.described for column in (own.columns if own else ())),
        "own_cells_seen_here_only": tuple(f"{name}: {found.words()}" for name, found in findings.items()),
        "outcome_columns": spec.outcomes,
        "public_columns": tuple(column.name for column in spec.public),
        "weighted_columns": tuple(
            f"{name}: noise {weight} times smaller, at the cost of the other columns"
            for name, weight in spec.weights.items()
        ),
        "hospitals": Said(
            told, "; ".join(f"{part.party} with {counted(len(part.columns), 'column')}" for part in spec.parties)
        ),
        "this_release": Said(
            {"epsilon": guarantee.joint_epsilon, "delta": delta},
            f"epsilon {epsilon_figure(guarantee.joint_epsilon)} for a patient, {at_delta}",
        ),
        "taken_from_your_budget": _share(assessment.cost, balance.cap, delta),
        "left_after_it": Said(
            price(left, delta).value, f"{_share(left, balance.cap, delta).text}, {room_text(left, assessment.cost)}"
        ),
        "decide_before": spec.expires,
        "pays_again": assessment.repeats,
        "to_do_here_first": assessment.blockers,
        "needs_a_person_because": assessment.review_reasons,
    }
    empty = {name: value for name, value in facts.items() if value == ()}
    return Document(
        f"release {record.digest[:12]}: {spec.title}",
        facts={name: value for name, value in facts.items() if name not in empty},
        promise=Promise(MORE, guarantee.words(), trust(spec, words)),
        data={"release": record.digest, "release_title": spec.title, "note": record.note, **empty},
        details={
            **({} if spec.about is None else {f"about_{name}": value for name, value in spec.about.facts.items()}),
            **({"about_columns": spec.about.meanings} if spec.about and spec.about.columns else {}),
            "consortium": spec.consortium,
            "roster": spec.roster,
            "common_to_all_by_alignment_run": spec.aligned,
            "details": words.details,
            "released_columns": tuple(f"{party}: {', '.join(names)}" for party, names in told.items()),
            "own_epsilon": _epsilon(guarantee.party(assessment.party).epsilon),
            "epsilon_of_others_against_us": _epsilon(guarantee.against({assessment.party})),
            "costs": price(assessment.cost, delta),
            "cap": price(balance.cap, delta),
            "spent_before": price(balance.held, delta),
            "spent_after": price(balance.held + assessment.cost, delta),
            "left_after": price(left, delta),
        },
    )


def releases(records: Sequence[Record]) -> Table:
    """One line for each release."""
    return Table.of(
        "releases",
        (Heading("release"), "status", "patients", "title", "note"),
        [
            (
                Said(each.digest, each.digest[:12]),
                each.status.value,
                each.spec.rows,
                each.spec.title,
                Said(each.note, each.note),
            )
            for each in records
        ],
    )


def runs(records: Sequence[Record]) -> Table:
    """One line for each alignment run; the one in force has the highest version."""
    headings = ("run", "roster", "status", "version", Heading(SEEN_HERE, "common patients"), "note")
    return Table.of("runs", headings, [tuple(_line(record).values()) for record in records])


def run_card(hospital: HospitalState, record: Record) -> Document:
    """The card of an alignment run: who would take part, with how many patients, and what has to be done first."""
    task, pins = record.task, hospital.identity.pins()
    own = task.member(hospital.settings.name)
    others = {each.party: f"{each.patients:,} patients" for each in task.members if each is not own}
    found: dict[str, Cell | tuple[str, ...]] = {
        **_line(record),
        "consortium": task.consortium,
        "identifiers": task.identifiers or "as they stand",
        "decide_before": task.expires,
        "our_patients": None if own is None else own.patients,
        "they_learn": "each hospital learns which of its own patients all hospitals have, and nothing of other patients",
    }
    if record.status in {Status.WAITING, Status.ACCEPTED}:
        try:
            here = hospital.assess_run(task)
        except DpReleaseError as error:
            found["cannot_be_approved"] = error.message
        else:
            for party in others:
                others[party] += ", key pinned" if pins.get(party) == task.party_keys[party] else ", key not pinned"
            found |= {
                "runs_before": here.attempts,
                "runs_left": f"{here.most - here.attempts - 1} after this one, of {here.most}",
                "to_do_here_first": here.blockers,
            }
    shown = tuple(f"{name}: {words}" for name, words in others.items())
    return Document(f"alignment run {record.digest[:12]}", found | {"other_hospitals": Said(others, shown)})


def _line(record: Record) -> dict[str, Cell]:
    return {
        "run": Said(record.digest, record.digest[:12]),
        "roster": record.task.roster,
        "status": record.status.value,
        "version": record.version,
        SEEN_HERE: record.common,
        "note": Said(record.note, record.note),
    }


def _published(spec: ReleaseSpec, words: Statements) -> str:
    exact = len(spec.public)
    rows = f"; and, exactly, all {spec.rows} rows of {exact} public column{'s' if exact > 1 else ''}" if exact else ""
    return words.would_publish + rows


def _share(mu2: Fraction, cap: Fraction, delta: float) -> Said:
    """An amount of the budget; mu^2 adds up over releases, so its share of the cap does, and epsilon does not."""
    found = price(mu2, delta)
    epsilon = "" if mu2 < 0 else f"epsilon {epsilon_figure(found.value['epsilon'])}, "
    return Said(found.value, f"{epsilon}{float(100 * mu2 / cap):.3g} % of the cap (mu^2)")


def _epsilon(value: float | None) -> Said:
    return Said(value, "-" if value is None else epsilon_figure(value))


@click.group()
def review() -> None:
    """See what is proposed, what it would publish and cost; approve or decline.

    Example: party-node review list
    """


@review.command("list")
@click.option("--page", type=click.IntRange(1), default=1, help="Which 50, the newest on page 1.", show_default=True)
@json_option
@with_hospital
def list_offers(hospital: HospitalState, page: int, as_json: bool) -> None:
    """The releases and alignment runs that were offered here, 50 on a page; page 1 has those that wait.

    Example: party-node review list --page 2 --json
    """
    records, count = hospital.journal.page(page)
    last = -(-count // MOST_UNDECIDED)
    if page > max(1, last):
        raise InvalidInput(f"there is no page {page}; the last one is {max(1, last)}")
    aligned = [record for record in records if isinstance(record.proposal, Task)]
    released = [record for record in records if record not in aligned]
    tables = (*([releases(released)] if released or not aligned else []), *([runs(aligned)] if aligned else []))
    if as_json:
        print_json([line for table in tables for line in table.to_json()])
    else:
        print_document(Document("", tables=tables))
    if page * MOST_UNDECIDED < count:
        click.echo(f"{count} in all; older ones: party-node review list --page {page + 1}", err=True)


@review.command()
@click.argument("digits")
@json_option
@explain_option
@with_hospital
def show(hospital: HospitalState, digits: str, as_json: bool, explain: bool) -> None:
    """Show content and price of a release, or the hospitals of an alignment run. No noise exists yet.

    DIGITS are the first of its name.

    Example: party-node review show 3fa2c1
    """
    print_document(_card(hospital, hospital.journal.find(digits)), as_json=as_json, explain=explain)


@review.command()
@click.argument("digits")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_hospital
def approve(hospital: HospitalState, digits: str, yes: bool) -> None:
    """Approve a release or an alignment run; the daemon signs when it looks next.

    In an alignment run every other hospital learns which of its own patients are patients of all.

    Example: party-node review approve 3fa2c1
    """
    found = hospital.journal.find(digits)
    if found.status != Status.WAITING:
        raise Conflict(f"{found.name} is {found.status} here; there is nothing to approve")
    print_document(_card(hospital, found))
    if not yes:
        click.confirm("Approve?", abort=True)
    hospital.accept(found)
    click.echo(f"approved {found.digest[:12]} at {datetime.now(UTC):%H:%M:%S} UTC; the daemon takes it from here")


@review.command()
@click.argument("digits")
@click.option("--reason", default="", help="Told to the consortium's office; write nothing about patients.")
@with_hospital
def decline(hospital: HospitalState, digits: str, reason: str) -> None:
    """Decline a release before anything was computed, or take no part in an alignment run any longer.

    A run that has begun counts all the same.

    Example: party-node review decline 3fa2c1 --reason "not before the ethics board has met"
    """
    found = hospital.journal.find(digits)
    hospital.decline(found, reason)
    click.echo(f"declined {found.digest[:12]}")


def _card(hospital: HospitalState, found: Record) -> Document:
    if isinstance(found.proposal, Task):
        return run_card(hospital, found)
    return card(hospital.assess(found.spec), found, hospital.findings(found.spec))
