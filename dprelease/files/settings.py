"""Settings files of the roles: TOML, strict, paths relative to the file they stand in; and their mistakes in words."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from dprelease.canonical import A_NAME, MOST_EXPLAINED, NAME_PATTERN, readable
from dprelease.errors import InvalidInput
from dprelease.files.durable import can
from dprelease.one_line import listed, one_line

_LONGEST_VALUE = 60
_EXPECTED = {
    "string_type": "text in quotation marks",
    "path_type": "a path in quotation marks",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list in square brackets",
    "tuple_type": "a list in square brackets",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text at least {min_length} long",
    "string_too_long": "text at most {max_length} long",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} or fewer",
}
"""Expected value, by pydantic's name for the mistake."""

_KEY = re.compile(r"""\s*([\w."'-]+)\s*=.*""")
_BLANK = re.compile(r"""\s*([\w."'-]+)\s*=\s*(#.*)?""")
_HEADER = re.compile(r"\s*\[+([^\]]+)\]+\s*(#.*)?")

RENAMED: Mapping[str, str] = MappingProxyType({"curious": "collusion_threshold"})
"""Former name of a key to its present one."""

KeyPath = tuple[str | int, ...]


class Mistakes(ValueError):
    """Several mistakes that a validator found at once.

    Attributes:
        each: a sentence for each, which begins with its key.
    """

    def __init__(self, each: Sequence[str]) -> None:
        super().__init__("; ".join(each))
        self.each = tuple(each)


def mistakes(error: ValidationError, model: type[BaseModel], data: object, also: Iterable[str] = ()) -> tuple[str, ...]:
    """A sentence for each key that is wrong, in the order of the model.

    Args:
        error: what pydantic says.
        model: the settings that the data should have been.
        data: as they stand in the file.
        also: keys of the outermost table that the model does not know.
    """
    if error.error_count() > MOST_EXPLAINED:
        return (f"{error.error_count()} things are wrong with it",)
    found: dict[KeyPath, list[str]] = {}
    wanted: dict[KeyPath, list[str]] = {}
    shown: dict[KeyPath, str] = {}
    for issue in error.errors(include_url=False):
        path, value = _place(issue, data)
        cause = issue.get("ctx", {}).get("error")
        if isinstance(cause, Mistakes):
            found.setdefault((), []).extend(cause.each)
        elif (should := _expected(issue, _description(model, path))) is not None:
            found.setdefault(path, [])
            wanted.setdefault(path, []).append(should)  # of a union every member says what it wants
            shown[path] = _shown(value)
        else:
            found.setdefault(path, []).append(_said(issue, model, path, also))
    said = []
    for path, words in found.items():
        if path in wanted and any(len(other) > len(path) and other[: len(path)] == path for other in wanted):
            continue  # one member of a union wants something else; another one says which part of it is wrong
        if path in wanted:
            words.insert(0, _mismatch(wanted[path], shown[path]))
        said += [": ".join(filter(None, (_key(path), each))) for each in words]
    return tuple(said)


def syntax(text: str, error: tomllib.TOMLDecodeError) -> str:
    """Reasons why a text is no TOML: values that were left blank, keys that stand twice, or the line that cannot be read."""
    lines, table = text.splitlines(), ""
    first: dict[tuple[str, str], int] = {}
    blank, twice = [], []
    for number, line in enumerate(lines, 1):
        if header := _HEADER.fullmatch(line):
            table = f" of [{header[1].strip()}]"
        elif key := _KEY.fullmatch(line):
            before = first.setdefault((table, key[1]), number)
            if _BLANK.fullmatch(line):
                blank.append(f"line {number}: {key[1]}{table} is left blank; fill it in")
            if before < number:
                twice.append(f"line {number}: {key[1]}{table} stands in line {before} already")
    if blank or (twice and "overwrite" in str(error)):
        return "; ".join(map(one_line, blank or twice))
    place = re.search(r"at line (\d+)", str(error))
    line = f": {lines[int(place[1]) - 1].strip()[:_LONGEST_VALUE]}" if place else ""
    return one_line(f"{error}{line}")


def _place(issue: ErrorDetails, data: Any) -> tuple[KeyPath, object]:
    """Keys down to the value that is wrong, and that value. Pydantic puts members of unions among them, which no file has."""
    path: list[str | int] = []
    for part in issue["loc"]:
        if part in (data if isinstance(data, dict) else range(len(data)) if isinstance(data, list | tuple) else ()):
            data = data[part]
        elif issue["type"] != "missing" or part != issue["loc"][-1]:
            continue
        path.append(part)
    return tuple(path), data


