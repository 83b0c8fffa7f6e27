"""Deviations of a hospital's software that need more than the answer of a function: for `tests.support.faulty`.

Each takes the original function and its arguments. Rows are as `privatize.coded` makes them, and n is small.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dprelease.arrays import Codes, Integers
from dprelease.mechanisms.moments.claims import claim_of
from dprelease.mpc.proof.claim import Claim
from dprelease.mpc.proof.parts import RangeProver
from dprelease.mpc.schedule import Schedule
from party_node.computation.sessions import Computation


def _levels(number: int) -> Callable[..., Codes]:
    """`Computation._matrix` with a patient who has so many levels of each category."""

    def altered(original: Callable[..., Codes], computation: Computation) -> Codes:
        codes, claim = _copy(original, computation)
        assert claim.groups
        for group in claim.groups:
            codes[0, list(group.columns)] = [group.level * (place < number) for place in range(len(group.columns))]
        return codes

    return altered


def _corner(original: Callable[..., Codes], computation: Computation) -> Codes:
    """`Computation._matrix` with a patient whose numbers each have their largest value: a row that is too long."""
    codes, claim = _copy(original, computation)
    (norm,) = claim.norms
    codes[0, list(norm.columns)] = [claim.columns[place].upper for place in norm.columns]
    assert (codes[0, list(norm.columns)].astype(np.int64) ** 2).sum() > norm.squared
    return codes


def _copy(original: Callable[..., Codes], computation: Computation) -> tuple[Codes, Claim]:
    return np.array(original(computation)), claim_of(computation._spec, computation._party)


def _unchecked(original: Callable[..., list[Integers]], claim: Claim, codes: Codes) -> list[Integers]:
    """`Claim.steps` of rows that break the claim: the bits say what the columns say, and a slack is 0 at least."""
    squares = [(codes[:, list(norm.columns)].astype(np.int64) ** 2).sum(axis=1) for norm in claim.norms]
    slacks = [np.maximum(norm.squared - each, 0) for norm, each in zip(claim.norms, squares, strict=True)]
    return [*original(replace(claim, groups=(), norms=()), codes), *slacks]


def _two_faced(original: Callable[..., Any], exchange: object, *given: Any) -> Any:
    """`Exchange.mask` and `Exchange.prover`: under one dealer's mask every patient is the first one, in columns and bits."""
    *before, codes, dealt = given
    if dealt.dealer == "clinic":
        codes = np.repeat(codes[:1], len(codes), axis=0)
    made = original(exchange, *before, codes, dealt)
    if isinstance(made, RangeProver):
        made._plain = made.plan.claim.bits(codes)
    return made


def _dealt(place: int, byte: int) -> Callable[..., Mapping[str, bytes]]:
    """`schedule.deal` with another byte for one of a pair; the deal of the second ends with the correction."""

    def altered(
        original: Callable[..., Mapping[str, bytes]], schedule: Schedule, dealer: str, *given: Any
    ) -> Mapping[str, bytes]:
        dealt, receiver = original(schedule, dealer, *given), schedule.dealt_by(dealer)[0].parties[place]
        return {**dealt, receiver: moved(dealt[receiver], byte)}

    return altered


def moved(data: bytes, byte: int) -> bytes:
    """The same, with one byte that is larger by 1."""
    made = bytearray(data)
    made[byte] = (made[byte] + 1) % 256
    return bytes(made)


DEVIATIONS: dict[str, Callable[..., Any]] = {
    "no-level": _levels(0),
    "two-levels": _levels(2),
    "corner": _corner,
    "unchecked": _unchecked,
    "two-faced": _two_faced,
    "first-seed": _dealt(0, 0),
    "second-seed": _dealt(1, 0),
    "other-word": _dealt(1, -8),
}
"""Kind of a fault to what runs in the place of a function."""
