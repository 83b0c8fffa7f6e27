"""The terms of a checkpoint: the mechanism whose integers are added up, how, and what was published before."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny

from dprelease.canonical import Digest, Rows, Value
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.base import NoiseScaling
from dprelease.mechanisms.stream.factorization import FACTORS, MOST_CHECKPOINTS, Factor, FactorName
from dprelease.mechanisms.then import read_within
from dprelease.spec_base import ModulusName, Place, SpecBase, Terms

_OWN = {"rows", "alignment", "created", "expires"}
_OWN_TERMS = {"checkpoint", "first", "previous", "history"}


InnerTerms = Annotated[SerializeAsAny[Terms], BeforeValidator(read_within)]
"""Terms of the mechanism whose integers a stream adds up."""


class Published(Value):
    """An earlier checkpoint that was published."""

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
    def modulo(self) -> ModulusName | None:
        """That of the integers that are added up."""
        return self.of.modulo

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
    def scaling(self) -> NoiseScaling:
        """The change of the inner mechanism's integers and noise."""
        return NoiseScaling(self.most_rows, self.matrix.largest, self.matrix.norm2(self.most))

    @property
    def most(self) -> int:
        """How many checkpoints there may be."""
        return self.checkpoints or MOST_CHECKPOINTS

    def place(self, spec: SpecBase) -> Place:
        """The place of a checkpoint in its stream."""
        return Place(
            stream=self.first or spec.digest(),
            number=self.checkpoint,
            last=self.checkpoints,
            ended=self.checkpoint >= self.most or self.patients(spec.rows) >= self.most_rows,
            batch=self.checkpoint,
            previous=self.previous,
            batches={each.checkpoint: each.rows for each in self.history} | {self.checkpoint: spec.rows},
        )

    def check_follows(self, spec: SpecBase, previous: SpecBase) -> None:
        """Refuses what is not the checkpoint after another one, in all but its rows, who they are and its times."""
        if not isinstance(previous.terms, StreamTerms):
            super().check_follows(spec, previous)
            return
        if self.previous != previous.digest() or self.first != previous.place.stream:
            raise SpecRefused(
                f"checkpoint {self.checkpoint} does not name the checkpoint before it, or another stream's first"
            )
        if self.history != previous.terms.history_with(previous.rows):
            raise SpecRefused(f"checkpoint {self.checkpoint} has another history than the checkpoint before it leaves")
        ours, theirs = _fixed(spec), _fixed(previous)
        changed = sorted(key for key in ours | theirs if ours.get(key) != theirs.get(key))
        if changed:
            raise SpecRefused(
                f"checkpoint {self.checkpoint} changes what the stream's first one fixed: {', '.join(changed)}"
            )

    def following(self, previous: SpecBase, checkpoint: int, rows: int) -> StreamTerms:
        """Terms of a later checkpoint; the stream may have no such checkpoint, or no room for so many rows."""
        if checkpoint <= self.checkpoint:
            raise InvalidInput(
                f"checkpoint {checkpoint} cannot follow checkpoint {self.checkpoint}: none is made twice"
            )
        if checkpoint > self.most:
            raise InvalidInput(
                f"the stream has {self.most} checkpoints, so there is no checkpoint {checkpoint}; propose a new stream"
            )
        total = rows + self.patients(previous.rows)
        if total > self.most_rows:
            raise InvalidInput(
                f"the stream has room for {self.most_rows} patients, and with {rows} new ones there would be {total}; "
                "propose a new stream"
            )
        return self.model_copy(
            update={
                "checkpoint": checkpoint,
                "first": previous.place.stream,
                "previous": previous.digest(),
                "history": self.history_with(previous.rows),
            }
        )

    def history_with(self, rows: int) -> tuple[Published, ...]:
        """The history of the next checkpoint, once this one was published with so many rows."""
        return (*self.history, Published(checkpoint=self.checkpoint, rows=rows))

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
    """A spec of so many patients as the inner mechanism reads it, with terms of the first checkpoint unless others are given."""
    return spec.model_copy(update={"terms": of or terms.of, "rows": rows})


def _fixed(spec: SpecBase) -> dict[str, Any]:
    """The terms that all checkpoints have in common, by key."""
    data = spec.model_dump(mode="json", exclude=_OWN)
    terms = data.pop("terms")
    return data | {key: value for key, value in terms.items() if key not in _OWN_TERMS}
