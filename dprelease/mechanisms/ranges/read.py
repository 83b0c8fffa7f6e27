"""From blocks to ranges: every number checked, every centre and scale made again from the noisy integers."""

from __future__ import annotations

import numpy as np

from dprelease.arrays import Integers
from dprelease.data.columns import Column, numbers
from dprelease.data.decades import Box
from dprelease.data.ranges import STEPS
from dprelease.errors import IntegrityError
from dprelease.mechanisms.base import Values
from dprelease.mechanisms.ranges.box import read_box
from dprelease.mechanisms.ranges.released import Ranges, Summary, follows, later_range
from dprelease.mechanisms.ranges.rounds import Row, after_counts
from dprelease.mechanisms.ranges.terms import RangesTerms, largest, largest_decade, numbers_without_bounds
from dprelease.spec_base import SpecBase


def read(spec: SpecBase, terms: RangesTerms, blocks: Values) -> Ranges:
    """All columns of a release.

    Raises:
        IntegrityError: a number is out of range, or a box, centre, scale or reach does not follow from the noisy integers.
    """
    scales, most, found, guessed = terms.scales, largest(spec, terms), [], terms.guess(spec)
    for part in spec.parties:
        *decades, rows = blocks[part.party]
        boxes = _boxes(spec, terms, part.columns, decades[0]) if decades else {}
        margins, steps = [], []
        for declared, integers in zip(numbers(part.columns), rows, strict=True):
            row, box = Row.of(integers), boxes.get(declared.name)
            column = declared.boxed(box)
            location = row.check(column.name, most, spec.rows, scales)
            law = after_counts(row.counts, spec.rows, scales).law
            margins.append(row.margin(law))
            steps.append(row.reach)
            found.append(
                Summary(
                    column=column,
                    mean=column.midpoint + column.half_width * row.last.centre / STEPS,
                    mean_error=column.half_width * location.mean_error,
                    deviation=column.half_width * location.deviation,
                    deviation_error=column.half_width * location.deviation_error,
                    distribution=law,
                    margin=margins[-1],
                    range=later_range(column.name, row.last.centre, row.last.scale, row.reach, box),
                )
            )
        wrong = follows(steps, margins, guessed)
        if wrong is not None:
            raise IntegrityError(
                f"{numbers(part.columns)[wrong].name}: its reach does not follow from the noisy numbers"
            )
    return Ranges(tuple(found), spec.rows)


def _boxes(spec: SpecBase, terms: RangesTerms, columns: tuple[Column, ...], decades: Integers) -> dict[str, Box]:
    """The boxes of one party's columns without bounds."""
    most, found = largest_decade(spec, terms), {}
    for column, integers in zip(numbers_without_bounds(columns), decades, strict=True):
        if not np.all((integers <= most) & (integers >= -most)):
            raise IntegrityError(
                f"{column.name}: a noisy count of decades is larger than any that {spec.rows} patients could give"
            )
        found[column.name] = read_box(column.name, integers, spec.rows, terms.scales.decades)
    return found
