"""Every sentence that is printed about a checkpoint of a stream; some are part of the manifest's format."""

from __future__ import annotations

from dataclasses import replace

from dprelease.mechanisms.statement import Words
from dprelease.mechanisms.stream.factorization import error
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.spec_base import SpecBase

WHOLE = (
    "This is checkpoint {checkpoint} of a stream of at most {checkpoints}: the figures are for all of them together, and were "
    "charged once, with the first. They cover {whom}."
)

EVENT = "one row of a patient at one checkpoint; a patient who is in g rows faces g times mu"

ROWS = "a patient who is in at most {rows} rows of all checkpoints together"

KEPT = (
    "Between checkpoints each hospital keeps its part of what is added up. The parts of all hospitals together are exact sums over "
    "the patients of single checkpoints."
)


def guarantee(found: tuple[str, ...], spec: SpecBase, terms: StreamTerms) -> tuple[str, ...]:
    """The guarantee as sentences, from those of the inner mechanism."""
    q = spec.rows_per_subject
    whom = EVENT if q == 1 else ROWS.format(rows=q)
    return (*found, WHOLE.format(checkpoint=terms.checkpoint, checkpoints=terms.most, whom=whom))


def words(found: Words, spec: SpecBase, terms: StreamTerms) -> Words:
    """Every other sentence, from those of the inner mechanism about everybody up to this checkpoint."""
    at = f"checkpoint {terms.checkpoint}" + (f" of {terms.checkpoints}" if terms.checkpoints else "")
    times = error(terms.factor, terms.most, terms.used)
    price = (
        f"charged once, for all checkpoints ({terms.most} at most): whoever approves this one approves the later ones, which cost "
        "nothing, and each of which publishes the same of all patients so far"
        if terms.checkpoint == 1
        else "nothing is charged: the first checkpoint was, for all of them"
    )
    covered = EVENT if spec.rows_per_subject == 1 else ROWS.format(rows=spec.rows_per_subject)
    return replace(
        found,
        would_publish=f"{at} of a stream, {spec.rows} new {spec.counted}: {found.would_publish}",
        details=(
            *found.details,
            price,
            f"covers {covered}",
            f"noise here is {times:.3g} times that of one release of everybody; room for {terms.most_rows} {spec.counted} in all",
        ),
        trust=(*found.trust, KEPT),
        content=f"{at}, {found.content}",
        summary=f"{at} of a stream. {found.summary}",
        shape=", ".join(part for part in (f"{at}, factor {terms.factor}", found.shape) if part),
        figures={
            **found.figures,
            "checkpoint": terms.checkpoint,
            "checkpoints": terms.checkpoints,
            "factor": terms.factor,
            "most_rows": terms.most_rows,
        },
    )
