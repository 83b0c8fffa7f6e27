"""A model card: a fit, the release behind it and what must be known to use it, as data with stable names.

`VERSION` is raised when a field changes its meaning or goes; new fields may come at any time. Numbers that are not known are
None, and so are ends of intervals where the release sets no bound. Fields of version 1:

    schema, version        "dprelease.model-card", 1
    software               version of dprelease that wrote the card
    command                shell command that fits the same again
    release                digest, title, consortium, created, published, software (that released), mechanism, patients,
                           rows_per_subject
    verification           root_sha256 (the pinned root) and checked (sentences); there is no card of what did not verify
    privacy                kind (DP, or what it is called where columns are public), guarantee and trust (sentences), target
                           (scope, epsilon, delta as agreed), neighbours
    data                   one entry for each declared column: name, party, kind, unit, public, derivation (empty unless
                           derived), fill, used_as (roles), and lower and upper, or levels
    intended_use           purposes and out_of_scope, sentences
    model                  method, algorithm and reason (what the method stood for, and why), fit_intercept, targets, features,
                           diagnostics
    level                  of all intervals
    outcomes               one entry for each target: target, unit, range, constant and constant_noise_sd (the constant
                           predictor), verdict, better_than_constant and coefficients_known (booleans), finding (a sentence),
                           variance_explained and variance_explained_se, quality (as in a fit's JSON), intercept, and
                           coefficients with their feature; hidden (what noise hides, and is None here: of explained, mse,
                           constant_mse and constant, each with the reason); either has unit, value (what the model predicts with),
                           estimate (not shrunken), standard_error, lower and upper (of the estimate), and wider (what clipping may
                           take from it, by which the interval is wider on either side)
    reaches                one entry for each number of a release in ranges: name, unit, lower and upper (how far it reaches), kept
                           (part of slopes that clipping leaves; 0 where noise hides the tail), counted (whether that comes from
                           counts), and centre (mean before clipping); empty in public bounds
    ranges                 one entry for each number whose range a first round published, about rows before clipping, as in `learner
                           describe --json`: name, unit, mean, mean_error, standard_deviation, standard_deviation_error, quantiles,
                           below (the distribution function), range, and found (bounds) where it had none; empty without a first
                           round
    caveats                sentences

Source of the headings: Mitchell et al. 2019, Model cards for model reporting.
"""

from __future__ import annotations

from typing import Any

from dprelease.data.columns import Column
from dprelease.estimators.intervals.inference import LEVEL, plain
from dprelease.release.verification import checks
from dprelease.version import __version__
from learner.client.describe_ranges import column_to_json
from learner.report.content import Coefficient, Report

SCHEMA = "dprelease.model-card"
VERSION = 1

MODEL = ("method", "algorithm", "reason", "fit_intercept", "targets", "features", "diagnostics")

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
    """The card of a fit, ready for JSON."""
    spec, manifest, fit = report.opened.release.spec, report.opened.manifest, report.fit
    fitted = fit.to_json()
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "software": __version__,
        "command": report.command,
        "release": {
            "digest": spec.digest(),
            "title": spec.title,
            "consortium": spec.consortium,
            "created": spec.created,
            "published": manifest.published,
            "software": manifest.software,
            "mechanism": spec.mechanism,
            "patients": spec.patients,
            "rows_per_subject": spec.rows_per_subject,
        },
        "verification": {"root_sha256": report.opened.consortium.fingerprint, "checked": list(checks(spec))},
        "privacy": {
            "kind": spec.guarantee,
            "guarantee": fitted["guarantee"],
            "trust": fitted["trust"],
            "target": spec.target.model_dump(mode="json"),
            "neighbours": spec.neighbours,
        },
        "data": [_column(report, part.party, column) for part in spec.parties for column in part.columns],
        "intended_use": {"purposes": list(PURPOSES), "out_of_scope": list(OUT_OF_SCOPE)},
        "model": {name: fitted[name] for name in MODEL},
        "level": LEVEL,
        "outcomes": [_outcome(report, fitted, row) for row in range(len(fit.targets))],
        "reaches": fitted["inference"]["reaches"],
        "ranges": [column_to_json(each) for each in report.described.ranges],
        "caveats": [*fit.inference.clipping_notes, *report.caveats],
    }


def _column(report: Report, party: str, column: Column) -> dict[str, Any]:
    roles = {"target": report.fit.targets, "feature": report.fit.features}
    return {
        "name": column.name,
        "party": party,
        "kind": column.kind,
        "unit": column.unit,
        "public": column.public,
        "derivation": column.derivation,
        "fill": column.fill,
        "used_as": [role for role, names in roles.items() if set(names) & set(column.released)],
        **column.domain,
    }


def _outcome(report: Report, fitted: dict[str, Any], row: int) -> dict[str, Any]:
    target, hidden = report.fit.targets[row], report.fit.hidden[row]
    return {
        "target": target,
        "unit": report.fit.units[target],
        "range": {end: fitted["range"][end][row] for end in ("lower", "upper")},
        "intercept": _coefficient(report.intercept(row)),
        "constant": None if "constant" in hidden else fitted["constant"]["value"][row],
        "constant_noise_sd": fitted["constant"]["noise_sd"][row],
        "verdict": fitted["quality"]["verdict"][row],
        "better_than_constant": report.better(row),
        "coefficients_known": report.known(row),
        "finding": report.finding(row),
        "variance_explained": None if "explained" in hidden else plain(report.explained[row]),
        "variance_explained_se": None if "explained" in hidden else plain(report.explained_se[row]),
        "quality": {
            name: None if name.removesuffix("_se") in hidden else values[row]
            for name, values in fitted["quality"].items()
            if name != "verdict"
        },
        "hidden": hidden,
        "coefficients": [{"feature": each.feature} | _coefficient(each) for each in report.coefficients(row)],
    }


def _coefficient(each: Coefficient) -> dict[str, Any]:
    numbers = ("value", "estimate", "standard_error", "lower", "upper", "wider")
    return {"unit": each.unit} | {name: plain(getattr(each, name)) for name in numbers}
