"""The natural logarithm to the same bit on every machine.

Among the operations of IEEE 754 only additions, multiplications and divisions round alike everywhere; a library's logarithm
differs in the last bit between processors and versions. A code that differs after an upgrade is no longer what an approval
commits to (docs/format.md 7).
"""

from __future__ import annotations

import numpy as np

from dprelease.arrays import Floats

_TERMS = 11  # what is left out is below 2^-55 of the sum, as |s| <= 3 - sqrt(8)
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 in two parts, the first of so few bits that its product with an exponent is exact."""


def ln(values: Floats) -> Floats:
    """Natural logarithm by its series in s = (m - 1) / (m + 1), where x = m 2^e and 1/sqrt(2) <= m < sqrt(2).

    The error is below one unit in the last place. Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.1.27.

    Args:
        values: any shape; NaN wherever they are not positive and finite.
    """
    known = np.isfinite(values) & (values > 0)
    mantissa, exponent = np.frexp(np.where(known, values, 1.0))
    small = mantissa < np.sqrt(0.5)
    mantissa, exponent = np.where(small, 2 * mantissa, mantissa), exponent - small
    f = mantissa - 1.0  # exact
    s = f / (2.0 + f)
    square = s * s
    tail = np.full_like(s, 1 / (2 * _TERMS + 1))
    for term in range(_TERMS - 1, 0, -1):
        tail = 1 / (2 * term + 1) + square * tail
    # 2 s = f - s f: the leading term is exact, and only what is small is rounded.
    found = exponent * _LN2_HIGH + (f - (s * (f - 2.0 * square * tail) - exponent * _LN2_LOW))
    return np.where(known, found, np.nan)
