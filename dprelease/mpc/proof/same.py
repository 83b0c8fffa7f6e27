"""One Q for all receivers: a comparison of what a prover P showed under different dealers' masks.

Under dealer i, P showed U_i = Q_i + A_i, the same bytes to all receivers, whose digest is in the transcript. With a coin that was
tossed when all U_i were fixed, rho = alpha gamma' is a uniform matrix of rank one, and c_i are uniform with sum 0. If all Q_i are
the same,

    sum_i c_i (<rho, U_i> - <rho, A_i>) = 0

If two differ, this holds with probability below 3/p: 2/p that rho does not tell them apart, 1/p that c does not.
Receivers know the first of each difference and dealers the second, none of them P. Each adds up its terms, adds masks that cancel
in the sum over all but P, and shows the result. So all see whether the sum is 0, and nothing else. The masks depend on the coin:
a relay that shows two hospitals different coins leaves them with masks that do not cancel.

P's own terms stay out: it could choose them last. The coin for P is tossed by another party, for the same reason.

Source: docs/range_proofs.md 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dprelease.mpc.encryption import Context
from dprelease.mpc.modulus import Elements, Field
from dprelease.mpc.ring import Words


@dataclass(frozen=True)
class Coin:
    """A coin about one prover's columns.

    Attributes:
        seed: 32 public bytes, fresh from the operating system of the party that tossed it.
        field: of the columns.
        width: d, columns.
        context: names the prover as sender; its purpose is replaced for every use.
    """

    seed: bytes
    field: Field
    width: int
    context: Context

    def weights(self, dealers: tuple[str, ...]) -> Mapping[str, int]:
        """Dealer to its c; together 0 in the field."""
        drawn = [int(each) for each in self._elements("same, dealers")(0, len(dealers) - 1)]
        return dict(zip(dealers, [*drawn, -sum(drawn) % self.field.p], strict=True))

    def rows(self) -> Elements:
        """alpha, an element for each row."""
        return self._elements("same, rows")

    def columns(self) -> Words:
        """gamma, (d,)."""
        return self._elements("same, columns")(0, self.width)

    def _elements(self, purpose: str) -> Elements:
        return self.field.uniform(self.seed, replace(self.context, purpose=purpose))


class Fingerprint:
    """<rho, M> of a matrix whose rows pass by; whoever multiplies them with another vector takes ours too.

    Args:
        coin: gives rho.

    Attributes:
        rows: alpha, an element for each row.
        value: of all rows so far.
    """

    def __init__(self, coin: Coin) -> None:
        self._field, self._gamma = coin.field, coin.columns()
        self.rows, self.value = coin.rows(), 0

    def add(self, sums: Words) -> None:
        """Add rows, by (d,) sums of each column's elements times alpha."""
        self.value = (self.value + self._field.dot(sums, self._gamma)) % self._field.p

    def through(self, chunks: Iterable[Words]) -> Iterator[Words]:
        """The rows of a matrix, in pieces, once each has been added."""
        start = 0
        for chunk in chunks:
            sums = self._field.product(chunk, self.rows(start, len(chunk))[:, None])
            self.add(np.ascontiguousarray(sums[:, 0]))
            start += len(chunk)
            yield chunk
