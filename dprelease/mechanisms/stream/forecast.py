"""What a fit at a checkpoint will be worth: that of one release of everybody up to it, with the noise of the stream.

Noise of the inner mechanism is in proportion to 1 / mu, so e times the noise is the noise of a target of mu / e.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed
from dprelease.mechanisms.linear import Linear
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


def proposed(over: Linear[Any], setting: Setting) -> Proposed:
    """The release that would be proposed, with the noise of its checkpoint and the price of them all."""
    noisy, paid = (over.proposed(one_release(setting, noisier=noisier)) for noisier in (True, False))
    return replace(noisy, prices=paid.prices, shape=f"{noisy.shape}, a checkpoint of a stream")


def forecast(over: Linear[Any], setting: Setting, signal: float) -> Forecast:
    """What to expect of a fit; arguments as of `dprelease.planning.forecast.forecast`."""
    return over.forecast(one_release(setting, noisier=True), signal)
