"""`party-node public`: the owner's act that makes a column public, and which columns are."""

from __future__ import annotations

from functools import partial

import click

from dprelease.cli.printing import json_option, print_json
from dprelease.errors import InvalidInput
from dprelease.one_line import one_line
from party_node.cli.options import with_hospital
from party_node.hospital import HospitalState
from party_node.source.public_columns import covered, declare, latest, public_declarations, public_norm2

MEANING = """\
Declaring a column public cannot be taken back:
  * Exact values leave: every release that uses the column publishes it patient by patient, without noise.
  * It is outside the guarantee. Such a release is feature-DP or label-DP, not differentially private as a whole.
  * Private columns of any hospital that go together with it can be inferred from it.
  * Public columns of all hospitals are published in the same order: side by side they may point to a person.
  * Mechanism rows publishes its noisy rows in that order too: beside it, everybody sees which noisy row goes with which values.
  * It holds for good for this roster, also if party.toml changes. Earlier releases that protected it no longer do.
    Under another roster's name the same patients' column counts as private again, unless you declare it there too."""


@click.group()
def public() -> None:
    """Columns that are published exactly, outside the guarantee. There is no way back.

    Example: party-node public list
    """


@public.command("declare")
@click.argument("columns", nargs=-1, required=True)
@click.option("--irrevocable", is_flag=True, help="Do not ask: it is understood that this cannot be taken back.")
@with_hospital
def declare_columns(hospital: HospitalState, columns: tuple[str, ...], irrevocable: bool) -> None:
    """Declare COLUMNS of party.toml public, for good.

    Example: party-node public declare age sex
    """
    declared = covered(hospital.settings, public_declarations(hospital.ledger, hospital.settings.roster), columns)
    click.echo(MEANING)
    for column in declared.values():
        click.echo(column.described)
        if not irrevocable and click.prompt(f"Type {column.name} to declare it public") != column.name:
            raise InvalidInput("that is not the column's name; nothing was declared")
    new = declare(hospital.ledger, hospital.settings, columns)
    for name in columns:
        click.echo(f"{name} is public" if name in new else f"{name} was public already")


@public.command("list")
@json_option
@with_hospital
def list_columns(hospital: HospitalState, as_json: bool) -> None:
    """Every declaration of a public column, oldest first; also one that a later declaration took the place of.

    Example: party-node public list --json
    """
    found = public_declarations(hospital.ledger, hospital.settings.roster)
    superseded = {act: act not in latest(found).values() for act in found}
    if as_json:
        lines = [
            {"column": act.column.name, "source": ", ".join(act.source_names), "declared": act.at, "superseded": old}
            for act, old in superseded.items()
        ]
        print_json(lines)
        return
    for act, old in superseded.items():
        later = "; superseded by a later declaration, and public all the same" if old else ""
        reads = one_line(", ".join(act.source_names))
        click.echo(f"{act.column.described}; reads {reads}; since {act.at}{later}")
    if not found:
        click.echo("no column is public")


@public.command("norm")
@click.argument("columns", nargs=-1, required=True)
@json_option
@partial(with_hospital, needs="pyarrow")
def norm_of_columns(hospital: HospitalState, columns: tuple[str, ...], as_json: bool) -> None:
    """The largest squared norm of a patient's public COLUMNS, in scaled units: what a request calls outcome_norm2.

    If these columns are the outcomes of a release, noise is made for it instead of for their bounds, and is less. It is
    worked out from cells that are public; nothing private is looked at.

    Example: party-node public norm phenotype1 phenotype2
    """
    columns = tuple(dict.fromkeys(columns))
    norm2 = public_norm2(hospital.read().bounded, columns)
    if as_json:
        print_json({"columns": list(columns), "outcome_norm2": norm2, "bounds_allow": len(columns)})
        return
    click.echo(f"outcome_norm2 = {norm2!r}    # {len(columns)} is what the bounds allow")
