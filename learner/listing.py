"""A list of published releases, unsigned: for people to choose from. Each release's signed manifest is what counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter

from dprelease.about import About
from dprelease.canonical import Digest, Value, readable
from dprelease.description.spending import SHOWN_DIGITS
from dprelease.document.cells import Said
from dprelease.document.document import Document, Heading, Table
from dprelease.errors import InvalidInput
from dprelease.release.manifest import Manifest
from dprelease.release.stream import Checkpoint, checkpoint_of
from dprelease.spec_base import Instant

INDEX = "index.json"
"""Name of the list in a folder of published releases."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""How many there are of something."""


@dataclass(frozen=True)
class Listed:
    """A line of a list.

    Attributes:
        digest: of the spec, hexadecimal.
        title: what the release is about.
        published: when.
        rows: patients; at a checkpoint of a stream everybody so far.
        columns: declared columns.
        size: bytes of all blocks.
        checkpoint: which of a stream's checkpoints it is; None, and left out of files, for a release that stands alone.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    digest: Digest
    title: Annotated[str, Field(max_length=200)]
    published: Instant
    rows: Count
    columns: Count
    size: Count
    checkpoint: Annotated[Checkpoint | None, Field(exclude_if=lambda found: found is None)] = None

    @classmethod
    def of(cls, digest: str, manifest: Manifest) -> Self:
        """The line of a release."""
        spec, size = manifest.spec, sum(entry.sealed.size for entry in manifest.blocks)
        return cls(digest, spec.title, manifest.published, spec.patients, len(spec.columns), size, checkpoint_of(spec))

    @property
    def token(self) -> str:
        """Place in the list: later publications have greater tokens."""
        return f"{self.published}/{self.digest}"


def together(lines: Iterable[Listed]) -> list[list[Listed]]:
    """The lines of each stream, where its first line stands; a release that stands alone is by itself."""
    found: dict[str, list[Listed]] = {}
    for line in lines:
        found.setdefault(line.checkpoint.stream if line.checkpoint else line.digest, []).append(line)
    return list(found.values())


def listing(lines: Sequence[Listed], told: Mapping[str, About | None] | None = None) -> Document:
    """A list for people and programs; checkpoints of a stream stand together, where its newest one stands.

    With `told`, digest to what its signed manifest says of itself, each line has that too.
    """
    more = {} if told is None else {"licence": "licence", "creators": "cited", "description": "description"}
    groups = together(lines)
    streams = any(group[0].checkpoint for group in groups)
    rows = [
        (
            Said(line.digest, line.digest[:SHOWN_DIGITS]),
            line.title,
            Said(line.checkpoint, str(line.checkpoint or "")),
            line.published,
            line.rows,
            line.columns,
            Said(line.size, f"{max(line.size / 2**10, 0.1):,.1f}"),
            *(getattr(told[line.digest], name, "") for name in more.values() if told),
        )
        for line in chain.from_iterable(groups)
    ]
    headings = (
        Heading("digest", "ID"),
        "title",
        Heading("checkpoint", detail=not streams),
        "published",
        Heading("rows", "patients"),
        "columns",
        Heading("size", "KiB"),
        *more,
    )
    return Document("", tables=(Table.of("releases", headings, rows),))


class Index(Value):
    """A list as a file."""

    most_bytes: ClassVar[None] = None

    format: Literal[1] = 1
    releases: tuple[Listed, ...] = ()


LONGEST_LINE_BYTES = 8192
"""Most bytes of a line; a title of 200 letters outside of the usual alphabets has 2,400."""

_BEGINNING, _END = Index().to_bytes()[:-2], b"]}"
_LINE = TypeAdapter(Listed)
_DECODER = json.JSONDecoder()


def lines_of(index: bytes) -> Iterator[Listed]:
    """The lines of a list as a file, newest first: each is read when it is asked for, so that the first of very many come at once.

    Raises:
        InvalidInput: the file is no list, or none from here on.
    """
    if not index.startswith(_BEGINNING):
        raise InvalidInput("the file does not begin as a list of releases does")
    place = len(_BEGINNING)
    more = not index.startswith(_END, place)
    while more:
        with readable("a line of the list"):
            found, size = _DECODER.raw_decode(index[place : place + LONGEST_LINE_BYTES].decode("ascii"))
            line = _LINE.validate_python(found)
        yield line
        place += size
        more = index.startswith(b",", place)
        place += more
    if index[place:] != _END:
        raise InvalidInput("the file does not end as a list of releases does")
