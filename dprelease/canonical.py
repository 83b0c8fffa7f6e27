"""Canonical bytes: one value, one byte string, one digest.

JSON with sorted keys, no white space, ASCII only, floats as the shortest decimal that reads back to the same IEEE double
(Python's `repr`), rationals as ``"p/q"`` strings. docs/format.md writes the rules down for other languages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic.config import ExtraValues
from pydantic_core import CoreSchema, ErrorDetails, from_json

from dprelease.errors import InvalidInput
from dprelease.one_line import quoted


def canonical_bytes(value: Any) -> bytes:
    """The canonical JSON bytes of a value made of dicts, lists, strings, numbers and booleans.

    Raises:
        InvalidInput: a float is not finite.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    except ValueError as error:
        raise InvalidInput(f"a value has no canonical form: {error}") from error


def sha256(data: bytes) -> str:
    """SHA-256 of bytes, as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class HashedPieces:
    """Pieces of bytes that are hashed as they pass by, for whoever writes them.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._digest, self.size = pieces, hashlib.sha256(), 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._digest.update(piece)
            self.size += len(piece)
            yield piece

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, as `sha256` has it."""
        return self._digest.hexdigest()


_RATIONAL = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?", re.ASCII)


def _rational_text(text: str) -> str:
    # The pattern comes first: an exponent such as 1e999999999 would take hours to compute.
    try:
        value = Fraction(text) if _RATIONAL.fullmatch(text) else None
    except ZeroDivisionError:
        value = None
    if value is None:
        raise ValueError(f"{quoted(text)!r} is not a rational number such as '1/10'")
    if str(value) != text:
        raise ValueError(f"{quoted(text)!r} is not in lowest terms; write {quoted(str(value))!r}")
    return text


_INSTANT = "%Y-%m-%dT%H:%M:%SZ"


def _on_a_clock(text: str) -> str:
    if instant(moment(text)) != text:
        raise ValueError("a time is written as 2026-01-31T12:00:00Z")
    return text


Instant = Annotated[str, AfterValidator(_on_a_clock)]
"""A time in UTC, to the second: ``2026-01-31T12:00:00Z``."""


def instant(moment: datetime) -> str:
    """A time as an `Instant`."""
    return moment.astimezone(UTC).strftime(_INSTANT)


@lru_cache(maxsize=4096)
def moment(text: str) -> datetime:
    """An `Instant` as a time in UTC."""
    return datetime.strptime(text, _INSTANT).replace(tzinfo=UTC)


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hexadecimal digits: a SHA-256, or a 32-byte seed."""

NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"
A_NAME = "a name of at most 64 letters, digits, _ . and -, with a letter or _ in front"
"""The pattern in words."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""A party, column or consortium name: a letter or ``_``, then up to 63 letters, digits, ``_ . -``."""


def check_name(text: str, what: str) -> None:
    """Refuse what is no `Name`.

    Args:
        text: as a person typed it.
        what: it would name.

    Raises:
        InvalidInput: it is none.
    """
    if not re.fullmatch(NAME_PATTERN, text):
        raise InvalidInput(f"{quoted(text)!r} cannot name {what}; take {A_NAME}")


Rational = Annotated[str, AfterValidator(_rational_text)]
"""A rational number as text in lowest terms, e.g. ``"1/10"`` or ``"3"``."""

Rows = Annotated[int, Field(ge=1, le=2**53)]
"""A number of rows or patients: any larger one is no double, and too long to print."""

RowsPerSubject = Annotated[int, Field(ge=1, le=1_000_000)]
"""q, most rows that one patient may have: a reading every minute for two years."""

ShortText = Annotated[str, Field(max_length=200)]
"""A unit or a level, which screens and pages show."""


Model = TypeVar("Model", bound=BaseModel)

MOST_ISSUES = 20
"""Offending fields that one error names."""

MOST_EXPLAINED = 1000
"""Offending fields of which some are named; each costs a kilobyte before the first one can be told, so more are counted only."""

FEW_BRACKETS = 64
"""That nobody counts."""

LEAST_BYTES_A_BRACKET = 12
"""Bytes for each object or list of a long value, at least. Columns, parties and signatures have 60 and more; "{}," has 3, which
become 72 in memory."""

_SEQUENCE = {"fail_fast": True, "strict": False}
_READ_AS = {
    "list": _SEQUENCE,
    "tuple": _SEQUENCE,
    "set": _SEQUENCE,
    "frozenset": _SEQUENCE,
    "dict": {"fail_fast": True},
}
"""How parts of a pydantic schema read plain data: a list serves as any sequence, and the first bad item ends the reading."""


