"""The cost of a spec, recomputed by whoever holds it; the guarantee and the trust that it asks for, in words and numbers.

Every mechanism says what its terms cost (`Mechanism.cost`) and refuses numbers that are not what they should be
(`Mechanism.check`). Both figures, joint and per party, are always computed; caps that add up to the consortium's bound
whatever is released. Public columns cost nothing and are outside the guarantee, which then is not called DP.

The sentences are part of manifest format 1, as the words of the guarantee are: a verifier compares them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dprelease.data.columns import private
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.statement import Statements
from dprelease.privacy.gaussian import epsilon_of, mu_of
from dprelease.privacy.price import epsilon_figure, rounded_up
from dprelease.release.fake import NOTE
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Label

PUBLIC = "Public columns are the exception: their rows were published exactly, for everybody to read."

NEIGHBOURS_IN_WORDS = (
    "Neighbouring tables: all private cells of one patient, in all hospitals, are replaced. "
    "Membership, the number of patients and the declarations of the columns are public and not protected."
)

PRIVATE_NEIGHBOURS_IN_WORDS = (
    "Neighbouring tables: the private cells of one patient, in all hospitals, are replaced, and no public one: columns "
    "{private}. Membership, the number of patients and the declarations of the columns are public and not protected."
)

PUBLIC_IN_WORDS = (
    "This is {label}: {side}. The public columns are published exactly, patient by patient, and are outside the guarantee: "
    "{public}. Inferences from them about private columns are outside it too."
)

SIDES: Mapping[Label, str] = MappingProxyType(
    {
        "feature-DP": "the public columns are outcomes and not protected, the private ones are",
        "label-DP": "the public columns are features and not protected, the private ones are",
        "mixed": "the public columns are features and outcomes and not protected, the private ones are",
    }
)
"""Label to its sentence about the two sides of a regression; ``DP`` needs none."""


@dataclass(frozen=True)
class PartyGuarantee:
    """The cost of a release for one party.

    Attributes:
        party: its name.
        mu2: what its ledger is charged.
        exposure: mu^2 of what is revealed of its own columns: by its block, or by joint moments in all.
        epsilon: of the exposure.
    """

    party: str
    mu2: Fraction
    exposure: Fraction
    epsilon: float


@dataclass(frozen=True)
class Guarantee:
    """The privacy loss of one patient by a release, under replace-one neighbours.

    Attributes:
        delta: the delta of every epsilon here.
        joint_mu2: mu^2 of all blocks together.
        joint_epsilon: of all blocks together, provided every hospital added its declared noise.
        parties: one for each party's own private columns.
        collusion_threshold: as of `Cost`.
        sentences: the mechanism's, with these figures in them.
        label: what the guarantee is called; ``DP`` where it covers every column.
        private: names of the columns that it covers.
        public: names of those that it does not cover.
        adds: whether these figures add to those of other releases; those of a later checkpoint of a stream are the first one's.
    """

    delta: float
    joint_mu2: Fraction
    joint_epsilon: float
    parties: tuple[PartyGuarantee, ...]
    collusion_threshold: int | None = None
    sentences: tuple[str, ...] = ()
    label: Label = "DP"
    private: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    adds: bool = True

    @property
    def added_mu2(self) -> Fraction:
        """mu^2 by which the release adds to what others of its roster reveal together."""
        return self.joint_mu2 if self.adds else Fraction(0)

    def added(self, name: str) -> Fraction:
        """mu^2 by which it adds to what others reveal of the named party's own columns."""
        return self.party(name).exposure if self.adds else Fraction(0)

    def party(self, name: str) -> PartyGuarantee:
        """The named party's guarantee."""
        return next(part for part in self.parties if part.party == name)

    def against(self, coalition: set[str]) -> float:
        """epsilon of what parties that pool their own rows and noise still learn about the others' columns."""
        if self.collusion_threshold is not None and not {part.party for part in self.parties} <= coalition:
            return self.joint_epsilon if len(coalition) <= self.collusion_threshold else math.inf
        rest = sum((part.exposure for part in self.parties if part.party not in coalition), Fraction(0))
        return epsilon_of(math.sqrt(rest), self.delta)

    def words(self) -> tuple[str, ...]:
        """The guarantee as sentences; these are what every manifest, review and fit prints.

        They are part of manifest format 1: a verifier compares them, so other words need another format number.
        """
        return (*self.sentences, *self._covered())

    def _covered(self) -> tuple[str, ...]:
        if not self.public:
            return (NEIGHBOURS_IN_WORDS,)
        private, public = ", ".join(self.private), ", ".join(self.public)
        return (
            PRIVATE_NEIGHBOURS_IN_WORDS.format(private=private),
            PUBLIC_IN_WORDS.format(label=self.label, side=SIDES[self.label], public=public),
        )


