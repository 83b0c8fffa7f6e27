"""Earlier releases that a request repeats or builds on: the same content, published ranges, verified, and a declared budget."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.lifecycle import Stage
from coordinator.store.agreements import Agreement
from dprelease.catalogue import Catalogue
from dprelease.data.column import DeclaredColumn
from dprelease.data.columns import numbers
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.files.home import RELEASES, default_home
from dprelease.mechanisms.base import Columns
from dprelease.mechanisms.draft import PublishedRanges
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed
from dprelease.privacy.calibration import budget
from dprelease.privacy.price import epsilon_text
from dprelease.release.accounting import Guarantee, guarantee
from dprelease.release.folder import load_folder
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target


@dataclass(frozen=True)
class EarlierReleases:
    """Releases that a request may build on.

    Attributes:
        known: the office's releases, oldest first.
        published: folder of published ones, each in a folder named by its digest; they are looked for where a learner keeps fetched
            ones, too.
        root: file of the consortium's root certificate, by which they are verified.
    """

    known: tuple[Agreement, ...] = ()
    published: Path | None = None
    root: Path | None = None


def read_ranges(folder: str | Path, columns: Columns, root: Path | None, consortium: str) -> PublishedRanges:
    """Ranges of these columns, as a release published them.

    Raises:
        NotFound: the folder holds no release.
        IntegrityError: any link of the chain from the root to the last byte of a block is broken.
        InvalidInput: it is of another consortium, has no ranges, or its columns were declared otherwise; or there is no root.
    """
    release = load_folder(Path(folder).expanduser(), root)
    if release.spec.consortium != consortium:
        raise InvalidInput(f"{folder}: this release is of consortium {release.spec.consortium}, not {consortium}")
    found = {each.name: each for each in (release.first_ranges or release.ranges()).ranges}
    then = _owned(release.spec.columns_by_party)
    declared = _owned(columns)
    changed = [name for name in found if name in declared and declared[name] != then[name]]
    if changed:
        raise InvalidInput(
            f"{listed(changed)} was declared otherwise, or another hospital's, when its range was published; ask for ranges "
            "again, or declare it as it was"
        )
    return PublishedRanges(release.digest, tuple(each for name, each in found.items() if name in declared))


def latest_ranges(
    earlier: EarlierReleases, columns: Columns, agreed: Catalogue, consortium: str
) -> PublishedRanges | None:
    """The latest published ranges of these patients and of all private numbers among these columns.

    Returns:
        None where nothing was published that fits.

    Raises:
        InvalidInput: such a release was published, and its files are not on this machine.
        IntegrityError: they are, and any link of the chain is broken, or they are of another release.
    """
    release = with_ranges(earlier.known, columns, agreed)
    if release is None:
        return None
    folder = _kept(release.digest, earlier.published)
    found = read_ranges(folder, columns, earlier.root, consortium)
    if found.source != release.digest:
        raise IntegrityError(f"{folder} holds release {found.source[:12]}; remove it, and fetch the one of its name")
    return found


def _kept(digest: str, published: Path | None) -> Path:
    """The folder of a published release on this machine."""
    folders: tuple[Path, ...] = () if published is None else (published,)
    for folder in (*folders, default_home(os.environ) / RELEASES):
        if os.path.isdir(folder / digest):  # noqa: PTH112 - where pathlib's raises, there is none for us to read
            return folder / digest
    raise InvalidInput(
        f"release {digest[:12]} published ranges of all these numbers, which moments use at no charge. It is not on this "
        f'machine: learner fetch {digest[:12]}, or name its folder in the request (ranges = "FOLDER"), or say ranges = '
        '"first" to pay for new ones, or "none" for public bounds'
    )


def with_ranges(
    releases: Iterable[Agreement], columns: Columns, of: Catalogue | ReleaseSpec | None = None
) -> Agreement | None:
    """The latest published release with ranges of all private numbers among these columns, as they are declared.

    Args:
        releases: oldest first.
        columns: party to its declared columns.
        of: whose patients they have to be of; None for any.

    Returns:
        It; None where there is no such release, or no such number.
    """
    wanted = _owned({party: numbers(own) for party, own in columns.items()})
    found = None
    for release in releases if wanted else ():
        if release.record.state is Stage.PUBLISHED:
            spec = release.read_spec()
            then = _owned(spec.columns_by_party)
            fits = wanted.items() <= then.items() and wanted.keys() <= mechanism_of(spec).ranged(spec)
            if fits and (of is None or _patients(of) == _patients(spec)):
                found = release
    return found


def _patients(of: Catalogue | ReleaseSpec) -> tuple[str, int, str]:
    return of.roster, of.rows, of.alignment


def _owned(columns: Mapping[str, Sequence[DeclaredColumn]]) -> dict[str, tuple[str, DeclaredColumn]]:
    """Column name to its party and declaration."""
    return {column.name: (party, column) for party, own in columns.items() for column in own}


def similar_to(spec: ReleaseSpec, releases: Iterable[Agreement]) -> Agreement | None:
    """An open or published release of the same columns by the same mechanism, in a stream or alone: the parties would pay twice."""
    again = (each for each in releases if _counts(each) and _content(each.read_spec()) == _content(spec))
    return next(again, None)


def _counts(release: Agreement) -> bool:
    return not release.record.final or release.record.state is Stage.PUBLISHED


def _content(spec: ReleaseSpec) -> tuple[str, frozenset[str], dict[str, frozenset[str]]]:
    outcomes = frozenset(spec.outcomes)
    return spec.terms.names[-1], outcomes, {part.party: frozenset(part.released) for part in spec.parties}


def check_budget(spec: ReleaseSpec, promised: Guarantee, releases: Iterable[Agreement]) -> None:
    """Refuse a declared budget that open and published releases of the roster exceed together with this one.

    Declared is epsilon of all of them jointly, whatever scope their targets have; mu^2 adds up (docs/guarantees.md 8).

    Raises:
        InvalidInput: with what they come to.
    """
    if spec.about is None or not spec.about.budget:
        return
    earlier = [each.read_spec() for each in releases if _counts(each)]
    others = [guarantee(each).added_mu2 for each in earlier if each.roster == spec.roster]
    total = sum(others, promised.added_mu2)
    declared = Target(scope="joint", epsilon=spec.about.budget, delta=spec.target.delta)
    if total > budget(declared):
        alone = f"this one alone takes {epsilon_text(promised.added_mu2, declared.delta)}"
        more = f", and with {len(others)} open or published releases {epsilon_text(total, declared.delta)}"
        raise InvalidInput(
            f"about.budget: epsilon = {declared.epsilon:g} is for all releases of roster {spec.roster}, and {alone}"
            f"{more if others else ''} at delta = {declared.delta:g}; declare a larger budget or none, or ask for a smaller epsilon"
        )
