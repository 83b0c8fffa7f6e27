"""Other releases of the same patients, for which a proposal needs a person: we would pay again, or rows could be linked.

A second title, seed, target, k or grid makes another spec digest, and the ledger charges every digest once: the budget is kept,
but spent twice on the same private columns. A person decides if that is wanted (less noise by averaging). A stream and a
release that stands alone are of the same patients in part, whatever their digests.

Public columns and the noisy rows of mechanism `rows` both come in the canonical order of the roster, in whatever releases they
are. Side by side they tell whose row each noisy row is, to whoever recognises a patient by the public columns. One release never
holds both; two are for a person to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dprelease.data.columns import private, public
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.spec import ReleaseSpec
from party_node.state.journal import PUBLISHED, UNDER_WAY, Record, Status

_CHARGED = frozenset({"charge", "send"})
_HELD = _CHARGED | {"reserve"}


def repetitions(spec: ReleaseSpec, party: str, records: Iterable[Record], stages: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for every other release of the same private content that we paid for, or promised budget to.

    Args:
        spec: the proposal.
        party: our name.
        records: of all releases that the ledger knows or that are under way here, at the least.
        stages: release to the last thing that the ledger says of it.
    """
    part = spec.party(party)
    ours = part.columns if part else ()
    exact = {column.name for column in public(ours)}
    content, found = _content(spec, party, exact), []
    for record in records:
        paid = stages.get(record.digest) in _CHARGED
        if record.digest == spec.digest() or not (paid or record.status in UNDER_WAY):
            continue
        if private(ours) and _same_patients(record.spec, spec) and _content(record.spec, party, exact) == content:
            ended = record.status is Status.ENDED and record.note == PUBLISHED
            what = "published" if ended else "was charged for" if paid else "was promised budget for"
            found.append(f"you would pay again for what release {record.digest[:12]} {what} already")
    return tuple(found)


def _content(spec: ReleaseSpec, party: str, exact: set[str]) -> tuple[object, ...]:
    """The columns of ours that a release shows with noise and that are not public by now, whoever else takes part."""
    part = spec.party(party)
    columns = {column.name: column for column in private(part.columns) if column.name not in exact} if part else {}
    outcomes = frozenset(spec.outcomes) & set(columns)
    return columns, spec.terms.names[-1], outcomes


def _same_patients(before: ReleaseSpec, now: ReleaseSpec) -> bool:
    """Tells whether both are of the same rows, or one of a stream and one of a table that its batches are part of.

    Each alignment run keys digests anew, so those of two versions of a roster cannot be compared; most of their patients are the
    same. The first checkpoint of a stream counts, which pays for all.
    """
    if before.roster != now.roster:
        return False
    places = [before.place, now.place]
    if (places[0].batch is None) == (places[1].batch is None):
        return before.alignment == now.alignment or before.aligned != now.aligned
    later = any(place.previous for place in places)
    return not later


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
