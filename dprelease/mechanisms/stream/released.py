"""A checkpoint in a learner's hands: noisy rows of C' x become a noisy prefix sum, which the inner mechanism reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dprelease.arrays import Codes, Integers
from dprelease.mechanisms.linear import Linear
from dprelease.mechanisms.stream.factorization import decoding, error
from dprelease.mechanisms.stream.privatize import released
from dprelease.mechanisms.stream.terms import StreamTerms, inner
from dprelease.spec_base import SpecBase


def read_prefix(
    over: Linear[Any], spec: SpecBase, terms: StreamTerms, values: Mapping[str, Integers], upto: int, public: Codes
) -> Any:
    """The view of all patients up to a checkpoint.

    Args:
        over: the inner mechanism.
        spec: of the stream.
        terms: its terms.
        values: party to the noisy integers of its block.
        upto: a checkpoint that was published, this one at most.
        public: (n, 0).

    Raises:
        IntegrityError: the blocks do not belong together.
    """
    used = tuple(number for number in terms.used if number <= upto)
    whole = over.opened(inner(spec, terms, terms.most_rows), values, terms.stretch)
    weights = decoding(terms.factor, terms.most, used)
    rows = released(terms, terms.used)
    sums = np.tensordot(weights, whole.reshape(rows, -1, whole.shape[1])[: len(weights)].astype(np.float64), 1)
    return over.view(
        _batches(over, spec, terms, used),
        sums,
        error(terms.factor, terms.most, used),
        public,
    )


def batch(over: Linear[Any], spec: SpecBase, terms: StreamTerms, checkpoint: int) -> SpecBase:
    """The spec of a checkpoint's new patients as the inner mechanism reads it."""
    (found,) = _batches(over, spec, terms, (checkpoint,))
    return found


def _batches(over: Linear[Any], spec: SpecBase, terms: StreamTerms, numbers: tuple[int, ...]) -> list[SpecBase]:
    rows = {each.checkpoint: each.rows for each in terms.history} | {terms.checkpoint: spec.rows}
    return [inner(spec, terms, rows[number], terms.of if number == 1 else terms.of.again(number)) for number in numbers]
