"""A model card: a fit and analyses, the release behind them and what must be known to use it, as data with stable names.

`VERSION` is raised when a field changes its meaning or goes; new fields may come at any time. Numbers that are not known are
None, and so are ends of intervals where the release sets no bound. Fields of version 2:

    schema, version        "dprelease.model-card", 2
    software               version of dprelease that wrote the card
    command                shell command that makes the card again
    release                digest, title, consortium, created, published, software (that released), mechanism, patients,
                           rows_per_subject
    verification           root_sha256 (the pinned root) and checked (sentences); there is no card of what did not verify
    privacy                kind (DP, or what it is called where columns are public), guarantee and trust (sentences), target
                           (scope, epsilon, delta as agreed), neighbours
    data                   one entry for each declared column: name, party, kind, unit, public, derivation (empty unless
                           derived), fill, used_as (roles), and lower and upper, or levels
    intended_use           purposes and out_of_scope, sentences
    analyses               one entry for each analysis: command (a shell command that saves it), and what `learner analyze --json`
                           prints of it, without the guarantee
    findings               one entry for each target: target, unit, better_than_constant and coefficients_known (booleans), and
                           finding (a sentence); empty without a fit
    fit                    as `learner fit --json` prints it, without the guarantee; None without a fit
    ranges                 one entry for each number whose range a first round published, about rows before clipping, as in `learner
                           describe --json`; empty without a first round
    caveats                sentences

Source of the headings: Mitchell et al. 2019, Model cards for model reporting.
"""

from __future__ import annotations

from typing import Any

from dprelease.data.columns import Column
from dprelease.description.ranges import ranges_table
from dprelease.document.shown import Shown
from dprelease.release.verification import checks
from dprelease.report.content import FitReport, Report
from dprelease.report.page import how_verified, roles_of
from dprelease.version import __version__

SCHEMA = "dprelease.model-card"
VERSION = 2

PURPOSES = (
    "Associations between columns, and predictions of averages, in a population like the one whose patients were released.",
    "A start for planning studies on the hospitals' own data.",
)
OUT_OF_SCOPE = (
    "Decisions about one patient: the model explains part of the variance of groups, with the stated uncertainty.",
    "Feature values outside the declared bounds.",
    "Statements about causes.",
)


def model_card(report: Report) -> dict[str, Any]:
    """The card of a fit, of analyses or of both, ready for JSON; raises as `write`."""
    release, how = report.release, how_verified(report.release)
    spec, promise = release.spec, release.promise
    *saving, command = report.commands("card", "card.json")
    nothing_fitted: dict[str, Any] = {"findings": [], "fit": None, "ranges": [], "caveats": list(report.caveats)}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "software": __version__,
        "command": command,
        "release": {
            "digest": spec.digest(),
            "title": spec.title,
            "consortium": spec.consortium,
            "created": spec.created,
            "published": how.published,
            "software": how.software,
            "mechanism": spec.mechanism,
            "patients": spec.patients,
            "rows_per_subject": spec.rows_per_subject,
            **({} if spec.about is None else {"about": spec.about.model_dump(mode="json")}),
        },
        "verification": {"root_sha256": how.root, "checked": list(checks(spec))},
        "privacy": {
            "kind": spec.guarantee,
            "guarantee": list(promise.guarantee),
            "trust": list(promise.trust),
            "target": spec.target.model_dump(mode="json"),
            "neighbours": spec.neighbours,
        },
        "data": [_column(report, part.party, column) for part in spec.parties for column in part.columns],
        "intended_use": {"purposes": list(PURPOSES), "out_of_scope": list(OUT_OF_SCOPE)},
        "analyses": [
            {"command": line, **_unpromised(each)} for line, each in zip(saving, report.analyses, strict=True)
        ],
        **(_fitted(report) if isinstance(report, FitReport) else nothing_fitted),
    }


def _unpromised(result: Shown) -> dict[str, Any]:
    """A result without the guarantee, which a card has once."""
    return {key: value for key, value in result.document().to_json().items() if key not in ("guarantee", "trust")}


def _fitted(report: FitReport) -> dict[str, Any]:
    fit = report.fit
    return {
        "findings": [
            {
                "target": target,
                "unit": fit.units[target],
                "better_than_constant": report.better(row),
                "coefficients_known": report.identified(row),
                "finding": report.finding(row),
            }
            for row, target in enumerate(fit.targets)
        ],
        "fit": _unpromised(fit),
        "ranges": ranges_table(report.described.ranges, "").to_json(),
        "caveats": [*fit.inference.clipping_notes, *report.caveats],
    }


def _column(report: Report, party: str, column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "party": party,
        "kind": column.kind,
        "unit": column.unit,
        "public": column.public,
        "derivation": column.derivation,
        "fill": column.fill,
        "used_as": roles_of(column, report.roles),
        **column.domain,
    }
