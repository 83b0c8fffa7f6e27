"""The result of a fit: the model, the constant predictor beside it, how far both can be trusted, and the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np

from dprelease.arrays import Floats
from dprelease.document.cells import LEVEL, Estimate, Said
from dprelease.document.document import Document, Heading, Promised, Table
from dprelease.document.shown import Shown
from dprelease.errors import InvalidInput
from dprelease.estimators.design import Rows, design_matrix
from dprelease.estimators.intervals.estimates import LIMIT
from dprelease.estimators.intervals.inference import Inference, Predicted
from dprelease.estimators.normal_equations import Diagnostics
from dprelease.estimators.quality import INDISTINCT, Quality, unresolved
from dprelease.files.extras import imported
from dprelease.one_line import counted, listed

FAR = 1.0
"""Widths of a target's public range by which predictions may leave it."""
SEVERAL_ROWS = "Rows are taken to be patients apart, but a patient may have several: errors of sampling are too small."
"""Caveat of an analysis if `rows_per_subject` is more than 1."""
ALIKE = "A patient may have several rows: errors of sampling are as large as if all rows of a patient were alike."
"""Caveat of a fit in that case."""


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Shown):
    """A fitted model, in original units.

    Attributes:
        method: name in the table of methods, as asked for or by default.
        algorithm: what ran: the method itself, or the one that ``shrinkage`` stood for.
        reason: why that one, a clause.
        fit_intercept: whether an intercept was fitted; without one the model passes through the midpoints of the
            public ranges, and `intercept` only says so in original units.
        targets: l released names.
        features: d released names; a level of a category is an indicator, 0 or 1.
        coef: (l, d) target's unit per feature's unit.
        intercept: (l,) target's unit.
        lower: (l,) lower ends of the targets' public ranges.
        upper: (l,) upper ends.
        feature_ends: (2, d) ends of the ranges that features were released in; infinite where those are the public bounds.
        constant: (l,) the constant predictor: the released mean, clipped to the public range; for ``calibrated`` and
            ``shrinkage`` the best guess of the mean that the range and, for the latter, all moments allow.
        constant_noise_sd: (l,) standard deviation of the privacy noise in the mean before clipping; for ``shrinkage`` of
            what the noise leaves open about the mean.
        quality: estimated mean squared errors on the private rows, squared target's units.
        diagnostics: numerical health.
        promise: the release's guarantee and whom it trusts. Fitting is post-processing: it costs nothing more.
        release: the release's digest.
        patients: n.
        mechanism: of the release.
        view: what the fit read of it: ``mixtures``, ``rows`` or ``moments``.
        units: released name to the unit that its column was declared in, empty for none.
        scores: what the numbers of ordered columns stand for, as `Release.scores` says.
        fills: what missing cells are read as, as `Release.fills` says.
        infer: works `inference` out, also at points.
        within: the set that the weights were kept within, as `ConvexSet.parse` reads it; None for no set.
    """

    method: str
    algorithm: str
    reason: str
    fit_intercept: bool
    targets: tuple[str, ...]
    features: tuple[str, ...]
    coef: Floats
    intercept: Floats
    lower: Floats
    upper: Floats
    feature_ends: Floats
    constant: Floats
    constant_noise_sd: Floats
    quality: Quality
    diagnostics: Diagnostics
    promise: Promised
    release: str
    patients: int
    mechanism: str
    view: str
    units: Mapping[str, str]
    scores: Mapping[str, tuple[str, ...]]
    fills: tuple[str, ...]
    infer: Callable[..., Inference] = field(repr=False)
    within: str | None = None

    @cached_property
    def inference(self) -> Inference:
        """Estimates, standard errors and intervals of the population's coefficients; worked out when first asked for."""
        return self.infer()

    @cached_property
    def estimates(self) -> list[tuple[Floats, ...]]:
        """Estimates, standard errors, ends of intervals, z and p-values of the coefficients, (l, d), and the intercepts, (l,)."""
        both = (self.inference, self.inference.intercepts)
        return [(each.estimate, each.standard_error, *each.interval(), each.z, each.p_value) for each in both]

    def document(self) -> Document:
        """All that the fit has to tell; its `to_json` is how a fit is saved."""
        return fit_document(self)

    def to_frame(self) -> Any:
        """The estimated coefficients as a pandas data frame, a row each: target, feature and all that is known of the estimate.

        Raises:
            InvalidInput: pandas is missing.
        """
        told = [row for table in self.document().tables if table.key == "coefficients" for row in table.to_json()]
        rows = [{"target": row["target"], "feature": row["feature"], **row["coefficient"]} for row in told]
        return imported("pandas").DataFrame(rows)

    def plot(self, target: str | None = None, steps: Mapping[str, float] | None = None, axes: Any = None) -> Any:
        """Estimated slopes of a target with their intervals, one below the other; matplotlib's axes.

        Args:
            target: one of `targets`; the first if None.
            steps: feature to the difference that its effect is drawn for, such as a standard deviation; 1 if left out.
            axes: to draw on; new ones if None.

        Raises:
            InvalidInput: matplotlib is missing, or no such target.
        """
        name = self.targets[0] if target is None else target
        if name not in self.targets:
            raise InvalidInput(f"no such target: {name}; the fit has {listed(self.targets)}")
        row, (estimate, _, lower, upper, *_) = self.targets.index(name), self.estimates[0]
        reach = np.array([(steps or {}).get(feature, 1.0) for feature in self.features])
        middle, ends = reach * estimate[row], reach * np.abs(np.array([lower[row], upper[row]]) - estimate[row])
        axes = imported("matplotlib.figure").Figure(layout="constrained").subplots() if axes is None else axes
        axes.errorbar(middle, range(len(middle)), xerr=ends, fmt="o", capsize=3)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_yticks(range(len(middle)), self.features, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(f"difference in {name} {self.units[name]}".strip(), parse_math=False)
        return axes

    def __repr__(self) -> str:
        """Targets, method and release in one line."""
        on = f"{', '.join(self.targets)} on {len(self.features)} features"
        return f"FitResult({on}, method {self.method}, release {self.release[:12]})"

    @cached_property
    def unresolved(self) -> tuple[dict[str, str], ...]:
        """For each target, what of `quality` and `constant` noise hides, and why."""
        return tuple(
            unresolved(self.quality, row, float(self.constant_noise_sd[row]), float(self.upper[row] - self.lower[row]))
            for row in range(len(self.targets))
        )

    @property
    def verdicts(self) -> tuple[str, ...]:
        """For each target, whether the model can be told from the constant predictor.

        None can that uses features of which the release does not show how they vary.
        """
        found = self.quality.verdicts()
        if self.view != "moments" or np.isfinite(self.inference.noise_to_signal):
            return found
        used = (self.coef[:, np.isin(self.features, self.inference.unidentified)] != 0).any(axis=1)
        return tuple(INDISTINCT if blind else verdict for blind, verdict in zip(used, found, strict=True))

    def predict(self, X: Rows, *, clip: bool = False) -> Floats:
        """Predictions, (rows, l), in the targets' units; none further outside the public range than `FAR` of its width.

        A feature that was released in a range of its own counts as the nearest value in it: the model was fitted to no other.

        Args:
            X: (rows, d) in the features' original units: a data frame or mapping whose columns are named as `features`, in
                any order, or an array in their order.
            clip: bring predictions into the targets' public ranges.

        Raises:
            InvalidInput: X does not have just one column for each feature, or has cells that are no finite numbers.
        """
        beyond = 0.0 if clip else FAR * (self.upper - self.lower)
        rows = design_matrix(X, self.features, self.feature_ends)
        predicted: Floats = rows @ self.coef.T + self.intercept
        return np.clip(predicted, self.lower - beyond, self.upper + beyond)

    def predict_interval(
        self, X: Rows, interval: Predicted = "confidence", level: float = LEVEL
    ) -> tuple[Floats, Floats, Floats]:
        """(fit, lower, upper) of the estimated coefficients, which nothing shrinks, each (rows, l), in the targets' units.

        They are what R's `predict(fit, X, interval = ...)` says of the same release; `predict` is of another model. All are kept
        as near to the public range as there. An interval of one patient takes residuals for normal, with the same spread
        everywhere. Whatever they are, one of 95 % holds at least 74 % of all patients, as far as their spread is known (Chebyshev).

        Args:
            X: as of `predict`.
            interval: ``confidence`` of the mean of patients with such features, ``prediction`` of one patient.
            level: confidence, in (0, 1).

        Raises:
            InvalidInput: as `predict`, or no such interval or level.
        """
        if interval not in get_args(Predicted):
            raise InvalidInput(f"interval is 'confidence' or 'prediction', not {interval!r}")
        beyond = FAR * (self.upper - self.lower)
        found = self.infer(points=design_matrix(X, self.features)).predicted(interval, level)
        fit, lower, upper = (np.clip(each, self.lower - beyond, self.upper + beyond) for each in found)
        return fit, lower, upper


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


def filled(fills: tuple[str, ...]) -> tuple[str, ...]:
    """A note on what missing cells are read as, for `Release.fills`; none where nothing is."""
    more = len(fills) - 1
    rest = f" ({counted(more, 'more column')} {'has' if more == 1 else 'have'} one)" if more > 0 else ""
    return (f"A missing cell counts as the declared fill of its column, as {fills[0]}{rest}.",) if fills else ()


def fit_document(result: FitResult) -> Document:
    """All that a fit has to tell: a table of coefficients for each target, how well the model predicts, and what to believe.

    Coefficients are estimates of the population's, with standard errors and intervals. The model that predicts is another one: it
    is regularised, so it is biased and has no standard error, and has a table of its own that people see when they ask for it.
    """
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
        "Linear regression on a private release",
        facts,
        tables,
        _notes(result, few=few),
        result.promise,
        data,
        {"missing_cells": result.fills},
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
    verdicts, unresolved = result.verdicts, result.unresolved
    rows = [
        (target, *(Said(value, "cannot be told") if name in why else value for name, value in told.items()), verdict)
        for target, told, why, verdict in zip(result.targets, _quality(result), unresolved, verdicts, strict=True)
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
    more = tuple(Heading(key, detail=True) for key in ("counted", "centre", "error", "shift", "spread", "narrower"))
    rows = [
        (
            each.name,
            float(each.lower),
            float(each.upper),
            each.unit,
            Said(each.kept, "hides in its tail" if each.hidden else f"{each.kept:.0%}"),
            each.counted,
            float(each.centre),
            float(each.error),
            float(each.shift),
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
        rows.append((target, INTERCEPT, intercept(result, row), _at(found.intercepts.wider, row)))
    rows += [
        (target, feature, slope(result, row, column), _at(found.wider, row, column))
        for column, feature in enumerate(result.features)
    ]
    unit = result.units[target]
    title = f"{target} ({unit})" if unit else target
    if not result.fit_intercept:
        title += f", no intercept: through the midpoints of the public ranges, {result.intercept[row]:.6g} at 0"
    headings = (Heading("target", detail=True), Heading("feature", " "), coefficient_heading(found), wider)
    return Table("coefficients", headings, tuple(rows), title=title, detail=not (few and found.identified[row]))


def _at(values: Floats | None, *place: int) -> float | None:
    return None if values is None else float(values[place])


def _strongest(result: FitResult) -> Table:
    """The feature of each target whose estimate stands out most."""
    found, rows = result.inference, []
    for row, target in enumerate(result.targets):
        best = int(np.nan_to_num(np.abs(found.z[row]), nan=-1.0).argmax())
        feature = result.features[best] if found.identified[row] else "-"
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
    unresolved = [
        f"{_NAMES[name]} of {target} {reason}."
        for target, told in zip(result.targets, result.unresolved, strict=True)
        for name, reason in (told.items() if few else ())
    ]
    return (
        *([found.statement] if found.statement else []),
        *result.diagnostics.warnings,
        *found.caveats,
        *unresolved,
        *filled(result.fills),
        *found.clipping_notes,
        *strongest,
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
        "unresolved": [dict(each) for each in result.unresolved],
        "identified": [bool(each) for each in found.identified],
        "statement": found.statement,
        "noise_to_signal": found.noise_to_signal,
        "noise_to_signal_limit": LIMIT,
        "unidentified": list(found.unidentified),
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
