"""Counts of cells that were replaced, by column, and when so many were that the column must not be released.

A column of which hardly a cell was read is released as its fill value: charged for good, and of no use to anybody. It is
nearly always a declaration that does not fit the file, such as a decimal comma or another unit. Counts are functions of
private data: they are for the local screen, the local log and one file that only its owner reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dprelease.arrays import Mask
from dprelease.files.durable import write_secret
from party_node.declarations.declarations import Declaration

REMEDY = "mend the file or the column's declaration in party.toml, or take the column out of it"


@dataclass
class Findings:
    """Counts of a column's cells. Local screen only.

    Attributes:
        missing: empty cells, replaced by the fill value.
        unreadable: cells that are no number, or not finite, replaced by the fill value.
        outside: numbers beyond the bounds, clipped; or values that are no declared level, coded as ``other`` or as the fill value.
    """

    missing: int = 0
    unreadable: int = 0
    outside: int = 0

    def count(self, missing: Mask, unreadable: Mask, outside: Mask) -> None:
        """Add a batch's cells."""
        self.missing += int(missing.sum())
        self.unreadable += int(unreadable.sum())
        self.outside += int(outside.sum())

    def add(self, others: Findings) -> None:
        """Add the counts of other rows."""
        self.missing += others.missing
        self.unreadable += others.unreadable
        self.outside += others.outside

    @property
    def replaced(self) -> int:
        """Cells that stand for another value."""
        return self.missing + self.unreadable + self.outside

    def words(self) -> str:
        """The counts in words."""
        return f"{self.missing:,} missing, {self.unreadable:,} unreadable, {self.outside:,} outside bounds or levels"

    def told(self, declared: Declaration) -> Findings:
        """The counts of a column without what is in order: values beside the only level of a category are its second value."""
        return replace(self, outside=0) if len(declared.column.vocabulary) == 1 else self

    def implausible(self, declared: Declaration, rows: int) -> bool:
        """Tells whether more than half of a column's so many cells were replaced, unless party.toml says so, or all of them.

        The second value of a category of one level does not count, unless there is no other.
        """
        return self.replaced >= rows or (not declared.mostly_replaced and self.told(declared).replaced > rows / 2)


def problems(findings: Mapping[str, Findings], implausible: frozenset[str]) -> tuple[str, ...]:
    """A sentence for each column that must not be released, with its counts."""
    return tuple(f"column {name}: {findings[name].words()}; {REMEDY}" for name in findings if name in implausible)


def write_findings(path: Path, findings: Mapping[str, Findings], implausible: frozenset[str]) -> None:
    """Keep the counts of the table as last read, for its owner's eyes."""
    kept = {name: asdict(found) | {"implausible": name in implausible} for name, found in findings.items()}
    write_secret(path, [json.dumps(kept).encode()])


def read_findings(path: Path) -> tuple[dict[str, Findings], frozenset[str]]:
    """The counts as last kept, and the columns that must not be released; nothing if none were kept."""
    kept = json.loads(path.read_bytes()) if path.exists() else {}
    implausible = frozenset(name for name, found in kept.items() if found.pop("implausible"))
    return {name: Findings(**found) for name, found in kept.items()}, implausible
