"""Settings files of the roles: TOML, strict, paths relative to the file they stand in."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidationInfo

from dprelease.canonical import readable
from dprelease.errors import InvalidInput
from dprelease.files.mistakes import mistakes, syntax


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
    try:
        with readable(f"{path} is not valid TOML"):
            data = _parsed(path)
            json.dumps(data, default=str)  # refuses integers so long that pydantic could not name them
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
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
