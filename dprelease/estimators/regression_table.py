"""A fit as text, in the manner of statistical packages: what was fitted, a table for each target, what to believe.

Two columns of coefficients stand side by side. ``coef`` is the model that predicts: it is shrunken as far as noise asks, so it
is biased and has no standard error. ``unshrunken`` estimates the population's coefficient, and what is to the right of it is
about that (`intervals.inference`). Where nothing is known about the population's, the model's have two digits: no more of
them means anything to a reader. What noise hides altogether is said in words: `resolution`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.estimators.intervals.inference import LEVEL, Inference
from dprelease.estimators.moments.resolution import rounded
from dprelease.estimators.result import FitResult
from dprelease.one_line import aligned, indented, one_line

MOST_TABLES = 5
"""Targets that get a table each; more of them share one, with a line for each."""

_INTERVAL = (f"[{(1 - LEVEL) / 2:g}", f"{(1 + LEVEL) / 2:g}]")


def regression_table(result: FitResult) -> str:
    """The whole text; lines are not wrapped."""
    few = len(result.targets) <= MOST_TABLES
    parts = [
        _head(result),
        *((_of_target(result, row) for row in range(len(result.targets))) if few else [_compact(result)]),
    ]
    found = result.inference
    clipped = [f"{'' if place else 'reaches':<11}{reach}" for place, reach in enumerate(found.reaches)]
    notes = [
        *([found.statement] if found.statement else _reading(result, few=few)),
        *found.clipping_notes,
        *([] if found.statement else _particular(result, few=few)),
        *found.caveats,
        *(f"Warning: {warning}" for warning in result.diagnostics.warnings),
    ]
    parts += [
        *([clipped] if clipped else []),
        notes,
        ["Guarantee", *indented(result.guarantee)],
        ["Trust", *indented(result.trust)],
    ]
    # Units are any text that a hospital declared: none of it may look like a line of the table.
    return "\n\n".join("\n".join(one_line(line) for line in part) for part in parts)


def _reading(result: FitResult, *, few: bool) -> list[str]:
    """How to read the table, where something was learned."""
    ratio = _ratio(result.inference)
    return [
        "coef is the model that predicts, shrunken as far as noise asks, and has no standard error. unshrunken estimates the "
        f"population's coefficient; std err, {ratio}, P>|{ratio}| and the interval belong to it, and account for sampling, mixing "
        "and privacy noise."
        if few
        else f"unshrunken estimates the population's coefficient; the std err and {ratio} beside it account for sampling, mixing "
        "and privacy noise.",
        f"std err is the error that an estimate has if it is right, {ratio} is in errors that it would have if the truth were 0."
        + (" An interval may be longer on one side of its estimate." if few else ""),
    ]


def _particular(result: FitResult, *, few: bool) -> list[str]:
    """What is particular to this table, where something was learned."""
    found, notes = result.inference, []
    ratio, count = _ratio(found), len(result.features)
    if few and not found.bounded.all():
        notes.append("An end at inf or -inf: this release sets no bound on that side.")
    if np.isfinite(found.degrees):
        notes.append(f"{ratio} has {found.degrees:.0f} degrees of freedom.")
    if not few and count > 1:
        notes.append(
            f"strongest is the largest |{ratio}| of {count} features: chosen for standing out, it is exaggerated, and even where "
            "no feature matters one is the strongest."
        )
    return notes


def _ratio(found: Inference) -> str:
    """What an estimate in standard errors is called."""
    return "t" if np.isfinite(found.degrees) else "z"


def _head(result: FitResult) -> list[str]:
    facts = {
        "release": result.release,
        "method": f"{result.method}, {'with' if result.fit_intercept else 'without'} an intercept",
        "algorithm": f"{result.algorithm}: {result.reason}",
        "mechanism": result.mechanism,
        "patients": f"{result.patients:,}",
    }
    return ["Linear regression on a private release", *(f"{name:<11}{text}" for name, text in facts.items())]


def _of_target(result: FitResult, row: int) -> list[str]:
    found, target = result.inference, result.targets[row]
    unit = result.units[target]
    ratio, form = _ratio(found), ".6g" if found.known[row] else ".2g"
    beside = () if found.wider is None else ("w",)
    lines: list[tuple[str, ...]] = [
        ("", "coef", "unshrunken", *beside, "std err", ratio, f"P>|{ratio}|", *_INTERVAL, "unit")
    ]
    if result.fit_intercept:
        ends = found.intercept_interval(LEVEL)
        numbers = (found.intercept, found.intercept_se, found.intercept_z, found.intercept_p_value, *ends)
        wider = None if found.wider_intercept is None else found.wider_intercept[row]
        lines.append(
            _line("intercept", result.intercept[row], form, [each[row] for each in numbers], unit or "1", wider)
        )
    numbers = (found.estimate, found.standard_error, found.z, found.p_value, *found.interval(LEVEL))
    for column, feature in enumerate(result.features):
        values = [each[row, column] for each in numbers]
        wider = None if found.wider is None else found.wider[row, column]
        per = _per(unit, result.units[feature])
        lines.append(_line(feature, result.coef[row, column], form, values, per, wider))
    table = aligned(lines, left=(0, len(lines[0]) - 1))
    rule = "-" * len(max(table, key=len))
    title = f"{target} ({unit})" if unit else target
    if not result.fit_intercept:
        title += f", no intercept: through the midpoints of the public ranges, hence {result.intercept[row]:.6g} at 0"
    return [title, rule, table[0], rule, *table[1:], rule, *_fit_of(result, row)]


def _line(
    term: str, coef: float, form: str, values: Sequence[float], unit: str, wider: float | None
) -> tuple[str, ...]:
    """One coefficient; `wider` is None where the table has no such column."""
    estimate, standard_error, z, p, lower, upper = values
    shown = (
        format(coef, form),
        _number(estimate, ".6g"),
        *(() if wider is None else (_width(wider),)),
        _number(standard_error, ".3g"),
        _number(z, ".2f"),
        _number(p, ".3f"),
    )
    return (term, *shown, _end(lower), _end(upper), unit)


def _fit_of(result: FitResult, row: int) -> list[str]:
    quality, hidden = result.quality, result.hidden[row]
    unit = f"({result.units[result.targets[row]]})²" if result.units[result.targets[row]] else "1"
    constant = f"constant {_constant(result, row)} (noise sd {result.constant_noise_sd[row]:.3g})"
    told = {
        "explained": (
            "share of variance explained",
            *_pair(quality.explained[row], quality.explained_se[row], ".3f"),
            "",
            "",
        ),
        "mse": (
            "mean squared error, model",
            *_pair(quality.mse[row], quality.mse_se[row], ".6g"),
            f"+ {_number(quality.optimism[row], '.3g')} for having been fitted" if quality.optimism[row] else "",
            unit,
        ),
        "constant_mse": (
            f"mean squared error, {constant}",
            *_pair(quality.constant_mse[row], quality.constant_mse_se[row], ".6g"),
            "",
            unit,
        ),
    }
    label = max(len(line[0]) for line in told.values())
    lines = [line for name, line in told.items() if name not in hidden]
    widths = [label, *(max((len(line[place]) for line in lines), default=0) for place in range(1, 5))]
    table = [
        f"{line[0]:<{label}}  {hidden[name]}"
        if name in hidden
        else "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for name, line in told.items()
    ]
    return [*table, f"the model is {result.verdicts[row]}"]


def _constant(result: FitResult, row: int) -> str:
    """The constant predictor as far as noise lets it be known."""
    return (
        "hidden" if "constant" in result.hidden[row] else rounded(result.constant[row], result.constant_noise_sd[row])
    )


def _compact(result: FitResult) -> list[str]:
    found, quality = result.inference, result.quality
    lines: list[tuple[str, ...]] = [
        (
            "target",
            "explained",
            "std err",
            "constant",
            "noise sd",
            "strongest",
            "unshrunken",
            *(() if found.wider is None else ("w",)),
            "std err",
            _ratio(found),
            "model is",
        )
    ]
    z, share, share_se = found.z, quality.explained, quality.explained_se
    for row, (target, verdict) in enumerate(zip(result.targets, result.verdicts, strict=True)):
        strongest = ("-",) * (4 if found.wider is None else 5)
        if found.known[row]:
            best = int(np.nan_to_num(np.abs(z[row]), nan=-1.0).argmax())
            beside = () if found.wider is None else (_width(found.wider[row, best]),)
            errors = (_number(found.standard_error[row, best], ".3g"), _number(z[row, best], ".2f"))
            strongest = (result.features[best], _number(found.estimate[row, best], ".6g"), *beside, *errors)
        shown = (share[row], share_se[row]) if "explained" not in result.hidden[row] else (np.nan, np.nan)
        explained = (_number(shown[0], ".3f"), _number(shown[1], ".3f"))
        constant = (_constant(result, row), f"{result.constant_noise_sd[row]:.3g}")
        lines.append((target, *explained, *constant, *strongest, verdict))
    table = aligned(lines, left=(0, 5, len(lines[0]) - 1))
    rule = "-" * len(max(table, key=len))
    return [f"{len(result.targets)} targets on {len(result.features)} features", rule, table[0], rule, *table[1:], rule]


def _pair(value: float, standard_error: float, form: str) -> tuple[str, str]:
    return _number(value, form), f"(standard error {_number(standard_error, '.3g')})"


def _per(unit: str, of_feature: str) -> str:
    return f"{unit or '1'} per {of_feature}" if of_feature else unit or "1"


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "-"


def _width(value: float) -> str:
    return "-" if np.isnan(value) else format(value, ".3g")


def _end(value: float) -> str:
    return "-" if np.isnan(value) else format(value, ".5g")
