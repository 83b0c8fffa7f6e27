"""Ranges as the first round of joint moments: how the budget is split, and what of a spec each round reads.

The first round is a whole mechanism of its own, with terms of its own in the spec. Weights, norms, noise scales and price of the
moments are fixed beside them, before anybody has looked at a row; the ranges follow from what the first round published, and
then the spec is that of moments in published ranges. Both rounds together: docs/guarantees.md 19.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from dprelease.data.columns import Column
from dprelease.data.ranges import Range, share
from dprelease.spec_base import SpecBase, Terms


def reuse_in_words(source: str, rows: int, columns: tuple[Column, ...]) -> str:
    """Whose ranges a release uses and what that saves, in a clause.

    Args:
        source: digest of the release that published them.
        rows: n.
        columns: of all parties.
    """
    cost = share(rows, columns)
    return f"in the ranges that release {source[:12]} published, at no charge, where new ones would cost {cost} of mu^2"


def _read(data: object, info: ValidationInfo) -> object:
    """Terms from plain data by whoever makes the first round, which the mechanism hands in; it makes no other's."""
    if data is None or isinstance(data, Terms):
        return data
    if info.context is None:
        raise ValueError("terms of a first round are read as part of a spec")
    return info.context.read_terms(data)


FirstTerms = Annotated[
    SerializeAsAny[Terms] | None, BeforeValidator(_read), Field(exclude_if=lambda first: first is None)
]
"""Terms of the mechanism of the first round; None, and left out of canonical bytes, where there is one round."""


def with_terms(spec: SpecBase, terms: Terms) -> SpecBase:
    """The same spec with other terms, as the mechanism of these reads it."""
    return spec.model_copy(update={"terms": terms})


def in_ranges(spec: SpecBase, ranges: Iterable[Range]) -> SpecBase:
    """The spec that is left for moments once the ranges are known.

    Args:
        spec: whose terms have a first round.
        ranges: that it published, of all private numbers in the spec's order.
    """
    clipping = spec.terms.clipping.model_copy(update={"ranges": tuple(ranges)})  # type: ignore[attr-defined]
    return with_terms(spec, spec.terms.model_copy(update={"clipping": clipping, "first": None}))
