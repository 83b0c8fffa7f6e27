"""Categories made of codes: by their first characters, or by a map that says of each which level it is."""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from dprelease.arrays import Floats
from dprelease.canonical import canonical_bytes
from dprelease.data.columns import OTHER, Name
from dprelease.files.settings import LocalPath
from party_node.declarations.codes import LONGEST, CodeColumn, Prefix, code_number, longest_start, normal
from party_node.declarations.formula import CategoryFormula, Source

_MOST_LINES = 200_000


class Category(CategoryFormula):
    """Category of codes: by their first characters, or by a map, whose longest entry that a code begins with counts.

    Attributes:
        category: the column of codes.
        prefix: how many first characters are a level.
        named: the levels, with `prefix`.
        map: a CSV file of a code, or its first characters, and its level in each line, under the header ``code,level``.
    """

    key = "category"
    exhaustive = False

    category: Name
    prefix: Annotated[int | None, Field(ge=1, le=LONGEST)] = None
    named: Annotated[tuple[Prefix, ...], Field(alias="levels", max_length=1000)] = ()
    map: LocalPath | None = None

    @property
    def text(self) -> str:
        if self.map is None:
            return f"first {self.prefix} of {self.category}"
        return f"{self.category} by map {hashlib.sha256(canonical_bytes([*map(list, self.entries)])).hexdigest()}"

    @property
    def levels(self) -> tuple[str, ...]:
        return self.named if self.map is None else tuple(dict.fromkeys(level for _, level in self.entries))

    @cached_property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """First characters and level of each line of the map, or of each level."""
        return tuple((level, level) for level in self.named) if self.map is None else _read_map(self.map)

    def check(self, sources: Sequence[Source]) -> None:
        if not isinstance(sources[0], CodeColumn):
            raise ValueError(f'category: {self.category} is no column of codes; one is declared with kind = "code"')  # noqa: TRY004 - what pydantic reports
        if (self.prefix is None) == (self.map is None):
            raise ValueError("category: takes either prefix and levels, or map")
        if self.map is not None and self.named:
            raise ValueError("levels: are those of the map; leave them out")
        if self.prefix is not None:
            if not self.named:
                raise ValueError("levels: name the first characters that are levels; all others are 'other'")
            for level in self.named:
                if len(normal(level)) != self.prefix:
                    raise ValueError(
                        f"levels: {level!r} has {len(normal(level))} characters, and prefix is {self.prefix}"
                    )
        ((code, count),) = Counter(normal(code) for code, _ in self.entries).most_common(1)
        if count > 1:
            raise ValueError(f"{'levels' if self.map is None else 'map'}: {code} is there twice")

    def values(self, *sources: Floats) -> Floats:
        places = {level: float(place) for place, level in enumerate((*self.levels, OTHER))}
        of_entry = np.array([*(places[level] for _, level in self.entries), places[OTHER]])  # -1 is the last
        found = of_entry[longest_start(sources[0], [code for code, _ in self.entries]).astype(np.intp)]
        return np.where(np.isnan(sources[0]), np.nan, found)


def _read_map(path: Path) -> tuple[tuple[str, str], ...]:
    """Code and level of each line.

    Raises:
        ValueError: it cannot be read, or is not what it should be.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [[cell.strip() for cell in line] for line in islice(csv.reader(file), _MOST_LINES + 2) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"map: cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not lines or lines[0] != ["code", "level"]:
        raise ValueError(f"map: the first line of {path} is code,level")
    if not 1 < len(lines) <= _MOST_LINES + 1:
        raise ValueError(f"map: {path} has 1 to {_MOST_LINES:,} codes below its header")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != 2 or math.isnan(code_number(line[0])) or not line[1]:
            raise ValueError(
                f"map: line {number} of {path} has no code of 1 to {LONGEST} letters and digits, and a level"
            )
    return tuple((code, level) for code, level in lines[1:])
