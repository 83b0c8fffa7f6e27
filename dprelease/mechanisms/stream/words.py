"""Every sentence that is printed about a checkpoint of a stream; some are part of the manifest's format."""

from __future__ import annotations

from dataclasses import replace

from dprelease.mechanisms.base import Words
from dprelease.mechanisms.stream.factorization import error
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.spec_base import SpecBase

WHOLE = (
    "This is checkpoint {checkpoint} of a stream of up to {checkpoints}: the figure is for all of them together, and was charged "
    "once, with the first. It counts on each patient being in {events}."
)


def guarantee(found: tuple[str, ...], spec: SpecBase, terms: StreamTerms) -> tuple[str, ...]:
    """The guarantee as sentences, from those of the inner mechanism."""
    q = spec.rows_per_subject
    events = "one row of one checkpoint" if q == 1 else f"at most {q} rows of all checkpoints"
    whole = WHOLE.format(checkpoint=terms.checkpoint, checkpoints=terms.most, events=events)
    return (*found, whole)


def words(found: Words, spec: SpecBase, terms: StreamTerms) -> Words:
    """Every other sentence, from those of the inner mechanism about everybody up to this checkpoint."""
    at = f"checkpoint {terms.checkpoint}" + (f" of {terms.checkpoints}" if terms.checkpoints else "")
    times = error(terms.factor, terms.most, terms.used)
    price = (
        f"it is charged for all checkpoints, {terms.most} at most; who approves it approves the later ones, which cost nothing"
        if terms.checkpoint == 1
        else "nothing is charged: the first checkpoint was, for all of them"
    )
    return replace(
        found,
        would_publish=f"{at} of a stream, {spec.rows} new patients: {found.would_publish}",
        details=(
            *found.details,
            f"noise here is {times:.3g} times that of one release of everybody",
            f"at most {terms.most_rows} patients in all checkpoints together, each in at most {spec.rows_per_subject} rows",
            price,
        ),
        content=f"{at}, {found.content}",
        summary=f"{at} of a stream. {found.summary}",
        shape=", ".join(part for part in (f"stream, {at}, factor {terms.factor}", found.shape) if part),
        figures={
            **found.figures,
            "checkpoint": terms.checkpoint,
            "checkpoints": terms.checkpoints,
            "factor": terms.factor,
            "most_rows": terms.most_rows,
        },
    )
