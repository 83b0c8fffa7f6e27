"""One way in from Python: `load` verifies a release wherever it is, and gives all that one asks of it.

A folder needs no transport. Bytes from a mirror or a hub are fetched by what another distribution, or our learner, registers
as an entry point of the group `dprelease.openers`: the core itself opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dprelease import analyses
from dprelease.analyses.beyond import BEYOND
from dprelease.analyses.result import Analysis
from dprelease.analyses.synthetic import SyntheticRows, synthesize
from dprelease.description.columns import Description
from dprelease.description.described import UNFITTED, Unfitted, described
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.fitting import fit
from dprelease.estimators.result import FitResult
from dprelease.files.durable import write_file
from dprelease.files.extras import imported, missing, require
from dprelease.mechanisms.noisy_rows.released import Engine
from dprelease.one_line import nearest, one_line
from dprelease.release.folder import load_folder
from dprelease.release.release import Release

OPENERS = "dprelease.openers"
"""Group of entry points; each is an `Opener`."""

_INTERVAL = 1.96


class Opener(Protocol):
    """Finds or fetches a release, and verifies it."""

    def __call__(self, name: str, root: str | None, hub: str | None, mirror: str | None, home: Path | None) -> Release:
        """The release; arguments as of `load`."""


class BoundAnalyses:
    """Analyses of a release by name: those of `dprelease.analyses`, without their first argument.

    Examples:
        >>> release.analyze.correlations(["age", "glucose"])
        Analysis(Correlations, release ...)
    """

    def __init__(self, release: Release) -> None:
        self._release = release

    def __dir__(self) -> list[str]:
        return [name for name in analyses.__all__ if name.islower()]

    def __getattr__(self, name: str) -> Callable[..., Analysis]:
        """The analysis of that name.

        Raises:
            AttributeError: there is none; for one that second moments cannot give the reason is said.
        """
        if name.startswith("_") or name not in dir(self):
            reason = BEYOND.get(name.replace("_", "-"))
            raise AttributeError(reason or f"no analysis {name}{nearest(name, dir(self)) or ''}; dir() lists all")
        return partial(getattr(analyses, name), self._release)


class Plots:
    """Pictures of a release, each on matplotlib's axes, which they return.

    Examples:
        >>> axes = release.plot.coefficients("glucose", ["age"])
        >>> axes.get_xlabel()
        'difference in glucose mg/dl'
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def coefficients(self, target: str, features: Sequence[str] | None = None, axes: Any = None, **how: Any) -> Any:
        """Slopes of a fit with their intervals; further arguments are those of `Dataset.fit`.

        Raises:
            InvalidInput: matplotlib is missing, or as `Dataset.fit`.
        """
        return self._dataset.fit(target, features, **how).plot(axes=axes)

    def means(self, *columns: str, axes: Any = None) -> Any:
        """Means with 95 % intervals of the privacy noise, each as its place between the ends of its public range.

        Raises:
            InvalidInput: matplotlib is missing, no such column, or a release without means.
        """
        found = self._described(columns)
        axes = _axes(axes)
        ends = [self._dataset.ends(name) for name in found.names]
        low, width = (np.array(each) for each in zip(*((low, high - low) for low, high in ends), strict=True))
        reach = _INTERVAL * found.mean_noise_sd / width
        axes.errorbar((found.mean - low) / width, range(len(low)), xerr=reach, fmt="o", capsize=3)
        axes.set_yticks(range(len(low)), found.names, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel("mean, 0 at the lower end of the range and 1 at the upper")
        return axes

    def correlations(self, *columns: str, axes: Any = None) -> Any:
        """Correlations as a heat map.

        Raises:
            InvalidInput: matplotlib is missing, no such column, or a release without correlations.
        """
        found = self._described(columns)
        if found.correlation is None:
            raise InvalidInput("correlations need a release of joint moments (mechanism moments)")
        axes, places = _axes(axes), range(len(found.correlated))
        axes.imshow(found.correlation, cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_xticks(places, found.correlated, rotation=90, parse_math=False)
        axes.set_yticks(places, found.correlated, parse_math=False)
        return axes

    def _described(self, columns: Sequence[str]) -> Description:
        found = self._dataset.describe(*columns)
        if not isinstance(found, Description):
            raise InvalidInput(f"a release of mechanism {self._dataset.spec.mechanism!r} has no such picture")
        return found


def _written(kind: str, release: Release, results: Sequence[FitResult | Analysis]) -> Any:
    require("jinja2", "learner")
    made = import_module("dprelease.report")  # it loads jinja2, which only pages need
    return getattr(made, kind)(made.reported(release, results))


def _axes(given: Any) -> Any:
    return imported("matplotlib.figure").Figure(layout="constrained").subplots() if given is None else given


class Dataset(Release):
    """A verified release with all that one asks of it; nothing of it costs privacy.

    Examples:
        >>> release.columns
        ('age', 'smoker=no', 'smoker=yes', 'smoker=other', 'glucose')
        >>> print(release.describe("age"))
        Columns
        release ...
        >>> release.fit("glucose", ["age", "smoker"])
        FitResult(glucose on 3 features, method shrinkage, release ...)
        >>> release.to_pandas().shape
        (6, 6)
    """

    def describe(self, *columns: str, clipping_corrected: bool = False) -> Description | Unfitted:
        """Means, standard deviations and correlations, each with the error that noise leaves; `print` shows tables.

        Args:
            columns: names of columns or released columns; all if none.
            clipping_corrected: what they would be before clipping, were rows normal.

        Raises:
            InvalidInput: no such column, or a correction of what is not clipped.
        """
        return described(self, columns, clipping_corrected=clipping_corrected)

    def fit(
        self,
        target: str | Sequence[str],
        features: Sequence[str] | None = None,
        method: str | None = None,
        *,
        fit_intercept: bool | None = None,
        within: ConvexSet | None = None,
    ) -> FitResult:
        """Regress one target or several on features, as `dprelease.estimators.fit` does; `print` shows the table.

        Raises:
            InvalidInput: as `dprelease.estimators.fit`.
        """
        targets = [target] if isinstance(target, str) else target
        return fit(self, targets, features, method, fit_intercept, within)

    def report(self, *results: FitResult | Analysis, output: str | Path | None = None) -> str:
        """The page that `learner report` writes of results: HTML that needs nothing but itself.

        Args:
            results: of this release, one fit at most and any number of analyses, which the page has in this order. Without any:
                a fit of the outcomes that the release names, or the description of what nothing is fitted on.
            output: file to write the page to as well.

        Raises:
            InvalidInput: a result is of another release, there are two fits, jinja2 is missing, or the file cannot be written.

        Examples:
            >>> found = release.analyze.correlations(["age", "glucose"])
            >>> page = release.report(release.fit("glucose", ["age"]), found, output="report.html")
            >>> page.startswith("<!DOCTYPE html>"), "Correlations" in page
            (True, True)
        """
        made: str = _written("page", self, results)
        if output is not None:
            write_file(Path(output), made)
        return made

    def card(self, *results: FitResult | Analysis) -> dict[str, Any]:
        """The model card that `learner card` writes, ready for JSON; arguments and errors as of `report`.

        Examples:
            >>> release.card(release.fit("glucose", ["age"]))["findings"][0]["target"]
            'glucose'
        """
        made: dict[str, Any] = _written("card", self, results)
        return made

    def synthesize(self, rows: int, sets: int = 1) -> SyntheticRows:
        """The made-up rows that `learner synthesize` writes; arguments and errors as of `dprelease.analyses.synthetic.synthesize`.

        Examples:
            >>> made = release.synthesize(100)
            >>> made.names, len(made.columns(0)[0])
            (('age', 'smoker', 'glucose'), 100)
        """
        return synthesize(self, rows, sets)

    @property
    def analyze(self) -> BoundAnalyses:
        """Tables, tests and models beside linear fits."""
        return BoundAnalyses(self)

    @property
    def plot(self) -> Plots:
        """Pictures."""
        return Plots(self)

    def ends(self, released: str) -> tuple[float, float]:
        """Ends of the range of a released column: 0 and 1 for an indicator.

        Raises:
            InvalidInput: no such column.
        """
        declared = self.column(released)
        if declared.indicators:
            return 0.0, 1.0
        return (declared if declared.bounded else self.ranged[released]).ends

    def to_pandas(self) -> Any:
        """The released numbers as a data frame, noise included, in scaled units.

        Rows of a release of rows; the matrix of sums of products of joint moments, whose first row and column are the
        constant. `attrs` has the guarantee, and `noise_sd` in the same shape as the numbers or one for each column. A release
        of ranges or of a synthetic control gives the table of `describe`.

        Raises:
            InvalidInput: pandas is missing.
        """
        pandas = imported("pandas")
        if unfitted := UNFITTED.get(self.view.kind):
            frame = pandas.json_normalize(unfitted(self, ()).document().tables[0].to_json())
        else:
            found = self.regressable.released()
            frame = pandas.DataFrame(found.values, index=found.row_names or None, columns=found.names)
            frame.attrs["noise_sd"] = found.noise_sd.tolist()
        frame.attrs.update(release=self.digest, guarantee=list(self.guarantee))
        return frame

    def _repr_html_(self) -> str:
        """The release as a notebook shows it: title, guarantee, and its columns described."""
        shown = self.describe()._repr_html_()
        return super()._repr_html_() if shown is None else f"<p><b>{escape(one_line(self.spec.title))}</b></p>{shown}"


def load(
    name: str | Path,
    root: str | Path | None = None,
    *,
    hub: str | None = None,
    mirror: str | None = None,
    home: str | Path | None = None,
    engine: Engine = "local",
) -> Dataset:
    """A release, verified from the consortium's root certificate to the last byte, or refused.

    Args:
        name: a folder that holds a release; its digest or the first 8 or more digits of it; the URL of a mirror, with or
            without the digest behind it; or a hub's HOST:PORT. A mirror or hub alone stands for its only release.
        root: file of the consortium's root certificate (PEM), or its SHA-256 fingerprint, of a root that was pinned by
            ``learner trust add``. None for the root that is pinned for the consortium which the release names.
        hub: address, HOST:PORT, of the hub that has the release.
        mirror: URL of a mirror that has it.
        home: folder of pinned roots and fetched releases; that of the command `learner` unless given.
        engine: what takes sums of products over released rows. ``dask`` is dask.array, whose workers have the release's folder
            at the same path; it needs the extra ``dask``.

    Raises:
        InvalidInput: a root cannot be read, a name or an address fits nothing or several releases, or the package that fetches
            is not installed.
        NotFound: no such release, or its consortium's root is not pinned.
        IntegrityError: any link of the chain from the root to the last byte of a block is broken.
        PeerUnavailable: neither mirror nor hub answers.

    Examples:
        >>> import dprelease
        >>> release = dprelease.load("blood-pressure", root="root.pem")
        >>> release
        Dataset(..., moments, 2000 patients, 5 columns)
    """
    folder = os.path.isdir(name)  # noqa: PTH112 - false also of a text too long for a name
    if root is not None and hub is None and mirror is None and folder and Path(root).is_file():
        found = load_folder(name, root)
    else:
        found = _opener()(str(name), None if root is None else str(root), hub, mirror, Path(home) if home else None)
    return Dataset(found.spec, found.blocks, found.guarantee, found.upto, found.known, engine, found.verified)


def _opener() -> Opener:
    for entry in entry_points(group=OPENERS):
        try:
            opener: Opener = entry.load()
        except ImportError as error:
            raise (missing(error, entry.name) or error) from error
        return opener
    raise InvalidInput(
        "only a folder with root=FILE can be loaded without the package installed; pip install 'dprelease[learner]'"
    )
