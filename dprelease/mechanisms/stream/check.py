"""Every number of a checkpoint recomputed: what the stream costs, and whether its terms are what they should be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dprelease.errors import SpecRefused
from dprelease.mechanisms.linear import Linear
from dprelease.mechanisms.statement import Cost
from dprelease.mechanisms.stream.terms import StreamTerms, inner
from dprelease.spec_base import SpecBase


def cost(over: Linear[Any], spec: SpecBase, terms: StreamTerms) -> Cost:
    """mu^2 of the whole stream, which the first checkpoint's ledgers are charged; later ones are charged nothing."""
    found = over.cost(inner(spec, terms, terms.most_rows))
    return found if terms.checkpoint == 1 else replace(found, charges=dict.fromkeys(found.charges, Fraction(0)))


def check(over: Linear[Any], spec: SpecBase, terms: StreamTerms) -> None:
    """Refuse inner terms that are not those of one release, and what streams do not have.

    Raises:
        SpecRefused: with the first thing that is wrong.
    """
    if spec.public:
        raise SpecRefused("a stream has no public columns: their rows would be published at each checkpoint")
    if terms.of.outcomes:
        raise SpecRefused("a stream names no outcomes")
    over.check(inner(spec, terms, terms.most_rows), terms.stretch)
