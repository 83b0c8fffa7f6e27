"""`learner follow`: the checkpoints of a stream, fetched as they come and fitted, a line each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import click
import numpy as np

from dprelease.cli.printing import json_option, print_document
from dprelease.document.cells import LEVEL, Estimate, Said
from dprelease.document.document import Document, Table
from dprelease.errors import InvalidInput, PeerUnavailable
from dprelease.estimators import FitResult, fit
from dprelease.estimators.intervals.clipped import WIDER
from dprelease.estimators.result import ALIKE, slope
from dprelease.files.extras import require
from dprelease.one_line import listed, one_line
from dprelease.release.folder import ReleaseFolder
from dprelease.release.release import Release
from dprelease.release.stream import Checkpoint, checkpoint_of
from learner.cli.analysis import WithMethods, method_option, names_of
from learner.cli.releases import download_bar, from_option, tell
from learner.client.download import Source
from learner.client.follow import fetch_checkpoint, newest
from learner.client.library import Library, open_verified
from learner.client.pinned_roots import Trusted, TrustStore
from learner.client.sources import answered, hub_first, mirrors_first

COLUMNS = 3
"""Panels beside one another."""


def draw(fits: Mapping[int, FitResult], path: Path) -> None:
    """Write the picture; the ending of the file's name says in which format.

    Raises:
        InvalidInput: matplotlib is missing or does not know the format, or the file cannot be written.
    """
    require("matplotlib")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    first = next(iter(fits.values()))
    across = min(len(first.features), COLUMNS)
    lines = -(-len(first.features) // across)
    figure = Figure(figsize=(3.4 * across + 0.4, 2.5 * lines + 0.8), layout="constrained")
    axes = figure.subplots(lines, across, squeeze=False).ravel()
    found = [fit.inference for fit in fits.values()]
    estimate = np.array([each.estimate[0] for each in found])
    lower, upper = (np.array(ends) for ends in zip(*(each.interval(LEVEL) for each in found), strict=True))
    for place, name in enumerate(first.features):
        axis, centre = axes[place], estimate[:, place]
        ends = [np.where(np.isfinite(end[:, 0, place]), end[:, 0, place], np.nan) for end in (lower, upper)]
        axis.fill_between(list(fits), *ends, alpha=0.25)
        axis.vlines(list(fits), *ends, linewidth=0.8)
        axis.plot(list(fits), centre, marker="o", markersize=3)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_xlim(0.5, max(fits) + 0.5)
        axis.set_title(_text(name), fontsize="medium")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in axes[len(first.features) :]:
        axis.set_axis_off()
    for axis in axes[len(first.features) - across : len(first.features)]:
        axis.set_xlabel("checkpoint")
    titles = [_text(f"Coefficients for {first.targets[0]}, {LEVEL:.0%} intervals")]
    if found[-1].reaches:
        titles.append(f"about all rows; {WIDER}")
    figure.suptitle("\n".join(titles), fontsize="medium")
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot write the plot {path}: {error}") from error


def _text(text: str) -> str:
    """A stranger's text, of which nothing is read as a formula."""
    return one_line(text).replace("$", r"\$")


SHOWN = 4
"""Coefficients that a line has unless others are asked for."""


