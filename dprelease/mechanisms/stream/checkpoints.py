"""How checkpoints of a stream continue one another; `dprelease.mechanisms.continual.Continual` says what each method is."""

from __future__ import annotations

from typing import Any

from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.continual import Continual, Place
from dprelease.mechanisms.stream.terms import Published, StreamTerms
from dprelease.spec_base import SpecBase

_OWN = {"rows", "alignment", "created", "expires"}
_OWN_TERMS = {"checkpoint", "first", "previous", "history"}


class Checkpoints(Continual):
    """The part of `Continual` that follows from the terms of checkpoints alone."""

    def place(self, spec: SpecBase) -> Place:
        terms = _terms(spec)
        return Place(
            stream=terms.first or spec.digest(),
            number=terms.checkpoint,
            last=terms.checkpoints,
            previous=terms.previous,
            batches={each.checkpoint: each.rows for each in terms.history} | {terms.checkpoint: spec.rows},
        )

    def check_follows(self, spec: SpecBase, previous: SpecBase) -> None:
        terms = _terms(spec)
        if terms.previous != previous.digest() or terms.first != self.place(previous).stream:
            raise SpecRefused(
                f"checkpoint {terms.checkpoint} does not name the checkpoint before it, or another stream's first"
            )
        if terms.history != _history(previous):
            raise SpecRefused(f"checkpoint {terms.checkpoint} has another history than the checkpoint before it leaves")
        ours, theirs = _fixed(spec), _fixed(previous)
        changed = sorted(key for key in ours | theirs if ours.get(key) != theirs.get(key))
        if changed:
            raise SpecRefused(
                f"checkpoint {terms.checkpoint} changes what the stream's first one fixed: {', '.join(changed)}"
            )

    def following(self, previous: SpecBase, checkpoint: int, rows: int) -> StreamTerms:
        before = _terms(previous)
        if checkpoint <= before.checkpoint:
            raise InvalidInput(
                f"checkpoint {checkpoint} cannot follow checkpoint {before.checkpoint}: none is made twice"
            )
        if checkpoint > before.most:
            raise InvalidInput(
                f"the stream has {before.most} checkpoints, so there is no checkpoint {checkpoint}; propose a new stream"
            )
        history = _history(previous)
        total = rows + sum(each.rows for each in history)
        if total > before.most_rows:
            raise InvalidInput(
                f"the stream has room for {before.most_rows} patients, and with {rows} new ones there would be {total}; "
                "propose a new stream"
            )
        return before.model_copy(
            update={
                "checkpoint": checkpoint,
                "first": self.place(previous).stream,
                "previous": previous.digest(),
                "history": history,
            }
        )


def _terms(spec: SpecBase) -> StreamTerms:
    assert isinstance(spec.terms, StreamTerms), spec.mechanism  # noqa: S101 - callers got the mechanism from the spec
    return spec.terms


def _history(previous: SpecBase) -> tuple[Published, ...]:
    terms = _terms(previous)
    return (*terms.history, Published(checkpoint=terms.checkpoint, rows=previous.rows))


def _fixed(spec: SpecBase) -> dict[str, Any]:
    """The terms that all checkpoints have in common, by key."""
    data = spec.model_dump(mode="json", exclude=_OWN)
    terms = data.pop("terms")
    return data | {key: value for key, value in terms.items() if key not in _OWN_TERMS}
