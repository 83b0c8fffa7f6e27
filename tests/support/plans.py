"""Plans of releases of nobody, for tests: a setting from a flat list of numbers, and the same with other ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dprelease.data.columns import Column
from dprelease.mechanisms.assumptions import PlannedFit, Scenario, draft_of, evenly
from dprelease.spec_base import Target

_OF_FIT = {"outcome", "features", "spread", "signs"}
_OF_DRAFT = {"rows", "target", "columns", "grid_bits", "rows_per_subject"}


def planned(
    rows: int,
    parties: Mapping[str, tuple[Column, ...]] | str,
    target: Target,
    mechanism: str,
    outcome: str | None = None,
    features: tuple[str, ...] | None = None,
    **others: Any,
) -> Scenario:
    """A setting; a fit of the last column on all others unless told.

    Args:
        rows: n.
        parties: party to declared columns, or as of `evenly`.
        target: privacy target.
        mechanism: name.
        outcome: name of a column.
        features: names of columns.
        others: as of `changed`.
    """
    held = evenly(parties) if isinstance(parties, str) else parties
    draft = draft_of(held, rows, 1, target)
    names = tuple(column.name for column in draft.everything)
    wanted = outcome or names[-1]
    used = tuple(name for name in names if name != wanted) if features is None else features
    return changed(Scenario(draft, mechanism, PlannedFit(draft.everything, wanted, used)), **others)


def changed(where: Scenario, **others: Any) -> Scenario:
    """The same with other values: fields of the setting, its fit or its draft, and keys of a request.

    Args:
        where: what is changed.
        others: name to value.
    """
    draft, fit = where.draft, {name: others.pop(name) for name in _OF_FIT & others.keys()}
    for name in _OF_DRAFT & others.keys():
        value = others.pop(name)
        if name in {"rows", "rows_per_subject"}:
            draft = replace(draft, agreed=draft.agreed.model_copy(update={name: value}))
        else:
            draft = replace(draft, **{name: value})
    own = {name: others.pop(name) for name in {"mechanism", "asked", "way"} & others.keys()}
    found = replace(where, draft=draft, fit=replace(where.fit, columns=draft.everything, **fit), **own)
    return found.asking(**others)


def way(plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a plan as JSON says of one way to release."""
    (found,) = (each for each in plan["releases"] if each["mechanism"] == name)
    return dict(found)
