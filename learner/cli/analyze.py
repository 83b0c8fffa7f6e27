"""`learner analyze`: what second moments contain beside linear fits, one command for each family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from dprelease.analyses import (
    Analysis,
    Survival,
    compare_groups,
    contingency_table,
    correlations,
    cronbach_alpha,
    effect,
    hazards,
    lasso,
    logistic,
    mediation,
    missing_cells,
    nested,
    poisson,
    principal_components,
    rates,
    survival,
    two_stage_least_squares,
)
from dprelease.analyses.beyond import BEYOND, refuse
from dprelease.cli.printing import explain_option, json_option
from dprelease.files.extras import require
from learner.cli.analysis import names_of
from learner.cli.releases import from_option, print_about
from learner.client.library import open_release

Parameter = Callable[[Any], Any]
"""Parameter of a command, as a decorator of click makes it."""


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

    All of it is post-processing and costs no privacy. Intervals hold privacy noise and, where the table says so, sampling
    and clipping. Columns are named as in `learner fit`; lists are separated by commas, and options may be repeated.

    \b
    Example:
      learner analyze table 3f9a12c4 smoker stage
    """


def _listed(option: str, told: str, *, required: bool = False) -> Parameter:
    """An option that takes names of columns."""
    return click.option(option, multiple=True, metavar="A,B,...", required=required, help=told)


_OUTPUT = click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the analysis as JSON to this file, too; learner report and card take it.",
)
_OUTCOME = click.argument("outcome")
_ON = _listed("--on", "Features.", required=True)
_GIVEN = _listed("--given", "Columns to hold fixed.")
_COLUMNS = click.argument("columns", nargs=-1, required=True)

