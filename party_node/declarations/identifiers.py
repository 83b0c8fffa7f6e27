"""Normal form of identifiers: the text that stands for a patient, however an export writes it.

Hospitals that write the same identifier in different ways have other pseudonyms of the same patient. The rules are public, in
party.toml and in the catalogue, and have to be the same at all hospitals of a release. Source: docs/party.md, "Identifiers".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator

from dprelease.canonical import canonical_bytes
from dprelease.errors import DataRefused
from dprelease.files.settings import Settings

_WHOLE = re.compile(r"[0-9]+(\.(0{0,2}|0{4,}))?", re.ASCII)
"""A whole number; ``1.000`` is none, for it may be a thousand."""

DISTINCT = 1 << 53
"""Smaller whole numbers are told apart by a double."""

LOST = "whose last digits may be another patient's; export identifiers as text or whole numbers"


def _luhn(text: str) -> bool:
    """True if the last digit is Luhn's: with every second one from the right doubled, digits add up to 10 k (ISO 7812-1)."""
    if not re.fullmatch("[0-9]{2,}", text):
        return False
    digits = [int(digit) for digit in reversed(text)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


def _mod11(text: str) -> bool:
    """True if digits times 1, 2, 3, ... from the right are a multiple of 11, as in NHS numbers and ISBN-10 (last X: 10)."""
    if not re.fullmatch("[0-9]+[0-9Xx]", text):
        return False
    values = [10 if digit in "Xx" else int(digit) for digit in reversed(text)]
    return sum(weight * value for weight, value in enumerate(values, 1)) % 11 == 0


_CHECK_DIGITS = {"luhn": _luhn, "mod11": _mod11}


class IdentifierSettings(Settings):
    """How an identifier is brought to its normal form, in this order, after white space at its ends is taken away.

    Attributes:
        remove: characters that are left out wherever they stand, such as those of ``"943 476-5919"``.
        whole_numbers: identifiers are whole numbers; ``1.0`` and ``001`` are ``1``.
        strip_leading_zeros: zeros in front are left out, also before letters.
        case: letters are made large or small.
        pattern: regular expression, of ASCII classes, that the whole identifier then has to match.
        check_digit: that its last digit then has to be.
    """

    remove: Annotated[str, Field(max_length=50)] = ""
    whole_numbers: bool = False
    strip_leading_zeros: bool = False
    case: Literal["upper", "lower"] | None = None
    pattern: Annotated[str, Field(max_length=300)] | None = None
    check_digit: Literal["luhn", "mod11"] | None = None

    @field_validator("pattern")
    @classmethod
    def _pattern_is_a_regular_expression(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "", re.ASCII)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return pattern

    @cached_property
    def canonical(self) -> str:
        """The rules as text, the same at two hospitals exactly where the rules are; empty where only ends are trimmed."""
        rules = self.model_dump(mode="json", exclude_defaults=True)
        if "remove" in rules:
            rules["remove"] = "".join(sorted(set(self.remove)))
        return canonical_bytes(rules).decode() if rules else ""

    def normal(self, texts: Iterable[str | None], name: str) -> list[str | None]:
        """Identifiers in their normal form; None where there is none, or nothing is left of it.

        Raises:
            DataRefused: some are no whole numbers, do not match the pattern or have a wrong check digit. Counts only.
        """
        if not self.canonical:
            return list(texts)
        found = [text and text.translate(self._removed).strip() for text in texts]
        if self.whole_numbers:
            what = 'are no whole numbers, as whole_numbers = true says ("1", "001" or "1.0")'
            _refuse_others(found, _is_like(_WHOLE), name, what)
            what = f"are written as floats of {DISTINCT} or more, {LOST}"
            _refuse_others(found, lambda text: "." not in text or int(text.partition(".")[0]) < DISTINCT, name, what)
            found = [text and (text.partition(".")[0].lstrip("0") or "0") for text in found]
        if self.strip_leading_zeros:
            found = [text and (text.lstrip("0") or "0") for text in found]
        if self.case is not None:
            found = [text and (text.upper() if self.case == "upper" else text.lower()) for text in found]
        if self.pattern is not None:
            pattern = re.compile(self.pattern, re.ASCII)
            _refuse_others(found, _is_like(pattern), name, f"do not match pattern = {self.pattern!r}")
        if self.check_digit is not None:
            what = f'do not end in the check digit of check_digit = "{self.check_digit}"'
            _refuse_others(found, _CHECK_DIGITS[self.check_digit], name, what)
        return found

    @cached_property
    def _removed(self) -> dict[int, None]:
        return dict.fromkeys(map(ord, self.remove))


def _is_like(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _refuse_others(texts: Iterable[str | None], allowed: Callable[[str], bool], name: str, what: str) -> None:
    wrong = sum(1 for text in texts if text and not allowed(text))
    if wrong:
        raise DataRefused(
            f"{wrong} identifiers in {name} {what}; mend them in the source, or [source.identifiers] at all hospitals"
        )
