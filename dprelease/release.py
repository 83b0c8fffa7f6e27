"""A release in a learner's hands: verified blocks, as rows of equal variances or as moments, ready for an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from html import escape

import numpy as np
import numpy.typing as npt

from dprelease.block import Block
from dprelease.bounding import Codes
from dprelease.columns import (
    CategoricalColumn,
    Column,
    NumericColumn,
    is_public,
    private_weights,
    released_names,
)
from dprelease.errors import InvalidInput
from dprelease.mixing import BernoulliMixing
from dprelease.moments.apart import ApartMoments
from dprelease.moments.association import check_public_norm
from dprelease.moments.released import NoisyMoments, add_up, limits, public_gram
from dprelease.one_line import one_line
from dprelease.public_stream import PublicStream
from dprelease.spec import ReleaseSpec

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaled:
    """A release as the linear map A D + noise of the scaled rows D in [-1, 1].

    Rows of A have weights such that every patient's column of A has norm 1 (mechanism ``mixed``: the anchor, when there
    is one, has weight sqrt(rho), each mixing row sqrt((1-rho)/k)), so every entry of one column carries equal noise.

    Attributes:
        names: (p,) released column names.
        values: (r, p) noisy A D; r = k, k + 1 or n.
        ones: (r,) A 1, the constant column after the same map: public and exact.
        noise_sd: (p,) standard deviation of each entry of a column; 0 for public columns.
        rows: n, patients.
        anchor: whether row 0 is the anchor.
    """

    names: tuple[str, ...]
    values: Floats
    ones: Floats
    noise_sd: Floats
    rows: int
    anchor: bool

    def index(self, names: tuple[str, ...]) -> list[int]:
        """Positions of released columns.

        Raises:
            InvalidInput: a name is not released, with the names that are.
        """
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise InvalidInput(f"not in this release: {', '.join(unknown)}; it has {', '.join(self.names)}")
        return [self.names.index(name) for name in names]

    def means(self) -> tuple[Floats, Floats]:
        """Estimated column means and the standard deviation of their noise, scaled units, each (p,).

        From the anchor row where there is one (error sd / (n sqrt(rho)) instead of sd / sqrt(n)), else by least squares
        on the constant column.
        """
        if self.anchor:
            return self.values[0] / self.ones[0], self.noise_sd / self.ones[0]
        weight = float(self.ones @ self.ones)
        if weight == 0:  # two or fewer mixing rows may cancel; then the release says nothing about means
            return np.zeros(len(self.names)), np.full(len(self.names), np.inf)
        return self.ones @ self.values / weight, self.noise_sd / np.sqrt(weight)


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
class Release:
    """A verified release.

    Attributes:
        spec: the release spec.
        blocks: party to its blocks, by sequence number.
        guarantee: the guarantee in words, recomputed on verification; of a release that a dry run made up, that first.
    """

    spec: ReleaseSpec
    blocks: Mapping[str, tuple[Block, ...]]
    guarantee: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The release's identity."""
        return self.spec.digest()

    @cached_property
    def _columns(self) -> dict[str, Column]:
        """Released name to the declaration behind it."""
        return {name: column for part in self.spec.parties for column in part.columns for name in column.released}

    def column(self, released: str) -> Column:
        """The declaration behind a released column name.

        Raises:
            InvalidInput: no such column.
        """
        if released not in self._columns:
            raise InvalidInput(f"not in this release: {released}; it has {', '.join(self.spec.released)}")
        return self._columns[released]

    def expand(self, names: tuple[str, ...], *, reference: bool) -> tuple[str, ...]:
        """Released names for names of columns or of released columns.

        Args:
            names: what a person asked for; a categorical column's own name stands for its levels.
            reference: leave out the first level of a categorical column, as a regression on an intercept needs.

        Raises:
            InvalidInput: no such column.
        """
        columns = {column.name: column for column in self._columns.values()}
        expanded: list[str] = []
        for name in names:
            column = columns.get(name)
            if isinstance(column, CategoricalColumn):
                expanded += column.released[1:] if reference else column.released
            else:
                self.column(name)
                expanded.append(name)
        return tuple(dict.fromkeys(expanded))

    def original_units(self) -> tuple[Floats, Floats]:
        """(midpoint, half_width) of every released column, each (p,): value = midpoint + half_width * scaled."""
        midpoint, half_width = [], []
        for part in self.spec.parties:
            for column in part.columns:
                for _ in column.released:
                    numeric = isinstance(column, NumericColumn)
                    midpoint.append(column.midpoint if numeric else 0.0)  # type: ignore[union-attr]
                    half_width.append(column.half_width if numeric else 1.0)  # type: ignore[union-attr]
        return np.array(midpoint), np.array(half_width)

    def _repr_html_(self) -> str:
        """What a notebook shows: what it is, its columns and its guarantee. Names come from others and are only text."""
        spec = self.spec
        lines = (
            f"{spec.consortium}, release {self.digest[:8]}: {spec.rows} patients, mechanism {spec.mechanism}",
            f"Columns: {', '.join(spec.released)}",
            *self.guarantee,
        )
        title, *rest = (escape(one_line(line)) for line in (spec.title, *lines))
        return f"<p><b>{title}</b></p>" + "".join(f"<p>{line}</p>" for line in rest)

    def moments(self) -> NoisyMoments:
        """The noisy Gram matrix of a joint-moments release: all parties' blocks added, where their masks cancel.

        Where some columns are outcomes only: that of the features.

        Raises:
            InvalidInput: the release has rows, not moments.
            IntegrityError: the blocks do not add up to moments.
        """
        found = self.products
        return found.features if isinstance(found, ApartMoments) else found

    @cached_property
    def products(self) -> NoisyMoments | ApartMoments:
        """All that a joint-moments release has; `ApartMoments` where some columns are outcomes only.

        Raises:
            InvalidInput, IntegrityError: as `moments`.
        """
        spec, declared = self.spec, self.spec.moments
        if declared is None:
            raise InvalidInput(f"a release of mechanism {spec.mechanism!r} has rows, not moments")
        layout, shape = spec.layout, (spec.rows, spec.grid_bits, declared.scales, len(spec.parties))
        values = add_up([self.blocks[part.party][0].values for part in spec.parties], limits(layout, *shape))
        if declared.association is not None:
            if declared.public_norm2 is not None:
                check_public_norm(self.public_codes, layout, declared.public_norm2, spec.grid_bits)
            return ApartMoments.read(layout, values, *shape, self.public_codes, orthonormal=declared.by_leverage)
        return NoisyMoments.read(layout, values, *shape, self._public_gram)

    @cached_property
    def _public_gram(self) -> npt.NDArray[np.int64] | int:
        return public_gram(self.public_codes, self.spec.public, self.spec.grid_bits) if self.spec.public else 0

    @cached_property
    def public_codes(self) -> Codes:
        """(n, a) codes of all public columns, party after party."""
        blocks = [self.blocks[part.party][0].public for part in self.spec.parties if part.public]
        return np.hstack(blocks) if blocks else np.zeros((self.spec.rows, 0), np.int32)

    def public(self) -> PublicColumns:
        """The public columns, which no noise hides."""
        scaled = self.public_codes.astype(np.float64) * 2.0**-self.spec.grid_bits
        return PublicColumns(released_names(self.spec.public), scaled)

    def scaled(self) -> Scaled:
        """The release in scaled units with equal variances along every column (second_reading.md 4).

        A column of weight w was noised as w times itself: it is divided by w here, and so is its noise.

        Raises:
            InvalidInput: the release has moments, not rows.
        """
        spec = self.spec
        if spec.moments is not None:
            raise InvalidInput("a release of mechanism 'moments' has no rows; use its moments")
        grid = 2.0**-spec.grid_bits
        public = is_public(spec.columns)
        values = np.empty((spec.block_rows(), len(public)))
        column_weights = np.concatenate([private_weights(part.columns, part.weights) for part in spec.parties])
        values[:, ~public] = np.hstack([self.blocks[part.party][0].values for part in spec.parties]) / column_weights
        weight = float(Fraction(spec.anchor_weight))
        mixing = np.sqrt((1 - weight) / spec.squared_norm())
        row_weight = np.full(spec.block_rows(), mixing)
        ones = np.ones(spec.rows)
        first = 1 if weight else 0
        if spec.mixing is not None:
            mixer = BernoulliMixing(PublicStream(bytes.fromhex(spec.mixing.seed)), spec.mixing.outputs, spec.rows)
            ones = mixer.row_sums().astype(np.float64)
            if public.any():  # the columns' owners publish them as they are; here they become rows like all others
                values[:first, public] = self.public_codes.sum(axis=0, dtype=np.int64)
                values[first:, public] = mixer.apply([self.public_codes])
        if weight:
            row_weight[0] = np.sqrt(weight)
            ones = np.concatenate([[float(spec.rows)], ones])
        noise_sd = np.concatenate(
            [np.full(len(part.released), spec.noise_of(part.party).scale * grid * mixing) for part in spec.parties]
        )
        noise_sd[public] = 0.0
        noise_sd[~public] /= column_weights
        return Scaled(
            names=spec.released,
            values=values * grid * row_weight[:, None],
            ones=ones * row_weight,
            noise_sd=noise_sd,
            rows=spec.rows,
            anchor=bool(weight),
        )
