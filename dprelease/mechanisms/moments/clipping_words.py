"""What clipping does to a release, in plain words: for reviews, manifests and tables of coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dprelease.data.columns import Column
from dprelease.data.ranges import REACH
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.clipping_bias import radius2_of, within
from dprelease.mechanisms.moments.released import Moments
from dprelease.spec_base import SpecBase


@dataclass(frozen=True)
class ClippedBlock:
    """One party's numbers of a patient, as they are clipped.

    Attributes:
        party: whose.
        columns: how many numbers.
        radius2: r^2, in squared standard deviations of numbers of average weight; None where only each number by itself is clipped.
        k: how many standard deviations of a normal row's squared norm it lies above the mean; infinite without a norm.
        kept: f, the part of the variance that normal rows of independent numbers keep.
        filled: tr(S) / r^2, the part of the allowed squared norm that the released squares fill, in [0, 1]: near 1 most rows were
            clipped. NaN before a release, and without a norm.
    """

    party: str
    columns: int
    radius2: float | None
    k: float
    kept: float
    filled: float = math.nan

    @property
    def clips(self) -> bool:
        """Whether there is a norm."""
        return self.radius2 is not None

    def __str__(self) -> str:
        numbers = _numbers(self.columns)
        if self.radius2 is None:
            return f"{self.party}: {numbers}, each to its range only"
        filled = "" if math.isnan(self.filled) else f", {self.filled:.0%} filled"
        kept = f"normal rows keep {self.kept:.0%} of their variance"
        return f"{self.party}: r^2 = {self.radius2:.3g} of {numbers}{filled} ({kept})"


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
            found.append(ClippedBlock(party, len(names), None, math.inf, within(1, REACH**2)))
            continue
        radius2, k = radius2_of(clipping, places[names], weights)
        found.append(ClippedBlock(party, len(names), radius2, k, within(len(names), radius2)))
    return tuple(found)


def clipped_in(moments: Moments, parties: dict[str, tuple[Column, ...]]) -> tuple[ClippedBlock, ...]:
    """How each party's rows were clipped, and how far its released squares fill its norm; none where rows are not clipped.

    Args:
        moments: as released.
        parties: party to its columns.
    """
    clipping = moments.clipping
    if clipping is None:
        return ()
    weights = clipping.number_weights(tuple(column for own in parties.values() for column in own))
    norms = {norm.columns: norm.squared for norm in clipping.norms}
    found = []
    for block in clipped_blocks(clipping, parties):
        names = numbers_of(parties[block.party])
        if names in norms:
            own = moments.own([moments.lookup(name)[0] for name in names])
            squares = sum(weights[name] ** 2 * float(each) for name, each in zip(names, own, strict=True))
            block = replace(block, filled=min(max(squares / moments.rows / norms[names], 0.0), 1.0))
        found.append(block)
    return tuple(found)


def scenario_of(clipping: Clipping, spec: SpecBase) -> dict[str, Any]:
    """What a spec with clipped rows says of a `Setting`: its fields of this kind."""
    parties = spec.columns_by_party
    blocks = clipped_blocks(clipping, parties)
    return {
        "ranges": Fraction(0),
        "clip": min((each.k for each in blocks if each.columns > 1), default=math.inf),
        "number_weights": _heavier(clipping, parties),
    }


def about(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> tuple[str, ...]:
    """What a fit describes, one sentence each; part of the manifest."""
    if not clipping.norms:
        return ("Fits are about numbers as clipped to their published ranges, not about numbers beyond them.",)
    bounds = ", ".join(
        f"{each.party} r^2 = {each.radius2:.3g} of {_numbers(each.columns)}"
        for each in clipped_blocks(clipping, parties)
        if each.radius2 is not None
    )
    return (
        "Fits are about rows as clipped: each private number to its published range, then each hospital's numbers of a patient, "
        f"in published standard deviations from their centres, to a squared norm: {bounds}. They are not about unclipped rows.",
    )


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"


def notes(blocks: tuple[ClippedBlock, ...], *, tested: bool) -> tuple[str, ...]:
    """What a table of coefficients is about, in sentences; none in public bounds.

    Args:
        blocks: how rows were clipped.
        tested: whether p-values mean something.
    """
    if not blocks:
        return ()
    if not any(block.clips for block in blocks):
        return ("All of this is about numbers as clipped to their published ranges.",)
    untested = "No p-values: rows are clipped so far that this may move estimates by a std err."
    return (
        "All of this is about rows as clipped: near 100% filled, most of them were. unclipped is what unshrunken would be if rows "
        "were normal before: where the two are more than a std err apart, clipping decides.",
        *(() if tested else (untested,)),
    )


def details(clipping: Clipping, parties: dict[str, tuple[Column, ...]], *, two_rounds: bool = False) -> tuple[str, ...]:
    """How rows are clipped, a line each, for a hospital's review.

    Args:
        clipping: of the spec.
        parties: party to its columns.
        two_rounds: whether the ranges are of the release's own first round.
    """
    source = "" if clipping.source is None else f" by release {clipping.source[:12]}, as the office states"
    source = " in the first of two rounds" if two_rounds else source
    lines = [
        f"private numbers are coded in the ranges published{source}; public bounds stay, and cells beyond either are clipped"
    ]
    for each in clipped_blocks(clipping, parties):
        if each.radius2 is not None:
            kept = f"k = {round(each.k, 6) + 0.0:.2g}; normal rows keep {each.kept:.0%} of their variance"
            lines.append(
                f"{each.party}: {_numbers(each.columns)} of a patient clipped to r^2 = {each.radius2:.3g} ({kept})"
            )
    if clipping.norms:
        lines.append(
            "a patient whose numbers are far from the centres is drawn in towards them: what is published, and fits of it, are "
            "about such rows, in which spreads and long tails are smaller than in yours"
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
