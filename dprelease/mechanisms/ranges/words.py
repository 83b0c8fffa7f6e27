"""Every sentence that is printed about ranges; some are part of the manifest's format."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.data.columns import numbers
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.mechanisms.ranges.calibration import CELLS, Scales, numbers_without_bounds
from dprelease.mechanisms.ranges.prefix_sums import largest_error
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.mechanisms.statement import OWN_NOISE, Words, own_blocks
from dprelease.spec_base import SpecBase

TRUST = (
    "Each hospital added the whole noise to its own columns; no other party, the coordinator or the hub saw a row.",
    OWN_NOISE,
)

RECOMPUTED = "ranges recomputed: every centre and scale follows from the noisy numbers beside it"

BOXES_RECOMPUTED = (
    "bounds of columns without any recomputed: every box follows from the noisy counts of decades beside it"
)

DOUBTFUL = 0.15
"""Noise of a count, as a share of the rows, from which on boxes of columns without bounds are doubtful."""


def guarantee(figures: Mapping[str, str | None], joint: str, delta: str) -> tuple[str, ...]:
    """The guarantee as sentences; arguments as of `Mechanism.guarantee`."""
    return own_blocks("the ranges of all numeric columns of a patient", "no range", figures, joint, delta)


def doubts(rows: int, scales: Scales) -> tuple[str, ...]:
    """Warnings about columns without bounds, from public numbers; nothing where noise is small or there are none."""
    share = scales.decades * largest_error(DECADE_CELLS) / rows
    if share < DOUBTFUL:
        return ()
    return (
        f"the noise of a count of rows is {share:.0%} of the patients, so that bounds found for columns without any may be far "
        "off; declare bounds, or raise epsilon",
    )


def words(spec: SpecBase, terms: RangesTerms) -> Words:
    """Every other sentence."""
    columns = len(numbers(spec.columns))
    which = "1 private numeric column" if columns == 1 else f"{columns} private numeric columns"
    unknown = [column.name for column in numbers_without_bounds(spec.columns)]
    return Words(
        would_publish=(
            f"centre and scale of each of {which}, over all {spec.rows} patients, with their noisy sources: "
            f"{CELLS - 1} counts of rows below points of its public bounds, a sum and a sum of squares; nobody's row"
            + (
                f"; before that {DECADE_CELLS - 1} counts for the bounds of each of {len(unknown)} without"
                if unknown
                else ""
            )
        ),
        details=(
            "readers learn each column's mean, spread and quantiles, with errors; nothing on how columns go together",
            "it is made for later releases, which may code columns by these centres and scales for less noise",
            "public bounds stay as they are and stay public: cells are clipped to them first, here and later",
            *(
                f"{name} has no public bounds: it gets some from noisy counts of decades, which take a third of what it costs"
                for name in unknown
            ),
            *doubts(spec.rows, terms.scales),
        ),
        trust=TRUST,
        content=f"centre and scale of {which}",
        summary=f"ranges: centre, scale and distribution of {which}",
        figures={"columns": columns} | ({"without_bounds": len(unknown)} if unknown else {}),
        checks=(RECOMPUTED, *([BOXES_RECOMPUTED] if unknown else [])),
    )
