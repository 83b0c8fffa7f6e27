"""Linear mechanisms: exact integers that add up over patients, and one draw of noise on them.

Checkpoints of a stream are such releases in which the integers of several batches of patients are added up with public weights, and
all noise is larger by one factor (`dprelease.mechanisms.stream`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.arrays import Codes, Floats, Integers
from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms.base import Inputs, Mechanism, OwnTerms
from dprelease.mpc.session import Products
from dprelease.privacy.calibration import root_up
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase


@dataclass(frozen=True)
class Stretch:
    """Change of a release's integers and noise where several batches are added up.

    Attributes:
        rows: patients of all batches.
        largest: largest weight of a batch.
        noise2: what every noise variance is multiplied by; 1 leaves the declared scales as they are.
    """

    rows: int
    largest: int = 1
    noise2: int = 1

    def scale(self, declared: float) -> float:
        """A declared noise scale times sqrt(`noise2`), rounded up."""
        return declared if self.noise2 == 1 or not declared else root_up(self.noise2 * Fraction(declared) ** 2)


class Linear(Mechanism[OwnTerms]):
    """A mechanism with one block a party: masked (exact integers + noise), all modulo 2^64."""

    @abstractmethod
    def check(self, spec: SpecBase, stretch: Stretch | None = None) -> None:
        """Recompute every number of the terms, and refuse integers that could leave their range.

        Args:
            spec: the spec.
            stretch: of several batches of patients; the spec's own rows unless told.

        Raises:
            SpecRefused: with the first number that disagrees.
        """

    @abstractmethod
    def exact(self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None) -> Integers:
        """The exact integers of `shapes`, or the party's share of them.

        Raises:
            InvalidInput: the products are not those that the mechanism needs.
        """

    @abstractmethod
    def noise(self, spec: SpecBase, party: str, source: NoiseSource, stretch: Stretch) -> Integers:
        """One draw of noise of `shapes`, at the declared scales as `stretch` has them."""

    @abstractmethod
    def opened(self, spec: SpecBase, values: Mapping[str, Integers], stretch: Stretch) -> Integers:
        """The released integers of all parties' parts, whose rows may repeat the rows of a block many times.

        Raises:
            IntegrityError: they do not belong together.
        """

    @abstractmethod
    def view(self, batches: Sequence[SpecBase], sums: Floats | Integers, noise: float, public: Codes) -> Any:
        """The view that learners fit on.

        Args:
            batches: a spec for each batch of patients that was added up.
            sums: their integers added up, as `opened` has those of one.
            noise: what the declared noise scales are multiplied by.
            public: (n, a) codes of all public columns.
        """

    def masked(self, values: Integers, spec: SpecBase, party: str, products: Products | None) -> Integers:
        """The values as a party sends them, hidden where blocks say something only together."""
        return values

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        """The one block; see `Mechanism.privatize`."""
        noisy = self.exact(inputs.rows, spec, party, inputs.products) + self.noise(
            spec, party, inputs.noise, Stretch(spec.rows)
        )
        return (self.masked(noisy, spec, party, inputs.products),)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes, upto: int | None = None
    ) -> Any:
        """The view of the one block of every party; see `Mechanism.read`."""
        blocks = {party: only for party, (only,) in values.items()}
        return self.view([spec], self.opened(spec, blocks, Stretch(spec.rows)), 1.0, public)
