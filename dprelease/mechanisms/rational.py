"""Exact rationals from what a person wrote in a request: ``"1/10"``, ``0.1`` or ``3``."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import InvalidInput


def read_weight(name: str, value: float | str) -> Fraction:
    """A number in [0, 1).

    Args:
        name: of the field, for the error.
        value: as it was asked for.

    Raises:
        InvalidInput: it is not such a number.
    """
    weight = read_rational(name, value)
    if not 0 <= weight < 1:
        raise InvalidInput(f"{name} must lie at or above 0 and below 1, not {value}")
    return weight


def read_positive(name: str, value: float | str) -> Fraction:
    """A positive number.

    Args:
        name: of the field, for the error.
        value: as it was asked for.

    Raises:
        InvalidInput: it is not a positive number.
    """
    number = read_rational(name, value)
    if number <= 0:
        raise InvalidInput(f"{name} must be positive, not {value}")
    return number


def read_rational(name: str, value: float | str) -> Fraction:
    """Any rational number; arguments as of `read_positive`.

    Raises:
        InvalidInput: it is no number.
    """
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError) as error:
        raise InvalidInput(f"{name} = {value!r} is not a number such as '1/10' or 0.1") from error
