"""The terms of a checkpoint: the mechanism whose integers are added up, how, and what was published before."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from dprelease.canonical import Digest, Rows, Value
from dprelease.mechanisms.linear import Stretch
from dprelease.mechanisms.stream.factorization import FACTORS, MOST_CHECKPOINTS, Factor, FactorName
from dprelease.spec_base import SpecBase, Terms


def _read(data: object, info: ValidationInfo) -> object:
    """Terms from plain data by the mechanism that they name, one of those that the mechanism hands in."""
    if isinstance(data, Terms):
        return data
    if info.context is None:
        raise ValueError("terms inside a stream's are read as part of a spec")
    return info.context(data)


InnerTerms = Annotated[SerializeAsAny[Terms], BeforeValidator(_read)]
"""Terms of the mechanism whose integers a stream adds up."""


class Published(Value):
    """An earlier checkpoint that was published.

    Attributes:
        checkpoint: its number.
        rows: its new patients.
    """

    checkpoint: Annotated[int, Field(ge=1)]
    rows: Rows


class StreamTerms(Terms):
    """A checkpoint of a stream; `rows` and `alignment` of its spec are those of its new patients.

    Attributes:
        of: terms of the mechanism whose integers are added up, as of one release of everybody; the same at every checkpoint.
        factor: how they are added up (`factorization`).
        checkpoints: T, how many there may be; None, and left out of canonical bytes, where nobody knows: then `MOST_CHECKPOINTS`.
        checkpoint: t, from 1. A number is used once; a checkpoint that failed leaves its number unused for ever.
        most_rows: N, patients of all checkpoints at most.
        first: digest of the first checkpoint's spec; None in itself, and then left out of canonical bytes.
        previous: digest of the spec of the last checkpoint that was published; None and left out in the first.
        history: all earlier checkpoints that were published; left out in the first.
    """

    mechanism: Literal["stream"] = "stream"
    of: InnerTerms
    factor: FactorName
    checkpoints: Annotated[int | None, Field(ge=1, le=MOST_CHECKPOINTS, exclude_if=lambda number: number is None)] = (
        None
    )
    checkpoint: Annotated[int, Field(ge=1)]
    most_rows: Rows
    first: Annotated[Digest | None, Field(exclude_if=lambda digest: digest is None)] = None
    previous: Annotated[Digest | None, Field(exclude_if=lambda digest: digest is None)] = None
    history: Annotated[tuple[Published, ...], Field(exclude_if=lambda history: not history)] = ()

    @property
    def past(self) -> tuple[int, ...]:
        """Earlier checkpoints that were published."""
        return tuple(each.checkpoint for each in self.history)

    @property
    def names(self) -> tuple[str, ...]:
        """Stream, and the mechanism that it is of."""
        return (self.mechanism, *self.of.names)

    @property
    def used(self) -> tuple[int, ...]:
        """These and this one."""
        return (*self.past, self.checkpoint)

    def patients(self, rows: int) -> int:
        """The patients of all checkpoints that were published, and of this one."""
        return rows + sum(each.rows for each in self.history)

    def most_patients(self, rows: int) -> int:
        """N."""
        return self.most_rows

    @property
    def matrix(self) -> Factor:
        """C'."""
        return FACTORS[self.factor]

    @property
    def stretch(self) -> Stretch:
        """The change of the inner mechanism's integers and noise."""
        return Stretch(self.most_rows, self.matrix.largest, self.matrix.norm2(self.most))

    @property
    def most(self) -> int:
        """How many checkpoints there may be."""
        return self.checkpoints or MOST_CHECKPOINTS

    def consistent(self, spec: SpecBase) -> None:
        """Tells whether numbers are in order, within T and N, and the inner terms fit."""
        first = self.checkpoint == 1
        if any((part is None) != first for part in (self.first, self.previous)) or first != (not self.history):
            raise ValueError(
                "the first checkpoint has number 1; every later one names the first, the previous and all before"
            )
        if list(self.used) != sorted(set(self.used)) or self.used[0] != 1:
            raise ValueError("checkpoints are numbered upwards from 1")
        if (self.checkpoints is None) != (self.factor == "weighted"):
            raise ValueError(
                "factor 'weighted' is for streams that do not say how many checkpoints they have, and only for them"
            )
        if self.checkpoint > self.most:
            raise ValueError(f"the stream has {self.most} checkpoints, and this would be number {self.checkpoint}")
        total = self.patients(spec.rows)
        if total > self.most_rows:
            raise ValueError(
                f"the stream has room for {self.most_rows} patients, and with these there would be {total}"
            )
        self.of.consistent(inner(spec, self, self.most_rows))


def inner(spec: SpecBase, terms: StreamTerms, rows: int, of: Any = None) -> SpecBase:
    """A spec as the inner mechanism reads it.

    Args:
        spec: of the stream.
        terms: its terms.
        rows: patients in it.
        of: terms of the inner mechanism, if not those of the first checkpoint.
    """
    return spec.model_copy(update={"terms": of or terms.of, "rows": rows})
