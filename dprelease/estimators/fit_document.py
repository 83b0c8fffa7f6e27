"""A fit as a document: a table of coefficients for each target, how well the model predicts, and what to believe.

The table has the estimate of the population's coefficient with its standard error and interval (`intervals.inference`). The model
that predicts is another one: it is regularised, so it is biased and has no standard error. It has a table of its own, which people
see when they ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dprelease.arrays import Floats
from dprelease.document.cells import LEVEL, Estimate, Said
from dprelease.document.document import Document, Heading, Table
from dprelease.estimators.intervals.estimates import LIMIT
from dprelease.estimators.intervals.inference import Inference
from dprelease.estimators.result import FitResult
from dprelease.one_line import counted

MOST_TABLES = 5
"""Targets that get a table each; more of them share one, with a line for each."""
INTERCEPT = "intercept"
TARGET = Heading("target")
PREDICTOR = "predictor"
"""Key of the table of the model that predicts."""
PREDICTS = "Predictions use a model of their own, without standard errors and mostly regularised: --predictor shows it."
_KEPT = ("ss", "us", "is")
"""Ends of words that have no plural s."""
_ES = ("ches", "shes", "sses", "xes")
_SHORTEST = 4
_NAMES = {
    "explained": "Variance explained",
    "mse": "The mean squared error",
    "constant_mse": "The mean squared error of the constant",
    "constant": "The constant",
}


def fit_document(result: FitResult) -> Document:
    """All that a fit has to tell."""
    found, few = result.inference, len(result.targets) <= MOST_TABLES
    facts = {
        "release": result.release,
        "method": Said(result.method, f"{result.method}, {'with' if result.fit_intercept else 'without'} an intercept"),
        "algorithm": Said(result.algorithm, f"{result.algorithm}: {result.reason}"),
        "mechanism": result.mechanism,
        "patients": result.patients,
        **result.scores,
        **({"degrees_of_freedom": round(found.degrees)} if np.isfinite(found.degrees) else {}),
    }
    coefficients = tuple(_coefficients(result, row, few=few) for row in range(len(result.targets)))
    tables = (*coefficients, *(() if few else (_strongest(result),)), quality_table(result), _predictor(result))
    tables += reach_table(found)
    data = _data(result)
    return Document(
        "Linear regression on a private release", facts, tables, _notes(result, few=few), result.promise, data
    )


def slope(result: FitResult, row: int, column: int) -> Estimate:
    """The estimated coefficient of a feature for a target."""
    unit = per(result.units[result.targets[row]], result.units[result.features[column]])
    return _estimate([float(each[row, column]) for each in result.estimates[0]], unit)


def intercept(result: FitResult, row: int) -> Estimate:
    """The estimated intercept of a target."""
    return _estimate([float(each[row]) for each in result.estimates[1]], result.units[result.targets[row]])


def coefficient_heading(found: Inference) -> Heading:
    """The columns of an estimated coefficient."""
    parts = ("estimate", "standard_error", "ratio", "p_value", "lower", "upper", "unit")
    return Heading("coefficient", parts=parts, ratio="t" if np.isfinite(found.degrees) else "z", level=LEVEL)


def quality_table(result: FitResult) -> Table:
    """How well the model predicts each target, beside a constant."""
    headings = (
        TARGET,
        Heading("explained", "variance explained"),
        Heading("mse", "mean squared error"),
        Heading("constant_mse", "of the constant"),
        Heading("constant"),
        Heading("verdict", "model"),
    )
    verdicts, hidden = result.verdicts, result.hidden
    rows = [
        (target, *(Said(value, "cannot be told") if name in why else value for name, value in told.items()), verdict)
        for target, told, why, verdict in zip(result.targets, _quality(result), hidden, verdicts, strict=True)
    ]
    return Table("fit", headings, tuple(rows), title="Predictions on the private rows, standard errors in brackets")


def reach_table(found: Inference) -> tuple[Table, ...]:
    """How far each number reaches, and what slopes keep of it; none in public bounds."""
    if not found.reaches:
        return ()
    headings = (
        Heading("name", "number"),
        Heading("lower", "from"),
        Heading("upper", "to"),
        "unit",
        Heading("kept", "slopes keep"),
    )
    more = tuple(Heading(key, detail=True) for key in ("counted", "centre", "spread", "narrower"))
    rows = [
        (
            each.name,
            float(each.lower),
            float(each.upper),
            each.unit,
            Said(each.kept, "hides in its tail" if each.hidden else f"{each.kept:.0%}"),
            each.counted,
            float(each.centre),
            float(each.spread),
            each.narrower,
        )
        for each in found.reaches
    ]
    return (Table.of("reaches", (*headings, *more), rows, title="How far numbers reach before they are clipped"),)


def _estimate(values: list[float], unit: str) -> Estimate:
    value, error, lower, upper, ratio, p_value = values
    return Estimate(value, error, lower, upper, unit, LEVEL, ratio, p_value)


def _coefficients(result: FitResult, row: int, *, few: bool) -> Table:
    found, target = result.inference, result.targets[row]
    wider = Heading("wider", detail=True)
    rows: list[tuple[str, str, Estimate, float | None]] = []
    if result.fit_intercept:
        rows.append((target, INTERCEPT, intercept(result, row), _at(found.wider_intercept, row)))
    rows += [
        (target, feature, slope(result, row, column), _at(found.wider, row, column))
        for column, feature in enumerate(result.features)
    ]
    unit = result.units[target]
    title = f"{target} ({unit})" if unit else target
    if not result.fit_intercept:
        title += f", no intercept: through the midpoints of the public ranges, {result.intercept[row]:.6g} at 0"
    headings = (Heading("target", detail=True), Heading("feature", " "), coefficient_heading(found), wider)
    return Table("coefficients", headings, tuple(rows), title=title, detail=not (few and found.known[row]))


def _at(values: Floats | None, *place: int) -> float | None:
    return None if values is None else float(values[place])


def _strongest(result: FitResult) -> Table:
    """The feature of each target whose estimate stands out most."""
    found, rows = result.inference, []
    for row, target in enumerate(result.targets):
        best = int(np.nan_to_num(np.abs(found.z[row]), nan=-1.0).argmax())
        feature = result.features[best] if found.known[row] else "-"
        rows.append((target, feature, slope(result, row, best)))
    title = f"{counted(len(result.targets), 'target')} on {counted(len(result.features), 'feature')}"
    headings = (TARGET, Heading("feature", "strongest feature"), coefficient_heading(found))
    return Table("strongest", headings, tuple(rows), title=title)


def _quality(result: FitResult) -> Iterator[dict[str, Estimate]]:
    """How well each target is predicted."""
    quality, explained, explained_se = result.quality, result.quality.explained, result.quality.explained_se
    for row, target in enumerate(result.targets):
        unit = squared(result.units[target])
        yield {
            "explained": Estimate(float(explained[row]), float(explained_se[row])),
            "mse": Estimate(float(quality.mse[row] + _optimism(result, row)), float(quality.mse_se[row]), unit=unit),
            "constant_mse": Estimate(float(quality.constant_mse[row]), float(quality.constant_mse_se[row]), unit=unit),
            "constant": Estimate(
                float(result.constant[row]), float(result.constant_noise_sd[row]), unit=result.units[target]
            ),
        }


def _optimism(result: FitResult, row: int) -> float:
    """The amount by which a fitted model's error is too low; nothing where that is not known."""
    found = float(result.quality.optimism[row])
    return found if np.isfinite(found) else 0.0


