"""The terms of noisy rows: the public mixing matrix, if any, and every party's noise scales."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from dprelease.canonical import Digest, Rational, Value, sha256
from dprelease.data.columns import Name, integer_sensitivity, needs_bounds
from dprelease.mechanisms.then import TermsInRanges
from dprelease.spec_base import SpecBase

EXACT = 1 << 53
"""Bound of every released integer: doubles hold all of them."""

LEAST_IN_BUCKET = 20
"""Patients that a bucket adds up at least: no released row is nearly one patient's."""

MixingKind = Literal["bernoulli", "buckets"]


class Mixing(Value):
    """The public mixing matrix.

    Attributes:
        kind: ``bernoulli``, independent +-1; or ``buckets``, one +-1 for each patient.
        outputs: k, mixing rows released.
        seed: the 32-byte public seed, drawn after alignment was fixed.
    """

    kind: MixingKind = "bernoulli"
    outputs: Annotated[int, Field(ge=1)]
    seed: Digest

    @property
    def squared_norm(self) -> int:
        """c, the squared norm of a column: a patient enters all rows, or one."""
        return 1 if self.kind == "buckets" else self.outputs

    def least_rows(self, rows_per_subject: int) -> int:
        """Fewest rows that can be mixed so, if a patient has up to so many: `LEAST_IN_BUCKET` patients are in every bucket."""
        return self.outputs * (LEAST_IN_BUCKET * rows_per_subject if self.kind == "buckets" else 1)

    def reseeded(self, number: int) -> Mixing:
        """Another matrix of the same kind: its seed is SHA-256 of this one's and the number, in eight bytes, big-endian."""
        return self.model_copy(update={"seed": sha256(bytes.fromhex(self.seed) + number.to_bytes(8, "big"))})


class PartyNoise(Value):
    """One party's noise, in grid units; all 0 for a party whose columns are all public.

    Attributes:
        party: name.
        mu2: mu_j^2, the party's share of the guarantee.
        anchor_scale: noise scale of the anchor row; None without an anchor.
        scale: noise scale of every mixing row (or of every row, for mechanism ``rows``).
    """

    party: Name
    mu2: Rational
    anchor_scale: Annotated[float, Field(ge=0)] | None
    scale: Annotated[float, Field(ge=0)]


class NoisyRowsTerms(TermsInRanges):
    """The part that ``mixed`` and ``rows`` share: rows of integers, each with noise of its own.

    Attributes:
        anchor_weight: rho, part of the guarantee that the row of column sums spends; 0 for no such row.
        noise: one for each party, in the spec's order.
        adds_rows: whether a patient's rows are added up before noise is.
    """

    adds_rows: ClassVar[bool] = False
    anchor_weight: Rational = "0"
    noise: tuple[PartyNoise, ...]

    @property
    def rho(self) -> Fraction:
        """The anchor's weight."""
        return Fraction(self.anchor_weight)

    @property
    def squared_norm(self) -> int:
        """c, the squared norm of a column of the integer matrix that the rows are multiplied by."""
        return 1

    def released_rows(self, spec: SpecBase) -> int:
        """Rows of a block."""
        return spec.rows

    def noise_of(self, party: str) -> PartyNoise:
        """The named party's noise; the party must be in the spec."""
        return next(noise for noise in self.noise if noise.party == party)

    def squared_sensitivity(self, spec: SpecBase, party: str) -> int:
        """D2_j, recomputed from the declared bounds: never taken from a number in the spec."""
        part = spec.part(party)
        shared = spec.rows_per_subject, spec.grid_bits, part.weights
        return integer_sensitivity(part.columns, *shared, mixed=self.adds_rows)

    def consistent(self, spec: SpecBase) -> None:
        """Checks that columns have bounds, noise names the parties, and an anchor has a scale."""
        refused = needs_bounds(spec.columns) if self.first is None else None
        if refused is not None:
            raise ValueError(refused)
        if not 0 <= self.rho < 1:
            raise ValueError("anchor_weight must lie in [0, 1)")
        if [noise.party for noise in self.noise] != [part.party for part in spec.parties]:
            raise ValueError("noise must name the same parties, in the same order")
        if any((noise.anchor_scale is not None) != bool(self.rho) for noise in self.noise):
            raise ValueError("an anchor scale is given exactly when anchor_weight is positive")
        super().consistent(spec)


class MixedTerms(NoisyRowsTerms):
    """Random mixtures of all patients' rows."""

    adds_rows: ClassVar[bool] = True
    mechanism: Literal["mixed"] = "mixed"
    mixing: Mixing

    @property
    def squared_norm(self) -> int:
        """That of the mixing matrix."""
        return self.mixing.squared_norm

    def least_rows(self, spec: SpecBase) -> int:
        """k, or as many as fill k buckets."""
        return self.mixing.least_rows(spec.rows_per_subject)

    def released_rows(self, spec: SpecBase) -> int:
        """k, and the anchor row if there is one."""
        return self.mixing.outputs + (1 if self.rho else 0)

    def reseeded(self, number: int) -> Self:
        """The same terms with another mixing matrix."""
        return self.model_copy(update={"mixing": self.mixing.reseeded(number)})

    def consistent(self, spec: SpecBase) -> None:
        """The same, and enough patients for the mixing rows."""
        super().consistent(spec)
        if self.mixing.outputs > spec.rows:
            raise ValueError("more mixing rows than patients")
        if self.least_rows(spec) > spec.rows:
            raise ValueError(f"fewer than {LEAST_IN_BUCKET} patients in a bucket")


class RowsTerms(NoisyRowsTerms):
    """One noisy row for each patient."""

    mechanism: Literal["rows"] = "rows"

    def consistent(self, spec: SpecBase) -> None:
        """The same, and neither an anchor nor public columns, which would link every noisy row to a patient."""
        super().consistent(spec)
        if self.rho:
            raise ValueError("anchor_weight must be 0 but for mechanism 'mixed'")
        if spec.public:
            raise ValueError(
                "mechanism 'rows' with public columns would link every noisy row to a patient; use 'mixed'"
            )