def _key(path: KeyPath) -> str:
    words = ".".join(str(part) for part in path if isinstance(part, str))
    if path[:1] == ("columns",) and len(path) > 1:
        words = ": ".join(filter(None, (f"column {path[1]}", words.split(f"{path[1]}", 1)[1].strip("."))))
    entries = [f"entry {part + 1}" for part in path if isinstance(part, int)]
    return one_line(" ".join([words, *entries]))


def _expected(issue: ErrorDetails, description: str | None) -> str | None:
    """Text that had to be there instead; None if something else is wrong."""
    kind, context = issue["type"], issue.get("ctx", {})
    if kind == "string_pattern_mismatch":
        of_names = context["pattern"] == NAME_PATTERN
        return A_NAME if of_names else description or f"text like {context['pattern']}"
    return _EXPECTED[kind].format(**context) if kind in _EXPECTED else None


def _mismatch(wanted: Sequence[str], shown: str) -> str:
    should = " or ".join(dict.fromkeys(wanted))
    return f"is left blank; it must be {should}" if shown in {"''", "[]"} else f"must be {should}, not {shown}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    return one_line(repr(value), _LONGEST_VALUE) if isinstance(value, str | int | float | list) else f"{value}"


def _said(issue: ErrorDetails, model: type[BaseModel], path: KeyPath, also: Iterable[str]) -> str:
    if issue["type"] == "missing":
        within = _model_at(model, path)
        return f"the table [{'.'.join(map(str, path))}] is missing" if within is not None else "is missing"
    if issue["type"] == "extra_forbidden":
        return _no_such_key(model, path, also)
    return one_line(issue["msg"].removeprefix("Value error, "))


def _no_such_key(model: type[BaseModel], path: KeyPath, also: Iterable[str]) -> str:
    key, table = str(path[-1]), _model_at(model, path[:-1])
    known = [*(_keys(table) if table is not None else ()), *(also if len(path) == 1 else ())]
    elsewhere = [f"under [{place}]" if place else "at the top of the file" for place in _places(model, key)]
    if elsewhere:
        return f"there is no such key here; it stands {' or '.join(dict.fromkeys(elsewhere))}"
    if RENAMED.get(key) in known:
        return f"it is called {RENAMED[key]} now"
    near = get_close_matches(key, known, 1)
    return f"there is no such key; {f'did you mean {near[0]}?' if near else f'there are {listed(known)}'}"


def _places(model: type[BaseModel], key: str, above: str = "") -> Iterator[str]:
    """The tables that have a key."""
    for name, field in model.model_fields.items():
        if (field.alias or name) == key:
            yield above
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _places(inner, key, f"{above}.{name}".lstrip("."))


def _description(model: type[BaseModel], path: KeyPath) -> str | None:
    table = _model_at(model, path[:-1]) if path else None
    field = table.model_fields.get(str(path[-1])) if table is not None else None
    return field.description if field is not None else None


def _keys(model: type[BaseModel]) -> Iterator[str]:
    return (field.alias or name for name, field in model.model_fields.items())


def _model_at(model: type[BaseModel] | None, path: KeyPath) -> type[BaseModel] | None:
    """The model of the table at a place."""
    for part in path:
        field = model.model_fields.get(str(part)) if model is not None else None
        model = _model_in(field.annotation) if field is not None else None
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each)) is not None), None)


class Settings(BaseModel):
    """A frozen group of settings. Unknown keys are errors; numbers carry their unit in the name."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    base: Path | None = (info.context or {}).get("base")
    return path.expanduser() if base is None else base / path.expanduser()


LocalPath = Annotated[Path, AfterValidator(_beside_the_file)]
"""A path; a relative one starts at the folder of the settings file."""

MOST_NAMED = 100
"""Mistakes of a file that one error names."""

Model = TypeVar("Model", bound=BaseModel)


def read_settings(path: Path, model: type[Model]) -> Model:
    """Read a settings file.

    Raises:
        InvalidInput: the file cannot be read, is not TOML, or a key is unknown, missing or wrong; each one is named.
    """
    with can("read", path), readable(f"{path} is not valid TOML"):
        data = _parsed(path)
        json.dumps(data, default=str)  # refuses integers so long that pydantic could not name them
    with readable(str(path)):
        try:
            return model.model_validate(data, context={"base": path.resolve().parent})
        except ValidationError as error:
            found = mistakes(error, model, data)
            more = (f"and {len(found) - MOST_NAMED} more",) if len(found) > MOST_NAMED else ()
            raise InvalidInput(str(path), found[:MOST_NAMED] + more) from error


def _parsed(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not valid TOML: {syntax(text, error)}") from error