@click.command("follow", cls=WithMethods)
@click.argument("prefix", metavar="ID")
@click.option("--target", required=True, metavar="COLUMN", help="Outcome.")
@click.option("--features", multiple=True, metavar="A,B,...", help="Columns to fit on; every other column if left out.")
@method_option
@click.option(
    "--show", "shown", multiple=True, metavar="A,B,...", help=f"Features to print; the first {SHOWN} if left out."
)
@click.option("--once", is_flag=True, help="Print what there is, and wait for no more.")
@click.option(
    "--every",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to ask for a new checkpoint.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the coefficients into this file, each time."
)
@from_option
@json_option
@click.pass_obj
def follow_stream(
    home: Path,
    prefix: str,
    target: str,
    features: tuple[str, ...],
    method: str | None,
    shown: tuple[str, ...],
    once: bool,
    every: float,
    plot: Path | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Fit every checkpoint of a stream: one line each, now and as new ones come.

    ID is the digest of any of its checkpoints, or the first 8 digits or more. The newest one is fetched and verified,
    and compared with all that were published before it; what does not continue them is refused. It has their numbers too, so
    one download gives every line. Each is about all patients up to its checkpoint: estimates with 95 % intervals, as
    `learner fit` has them, and the share of variance that the model explains. Ends when the stream does, or with Ctrl-C.
    With --json every line is an object with the whole fit. Fitting costs no privacy.

    \b
    Example:
      learner follow 3f9a12c4 --target glucose --features age,sex --plot glucose.png
    """
    if plot is not None:
        require("matplotlib")
    stream = _Stream(home, TrustStore(home).get(name), prefix)
    fits: dict[int, FitResult] = {}
    while True:
        release = stream.newer()
        if release is not None:
            wanted, first = names_of(features, release) or None, not fits
            new = {number: at for number, at in release.checkpoints().items() if number not in fits}
            fits |= {number: fit(at, [target], wanted, method) for number, at in new.items()}
            if as_json:
                for number in new:
                    click.echo(json.dumps(_data(stream.place, number, fits[number])))
            else:
                places = _places(fits[stream.place.number], names_of(shown, release))
                found = {stream.place.model_copy(update={"number": number}): fits[number] for number in new}
                if first:
                    print_document(_about(release, fits[stream.place.number], places))
                print_document(Document("", tables=(_table(release, found, places),)))
            if plot is not None:
                draw(fits, plot)
        if once or stream.place.ended:
            return
        try:
            sleep(every)
        except KeyboardInterrupt:
            return


class _Stream:
    """A stream as its hub or a mirror shows it.

    Attributes:
        place: of the last checkpoint that was fetched.
    """

    place: Checkpoint

    def __init__(self, home: Path, consortium: Trusted, prefix: str) -> None:
        self._consortium, self._library, self._prefix = consortium, Library(home), prefix
        self._trust = TrustStore(home)
        self._release: Release | None = None

    def newer(self) -> Release | None:
        """The newest checkpoint; None if there is none since the last one, or nobody who could be asked."""
        try:
            found = self._newest()
        except PeerUnavailable as error:
            if self._release is None:
                raise
            tell(f"{error.message}; asking again")
            return None
        place = None if found is None else checkpoint_of(found.spec)
        if place is None or (self._release is not None and place.number <= self.place.number):
            return None
        self._release, self.place = found, place
        return found

    def _newest(self) -> Release | None:
        lines = answered(hub_first(self._consortium), lambda source: list(source.releases()), tell)
        digest, place = newest(lines, self._prefix)
        if self._release is not None and digest == self._release.digest:
            return None
        with download_bar() as progress:

            def fetched(source: Source) -> ReleaseFolder:
                return fetch_checkpoint(source, self._consortium, self._library, digest, place, progress)

            folder = answered(mirrors_first(self._consortium), fetched, tell)
        return open_verified(folder, self._trust, self._consortium.name).release


def _places(found: FitResult, names: Sequence[str]) -> list[int]:
    unknown = [name for name in names if name not in found.features]
    if unknown:
        raise InvalidInput(f"--show: {unknown[0]} is not among the features {listed(found.features)}")
    return [found.features.index(name) for name in names] or list(range(min(len(found.features), SHOWN)))


def _about(release: Release, found: FitResult, places: Sequence[int]) -> Document:
    """Title and notes of the lines."""
    notes = [f"{LEVEL:.0%} intervals in brackets."]
    if len(places) < len(found.features):
        notes.append(f"{len(places)} of {len(found.features)} coefficients: the others with --show, --json or --plot.")
    if release.spec.rows_per_subject > 1:
        notes.append(ALIKE)
    if release.reaches:
        notes.append(f"Coefficients describe all rows; {WIDER}.")
        notes.append("; ".join(map(str, release.reaches)))
    title = f"{release.spec.title}: {found.targets[0]} by method {found.method}"
    return Document(title, notes=tuple(notes))


def _table(release: Release, fits: Mapping[Checkpoint, FitResult], places: Sequence[int]) -> Table:
    """A line for each checkpoint."""
    rows, some = [], next(iter(fits.values()))
    for checkpoint, found in fits.items():
        share = Estimate(float(found.quality.explained[0]), float(found.quality.explained_se[0]))
        explained = Said(share, "hidden") if "explained" in found.unresolved[0] else share
        rows.append((str(checkpoint), found.patients, *(_interval(slope(found, 0, at)) for at in places), explained))
    heads = (some.features[place] for place in places)
    return Table.of("", ("checkpoint", release.spec.counted, *heads, "variance explained"), rows)


def _interval(found: Estimate) -> Said:
    if not np.isfinite(found.value):
        return Said(found, "not identified")
    return Said(found, f"{found.part('estimate')} [{found.part('lower')}, {found.part('upper')}]")


def _data(place: Checkpoint, number: int, found: FitResult) -> dict[str, Any]:
    return {
        "stream": place.stream,
        "checkpoint": number,
        "checkpoints": place.last,
        "patients": found.patients,
        "fit": found.document().to_json(),
    }
