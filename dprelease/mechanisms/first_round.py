"""Terms of a release whose first round publishes the ranges that its numbers are coded in.

The first round is a whole mechanism of its own, with terms of its own in the spec. Weights, norms, noise scales and price of the
last round are fixed beside them, before anybody has looked at a row. The ranges follow from what the first round published, and
then the spec is that of a release in published ranges. Both rounds together: docs/guarantees.md 19.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from dprelease.data.ranges import Range
from dprelease.spec_base import SpecBase, Terms


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


class TermsInRanges(Terms):
    """Terms of a mechanism that may code numbers in ranges.

    Attributes:
        first: terms of the mechanism whose blocks come first and publish these ranges; None without such a round.
    """

    first: FirstTerms = None

    def in_ranges(self, ranges: Iterable[Range]) -> Self:
        """The terms that are left once the ranges are known.

        Args:
            ranges: of all private numbers, in the spec's order.
        """
        raise NotImplementedError(f"mechanism {self.mechanism!r} has no ranges")

    def consistent(self, spec: SpecBase) -> None:
        """Refuses terms of a first round that do not fit the rest of the spec."""
        if self.first is not None:
            self.first.consistent(spec)


def with_terms(spec: SpecBase, terms: Terms) -> SpecBase:
    """The same spec with other terms, as the mechanism of these reads it."""
    return spec.model_copy(update={"terms": terms})
