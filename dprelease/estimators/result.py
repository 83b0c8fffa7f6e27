"""The result of a fit: the model, the constant predictor beside it, how far both can be trusted, and the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.document.document import Document, Promised
from dprelease.document.text import text
from dprelease.errors import InvalidInput
from dprelease.estimators.intervals.inference import Inference
from dprelease.estimators.quality import INDISTINCT, Diagnostics, Quality, hidden
from dprelease.files.extras import require
from dprelease.one_line import listed

FAR = 1.0
"""Widths of a target's public range by which predictions may leave it."""
SEVERAL_ROWS = "Rows are taken to be patients apart, but a patient may have several: errors of sampling are too small."
"""Caveat of an analysis if `rows_per_subject` is more than 1."""
ALIKE = "A patient may have several rows: errors of sampling are as large as if all rows of a patient were alike."
"""Caveat of a fit in that case."""


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
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
        infer: works `inference` out.
        tell: makes `document`.
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
    infer: Callable[[], Inference] = field(repr=False)
    tell: Callable[[FitResult], Document] = field(repr=False)
    within: str | None = None

    @cached_property
    def inference(self) -> Inference:
        """Estimates, standard errors and intervals of the population's coefficients; worked out when first asked for."""
        return self.infer()

    @cached_property
    def estimates(self) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """Estimates, standard errors, ends of intervals, z and p-values of the coefficients, (l, d), and the intercepts, (l,)."""
        found = self.inference
        ends = found.intercept_interval()
        return (
            (found.estimate, found.standard_error, *found.interval(), found.z, found.p_value),
            (found.intercept, found.intercept_se, *ends, found.intercept_z, found.intercept_p_value),
        )

    def document(self) -> Document:
        """All that the fit has to tell; its `to_json` is how a fit is saved."""
        return self.tell(self)

    def summary(self, *, explain: bool = False) -> str:
        """The fit as text, in the manner of statistical packages: `print(result.summary())`.

        Args:
            explain: with all notes, the model that predicts and the whole guarantee.
        """
        return text(self.document(), explain=explain)

    def to_frame(self) -> Any:
        """The estimated coefficients as a pandas data frame, a row each: target, feature and all that is known of the estimate.

        Raises:
            ImportError: pandas is missing.
        """
        told = [row for table in self.document().tables if table.key == "coefficients" for row in table.to_json()]
        rows = [{"target": row["target"], "feature": row["feature"], **row["coefficient"]} for row in told]
        return import_module("pandas").DataFrame(rows)

    def plot(self, target: str | None = None, steps: Mapping[str, float] | None = None, axes: Any = None) -> Any:
        """Estimated slopes of a target with their intervals, one below the other; matplotlib's axes.

        Args:
            target: one of `targets`; the first if None.
            steps: feature to the difference that its effect is drawn for, such as a standard deviation; 1 if left out.
            axes: to draw on; new ones if None.

        Raises:
            InvalidInput: matplotlib is missing, or no such target.
        """
        require("matplotlib")
        name = self.targets[0] if target is None else target
        if name not in self.targets:
            raise InvalidInput(f"no such target: {name}; the fit has {listed(self.targets)}")
        row, (estimate, _, lower, upper, *_) = self.targets.index(name), self.estimates[0]
        reach = np.array([(steps or {}).get(feature, 1.0) for feature in self.features])
        middle, ends = reach * estimate[row], reach * np.abs(np.array([lower[row], upper[row]]) - estimate[row])
        axes = import_module("matplotlib.figure").Figure(layout="constrained").subplots() if axes is None else axes
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
    def hidden(self) -> tuple[dict[str, str], ...]:
        """For each target, what of `quality` and `constant` noise hides, and why."""
        return tuple(
            hidden(self.quality, row, float(self.constant_noise_sd[row]), float(self.upper[row] - self.lower[row]))
            for row in range(len(self.targets))
        )

    @property
    def verdicts(self) -> tuple[str, ...]:
        """For each target, whether the model can be told from the constant predictor.

        None can that uses features of which the release does not show how they vary.
        """
        found = self.quality.verdicts()
        if self.view != "moments" or np.isfinite(self.inference.doubt):
            return found
        used = (self.coef[:, np.isin(self.features, self.inference.hidden)] != 0).any(axis=1)
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
        rows = np.clip(design_matrix(X, self.features), *self.feature_ends)
        predicted: Floats = rows @ self.coef.T + self.intercept
        return np.clip(predicted, self.lower - beyond, self.upper + beyond)


Rows = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""A table that a caller holds: a data frame, a mapping of columns, or an array."""


def design_matrix(table: Rows, names: Sequence[str]) -> Floats:
    """The features of a table in a model's order, (rows, len(names)).

    Args:
        table: as of `in_order`; an array has its columns in the model's order already.
        names: of the model.

    Raises:
        InvalidInput: as `in_order` does; or the shape is wrong, or a cell is not a finite number.
    """
    rows = in_order(table, names, "X")
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InvalidInput(f"X must have {len(names)} columns, in this order: {', '.join(names)}")
    wrong = [name for name, column in zip(names, rows.T, strict=True) if not np.isfinite(column).all()]
    if wrong:
        raise InvalidInput(f"X has missing or infinite cells in {listed(wrong)}; fill them or leave the rows out")
    return rows


def in_order(table: Any, names: Sequence[str], what: str) -> Floats:
    """The numbers of a table, columns in the order of `names` where they are named, and as they stand where not.

    Names are the keys of a mapping, and `columns` of whatever has them, as data frames do. A frame whose columns have numbers
    for names counts as an array, as in scikit-learn.

    Args:
        table: mapping, data frame or array.
        names: of the model.
        what: what a refusal calls the table.

    Raises:
        InvalidInput: a name is missing, unknown or there twice, columns differ in length, or a cell is no number.
    """
    given = list(table if isinstance(table, Mapping) else getattr(table, "columns", ()))
    if not isinstance(table, Mapping) and not any(isinstance(name, str) for name in given):
        return _numbers(table, what)
    absent = [name for name in names if name not in given]
    unknown = [str(name) for name in given if name not in names]
    doubled = [name for name in names if given.count(name) > 1]
    for found, trouble in ((absent, "lacks"), (unknown, "has unknown"), (doubled, "has more than one of")):
        if found:
            raise InvalidInput(f"{what} {trouble} columns {listed(found)}; the model has {listed(names)}")
    columns = [_numbers(table[name], f"column {name} of {what}") for name in names]
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise InvalidInput(f"the columns of {what} must be equally long lists of numbers")
    return np.column_stack(columns)


def _numbers(cells: Any, what: str) -> Floats:
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers, all rows equally long") from None