def _read_for_strangers(schema: Any) -> None:
    if isinstance(schema, dict):
        schema |= _READ_AS.get(schema.get("type", ""), {})
        for part in schema.values():
            _read_for_strangers(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _read_for_strangers(part)


_unknown_fields: ContextVar[ExtraValues | None] = ContextVar("unknown fields", default=None)


class Value(BaseModel):
    """A frozen value that has canonical bytes. Unknown fields are errors; of a collection the first bad item is one, and all.

    Attributes:
        most_bytes: most that canonical bytes may have; None for files that nobody else writes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
    most_bytes: ClassVar[int | None] = 64 << 10

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """How values are read. A stranger's list of a million wrong items would else become gigabytes of complaints."""
        schema = handler(source)
        _read_for_strangers(schema)
        return schema

    def to_bytes(self) -> bytes:
        """Canonical bytes of this value."""
        return canonical_bytes(self.model_dump(mode="json"))

    def digest(self) -> str:
        """SHA-256 of the canonical bytes, in hexadecimal."""
        return sha256(self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a value from its canonical bytes, in memory of some 15 times their length at most.

        Raises:
            InvalidInput: the bytes are too many, not a valid value, or not in canonical form (so two digests could name one
                value). The first thing that does not belong there is named.
        """
        cls.check_length(data)
        with readable(f"not a valid {cls.__name__}"):
            # Plain data first: pydantic would copy all that it reads for each of its complaints. Unknown fields are left out,
            # because each would be a complaint; the canonical form below has none of them.
            found, before = from_json(data), _unknown_fields.set("ignore")
            try:
                value = read_part(cls, found)
            finally:
                _unknown_fields.reset(before)
        kept = value.model_dump(mode="json")
        if canonical_bytes(kept) != data:
            for place in _strays(found, kept):
                raise InvalidInput(f"not a valid {cls.__name__}: {quoted(place)} does not belong there")
            raise InvalidInput(f"the bytes of this {cls.__name__} are not in canonical form")
        return value

    @classmethod
    def check_length(cls, data: bytes) -> None:
        """Refuse bytes that are too many to be read, or that would become too many objects.

        Raises:
            InvalidInput: with both numbers.
        """
        if cls.most_bytes is None:
            return
        if len(data) > cls.most_bytes:
            raise InvalidInput(f"a {cls.__name__} of {len(data):,} bytes; at most {cls.most_bytes:,} are read")
        brackets, most = data.count(b"{") + data.count(b"["), max(FEW_BRACKETS, len(data) // LEAST_BYTES_A_BRACKET)
        if brackets > most:
            raise InvalidInput(f"not a valid {cls.__name__}: it has {brackets:,} brackets; at most {most:,} are read")


def _strays(found: Any, kept: Any, above: str = "") -> Iterator[str]:
    """Places of fields that were found and not kept."""
    if isinstance(found, dict) and isinstance(kept, dict):
        for name, part in found.items():
            if name in kept:
                yield from _strays(part, kept[name], f"{above}{name}.")
            else:
                yield f"{above}{name}"
    elif isinstance(found, list) and isinstance(kept, list):
        for place, (part, same) in enumerate(zip(found, kept, strict=False)):
            yield from _strays(part, same, f"{above}{place}.")


def read_part(model: type[Model], data: Any, context: Any = None) -> Model:
    """A part of a value, for validators that choose its model: unknown fields are errors or left out, as in the whole.

    Raises:
        ValidationError: the data do not describe the model.
    """
    return model.model_validate(data, extra=_unknown_fields.get(), context=context)


def read_data(model: type[Model], data: Any, what: str) -> Model:
    """A model from plain data such as parsed TOML: lists serve as tuples, otherwise nothing is converted.

    Args:
        model: the pydantic model to make.
        data: dicts, lists, strings, numbers, booleans.
        what: names the source in the error, e.g. a file's path.

    Raises:
        InvalidInput: the data do not describe the model; every offending field is named.
    """
    with readable(what):
        return model.model_validate_json(json.dumps(data, default=str))


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Whatever parsing and checking somebody's data may raise, as one error of ours.

    Args:
        what: names the source in the error, e.g. a file's path.

    Raises:
        InvalidInput: the data are not what they should be; every offending field is named.
    """
    try:
        yield
    except ValidationError as error:
        raise InvalidInput(f"{what}: {explain(error)}") from error
    except OverflowError as error:
        raise InvalidInput(f"{what}: a number is too large to compute with") from error
    except RecursionError as error:
        raise InvalidInput(f"{what}: brackets are nested too deeply") from error
    except ValueError as error:
        endless = "int_max_str_digits" in str(error)
        words = "a number has too many digits" if endless else quoted(str(error))
        raise InvalidInput(f"{what}: {words}") from error


def explain(error: ValidationError) -> str:
    """One line that names each offending field and what is wrong with it; of very many, the first ones.

    A mistake of several fields together is said without a name.
    """
    if error.error_count() > MOST_EXPLAINED:
        return f"{error.error_count()} things are wrong with it"
    issues = error.errors(include_url=False, include_context=False, include_input=False)
    named = [
        ": ".join(filter(None, (quoted(".".join(map(str, issue["loc"]))), quoted(_words(issue)))))
        for issue in issues[:MOST_ISSUES]
    ]
    more = [f"and {len(issues) - MOST_ISSUES} more"] if len(issues) > MOST_ISSUES else []
    return "; ".join(named + more)


def _words(issue: ErrorDetails) -> str:
    return issue["msg"].removeprefix("Value error, ") if issue["type"] == "value_error" else issue["msg"]
