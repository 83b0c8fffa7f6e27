"""The contract of a mechanism: all that hospitals, coordinator, hub, learners and planners ask of it.

Nobody else asks which mechanism it is. A mechanism reads a `SpecBase` with its own terms in it, and arrays; it imports no
role, no transport, no other mechanism and nothing of `dprelease` that knows a whole release.

The integers of linear mechanisms add up over patients, and have one draw of noise.
Checkpoints of a stream are such releases in which the integers of several batches of patients are added up with public weights, and
all noise is larger by one factor (`dprelease.mechanisms.stream`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dprelease.arrays import Codes, Floats, Integers, PieceMap, one_by_one
from dprelease.canonical import read_part
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, unbounded
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.draft import Draft, ProposedTerms
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.mpc.modulus import MODULI
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.session import Products
from dprelease.privacy.calibration import root_up
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase, Terms

if TYPE_CHECKING:
    from dprelease.document.document import Document
    from dprelease.mechanisms.assumptions import PlannedFit, Scenario
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

OwnTerms = TypeVar("OwnTerms", bound=Terms)

Columns = Mapping[str, tuple[Column, ...]]
"""Party to its declared columns, in released order."""

Values = Mapping[str, tuple[Integers, ...]]
"""Party to the noisy integers of its blocks, by sequence number."""


@dataclass(frozen=True, repr=False)
class EarlierRounds:
    """The rounds before one, read once for all that builds on them (`Mechanism.earlier`).

    Attributes:
        values: what all parties sent in them.
        view: what they published; None before the first round.
        left: the spec of what is left to release; None before the first round.
    """

    values: Values
    view: Any = None
    left: SpecBase | None = None

    def is_of(self, values: Values) -> bool:
        """Tells whether these are the blocks that were read."""
        return self.values.keys() == values.keys() and all(
            len(own) == len(values[party]) and all(map(np.array_equal, own, values[party]))
            for party, own in self.values.items()
        )


FIRST_ROUND = EarlierRounds({})
"""Nothing is earlier."""


@dataclass(frozen=True, repr=False)
class StreamState:
    """State of a stream at a hospital between checkpoints.

    Attributes:
        increments: checkpoint to the exact integers of its new rows, or our shares of them. Secret: together with
            what other hospitals keep they are exact data.
        sent: noisy integers of our block of the checkpoint before, which start the next block; None at the first.
    """

    increments: Mapping[int, Integers]
    sent: Integers | None = None


NO_STREAM_STATE = StreamState({})
"""Outside streams."""


@dataclass(frozen=True, repr=False)
class Inputs:
    """The secret and public things that a party makes its blocks of one round of.

    Attributes:
        rows: the party's, as the spec describes them, the same in every round.
        noise: secret noise; `SecureNoise` outside tests.
        products: what a session left; None without one.
        earlier: what the rounds before gave.
        kept: of a stream, the increment of this checkpoint among the others.
        run: makes what pieces of the rows add up to.
    """

    rows: BoundedRows
    noise: NoiseSource
    products: Products | None = None
    earlier: EarlierRounds = FIRST_ROUND
    kept: StreamState = NO_STREAM_STATE
    run: PieceMap = one_by_one


COARSEST = 100
"""Least Delta_int / mu: below it the grid's extra variance would be noticeable."""


