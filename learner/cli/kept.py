"""Saved analyses: what a report or a card tells of, worked out again on the release that was verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError, validate_call

from dprelease.analyses import Analysis
from dprelease.errors import InvalidInput
from dprelease.files.durable import can
from dprelease.release.release import Release
from learner.cli.analyze import ANALYSES

_MADE: Mapping[str, Callable[..., Analysis]] = {made.__name__: made for made, *_ in ANALYSES.values()}

LARGEST = 256 << 20
"""Bytes of a saved analysis; correlations of a thousand columns have half of it."""

analysis_option = click.option(
    "--analysis",
    "analyses",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Analysis of this release, saved by `learner analyze ... --output FILE`, to have beside a fit or alone; may be repeated.",
)


class Saved(BaseModel):
    """Fields that are read of a saved analysis: its release, and the question."""

    release: str = Field(pattern="^[0-9a-f]{64}$")
    analysis: str
    arguments: dict[str, Any]


def kept(path: Path, release: Release) -> Analysis:
    """The analysis that a file asks for. Its numbers are worked out anew, so that an altered file brings none into a page.

    Raises:
        InvalidInput: the file cannot be read, is no saved analysis, or is one of another release; or as the analysis.
    """
    nothing = f"{path} is no analysis; save one: learner analyze ... --output {path}"
    with can("read", path), path.open("rb") as file:
        data = file.read(LARGEST + 1)
    try:
        saved = Saved.model_validate_json(data if len(data) <= LARGEST else b"")
    except ValidationError as error:
        raise InvalidInput(nothing) from error
    if saved.release != release.digest:
        raise InvalidInput(
            f"{path} is an analysis of release {saved.release[:12]}, and this is release {release.digest[:12]}; save the same "
            f"analysis of this one: learner analyze ... --output {path}"
        )
    if saved.analysis not in _MADE:
        raise InvalidInput(nothing)
    again = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(_MADE[saved.analysis])
    try:
        return again(release, **saved.arguments)
    except ValidationError as error:
        raise InvalidInput(nothing) from error