def _predictor(result: FitResult) -> Table:
    rows: list[tuple[str, str, float, str]] = []
    for row, target in enumerate(result.targets):
        unit = result.units[target]
        rows.append((target, INTERCEPT, float(result.intercept[row]), unit))
        rows += [
            (target, feature, float(result.coef[row, column]), per(unit, result.units[feature]))
            for column, feature in enumerate(result.features)
        ]
    title = "The model that predicts, without standard errors and mostly regularised"
    headings = (TARGET, Heading("feature"), Heading("value", "coefficient", digits=6), Heading("unit"))
    return Table(PREDICTOR, headings, tuple(rows), title=title, detail=True)


def _notes(result: FitResult, *, few: bool) -> tuple[str, ...]:
    """The most important ones first."""
    found, count = result.inference, len(result.features)
    ratio = "t" if np.isfinite(found.degrees) else "z"
    strongest = []
    if not few and count > 1 and not found.statement:
        strongest.append(
            f"The strongest feature has the largest |{ratio}| of {count}. Chosen for that, it is exaggerated."
        )
    hidden = [
        f"{_NAMES[name]} of {target} {reason}."
        for target, told in zip(result.targets, result.hidden, strict=True)
        for name, reason in (told.items() if few else ())
    ]
    return (
        *([found.statement] if found.statement else []),
        *result.diagnostics.warnings,
        *found.caveats,
        *found.clipping_notes,
        *strongest,
        *hidden,
        PREDICTS,
    )


def _data(result: FitResult) -> dict[str, object]:
    """Further data for programs."""
    found, quality = result.inference, result.quality
    return {
        "reason": result.reason,
        "fit_intercept": result.fit_intercept,
        "within": result.within,
        "targets": list(result.targets),
        "features": list(result.features),
        "feature_ends": result.feature_ends,
        "range": {"lower": result.lower, "upper": result.upper},
        "quality": vars(quality),
        "hidden": [dict(each) for each in result.hidden],
        "known": [bool(each) for each in found.known],
        "statement": found.statement,
        "noise_to_signal": found.doubt,
        "noise_to_signal_limit": LIMIT,
        "unidentified": list(found.hidden),
        "counted_together": {name: list(reference) for name, reference in found.merged.items()},
        "diagnostics": vars(result.diagnostics),
    }


def per(unit: str, of: str) -> str:
    """Unit of a slope.

    Args:
        unit: of the outcome; empty for none.
        of: unit of the feature; empty for none.
    """
    return f"{unit} per {singular(of)}".strip() if of else unit


def squared(unit: str) -> str:
    """Unit of a squared error."""
    return f"({unit})²" if unit else ""


def singular(unit: str) -> str:
    """One of what a unit names: a year for years. Abbreviations and other words stay."""
    head, space, last = unit.rpartition(" ")
    if len(last) < _SHORTEST or not (last.isalpha() and last.islower() and last.endswith("s")) or last.endswith(_KEPT):
        return unit
    return head + space + (last[:-2] if last.endswith(_ES) else last[:-1])
