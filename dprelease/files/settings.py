"""Settings files of the roles: TOML, strict, paths relative to the file they stand in."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo

from dprelease.canonical import readable
from dprelease.errors import InvalidInput


class Settings(BaseModel):
    """A frozen group of settings. Unknown keys are errors; numbers carry their unit in the name."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    base: Path | None = (info.context or {}).get("base")
    return path.expanduser() if base is None else base / path.expanduser()


LocalPath = Annotated[Path, AfterValidator(_beside_the_file)]
"""A path; a relative one starts at the folder of the settings file."""

Model = TypeVar("Model", bound=BaseModel)


def read_settings(path: Path, model: type[Model]) -> Model:
    """Read a settings file.

    Args:
        path: TOML file.
        model: the settings it must describe.

    Raises:
        InvalidInput: the file cannot be read, is not TOML, or a key is unknown, missing or wrong; each one is named.
    """
    try:
        with readable(f"{path} is not valid TOML"):
            data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
            json.dumps(data, default=str)  # refuses integers so long that pydantic could not name them
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    with readable(str(path)):
        return model.model_validate(data, context={"base": path.resolve().parent})
