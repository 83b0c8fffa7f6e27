"""What a fit at a checkpoint will be worth: that of one release of everybody up to it, with the noise of the stream.

Noise of the inner mechanism is in proportion to 1 / mu, so e times the noise is the noise of a target of mu / e.
"""

from __future__ import annotations

from dataclasses import replace

from dprelease.mechanisms.assumptions import Setting
from dprelease.privacy.gaussian import epsilon_of, mu_of

_DELTA = 1e-12
"""Of the target of mu / e, whose epsilon is then positive."""


def one_release(setting: Setting, *, noisier: bool) -> Setting:
    """The inner mechanism's own scenario.

    Args:
        setting: of a stream.
        noisier: with the noise of the stream; else at the stream's price.
    """
    assert setting.stream is not None, setting.mechanism  # noqa: S101 - `Stream.plans` has none without
    inner, times = setting.stream
    target = setting.target
    if noisier:
        mu = mu_of(target.epsilon, target.delta) / times
        target = target.model_copy(update={"epsilon": epsilon_of(mu, _DELTA), "delta": _DELTA})
    return replace(setting, mechanism=inner, target=target, stream=None)
