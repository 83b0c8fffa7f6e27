"""How digests of our patients leave: keyed so that only hospitals that know these patients can test a guess with them.

All hospitals of a consortium hold the alignment key, so any of them could open a digest under that key alone, together with the
office: name by name, wherever all other patients are known. So digests leave under a secret of the alignment run in force, which
its hospitals know and nobody else. Without a run they leave under a secret of our own and say nothing to anybody, until our owner
says that all hospitals have just these patients.

Source: docs/guarantees.md, 9 and 23.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from dprelease.catalogue import FEWEST_COMPARED


@dataclass(frozen=True, repr=False)
class Comparison:
    """Digests of one table.

    Attributes:
        own: a secret of this hospital.
        run: the secret of the alignment run whose patients the rows are; None without one.
        declared: whether our owner says that all hospitals have just these patients.
        rows_per_subject: q, most rows that one patient may have.
    """

    own: bytes
    run: bytes | None = None
    declared: bool = False
    rows_per_subject: int = 1

    @property
    def comparable(self) -> bool:
        """Tells whether the office may find digests of ours equal to those of other hospitals at all."""
        return self.run is not None or self.declared

    def is_enough(self, rows: int) -> bool:
        """Tells whether so many rows are of 20 patients or more, however many of them each has."""
        return rows >= FEWEST_COMPARED * self.rows_per_subject

    def shown(self, digest: str, rows: int, *, complete: bool = True) -> str:
        """An alignment digest as others see it.

        Args:
            digest: under the alignment key, hexadecimal.
            rows: of the table or batch.
            complete: whether no row is of a batch that is still filling.
        """
        if self.run is not None:
            return _keyed(self.run, digest)
        if self.declared and complete and self.is_enough(rows):
            return digest
        return _keyed(self.own, digest)


def _keyed(secret: bytes, digest: str) -> str:
    return hmac.new(secret, b"dprelease/alignment/shown/v1|" + digest.encode(), hashlib.sha256).hexdigest()
