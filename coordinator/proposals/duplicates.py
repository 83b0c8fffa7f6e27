"""Tells whether a proposal repeats another release: its parties would pay twice for the same content."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.lifecycle.status import State
from coordinator.store.agreements import Agreement
from dprelease.release.spec import ReleaseSpec


def similar_to(spec: ReleaseSpec, releases: Iterable[Agreement]) -> Agreement | None:
    """An open or published release of the same columns by the same mechanism, in a stream or alone: the parties would pay twice."""
    return next((release for release in releases if _pays_again(release, spec)), None)


def _pays_again(release: Agreement, spec: ReleaseSpec) -> bool:
    if release.record.final and release.record.state is not State.PUBLISHED:
        return False
    return _content(release.read_spec()) == _content(spec)


def _content(spec: ReleaseSpec) -> tuple[str, frozenset[str], dict[str, frozenset[str]]]:
    outcomes = frozenset(spec.outcomes)
    return spec.terms.names[-1], outcomes, {part.party: frozenset(part.released) for part in spec.parties}
