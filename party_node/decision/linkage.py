"""Would a proposal put public columns beside the noisy rows of mechanism `rows`?

Both come in the canonical order of the roster, in whatever releases they are. Side by side they tell whose row each noisy row
is, to whoever recognises a patient by the public columns. One release never holds both; two are for a person to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.spec import ReleaseSpec
from party_node.state.journal import Record

_HELD = frozenset({"reserve", "charge", "send"})


def linkages(spec: ReleaseSpec, public: bool, records: Iterable[Record], stages: Mapping[str, str]) -> tuple[str, ...]:
    """Why a person must decide on a proposal of `rows`, or on the first one with public columns; nothing if neither.

    Args:
        spec: the proposal.
        public: whether any column of our roster was declared public.
        records: of all releases that the ledger knows, at the least.
        stages: release of our roster to the last thing that the ledger says of it; what is approved and not given up counts
            as if it were delivered.
    """
    held = [each.spec for each in records if each.digest != spec.digest() and stages.get(each.digest) in _HELD]
    shown = any(each.public for each in held)
    if mechanism_of(spec).row_per_patient and (public or shown):
        return ("its noisy rows come in the same order as the roster's public columns, which tell whose they are",)
    if spec.public and not shown and any(mechanism_of(each).row_per_patient for each in held):
        return (
            "its public columns come in the same order as noisy rows of an earlier release, and tell whose they are",
        )
    return ()