class Mechanism(ABC, Generic[OwnTerms]):
    """One mechanism.

    Attributes:
        name: in specs, requests and policies.
        noun: what it releases of rows, in a word or two; its name unless told.
        purpose: what it is for, in half a line.
        terms: its part of a spec.
        options: its part of a request.
        borrowed: keys among these that are another mechanism's, which it builds on.
        checks_sum: whether blocks say something only together, so that verifying reads them.
        by_part: whether `read` takes `FileRows`, which stay in their file, of the last round's blocks.
        row_per_patient: whether released rows stand for patients, in the order of the alignment.
        weighs_columns: whether columns may have weights.
        fits: whether planners compare it unasked: regressions are fitted on its releases, and a request need not say more of it.
        no_fit: why no fit is made on its releases; empty where one is, and then it overrides `released_noise` and `forecast`.
        first_batch: which batch of its source the first release is of; None for the whole table, where each stands alone.
    """

    name: str
    noun: str = ""
    purpose: str = ""
    terms: type[OwnTerms]
    options: type[Settings] = Settings
    borrowed: frozenset[str] = frozenset()
    checks_sum: bool = False
    by_part: bool = False
    row_per_patient: bool = False
    weighs_columns: bool = False
    fits: bool = True
    no_fit: str = ""
    first_batch: int | None = None

    def own(self, spec: SpecBase) -> OwnTerms:
        """The terms of a spec of this mechanism."""
        assert isinstance(spec.terms, self.terms), spec.mechanism  # noqa: S101 - callers got the mechanism from the spec
        return spec.terms

    def read_terms(self, data: object) -> OwnTerms:
        """The terms from plain data.

        Raises:
            ValidationError: they are not terms of this mechanism.
        """
        return read_part(self.terms, data)

    @abstractmethod
    def propose(self, options: Any, draft: Draft) -> ProposedTerms:
        """The terms for a request.

        Raises:
            InvalidInput: the request cannot be met; why, in counts and names.
        """

    @abstractmethod
    def cost(self, spec: SpecBase) -> Cost:
        """The cost of a spec, from its declared bounds and noise scales alone."""

    @abstractmethod
    def check(self, spec: SpecBase) -> None:
        """Recompute every number of the terms.

        Raises:
            SpecRefused: with the first one that disagrees.
        """

    @abstractmethod
    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the noisy integers of every block of the party, by sequence number."""

    def rounds(self, spec: SpecBase) -> tuple[int, ...]:
        """How many blocks every party sends in each round, in the order of sequence numbers; all in one round unless told.

        Blocks of a round may depend on what all parties sent in earlier ones. Only those of the last come from a session.
        """
        return (len(self.shapes(spec, spec.parties[0].party)),)

    def exact(
        self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None, run: PieceMap = one_by_one
    ) -> Integers:
        """The exact integers of a party's rows, or its share of them: hospitals keep those of a stream before any noise is drawn.

        Raises:
            InvalidInput: the products are not those that the mechanism needs.
        """
        raise NotImplementedError(f"integers of mechanism {self.name!r} do not add up over patients")

    @abstractmethod
    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        """The noisy integers of one party's blocks of the round after `inputs.earlier`, of `shapes`.

        Raises:
            InvalidInput: the products are not those that the mechanism needs.
        """

    @abstractmethod
    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> Any:
        """The view that learners fit on, from all parties' noisy integers.

        Args:
            spec: the spec.
            values: of the last round.
            public: (n, a) codes of all public columns.
            earlier: what the rounds before gave.
            upto: of a stream, a checkpoint that was published, this one or one before: what was read then. A block begins with
                all numbers of the party's blocks of the checkpoints before. This one unless told.

        Raises:
            IntegrityError: the blocks do not belong together.
        """

    @abstractmethod
    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        """The guarantee as sentences.

        Args:
            spec: the spec.
            figures: party to the epsilon of its exposure; None where nothing of it is private.
            joint: epsilon of all blocks together.
            delta: of every epsilon here.
            alone: whether the release has no other round, with a price of its own.
        """

    @abstractmethod
    def statements(self, spec: SpecBase) -> Statements:
        """Every other sentence."""

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        """How noisy the numbers of a release are, for planners.

        Args:
            spec: as it would be proposed.
            times: what all noise is multiplied by.

        Raises:
            InvalidInput: no fit is made on such a release.
        """
        raise InvalidInput(self.no_fit)

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        """The expected worth of a fit.

        Args:
            spec: as it would be proposed.
            fit: on all that is released.
            signal: R^2, a guess in (0, 1].
            times: what all noise is multiplied by.

        Raises:
            InvalidInput: no fit is made on such a release, or the signal is out of range.
        """
        raise InvalidInput(self.no_fit)

    def expected(self, options: Any, draft: Draft, spread: float) -> Document | None:
        """The expected worth of the release for a request, if that is no fit; None where planners compare fits.

        Args:
            options: the mechanism's part of the request.
            draft: the rest of it.
            spread: variance that is guessed of a private number, scaled units.

        Raises:
            InvalidInput: as `propose`.
        """
        return None

    def schedule(self, spec: SpecBase) -> Schedule | None:
        """The messages of the session that blocks come from; None where every party makes its block alone."""
        return None

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: EarlierRounds = FIRST_ROUND) -> Codes:
        """(m, d) what a party multiplies with its peers' in a session, of some of its rows or all."""
        raise NotImplementedError(f"mechanism {self.name!r} has no session")

    def earlier(self, spec: SpecBase, values: Values) -> EarlierRounds:
        """The rounds that all parties sent these blocks in, for the round after them.

        Raises:
            IntegrityError: a party's blocks are not what it must have made, so no honest party builds on them.
        """
        return EarlierRounds(values)

    def ranged(self, spec: SpecBase) -> frozenset[str]:
        """Names of the columns whose ranges a release publishes for later releases, which use them at no charge."""
        return frozenset()

    def plans(self, scenario: Scenario) -> tuple[Scenario, ...]:
        """The ways to release what a scenario describes, the plainest first; none where it cannot."""
        return () if unbounded(scenario.fit.columns) or not self.fits else (scenario,)

    def check_public(self, rows: BoundedRows, spec: SpecBase, party: str) -> None:
        """Refuse what public cells of ours make impossible, before anything is charged.

        Raises:
            DataRefused: with the columns, and how to mend it.
        """

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        """Why a person should decide where a policy would."""
        return ()


@dataclass(frozen=True)
class NoiseScaling:
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
    """A mechanism with one block a party: masked (exact integers + noise), all modulo `Terms.modulo`."""

    @abstractmethod
    def check(self, spec: SpecBase, scaling: NoiseScaling | None = None) -> None:
        """Recompute every number of the terms, and refuse integers that could leave their range.

        Args:
            spec: the spec.
            scaling: of several batches of patients; the spec's own rows unless told.

        Raises:
            SpecRefused: with the first number that disagrees.
        """

    @abstractmethod
    def exact(
        self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None, run: PieceMap = one_by_one
    ) -> Integers:
        """The exact integers of `shapes`, or the party's share of them.

        Raises:
            InvalidInput: the products are not those that the mechanism needs.
        """

    @abstractmethod
    def noise(self, spec: SpecBase, party: str, source: NoiseSource, scaling: NoiseScaling) -> Integers:
        """One draw of noise of `shapes`, at the declared scales as `scaling` has them."""

    @abstractmethod
    def opened(self, spec: SpecBase, values: Mapping[str, Integers], scaling: NoiseScaling) -> Integers:
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
        exact = self.exact(inputs.rows, spec, party, inputs.products, inputs.run)
        noise = self.noise(spec, party, inputs.noise, NoiseScaling(spec.rows))
        noisy = MODULI[spec.terms.modulo].combined([(1, exact), (1, noise)])
        return (self.masked(noisy, spec, party, inputs.products),)

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> Any:
        """The view of the one block of every party; see `Mechanism.read`."""
        blocks = {party: only for party, (only,) in values.items()}
        return self.view([spec], self.opened(spec, blocks, NoiseScaling(spec.rows)), 1.0, public)
