"""Each column in a verified release of ranges: mean, spread and quantiles, in original units, with errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from dprelease.document.cells import Estimate
from dprelease.document.document import Document, Heading, Table
from dprelease.document.shown import Shown
from dprelease.mechanisms.ranges.released import HIDDEN, SHARES, Summary, boxes
from dprelease.release.release import Release

ERRORS = (
    "Errors are standard deviations of what the privacy noise leaves open; those of quantiles include the width of a counted cell.",
    "In a column with long tails the standard deviation is too small: sums count the tails as less than they are.",
)
BOUNDED = (
    '"at most" and "at least": the quantile may lie outside the declared (or inferred) bounds. '
    '"hidden": it may lie beyond either end.'
)


@dataclass(frozen=True, eq=False, repr=False)
class DescribedRanges(Shown):
    """Columns of a release of ranges."""

    release: Release
    columns: tuple[Summary, ...]

    @property
    def words(self) -> str:
        """Its name, in a few words."""
        return f"ranges of {len(self.columns)} columns"

    def document(self) -> Document:
        """All that the description has to tell."""
        spec = self.release.spec
        table = ranges_table(self.columns, f"{spec.rows:,} {spec.counted}", key="columns")
        names = [each.column.name for each in self.columns]
        facts = {"release": self.release.digest, "patients": spec.rows, **self.release.scores(names)}
        facts |= self.release.meanings(names)
        return Document("Columns", facts, (table,), range_notes(self.columns), self.release.promise)


def describe_ranges(release: Release, names: Sequence[str] = ()) -> DescribedRanges:
    """Describe columns of a release of ranges.

    Args:
        release: verified.
        names: of columns; all that have a range if empty.

    Raises:
        InvalidInput: the release has no ranges, or none of a column.
    """
    ranges = release.ranges()
    return DescribedRanges(release, tuple(ranges.of(name) for name in names or ranges.names))


def ranges_table(columns: Sequence[Summary], title: str, key: str = "ranges") -> Table:
    """Mean, standard deviation and quantiles of columns.

    Programs also get the distribution function, ``below``, the ``range`` and, of a number that was declared without any, the
    bounds that were ``found``.
    """
    shares = tuple(f"{share:.0%}" for share in SHARES)
    details = tuple(Heading(each, detail=True) for each in ("below", "range", "found"))
    rows = [
        (
            each.column.name,
            Estimate(each.mean, each.mean_error, unit=each.column.unit),
            Estimate(each.deviation, each.deviation_error, unit=each.column.unit),
            *_quantiles(each),
            each.column.unit,
            {"value": each.edges[1:-1], "share": each.distribution.noisy, "error": each.distribution.noise_sd},
            each.range,
            None if each.range.box is None else each.column.domain,
        )
        for each in columns
    ]
    headings = (Heading("name", "column"), "mean", Heading("standard_deviation"), *shares, "unit", *details)
    return Table.of(key, headings, rows, title=title)


def range_notes(columns: Sequence[Summary]) -> tuple[str, ...]:
    """How to read the table."""
    bounded = any(chain.from_iterable(each.quantile_words for each in columns))
    return (*(f"{each}." for each in boxes(columns)), *((BOUNDED,) if bounded else ()), *ERRORS)


def _quantiles(each: Summary) -> tuple[Estimate, ...]:
    told = zip(each.quantile_words, each.quantiles.tolist(), each.quantile_errors.tolist(), strict=True)
    unit, nothing = each.column.unit, float("nan")
    return tuple(
        Estimate(nothing if words == HIDDEN else value, error, unit=unit, said=words) for words, value, error in told
    )