def guarantee(spec: ReleaseSpec) -> Guarantee:
    """The guarantee of a spec, from its declared bounds and noise scales alone."""
    mechanism, delta = mechanism_of(spec), spec.target.delta
    cost = mechanism.cost(spec)
    parties = tuple(
        PartyGuarantee(party, mu2, cost.exposures[party], epsilon_of(math.sqrt(cost.exposures[party]), delta))
        for party, mu2 in cost.charges.items()
    )
    joint = epsilon_of(math.sqrt(cost.joint), delta)
    figures = {part.party: epsilon_figure(part.epsilon) if part.exposure else None for part in parties}
    return Guarantee(
        delta=delta,
        joint_mu2=cost.joint,
        joint_epsilon=joint,
        parties=parties,
        collusion_threshold=cost.collusion_threshold,
        sentences=mechanism.guarantee(spec, figures, epsilon_figure(joint), rounded_up(delta)),
        label=spec.guarantee,
        private=tuple(column.name for column in private(spec.columns)),
        public=tuple(column.name for column in spec.public),
        adds=spec.place.previous is None,
    )


def check_spec(spec: ReleaseSpec) -> Guarantee:
    """Recompute every number in a spec and refuse it if any disagrees. Trusts nothing but the declared bounds.

    Checked: the mechanism's numbers are what its declared bounds and shares call for, the grid is fine enough, released
    integers stay exact, and the target is kept.

    Returns:
        The guarantee that the spec gives.

    Raises:
        SpecRefused: with the first number that disagrees.
    """
    try:
        return _recompute(spec)
    except InvalidInput as error:
        raise SpecRefused(error.message) from error
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        raise SpecRefused("a number in the spec is too large or too small to compute with") from error


def _recompute(spec: ReleaseSpec) -> Guarantee:
    mechanism_of(spec).check(spec)
    result = guarantee(spec)
    allowed = Fraction(mu_of(spec.target.epsilon, spec.target.delta)) ** 2
    over = (
        result.joint_mu2 > allowed
        if spec.target.scope == "joint"
        else any(part.exposure > allowed for part in result.parties)
    )
    if over:
        raise SpecRefused(f"the noise does not reach the {spec.target.scope} target epsilon = {spec.target.epsilon:g}")
    return result


def trust(spec: ReleaseSpec, words: Statements | None = None) -> tuple[str, ...]:
    """The trust assumption of a spec, one sentence each, and what fits are about."""
    words = words or mechanism_of(spec).statements(spec)
    return (*words.trust, *((PUBLIC,) if spec.public else ()), *words.about)


def promised(spec: ReleaseSpec) -> str:
    """The name of the guarantee and the target that the noise was checked to keep, in a clause."""
    target = spec.target
    whose = "over all hospitals together" if target.scope == "joint" else "over what each hospital holds"
    return f"{spec.guarantee}, epsilon = {target.epsilon:g} at delta = {target.delta:g} for one person, {whose}."


@dataclass(frozen=True)
class ReleasePromise:
    """The guarantee of a release and whom it trusts.

    Attributes:
        spec: of the release.
        guarantee: in sentences; of a release that a dry run made up, that first.
    """

    spec: ReleaseSpec
    guarantee: tuple[str, ...]

    @property
    def line(self) -> str:
        """Both in one line: the target that its noise was checked to keep."""
        line = f"Guarantee: {promised(self.spec)} In full, and whom it trusts: learner verify {self.spec.digest()[:12]}"
        return f"{NOTE} {line}" if NOTE in self.guarantee else line

    @property
    def trust(self) -> tuple[str, ...]:
        """The people who have to be trusted, in sentences."""
        return trust(self.spec)
