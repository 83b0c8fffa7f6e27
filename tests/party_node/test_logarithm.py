"""The logarithm of derived columns: right to one unit in the last place, and the same bits wherever it runs."""

import hashlib
import math
import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest

from party_node.declarations.formulas import ln

GENERATOR = np.random.default_rng(5)
RANGES = {
    "all doubles": np.exp2(GENERATOR.uniform(-1022, 1023, 2000)),
    "costs": GENERATOR.uniform(1, 1e5, 2000).round(2),
    "near 1": 1 + GENERATOR.uniform(-1e-3, 1e-3, 2000),
    "next to 1": 1 + np.arange(-50, 50) * 2.0**-52,
    "where the exponent changes": math.sqrt(0.5) * (1 + np.arange(-50, 50) * 2.0**-52),
    "subnormal": np.arange(1, 100) * 5e-324,
}


@pytest.mark.parametrize("name", RANGES)
def test_the_error_is_below_a_unit_in_the_last_place(name: str) -> None:
    values = RANGES[name]
    with localcontext() as context:
        context.prec = 60
        for value, found in zip(values.tolist(), ln(values).tolist(), strict=True):
            exact = Decimal(value).ln()
            assert abs(Decimal(found) - exact) < Decimal(math.ulp(float(exact))), value


def test_what_has_no_logarithm_is_nan() -> None:
    found = ln(np.array([0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 1.0]))
    assert np.isnan(found[:6]).all()
    assert found[6] == 0


def test_the_bits_are_those_of_single_operations_in_python() -> None:
    """Python's floats have no vector instructions and no fused operations: the same bits, one by one."""
    values = np.concatenate(list(RANGES.values()))
    high, low = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")

    def one(value: float) -> float:
        mantissa, exponent = math.frexp(value)
        if mantissa < math.sqrt(0.5):
            mantissa, exponent = 2 * mantissa, exponent - 1
        f = mantissa - 1.0
        s = f / (2.0 + f)
        square, tail = s * s, 1 / 23
        for odd in range(21, 1, -2):
            tail = 1 / odd + square * tail
        return exponent * high + (f - (s * (f - 2.0 * square * tail) - exponent * low))

    assert ln(values).tolist() == [one(value) for value in values.tolist()]


def test_the_bits_are_those_of_before() -> None:
    """A digest of codes that an approval commits to outlives upgrades."""
    values = np.arange(1, 10_001) / 8
    bits = b"".join(struct.pack("<d", found) for found in ln(values).tolist())
    assert hashlib.sha256(bits).hexdigest() == "5e79bf68f67482ad1c00f1029699da00a0989d5474a76996f1e7976a06b1e905"
