"""Ranges of columns that a release published before: which release it is, and what it says, verified, of the columns of now."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from coordinator.lifecycle.status import State
from coordinator.store.releases import Release
from dprelease.data.columns import Column, numbers
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import Columns
from dprelease.mechanisms.draft import PublishedRanges
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed
from dprelease.release.folder import load


def read_ranges(folder: str, columns: Columns, root: Path | None, consortium: str) -> PublishedRanges:
    """Ranges of these columns, as a release published them.

    Args:
        folder: of the release, as ``learner fetch`` keeps it.
        columns: party to its declared columns.
        root: file of the consortium's root certificate.
        consortium: its name.

    Raises:
        NotFound: the folder holds no release.
        IntegrityError: any link of the chain from the root to the last byte of a block is broken.
        InvalidInput: it is of another consortium, has no ranges, or its columns were declared otherwise; or there is no root.
    """
    release = load(Path(folder).expanduser(), root)
    if release.spec.consortium != consortium:
        raise InvalidInput(f"{folder}: this release is of consortium {release.spec.consortium}, not {consortium}")
    found = {each.name: each for each in release.ranges().ranges}
    then = _owned(release.spec.columns_by_party)
    declared = _owned(columns)
    changed = [name for name in found if name in declared and declared[name] != then[name]]
    if changed:
        raise InvalidInput(
            f"{listed(changed)} was declared otherwise, or another hospital's, when its range was published; ask for ranges "
            "again, or declare it as it was"
        )
    return PublishedRanges(release.digest, tuple(each for name, each in found.items() if name in declared))


def with_ranges(releases: Iterable[Release], columns: Columns) -> Release | None:
    """The latest published release with ranges of all private numbers among these columns, as they are declared.

    Args:
        releases: oldest first.
        columns: party to its declared columns.

    Returns:
        It; None where there is no such release, or no such number.
    """
    wanted = _owned({party: numbers(own) for party, own in columns.items()})
    found = None
    for release in releases if wanted else ():
        if release.record.state is State.PUBLISHED:
            spec = release.read_spec()
            then = _owned(spec.columns_by_party)
            if wanted.items() <= then.items() and wanted.keys() <= mechanism_of(spec).ranged(spec):
                found = release
    return found


def _owned(columns: Columns) -> dict[str, tuple[str, Column]]:
    """Column name to its party and declaration."""
    return {column.name: (party, column) for party, own in columns.items() for column in own}
