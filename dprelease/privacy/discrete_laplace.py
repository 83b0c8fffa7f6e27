"""The discrete Laplace law on the integers, P[x] proportional to exp(-|x|/t) for an integer t, sampled exactly and in whole arrays.

Let w be a power of two between t/32 and t/16, or 1. One draw: a strip v >= 0 with P[v or more] = exp(-v w/t); an offset U,
uniform on 0, ..., w - 1; x = v w + U is kept with probability exp(-U/t), else everything is drawn again; a sign; minus zero is
drawn again. So x comes with probability proportional to exp(-|x|/t), exactly. Both comparisons of a uniform real number with an
irrational one are decided in doubles where their error is far too small to matter, and with as many more bits as it takes
elsewhere.

Proof: docs/guarantees.md 22. Source: Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy".
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from dprelease.arrays import Integers
from dprelease.privacy.discrete_gaussian import MARGIN, Bits, Uniform, Words, collected, power, signed, strip_width

_SLACK = 1e-9
"""How close to a whole number of strips a double is left undecided; all roundings together stay below 1e-11."""
_KEPT = 0.93  # at least this share is kept: 1 - w/(2 t), and no minus zero, whose share is below w/(2 t) or a quarter where w = 1
_KEPT_NARROW = 0.4


def discrete_laplace(scale: int, size: int, bits: Bits, margin: float = MARGIN) -> Integers:
    """Independent draws with P[x] proportional to exp(-|x|/scale).

    Args:
        scale: t, positive and below 2^56.
        size: how many.
        bits: uniform bits; the draws are as secret and as fresh as they are.
        margin: at least `MARGIN`; larger ones leave more to exact arithmetic and do not change the law.

    Returns:
        (size,) int64.
    """
    share = _KEPT if scale >= 32 else _KEPT_NARROW
    return collected(size, share, lambda wanted: _candidates(scale, wanted, bits, margin))


def _candidates(scale: int, size: int, bits: Bits, margin: float) -> Integers:
    """Draws of the law: those of `size` candidates that were kept, in their order."""
    width = strip_width(scale)
    base = _strips(Fraction(width, scale), bits.words(size), bits) * width
    second, third = bits.words(size), bits.words(size)
    offset = (second & np.uint64(width - 1)).astype(np.int64)
    gap = np.exp(-offset / scale) - third * 2.0**-64
    kept = np.asarray(gap > 0)
    for place in np.flatnonzero(np.abs(gap) <= margin):
        inside = int(offset[place])
        kept[place] = inside == 0 or Uniform(int(third[place]), bits).below(partial(power, Fraction(inside, scale)))
    return signed(base + offset, second, kept)


def _strips(rate: Fraction, words: Words, bits: Bits) -> Integers:
    """v for each uniform number, whose first bits are given: the largest with the number below exp(-v rate)."""
    with np.errstate(divide="ignore"):
        most = -np.log(words * 2.0**-64) / float(rate) + _SLACK
        least = -np.log((words + 1.0) * 2.0**-64) / float(rate) - _SLACK
    found = np.maximum(np.floor(least), 0).astype(np.int64)
    for place in np.flatnonzero(np.floor(most) != found):
        uniform, strip = Uniform(int(words[place]), bits), int(found[place])
        while uniform.below(partial(power, (strip + 1) * rate)):
            strip += 1
        found[place] = strip
    return np.asarray(found)
