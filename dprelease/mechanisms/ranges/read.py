"""From blocks to ranges: every number checked, every centre and scale made again from the noisy integers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dprelease.data.ranges import STEPS
from dprelease.mechanisms.ranges.calibration import numbers
from dprelease.mechanisms.ranges.check import largest
from dprelease.mechanisms.ranges.distribution import Distribution
from dprelease.mechanisms.ranges.prefix_sums import Integers
from dprelease.mechanisms.ranges.released import Ranges, Summary, later_range
from dprelease.mechanisms.ranges.rounds import Row
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.spec_base import SpecBase


def read(spec: SpecBase, terms: RangesTerms, blocks: Mapping[str, Integers]) -> Ranges:
    """All columns of a release.

    Args:
        spec: the spec.
        terms: its terms.
        blocks: party to its noisy integers.

    Raises:
        IntegrityError: a number is out of range, or a centre or scale does not follow from the noisy integers.
    """
    scales, most, found = terms.scales, largest(spec, terms), []
    for part in spec.parties:
        for column, integers in zip(numbers(part.columns), blocks[part.party], strict=True):
            row = Row.of(integers)
            location = row.check(column.name, most, spec.rows, scales)
            deviation = column.half_width * math.exp(location.log_scale)
            found.append(
                Summary(
                    column=column,
                    mean=column.midpoint + column.half_width * row.last.centre / STEPS,
                    mean_error=column.half_width * location.centre_sd,
                    deviation=deviation,
                    deviation_error=deviation * location.log_scale_sd,
                    distribution=Distribution.of(row.counts, spec.rows, scales.counts),
                    range=later_range(column.name, row.last.centre, row.last.scale),
                )
            )
    return Ranges(tuple(found), spec.rows)
