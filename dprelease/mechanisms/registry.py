"""The table of mechanisms: a name in, what stands behind the contract out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError

from dprelease.canonical import explain
from dprelease.errors import InvalidInput
from dprelease.files.settings import Mistakes, Settings, mistakes
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.moments.mechanism import MOMENTS
from dprelease.mechanisms.noisy_rows.mechanism import MIXED, ROWS
from dprelease.mechanisms.ranges.mechanism import RANGES
from dprelease.mechanisms.stream.mechanism import Stream
from dprelease.mechanisms.synthetic_control.mechanism import SYNTHETIC_CONTROL
from dprelease.mechanisms.then import Then
from dprelease.one_line import quoted
from dprelease.spec_base import SpecBase, Terms

_EVERY: tuple[Mechanism[Any], ...] = (
    Then(RANGES, MIXED),
    Then(RANGES, ROWS),
    RANGES,
    SYNTHETIC_CONTROL,
    Then(RANGES, MOMENTS),
    Stream(MIXED, MOMENTS),
)

_TABLE = {each.name: each for each in _EVERY}


def names() -> tuple[str, ...]:
    """Every mechanism; those that ask for least trust come first."""
    return tuple(_TABLE)


def names_for_fits() -> tuple[str, ...]:
    """The mechanisms whose releases one fits regressions on, in the same order."""
    return tuple(name for name, each in _TABLE.items() if each.fits)


def mechanism_named(name: str) -> Mechanism[Any]:
    """The mechanism of this name.

    Raises:
        InvalidInput: there is none, with those that there are.
    """
    if name not in _TABLE:
        raise InvalidInput(f"no mechanism is called {quoted(name)!r}; there are {', '.join(_TABLE)}")
    return _TABLE[name]


def mechanism_of(spec: SpecBase) -> Mechanism[Any]:
    """The mechanism of a spec: of one without a first round, that of its only round."""
    found = _TABLE[spec.mechanism]
    if isinstance(found, Then) and found.own(spec).first is None:
        return found.last
    return found


def register(mechanism: Mechanism[Any]) -> None:
    """Add a mechanism to the table, for as long as the process lives.

    Raises:
        InvalidInput: the name is taken.
    """
    if mechanism.name in _TABLE:
        raise InvalidInput(f"a mechanism called {mechanism.name!r} is there already")
    _TABLE[mechanism.name] = mechanism


def read_terms(data: object) -> Terms:
    """A mechanism's terms from plain data that name it.

    Raises:
        ValueError: no mechanism of that name, or the data are not terms of it.
    """
    if isinstance(data, Terms):
        return data
    name = data.get("mechanism") if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in _TABLE:
        raise ValueError(f"terms name a mechanism: one of {', '.join(_TABLE)}")
    try:
        found: Terms = _TABLE[name].read_terms(data)
    except ValidationError as error:
        raise ValueError(explain(error)) from error
    return found


def read_options(name: str, data: dict[str, Any], also: Iterable[str] = ()) -> Settings:
    """A mechanism's own keys of a request.

    Args:
        name: of the mechanism, which is in the table.
        data: keys to values.
        also: keys that a request has besides.

    Raises:
        Mistakes: keys are unknown, of another mechanism, or have wrong values.
    """
    options = _TABLE[name].options
    foreign = {}
    for key in data:
        owners = [
            repr(each.name) for each in _TABLE.values() if key in each.options.model_fields.keys() - each.borrowed
        ]
        if owners and key not in options.model_fields:
            foreign[key] = f"{key} belongs to mechanism {' or '.join(owners)}; mechanism {name!r} has none"
    wrong: tuple[str, ...] = ()
    try:
        found = options.model_validate({key: value for key, value in data.items() if key not in foreign})
    except ValidationError as error:
        wrong = mistakes(error, options, data, also)
    if foreign or wrong:
        raise Mistakes([*foreign.values(), *wrong])
    return found


def _known(name: str) -> str:
    if name not in _TABLE:
        raise ValueError(f"no mechanism is called {quoted(name)!r}; there are {', '.join(_TABLE)}")
    return name


MechanismName = Annotated[str, AfterValidator(_known)]
"""The name of a mechanism in the table."""
