"""How a release clips rows, in plain words: for reviews and manifests."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dprelease.data.columns import Column
from dprelease.data.ranges import share
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.clipping_bias import radius2_of


def reuse_in_words(source: str, rows: int, columns: tuple[Column, ...]) -> str:
    """The owner of the ranges that a release uses and what that saves, in a clause.

    Args:
        source: digest of the release that published them.
        rows: n.
        columns: of all parties.
    """
    cost = share(rows, columns)
    return f"in the ranges that release {source[:12]} published, at no charge, where new ones would cost {cost} of mu^2"


@dataclass(frozen=True)
class ClippedBlock:
    """One party's numbers of a patient, as they are clipped.

    Attributes:
        party: whose.
        columns: how many numbers.
        radius2: r^2, in squares of the reach of numbers of average weight; None where only each number by itself is clipped.
        k: how many standard deviations of a normal row's squared norm it lies above the mean; infinite without a norm.
    """

    party: str
    columns: int
    radius2: float | None
    k: float


def clipped_blocks(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> tuple[ClippedBlock, ...]:
    """How each party with private numbers clips them."""
    weights = clipping.number_weights(tuple(column for own in parties.values() for column in own))
    places = {norm.columns: place for place, norm in enumerate(clipping.norms)}
    found = []
    for party, own in parties.items():
        names = numbers_of(own)
        if not names:
            continue
        if names not in places:
            found.append(ClippedBlock(party, len(names), None, math.inf))
            continue
        radius2, k = radius2_of(clipping, places[names], weights)
        found.append(ClippedBlock(party, len(names), radius2, k))
    return tuple(found)


def about(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> tuple[str, ...]:
    """Facts about the moments, one sentence each; part of the manifest."""
    wider = "Intervals of slopes are wider by an estimate of what that takes from them."
    if not clipping.norms:
        return (f"Moments are of numbers as clipped to their published ranges. {wider}",)
    bounds = ", ".join(
        f"{each.party} r^2 = {each.radius2:.3g} of {_numbers(each.columns)}"
        for each in clipped_blocks(clipping, parties)
        if each.radius2 is not None
    )
    return (
        "Moments are of rows as clipped: each private number to its published range, then each hospital's numbers of a patient, "
        f"in units of what each reaches from their centres, to a squared norm: {bounds}. {wider}",
    )


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"


def details(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> tuple[str, ...]:
    """How rows are clipped, a line each, for a hospital's review.

    Args:
        clipping: of the spec.
        parties: party to its columns.
    """
    source = "" if clipping.source is None else f" by release {clipping.source[:12]}, as the office states"
    lines = [
        f"private numbers are coded in the ranges published{source}; public bounds stay, and cells beyond either are clipped"
    ]
    lines += [
        f"{each.party}: {_numbers(each.columns)} of a patient clipped to r^2 = {each.radius2:.3g} in squares of what each reaches "
        f"(k = {round(each.k, 6) + 0.0:.2g})"
        for each in clipped_blocks(clipping, parties)
        if each.radius2 is not None
    ]
    if clipping.norms:
        lines.append(
            "a patient whose numbers are far from the centres is drawn in towards them: what is published is of such rows, in "
            "which spreads and long tails are smaller than in yours"
        )
    heavier = _heavier(clipping, parties)
    if heavier:
        lines.append(f"less noise than in other numbers, by weight: {', '.join(heavier)}")
    return tuple(lines)


def _heavier(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> dict[str, float]:
    """Number to its weight beside the lightest, of those that weigh more."""
    weights = clipping.number_weights(tuple(column for own in parties.values() for column in own))
    least = min(weights.values(), default=1)
    return {name: weight / least for name, weight in weights.items() if weight > least}
