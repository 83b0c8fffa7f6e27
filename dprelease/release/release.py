"""A release in a learner's hands: verified blocks, as rows of equal variances or as moments, ready for an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TypeVar, cast

import numpy as np

from dprelease.about import ColumnAbout
from dprelease.arrays import Codes, Floats
from dprelease.data.column import DeclaredColumn
from dprelease.data.columns import OTHER, Column, Number, numbers, released_names
from dprelease.data.exits import MISSING
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.mechanisms.moments.released import Moments, NoisyMoments
from dprelease.mechanisms.noisy_rows.released import Engine, NoisyRows, original_units
from dprelease.mechanisms.ranges.released import Ranges
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.synthetic_control.released import Panel
from dprelease.mechanisms.view import View
from dprelease.one_line import listed, nearest, one_line, quoted
from dprelease.release.accounting import ReleasePromise
from dprelease.release.block import Block, values_of
from dprelease.release.reaches import Reach, reaches_of
from dprelease.release.spec import ReleaseSpec

Regressable = NoisyRows | Moments
"""Views that estimators read, whatever the mechanism."""

AnyView = Regressable | Ranges | Panel
"""Views of a release."""

Wanted = TypeVar("Wanted", bound=View)
Declared = TypeVar("Declared", bound=DeclaredColumn)


@dataclass(frozen=True)
class PublicColumns:
    """Public columns in scaled units, patient by patient.

    Attributes:
        names: (a,) released column names; none where nothing is public.
        values: (n, a) exact, in the order of the alignment, the same for all columns.
    """

    names: tuple[str, ...]
    values: Floats


@dataclass(frozen=True)
class Verified:
    """The manifest that a release was verified by.

    Attributes:
        published: its signed time.
        software: version of dprelease that assembled it.
        root: SHA-256 of the root certificate that it chains to, hexadecimal.
    """

    published: str
    software: str
    root: str


@dataclass(frozen=True, repr=False)
class Release:
    """A verified release.

    Attributes:
        spec: the release spec.
        blocks: party to its blocks, by sequence number.
        guarantee: the guarantee in words, recomputed on verification; of a release that a dry run made up, that first.
        upto: of a stream, an earlier checkpoint whose numbers are read; None for this one's.
        known: what the rounds before the last gave, where that is known; read again if it is of other blocks.
        engine: what takes sums of products over released rows.
        verified: how it was verified; None for one that is made up.
    """

    spec: ReleaseSpec
    blocks: Mapping[str, tuple[Block, ...]]
    guarantee: tuple[str, ...]
    upto: int | None = None
    known: EarlierRounds = FIRST_ROUND
    engine: Engine = "local"
    verified: Verified | None = None

    @property
    def digest(self) -> str:
        """The release's identity."""
        return self.spec.digest()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the released columns; a category has one for each level."""
        return self.spec.released

    @property
    def promise(self) -> ReleasePromise:
        """Its guarantee and whom it trusts."""
        return ReleasePromise(self.spec, self.guarantee)

    def __repr__(self) -> str:
        at = "" if self.upto is None else f", checkpoint {self.upto}"
        about = f"{self.digest[:12]}, {self.spec.mechanism}, {self.patients} patients, {len(self.columns)} columns{at}"
        return f"{type(self).__name__}({about})"

    @property
    def patients(self) -> int:
        """n: at a checkpoint of a stream, everybody so far."""
        return self.spec.patients if self.upto is None else sum(self._batches.values())

    def checkpoints(self) -> Mapping[int, Release]:
        """Every checkpoint of the stream up to this one: number to what was released then, to fit as any release.

        All are read from this release's blocks, which repeat the numbers of those before. Empty for a release that stands alone.
        """
        return {number: replace(self, upto=number) for number in self._batches}

    @cached_property
    def _batches(self) -> dict[int, int]:
        """Checkpoint to its new patients, up to the one that is read."""
        return {
            number: rows for number, rows in self.spec.place.batches.items() if self.upto is None or number <= self.upto
        }

    @cached_property
    def _before(self) -> int:
        """Blocks of a party before those of the last round."""
        return self.spec.rounds()[-1].start

    @cached_property
    def _columns(self) -> dict[str, Column]:
        """Released name to the declaration behind it, with the unit that `about` adds to one without."""
        return {name: self._named(column) for column in self.spec.columns for name in column.released}

    def _named(self, column: Declared) -> Declared:
        meaning = self.meaning(column.name)
        return column.model_copy(update={"unit": meaning.unit}) if meaning is not None and meaning.unit else column

    def meaning(self, column: str) -> ColumnAbout | None:
        """Meaning of a declared column by `about`; None where it says nothing."""
        return None if self.spec.about is None else self.spec.about.of(column)

    def column(self, released: str) -> Column:
        """The declaration behind a released column name.

        Raises:
            InvalidInput: no such column.
        """
        if not isinstance(released, str):  # a list, where each name is an argument of its own
            raise InvalidInput(f"the name of a column is text, not {quoted(repr(released))}")
        if released not in self._columns:
            near = nearest(released, [*self._columns, *(column.name for column in self.spec.columns)])
            raise InvalidInput(
                f"not in this release: {quoted(released)}{near or f'; it has {listed(self.spec.released)}'}"
            )
        return self._columns[released]

    def width(self, released: str) -> float:
        """From one bound of a number to the other, of its range where bounds are unknown; 1 for an indicator.

        Raises:
            InvalidInput: no such column.
        """
        declared = self.column(released)
        lower, upper = (declared if declared.bounded else self.ranged[released]).ends
        return upper - lower

    def expand(self, names: tuple[str, ...], *, reference: bool) -> tuple[str, ...]:
        """Released names for names of columns or of released columns.

        Args:
            names: what a person asked for; a categorical column's own name stands for its levels, or its one level.
            reference: leave out the reference level of a categorical column, as a regression on an intercept needs.

        Raises:
            InvalidInput: no such column.
        """
        columns = {column.name: column for column in self._columns.values()}
        expanded: list[str] = []
        for name in names:
            column = columns.get(name) if isinstance(name, str) else None
            if column is not None:
                told = column.told
                expanded += (told[column.references :] or told) if reference else told
            else:
                self.column(name)
                expanded.append(name)
        return tuple(dict.fromkeys(expanded))

    def scores(self, names: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
        """A fact of a document: what the numbers of columns stand for; empty if all of them speak for themselves.

        Args:
            names: released columns; all of them unless told.

        Raises:
            InvalidInput: no such column.
        """
        columns = dict.fromkeys(self.column(name) for name in names or self.spec.released)
        legends = tuple(column.legend for column in columns if column.legend)
        return {"scores": legends} if legends else {}

    def fills(self, names: Iterable[str]) -> tuple[str, ...]:
        """Columns and the fill that a missing cell of each is read as, unless that is a level of its own.

        Raises:
            InvalidInput: no such column.
        """
        declared = {column.name: column for column in self.spec.columns}
        columns = dict.fromkeys(declared.get(name) or self.column(name) for name in names)
        return tuple(
            f"{column.name}: {column.fill_text} {column.unit}".rstrip()
            for column in columns
            if column.fill_text not in (OTHER, MISSING)
        )

    def meanings(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """A fact of a document: labels, units and codes of columns; empty where nothing is said of any.

        Raises:
            InvalidInput: no such column.
        """
        columns = dict.fromkeys(self.column(name).name for name in names)
        found = tuple(each.words for each in map(self.meaning, columns) if each is not None)
        return {"meanings": found} if found else {}

    def original_units(self) -> tuple[Floats, Floats]:
        """(midpoint, half_width) of every released column, each (p,): value = midpoint + half_width * scaled."""
        return original_units(self.spec.columns)

    def _repr_html_(self) -> str:
        """The release as a notebook shows it: kind, columns and guarantee. Names come from others and are only text."""
        spec = self.spec
        lines = (
            f"{spec.consortium}, release {self.digest[:8]}: {self.patients} patients, mechanism {spec.mechanism}",
            f"Columns: {', '.join(name for column in spec.columns for name in column.told)}",
            *self.guarantee,
        )
        title, *rest = (escape(one_line(line)) for line in (spec.title, *lines))
        return f"<p><b>{title}</b></p>" + "".join(f"<p>{line}</p>" for line in rest)

    @cached_property
    def view(self) -> AnyView:
        """`NoisyRows`, `NoisyMoments`, `OutcomeMoments` where some columns are outcomes only, `Ranges`, or a `Panel`.

        Raises:
            IntegrityError: the blocks do not belong together.
        """
        last = {party: own[self._before :] for party, own in values_of(self.blocks).items()}
        view: AnyView = mechanism_of(self.spec).read(self.spec, last, self.public_codes, self.earlier, self.upto)
        return view

    @cached_property
    def earlier(self) -> EarlierRounds:
        """The rounds before the last.

        Raises:
            IntegrityError: the blocks do not belong together.
        """
        values = {party: own[: self._before] for party, own in values_of(self.blocks).items()}
        return self.known if self.known.is_of(values) else mechanism_of(self.spec).earlier(self.spec, values)

    @property
    def regressable(self) -> Regressable:
        """What estimators read.

        Raises:
            InvalidInput: the release has ranges of single columns or a synthetic control, and nothing to fit on.
        """
        if self.view.no_fit:
            raise InvalidInput(self.view.no_fit)
        return cast(Regressable, self.view)

    def _only(self, wanted: type[Wanted], view: View, instead: str) -> Wanted:
        """The view, which is refused unless it is of the wanted class, with what the release has instead."""
        if not isinstance(view, wanted):
            raise InvalidInput(f"a release of mechanism {self.spec.mechanism!r} has {instead}")
        return view

    def ranges(self) -> Ranges:
        """Centre, scale and distribution of single columns.

        Raises:
            InvalidInput: the release has none.
        """
        return self._in_units(self._only(Ranges, self.view, "no ranges; name one of mechanism 'ranges'"))

    def _in_units(self, ranges: Ranges) -> Ranges:
        named = [self._named(each.column) for each in ranges.columns]
        if all(column is each.column for column, each in zip(named, ranges.columns, strict=True)):
            return ranges  # which keeps what was worked out of it
        columns = (replace(each, column=column) for each, column in zip(ranges.columns, named, strict=True))
        return replace(ranges, columns=tuple(columns))

    @cached_property
    def first_ranges(self) -> Ranges | None:
        """Centre, scale and distribution of the numbers whose ranges a first round of the release published; None without one."""
        found: Ranges | None = self.earlier.view
        return None if found is None else self._in_units(found)

    def panel(self) -> Panel:
        """Noisy weights and donors of a synthetic control, beside its target.

        Raises:
            InvalidInput: the release has none.
        """
        return self._only(Panel, self.view, "no synthetic control")

    def moments(self) -> NoisyMoments:
        """The noisy Gram matrix, or that of the features where some columns are outcomes only.

        Raises:
            InvalidInput: the release has rows, not moments.
        """
        return self.products.joint

    @property
    def products(self) -> Moments:
        """All moments that the release has.

        Raises:
            InvalidInput: the release has rows, not moments.
        """
        return self._only(Moments, self.regressable, "rows, not moments; ask for one of 'moments'")  # type: ignore[type-abstract]

    @cached_property
    def ranged(self) -> Mapping[str, Number]:
        """Numbers that were released in ranges of their own: name to the column with the ends of its range for bounds."""
        declared = {column.name: column for column in self.spec.columns}
        seen = numbers(self.regressable.coded)
        return {column.name: column for column in seen if column != declared[column.name]}

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """How far each private number reaches, and what slopes keep of it; none in public bounds."""
        clipping = self.regressable.clipping
        if clipping is None:
            return ()
        columns = {party: tuple(map(self._named, own)) for party, own in self.spec.columns_by_party.items()}
        return reaches_of(clipping, columns, self.first_ranges)

    def scaled(self) -> NoisyRows:
        """The released rows in scaled units, with equal variances along every column.

        Raises:
            InvalidInput: the release has moments, not rows.
        """
        return self._only(NoisyRows, self.regressable, "no rows; use its moments")

    @cached_property
    def public_codes(self) -> Codes:
        """(n, a) codes of all public columns, party after party."""
        blocks = [self.blocks[part.party][0].public for part in self.spec.parties if part.public]
        return np.hstack(blocks) if blocks else np.zeros((self.spec.rows, 0), np.int32)

    def public(self) -> PublicColumns:
        """The public columns, which no noise hides."""
        scaled = self.public_codes.astype(np.float64) * 2.0**-self.spec.grid_bits
        return PublicColumns(released_names(self.spec.public), scaled)
