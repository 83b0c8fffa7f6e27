"""What a verified release of ranges says about each column: mean, spread and quantiles, in original units, with errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.estimators.intervals.inference import plain
from dprelease.mechanisms.ranges.released import HIDDEN, SHARES, Summary
from dprelease.release.release import Release
from dprelease.release.trust import trust


@dataclass(frozen=True, eq=False)
class DescribedRanges:
    """Columns of a release of ranges.

    Attributes:
        release: the release.
        columns: those that were asked for.
    """

    release: Release
    columns: tuple[Summary, ...]

    def to_json(self) -> dict[str, Any]:
        """The description as plain data; every ``error`` is a standard deviation of what privacy noise leaves open.

        ``found`` are bounds of a number that was declared without any.
        """
        return {
            "version": 1,
            "release": self.release.digest,
            "patients": self.release.spec.rows,
            "columns": [column_to_json(each) for each in self.columns],
            "guarantee": list(self.release.guarantee),
            "trust": list(trust(self.release.spec)),
        }


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


def column_to_json(each: Summary) -> dict[str, Any]:
    """One column of them as plain data."""
    distribution = each.distribution
    found = {} if each.range.box is None else {"found": each.column.domain}
    return found | {
        "name": each.column.name,
        "unit": each.column.unit,
        "mean": each.mean,
        "mean_error": each.mean_error,
        "standard_deviation": each.deviation,
        "standard_deviation_error": each.deviation_error,
        "quantiles": [
            {"share": share, "value": None if words == HIDDEN else value, "error": error, "bound": words or None}
            for share, value, error, words in zip(
                SHARES, plain(each.quantiles), plain(each.quantile_errors), each.quantile_words, strict=True
            )
        ],
        "below": {
            "value": plain(each.edges[1:-1]),
            "share": plain(distribution.noisy),
            "error": plain(distribution.noise_sd),
        },
        "range": each.range.model_dump(mode="json"),
    }
