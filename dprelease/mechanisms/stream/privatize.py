"""One party's block of a checkpoint: weighted sums of its increments, fresh noise, and what it sent before.

increments of all checkpoints -> rows of C' x -> discrete Gaussian noise -> masks -> below the rows sent before
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dprelease.arrays import Integers
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import Inputs, Kept
from dprelease.mechanisms.linear import Linear
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.spec_base import SpecBase


def stream_block(over: Linear[Any], batch: SpecBase, terms: StreamTerms, party: str, inputs: Inputs) -> Integers:
    """The party's noisy integers of this checkpoint, below those of all earlier ones.

    Guarantee: for streams that differ in the private cells of one patient at one checkpoint (replace-one), or of a patient with
    up to q rows at any checkpoints, all blocks of all checkpoints together are mu-GDP with mu^2 = `Mechanism.cost` of the first
    one's spec; derived in docs/guarantees.md 20. It holds if noise is drawn once for each checkpoint, ever.

    Args:
        over: the inner mechanism.
        batch: the spec of this checkpoint as the inner mechanism reads it.
        terms: of the stream.
        party: name of the party in the spec.
        inputs: increments of all checkpoints up to this one among them, and the block sent before.

    Raises:
        InvalidInput: what was kept is not what the checkpoint builds on; nothing is drawn.
    """
    (shape,) = over.shapes(batch, party)
    kept = inputs.kept
    _check_kept(kept, terms, shape)
    fresh = []
    for weights in terms.matrix.rows(terms.checkpoint, terms.most):
        total = np.zeros(shape, np.int64)  # modulo 2^64, where shares live
        for checkpoint in terms.used:
            if weights[checkpoint - 1]:
                total += weights[checkpoint - 1] * kept.increments[checkpoint]
        fresh.append(total + over.noise(batch, party, inputs.noise, terms.stretch))
    sent = over.masked(np.vstack(fresh), batch, party, inputs.products)
    return sent if kept.sent is None else np.vstack([kept.sent, sent])


def _check_kept(kept: Kept, terms: StreamTerms, shape: tuple[int, int]) -> None:
    missing = [number for number in terms.used if number not in kept.increments]
    if missing:
        raise InvalidInput(
            f"nothing is kept of checkpoint {', '.join(map(str, missing))} of the stream, on which this one builds"
        )
    if any(kept.increments[number].shape != shape for number in terms.used):
        raise InvalidInput("what is kept of the stream's earlier checkpoints is of another shape")
    rows = shape[0] * released(terms, terms.past)
    if (kept.sent is None) != (not terms.past) or (kept.sent is not None and kept.sent.shape != (rows, shape[1])):
        raise InvalidInput("the block that was sent at the checkpoint before is not the one that was kept")


def released(terms: StreamTerms, checkpoints: Iterable[int]) -> int:
    """How many rows of C' x are released at some checkpoints."""
    return sum(map(terms.matrix.count, checkpoints))
