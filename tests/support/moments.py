"""The parameters of a joint-moments release: by the rule, with the least noise."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dprelease.data.columns import Column
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.terms import JointMoments, least_noise
from dprelease.privacy.calibration import budget
from dprelease.spec_base import ModulusName, Target


def joint_moments(
    parties: Mapping[str, tuple[Column, ...]],
    target: Target,
    curious: int | None = None,
    dealer: str | None = None,
    grid_bits: int = 10,
    rows_per_subject: int = 1,
    outcomes: tuple[str, ...] = (),
    public_norm2: Fraction | None = None,
    modulus: ModulusName | None = "2^61-1",
) -> JointMoments:
    """The least noise for joint moments of these parties."""
    count = len(parties)
    pooled = min(1, count - 1) if curious is None else curious
    dealt: Any = dealer or ("none" if count == 1 else "rotating" if count > 2 and pooled == 1 else "coordinator")
    layout = Layout(tuple(column for columns in parties.values() for column in columns), outcomes)
    shape = count, pooled, dealt, grid_bits, rows_per_subject
    return least_noise(layout, budget(target), *shape, public_norm2, modulus=modulus)