ANALYSES: Mapping[str, tuple[Callable[..., Analysis], str, str, tuple[Parameter, ...]]] = {
    "table": (
        contingency_table,
        "Counts of two categories, and how they depend on each other.",
        "smoker stage",
        (click.argument("rows"), click.argument("columns")),
    ),
    "logistic": (
        logistic,
        "Logistic regression of a binary.\n\n"
        "It models the second of two declared levels, as 0 and 1. OUTCOME=LEVEL names another. The model is one law of all "
        "columns with the released pairs, and takes categories. Moments take numbers too, and are approximate.",
        "smoker=yes --on age_band,sex",
        (
            _OUTCOME,
            _ON,
            click.option(
                "--by",
                type=click.Choice(("model", "moments")),
                help="Way to fit; the model unless a feature is a number.",
            ),
        ),
    ),
    "poisson": (
        poisson,
        "Poisson regression of a count.\n\n"
        "OUTCOME is a category whose levels are counts, or bands of one count each. Features are categories.",
        "falls --on age_band,sex",
        (_OUTCOME, _ON),
    ),
    "effect": (
        effect,
        "Effect of a treatment on an outcome, adjusted.\n\n"
        "Standardisation and weighting on the modelled joint of categories, with the balance before and after.",
        "treated=yes died=yes --adjust age_band,sex",
        (click.argument("treatment"), _OUTCOME, _listed("--adjust", "Categories that may act on both.", required=True)),
    ),
    "means": (
        compare_groups,
        "Group means: t-test, analysis of variance or covariance.",
        "glucose --by stage --adjust age",
        (
            _OUTCOME,
            _listed("--by", "Categories to compare the groups of.", required=True),
            _listed("--adjust", "Covariates."),
        ),
    ),
    "nested": (
        nested,
        "Nested F tests and inflation; `learner fit` has slopes.",
        "glucose --on age,stage --without stage",
        (_OUTCOME, _ON, _listed("--without", "Features to test together: can they be left out?")),
    ),
    "correlate": (
        correlations,
        "Correlations of every two columns, or partial ones.",
        "age glucose --given stage",
        (_COLUMNS, _GIVEN),
    ),
    "lasso": (
        lasso,
        "Lasso of a column on others, at the penalty of the least BIC.",
        "glucose --on age,smoker,stage",
        (_OUTCOME, _ON),
    ),
    "iv": (
        two_stage_least_squares,
        "Two-stage least squares, and whether it is needed.",
        "glucose --on dose --instruments distance --given age",
        (_OUTCOME, _ON, _listed("--instruments", "At least as many as features.", required=True), _GIVEN),
    ),
    "mediation": (
        mediation,
        "Indirect, direct and total effect of an exposure.",
        "glucose smoker --through weight --given age",
        (
            _OUTCOME,
            click.argument("exposure"),
            click.option("--through", required=True, metavar="COLUMN", help="The mediator."),
            _GIVEN,
        ),
    ),
    "missing": (
        missing_cells,
        "Missing cells: shares, patterns, and whether they are at random.\n\n"
        "INDICATORS are binaries or levels that say that a cell is missing. All that the declarations name are there if left "
        "out.",
        "bmi_missing smoker=unknown --on age_band,sex",
        (click.argument("indicators", nargs=-1), _listed("--on", "Columns to test against; all if left out.")),
    ),
    "components": (
        principal_components,
        "Principal components of correlations.",
        "age glucose weight --count 2",
        (
            _COLUMNS,
            click.option(
                "--count", type=click.IntRange(min=1), default=2, show_default=True, help="Components to show."
            ),
        ),
    ),
    "alpha": (cronbach_alpha, "Cronbach's alpha of a sum of items.", "item1 item2 item3", (_COLUMNS,)),
    "rates": (
        rates,
        "Events over person-time by group, and rate ratios.",
        "falls --time years --by stage",
        (
            click.argument("events"),
            click.option("--time", required=True, metavar="COLUMN", help="Person-time of a patient."),
            click.option("--by", required=True, metavar="COLUMN", help="Category to compare the groups of."),
        ),
    ),
    "survival": (
        survival,
        "Survival curves, hazard ratios and their test, out of exits.\n\n"
        "EXIT is a category of the intervals in which patients had an event or left, as `derived = { exit = [...] }` declares it. "
        "Each cause of an event has its cumulative incidence and hazard ratios.",
        "exit --by treatment --event died --plot survival.png",
        (
            click.argument("exit"),
            click.option("--by", metavar="COLUMN", help="Category to compare the groups of; one curve if left out."),
            click.option("--event", metavar="COLUMN", help="Indicator of the event beside EXIT: less noise."),
            click.option(
                "--plot",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Draw curves and numbers at risk to this file, e.g. survival.png; needs matplotlib, the extra plot.",
            ),
        ),
    ),
    "hazards": (
        hazards,
        "Hazard ratios of several covariates, out of exits.\n\n"
        "Proportional hazards on the modelled joint of categories, as Cox regression on times that are known to an interval. EXIT "
        "is a column of exits as for `survival`, and each cause of an event has ratios of its own.",
        "exit --on treatment,stage,age_band --event died",
        (
            click.argument("exit"),
            _listed("--on", "Covariates, categories.", required=True),
            click.option("--event", metavar="COLUMN", help="Indicator of the event beside EXIT: less noise."),
        ),
    ),
}
"""Name of a command to its function, help, example and parameters, which are called as those of the function."""


def _command(called: str, made: Callable[..., Analysis], about: str, example: str) -> Callable[..., None]:
    def run(
        home: Path,
        /,
        release: str,
        name: str | None,
        as_json: bool,
        explain: bool,
        output: Path | None,
        plot: Path | None = None,
        **asked: Any,
    ) -> None:
        if plot is not None:
            require("matplotlib")
        opened = open_release(home, release, name)
        named = {
            key: names_of(each, opened.release) if isinstance(each, tuple) else each for key, each in asked.items()
        }
        found = made(opened.release, **named)
        if plot is not None and isinstance(found, Survival):
            found.plot(plot)
        if output is not None:
            found.save(output)
        print_about([opened], found.document(), as_json=as_json, explain=explain)

    run.__doc__ = f"{about}\n\n\b\nExample:\n  learner analyze {called} 3f9a12c4 {example}\n"
    return run


for _name, (_made, _about, _example, _parameters) in ANALYSES.items():
    _run: Any = click.pass_obj(_command(_name, _made, _about, _example))
    _usual = _OUTPUT, from_option, json_option, explain_option
    for _parameter in reversed((click.argument("release", metavar="ID|DIR"), *_parameters, *_usual)):
        _run = _parameter(_run)
    analyze.command(_name)(_run)
