"""The parameters of a joint-moments release: by the rule, with the least noise."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.calibration import budget
from dprelease.columns import Column
from dprelease.moments.layout import variables
from dprelease.moments.scales import share_scales
from dprelease.moments.sensitivity import sensitivity
from dprelease.spec import JointMoments, Target


def joint_moments(
    parties: Mapping[str, tuple[Column, ...]],
    target: Target,
    curious: int | None = None,
    dealer: str | None = None,
    grid_bits: int = 10,
    rows_per_subject: int = 1,
) -> JointMoments:
    """The least noise for joint moments of these parties."""
    count = len(parties)
    pooled = min(1, count - 1) if curious is None else curious
    usual = "none" if count == 1 else "rotating" if count > 2 and pooled == 1 else "coordinator"
    bound = sensitivity(variables(tuple(column for columns in parties.values() for column in columns)))
    mu2 = budget(target)
    scale, diagonal_scale = share_scales(bound, mu2, count, pooled, grid_bits, rows_per_subject)
    return JointMoments.model_validate(
        {
            "curious": pooled,
            "dealer": dealer or usual,
            "mu2": str(mu2),
            "scale": scale,
            "diagonal_scale": diagonal_scale,
        }
    )
