"""`learner analyze`: what second moments contain beside linear fits, one command for each family."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dprelease.analyses import (
    Analysis,
    compare_groups,
    contingency_table,
    correlations,
    cronbach_alpha,
    lasso,
    logistic,
    mediation,
    nested,
    principal_components,
    rates,
    two_stage_least_squares,
)
from dprelease.analyses.beyond import BEYOND, refuse
from dprelease.cli.printing import explain_option, json_option
from dprelease.release.release import Release
from learner.cli.analysis import names_of
from learner.cli.releases import from_option, print_about
from learner.client.library import open_release


class Analyses(click.Group):
    """A group that says why what it cannot do cannot be done."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a line.

        Raises:
            InvalidInput: it is one that second moments cannot give.
        """
        if args and args[0] in BEYOND:
            refuse(args[0])
        return super().resolve_command(ctx, args)


@click.group(
    "analyze", cls=Analyses, epilog=f"Not in second moments, and refused with the reason: {', '.join(BEYOND)}."
)
def analyze() -> None:
    """Tables, tests and models out of a release of joint moments, after verifying it.

    All of it is post-processing and costs no privacy. Intervals hold privacy noise and, where the table says so, sampling. Columns
    are named as in `learner fit`; lists are separated by commas, and options may be repeated.

    \b
    Example:
      learner analyze table 3f9a12c4 smoker stage
    """


def analysis(name: str) -> Callable[[Callable[..., Analysis]], click.Command]:
    """Make a command of a function from a release and options to an analysis."""

    def command(found: Callable[..., Analysis]) -> click.Command:
        @analyze.command(name)
        @click.argument("release", metavar="ID|DIR")
        @from_option
        @json_option
        @explain_option
        @click.pass_obj
        @wraps(found)
        def run(home: Path, /, release: str, name: str | None, as_json: bool, explain: bool, **options: Any) -> None:
            opened = open_release(home, release, name)
            print_about([opened], found(opened.release, **options).document(), as_json=as_json, explain=explain)

        return run

    return command


def several(option: str, name: str, told: str, *, required: bool = False) -> Callable[..., Any]:
    """An option that takes names of columns."""
    return click.option(option, name, multiple=True, metavar="A,B,...", required=required, help=told)


outcome = click.argument("outcome")
on = several("--on", "on", "Features.", required=True)
given = several("--given", "given", "Columns to hold fixed.")
columns = click.argument("columns", nargs=-1, required=True)


@analysis("table")
@click.argument("rows")
@click.argument("columns")
def table(release: Release, rows: str, columns: str) -> Analysis:
    """Counts of two categories, and how they depend on each other.

    \b
    Example:
      learner analyze table 3f9a12c4 smoker stage
    """
    return contingency_table(release, rows, columns)


@analysis("logistic")
@outcome
@on
def logistic_command(release: Release, outcome: str, on: tuple[str, ...]) -> Analysis:
    """Logistic regression of a binary, approximate.

    Of two declared levels, as 0 and 1, it models the second. OUTCOME=LEVEL names another.

    \b
    Example:
      learner analyze logistic 3f9a12c4 smoker=yes --on age,sex
    """
    return logistic(release, outcome, names_of(on, release))


@analysis("means")
@outcome
@several("--by", "by", "Categories to compare the groups of.", required=True)
@several("--adjust", "adjust", "Covariates.")
def means(release: Release, outcome: str, by: tuple[str, ...], adjust: tuple[str, ...]) -> Analysis:
    """Group means: t-test, analysis of variance or covariance.

    \b
    Example:
      learner analyze means 3f9a12c4 glucose --by stage --adjust age
    """
    return compare_groups(release, outcome, names_of(by, release), names_of(adjust, release))


@analysis("nested")
@outcome
@on
@several("--without", "without", "Features to test together: can they be left out?")
def nested_command(release: Release, outcome: str, on: tuple[str, ...], without: tuple[str, ...]) -> Analysis:
    """Nested F tests and inflation; `learner fit` has slopes.

    \b
    Example:
      learner analyze nested 3f9a12c4 glucose --on age,stage --without stage
    """
    return nested(release, outcome, names_of(on, release), names_of(without, release))


@analysis("correlate")
@columns
@given
def correlate(release: Release, columns: tuple[str, ...], given: tuple[str, ...]) -> Analysis:
    """Correlations of every two columns, or partial ones.

    \b
    Example:
      learner analyze correlate 3f9a12c4 age glucose --given stage
    """
    return correlations(release, names_of(columns, release), names_of(given, release))


@analysis("lasso")
@outcome
@on
def lasso_command(release: Release, outcome: str, on: tuple[str, ...]) -> Analysis:
    """Lasso of a column on others, at the penalty of the least BIC.

    \b
    Example:
      learner analyze lasso 3f9a12c4 glucose --on age,smoker,stage
    """
    return lasso(release, outcome, names_of(on, release))


@analysis("iv")
@outcome
@on
@several("--instruments", "instruments", "At least as many as features.", required=True)
@given
def iv(
    release: Release, outcome: str, on: tuple[str, ...], instruments: tuple[str, ...], given: tuple[str, ...]
) -> Analysis:
    """Two-stage least squares, and whether it is needed.

    \b
    Example:
      learner analyze iv 3f9a12c4 glucose --on dose --instruments distance --given age
    """
    names = (names_of(each, release) for each in (on, instruments, given))
    return two_stage_least_squares(release, outcome, *names)


@analysis("mediation")
@outcome
@click.argument("exposure")
@click.option("--through", required=True, metavar="COLUMN", help="The mediator.")
@given
def mediation_command(release: Release, outcome: str, exposure: str, through: str, given: tuple[str, ...]) -> Analysis:
    """Indirect, direct and total effect of an exposure.

    \b
    Example:
      learner analyze mediation 3f9a12c4 glucose smoker --through weight --given age
    """
    return mediation(release, outcome, exposure, through, names_of(given, release))


@analysis("components")
@columns
@click.option("--count", type=click.IntRange(min=1), default=2, show_default=True, help="Components to show.")
def components(release: Release, columns: tuple[str, ...], count: int) -> Analysis:
    """Principal components of correlations.

    \b
    Example:
      learner analyze components 3f9a12c4 age glucose weight --count 2
    """
    return principal_components(release, names_of(columns, release), count)


@analysis("alpha")
@columns
def alpha(release: Release, columns: tuple[str, ...]) -> Analysis:
    """Cronbach's alpha of a sum of items.

    \b
    Example:
      learner analyze alpha 3f9a12c4 item1 item2 item3
    """
    return cronbach_alpha(release, names_of(columns, release))


@analysis("rates")
@click.argument("events")
@click.option("--time", required=True, metavar="COLUMN", help="Person-time of a patient.")
@click.option("--by", required=True, metavar="COLUMN", help="Category to compare the groups of.")
def rates_command(release: Release, events: str, time: str, by: str) -> Analysis:
    """Events over person-time by group, and rate ratios.

    \b
    Example:
      learner analyze rates 3f9a12c4 falls --time years --by stage
    """
    return rates(release, events, time, by)
