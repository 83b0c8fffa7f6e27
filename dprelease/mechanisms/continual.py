"""How releases of one mechanism continue one another: checkpoints of a stream of patients, under one guarantee and one charge.

Every checkpoint is a release with a spec of its own: its new rows, who they are, the checkpoint before. All else is as in the first
one's spec, whose price covers the whole stream. A patient's row is in one checkpoint, ever; noise is drawn once for each.

Source: docs/protocol.md, "Streams".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dprelease.arrays import Codes, Integers
from dprelease.data.bounding import BoundedRows
from dprelease.mpc.session import Products
from dprelease.spec_base import SpecBase, Terms


@dataclass(frozen=True, repr=False)
class Kept:
    """State of a stream that a hospital keeps between checkpoints.

    Attributes:
        increments: checkpoint to the exact integers of its new rows, or our shares of them modulo 2^64. Secret: together with
            what other hospitals keep they are exact data.
        sent: noisy integers of our block of the checkpoint before, which start the next block; None at the first.
    """

    increments: Mapping[int, Integers]
    sent: Integers | None = None


NOTHING_KEPT = Kept(MappingProxyType({}))
"""Outside streams."""


@dataclass(frozen=True)
class Place:
    """The place of a checkpoint in its stream.

    Attributes:
        stream: digest of the first checkpoint's spec, by which a stream is known.
        number: t, from 1: which of the stream's checkpoints this is, and which batch of the source its rows are.
        last: T, how many checkpoints the stream may have; None where nobody knows.
        previous: digest of the spec of the checkpoint before; None at the first, which alone is charged.
        batches: checkpoint to its new patients, in order, of all that were published, and of this one; one that failed is left
            out for ever.
    """

    stream: str
    number: int
    last: int | None
    previous: str | None
    batches: Mapping[int, int]

    @property
    def past(self) -> tuple[int, ...]:
        """Earlier checkpoints that were published, in order."""
        return tuple(self.batches)[:-1]


class Continual(ABC):
    """The contract of a mechanism whose releases are checkpoints of a stream."""

    @abstractmethod
    def place(self, spec: SpecBase) -> Place:
        """The place of a checkpoint in its stream."""

    @abstractmethod
    def read_upto(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes, checkpoint: int
    ) -> Any:
        """The view of all patients up to a checkpoint that was published, this one or one before; see `Mechanism.read`.

        A block begins with all numbers of the party's blocks of the checkpoints before, so this is what was read then.
        """

    @abstractmethod
    def check_follows(self, spec: SpecBase, previous: SpecBase) -> None:
        """Refuse what is not the checkpoint after another one, in all but its rows, who they are and its times.

        Raises:
            SpecRefused: with what differs.
        """

    @abstractmethod
    def following(self, previous: SpecBase, checkpoint: int, rows: int) -> Terms:
        """Terms of a later checkpoint.

        Args:
            previous: spec of the last one that was published.
            checkpoint: t, after those that were published or failed.
            rows: new patients.

        Raises:
            InvalidInput: the stream has no such checkpoint, or no room for so many rows.
        """

    @abstractmethod
    def increment(self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None) -> Integers:
        """Exact integers of the new rows, or the party's share of them; kept before any noise is drawn.

        Raises:
            InvalidInput: the products are not those that the mechanism needs.
        """
