"""May we take part? Every check of a release or an alignment run, from the proposal, our declarations, policy and ledger alone.

Nothing the coordinator says is trusted: sensitivities and shares are recomputed from declared bounds. No cell is read
and no noise exists yet, so a decision cannot be a selection on a result.

A second title, seed, target, k or grid makes another spec digest, and the ledger charges every digest once: the budget is kept,
but spent twice on the same private columns. A person decides if that is wanted (less noise by averaging). A stream and a
release that stands alone are of the same patients in part, whatever their digests.

Public columns and the noisy rows of mechanism `rows` both come in the canonical order of the roster, in whatever releases they
are. Side by side they tell whose row each noisy row is, to whoever recognises a patient by the public columns. One release never
holds both; two are for a person to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from dprelease.catalogue import Catalogue
from dprelease.data.columns import private, public
from dprelease.errors import BudgetExceeded, PolicyRefused, SpecRefused
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed
from dprelease.privacy.price import epsilon_figure, price_text
from dprelease.release.accounting import Guarantee, check_spec
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import moment
from party_node.settings import Policy, PolicyLimits
from party_node.state.entries import Balance
from party_node.state.journal import PUBLISHED, UNDER_WAY, Proposed, Record, Status


@dataclass(frozen=True)
class Review:
    """Knowledge and tasks of a person before we take part.

    Attributes:
        blockers: what a person here has to do before it can be approved, e.g. pin a key.
        review_reasons: why it needs a person, empty when policy approves it.
        repeats: other releases that we paid for the same content, in words; such a proposal always needs a person.
    """

    blockers: tuple[str, ...]
    review_reasons: tuple[str, ...]
    repeats: tuple[str, ...]

    @property
    def automatic(self) -> bool:
        """Tells whether policy approves this without a person."""
        return not self.words

    @property
    def words(self) -> str:
        """All of it in one line."""
        return "; ".join((*self.repeats, *self.blockers, *self.review_reasons))


@dataclass(frozen=True)
class Assessment(Review):
    """The meaning of taking part in a release.

    Attributes:
        spec: the proposal.
        party: our name.
        guarantee: recomputed.
        cost: our mu_j^2.
        balance: our budget now.
    """

    spec: ReleaseSpec
    party: str
    guarantee: Guarantee
    cost: Fraction
    balance: Balance


@dataclass(frozen=True)
class Participation(Review):
    """The meaning of taking part in an alignment run.

    Attributes:
        patients: how many we announced.
        attempts: runs of the roster that were counted here before.
        most: that are allowed.
    """

    patients: int
    attempts: int
    most: int


def assess(
    spec: ReleaseSpec,
    own: Catalogue,
    fingerprint: str,
    pins: dict[str, str],
    consortium: str,
    policy: Policy,
    balance: Balance,
    now: datetime,
    repeats: tuple[str, ...] = (),
    linked: tuple[str, ...] = (),
    implausible: tuple[str, ...] = (),
    *,
    continued: bool = False,
) -> Assessment:
    """Check a proposal.

    Args:
        spec: the proposal.
        own: our catalogue: name, roster, rows, alignment, declarations.
        fingerprint: of our own key.
        pins: fingerprints of the peers' keys.
        consortium: the one we enrolled in.
        policy: limits in numbers.
        balance: our budget for the roster.
        now: the time.
        repeats: from `repetitions`.
        linked: from `linkages`.
        implausible: from `findings.problems`, of our columns of the proposal.
        continued: whether it continues a stream that was approved here, and was approved with it; see `Continuations.earlier`.

    Raises:
        NotFound: it is a checkpoint whose batch is not in our table yet.
        SpecRefused: the proposal disagrees with our own recomputation or our own table's public facts.
        PolicyRefused: it is sound, but outside our limits.
        BudgetExceeded: our ledger has no room for it.
    """
    if spec.place.batch is not None:
        own = own.of_batch(spec.place.batch)
    facts = ("aligned", "rows", "rows_per_subject", "alignment")
    said = {fact: (getattr(spec, fact), getattr(own, fact)) for fact in facts}
    _check_facts(spec, own, fingerprint, consortium, now, said)
    _check_columns(spec, own)
    result = check_spec(spec)
    cost = result.party(own.party).mu2
    refused = [] if continued else _outside(policy.limits, spec, own.party, result, balance)
    if not continued and spec.target.delta * spec.most_patients >= 1 and not policy.allow_large_delta:
        refused.append(f"delta = {spec.target.delta:g} is not below 1/n = {1 / spec.most_patients:.3g}")
    if refused:
        raise PolicyRefused("outside this hospital's limits: " + "; ".join(refused))
    if cost > balance.remaining:
        raise BudgetExceeded(
            f"it costs {price_text(cost, spec.target.delta)}; {price_text(balance.remaining, spec.target.delta)} is left",
            needed=float(cost),
            remaining=float(balance.remaining),
        )
    blockers = (*implausible, *_unpinned(spec, own.party, pins))
    auto = [] if continued else ["approval by a person is this hospital's policy"]
    if policy.auto_approve is not None and not continued:
        auto = [
            *_outside(policy.auto_approve, spec, own.party, result, balance),
            *_more_trust(policy.auto_approve, spec, own.party),
            *_unlimited_delta(policy.auto_approve, policy.limits),
        ]
    return Assessment(blockers, (*auto, *linked), repeats, spec, own.party, result, cost, balance)


def assess_run(
    task: Task,
    own: Catalogue,
    fingerprint: str,
    pins: dict[str, str],
    consortium: str,
    policy: Policy,
    counted: Set[str],
    now: datetime,
) -> Participation:
    """Check an alignment run that was proposed.

    No policy says yes: a person does, for a run tells every other hospital which of its own patients we have too.

    Raises:
        SpecRefused: it names other facts of ours than are so, or has expired.
        PolicyRefused: so many runs of the roster were taken part in that no more are allowed.
    """
    member = task.member(own.party)
    patients = 0 if member is None else member.patients
    facts: dict[str, tuple[object, object]] = {
        "number of our patients": (patients, own.patients),
        "normal form of identifiers": (task.identifiers or "as they stand", own.identifiers or "as they stand"),
    }
    _check_facts(task, own, fingerprint, consortium, now, facts)
    before, most = len(counted - {task.digest()}), policy.alignments
    if before >= most:
        raise PolicyRefused(
            f"roster {task.roster} was aligned {before} times, and alignments = {most} under [policy] allows no more"
        )
    return Participation(_unpinned(task, own.party, pins), ("waits for a person",), (), patients, before, most)


def _check_facts(
    proposal: Proposed,
    own: Catalogue,
    fingerprint: str,
    consortium: str,
    now: datetime,
    facts: Mapping[str, tuple[object, object]],
) -> None:
    """Refuse a proposal that has expired, or names other facts of ours than are so: of every kind, and these of its own."""
    noun, key = proposal.noun, proposal.party_keys.get(own.party)
    if key is None:
        raise SpecRefused(f"{own.party} is not a party of this {noun}")
    everywhere = {
        "consortium": (proposal.consortium, consortium),
        "roster": (proposal.roster, own.roster),
        "our key": (key, fingerprint),
    }
    for what, (said, known) in (everywhere | dict(facts)).items():
        if said != known:
            raise SpecRefused(f"the {noun} says {what} = {said}, and here it is {known}")
    if moment(proposal.expires) <= now:
        raise SpecRefused(f"the {noun} has expired")


def _check_columns(spec: ReleaseSpec, own: Catalogue) -> None:
    part = spec.party(own.party)
    assert part is not None  # noqa: S101 - its facts were checked
    for column in part.columns:
        declared = own.column(column.name)
        if declared is not None and declared.public and not column.public:
            raise SpecRefused(
                f"column {column.name} is public here: the release claims a privacy that it does not have"
            )
        if declared is not None and column.public and not declared.public:
            raise SpecRefused(
                f"column {column.name} was never declared public here, and the release would publish it as it is"
            )
        if declared != column:
            raise SpecRefused(f"column {column.name} is not declared here as the release says")


def _outside(limits: PolicyLimits, spec: ReleaseSpec, party: str, result: Guarantee, balance: Balance) -> list[str]:
    """Every limit that the proposal exceeds, in words."""
    others = {part.party for part in spec.parties} - {party}
    own = spec.party(party)
    ours = {column.name for column in own.columns} if own is not None else set()
    total = balance.exposure(spec.target.delta, result.added(party))
    found = []
    if limits.parties is not None and not others <= set(limits.parties):
        found.append(f"parties {listed(sorted(others - set(limits.parties)))} are not among those allowed")
    if limits.columns is not None and not ours <= set(limits.columns):
        found.append(f"columns {listed(sorted(ours - set(limits.columns)))} are not among those allowed")
    if limits.mechanisms is not None:
        unnamed = [name for name in spec.terms.names if name not in limits.mechanisms]
        found += [f"mechanism {name} is not among those allowed" for name in unnamed]
    if limits.guarantees is not None and spec.guarantee not in limits.guarantees:
        found.append(f"a guarantee of {spec.guarantee} is not among those allowed")
    if limits.max_epsilon is not None and result.joint_epsilon > limits.max_epsilon * (1 + 1e-9):
        found.append(f"joint epsilon = {epsilon_figure(result.joint_epsilon)} exceeds {limits.max_epsilon:g}")
    if limits.max_delta is not None and spec.target.delta > limits.max_delta:
        found.append(f"delta = {spec.target.delta:g} exceeds {limits.max_delta:g}")
    if limits.max_total_epsilon is not None and total > limits.max_total_epsilon * (1 + 1e-9):
        found.append(f"total epsilon = {epsilon_figure(total)} would exceed {limits.max_total_epsilon:g}")
    if limits.min_rows is not None and spec.rows < limits.min_rows:
        found.append(f"{spec.rows} patients are fewer than {limits.min_rows}")
    return found


def _more_trust(limits: PolicyLimits, spec: ReleaseSpec, party: str) -> list[str]:
    """Why a release that asks for more trust than blocks do, or protects less, needs a person unless the policy names it."""
    found = []
    if spec.public and limits.guarantees is None:
        found.append(
            f"public columns are outside the guarantee: name {spec.guarantee} in auto_approve's guarantees, or decide here"
        )
    reasons = mechanism_of(spec).review_reasons(spec, party, named=limits.mechanisms is not None)
    return [*found, *reasons]


def _unlimited_delta(auto: PolicyLimits, limits: PolicyLimits) -> list[str]:
    """Why a policy that limits epsilon alone approves nothing: the proposal would choose the delta that makes it small."""
    if (auto.max_epsilon, auto.max_total_epsilon) == (None, None) or (auto.max_delta or limits.max_delta) is not None:
        return []
    return ["epsilon is limited and delta is not: name max_delta in auto_approve, or decide here"]


def _unpinned(proposal: Proposed, own: str, pins: Mapping[str, str]) -> tuple[str, ...]:
    """Tasks of a person before it is certain who the other hospitals are; nothing where just these keys are pinned."""
    first = []
    for party, key in proposal.party_keys.items():
        if party != own and party not in pins:
            # Not the key that the coordinator named: what is pinned has to come from the hospital itself.
            first.append(
                f"ask the IT department of {party}, by telephone, what its party-node fingerprint prints, then: "
                f"party-node peers pin {party} FINGERPRINT"
            )
        elif party != own and pins[party] != key:
            first.append(f"the {proposal.noun} names another key for {party} than the one pinned here; telephone them")
    return tuple(first)


_CHARGED = frozenset({"charge", "send"})
_HELD = _CHARGED | {"reserve"}


def repetitions(spec: ReleaseSpec, party: str, records: Iterable[Record], stages: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for every other release of the same private content that we paid for, or promised budget to.

    Args:
        spec: the proposal.
        party: our name.
        records: of all releases that the ledger knows or that are under way here, at the least.
        stages: release to the last thing that the ledger says of it.
    """
    part = spec.party(party)
    ours = part.columns if part else ()
    exact = {column.name for column in public(ours)}
    content, found = _content(spec, party, exact), []
    for record in records:
        paid = stages.get(record.digest) in _CHARGED
        if record.digest == spec.digest() or not (paid or record.status in UNDER_WAY):
            continue
        if private(ours) and _same_patients(record.spec, spec) and _content(record.spec, party, exact) == content:
            ended = record.status is Status.ENDED and record.note == PUBLISHED
            what = "published" if ended else "was charged for" if paid else "was promised budget for"
            found.append(f"you would pay again for what release {record.digest[:12]} {what} already")
    return tuple(found)


def _content(spec: ReleaseSpec, party: str, exact: set[str]) -> tuple[object, ...]:
    """The columns of ours that a release shows with noise and that are not public by now, whoever else takes part."""
    part = spec.party(party)
    columns = {column.name: column for column in private(part.columns) if column.name not in exact} if part else {}
    outcomes = frozenset(spec.outcomes) & set(columns)
    return columns, spec.terms.names[-1], outcomes


def _same_patients(before: ReleaseSpec, now: ReleaseSpec) -> bool:
    """Tells whether both are of the same rows, or one of a stream and one of a table that its batches are part of.

    Each alignment run keys digests anew, so those of two versions of a roster cannot be compared; most of their patients are the
    same. The first checkpoint of a stream counts, which pays for all.
    """
    if before.roster != now.roster:
        return False
    places = [before.place, now.place]
    if (places[0].batch is None) == (places[1].batch is None):
        return before.alignment == now.alignment or before.aligned != now.aligned
    later = any(place.previous for place in places)
    return not later


def linkages(spec: ReleaseSpec, public: bool, records: Iterable[Record], stages: Mapping[str, str]) -> tuple[str, ...]:
    """Why a person must decide on a proposal of `rows`, or on the first one with public columns; nothing if neither.

    Args:
        spec: the proposal.
        public: whether any column of our roster was declared public.
        records: of all releases that the ledger knows, at the least.
        stages: release of our roster to the last thing that the ledger says of it; what is approved and not given up counts
            as if it were delivered.
    """
    held = [each.spec for each in records if each.digest != spec.digest() and stages.get(each.digest) in _HELD]
    shown = any(each.public for each in held)
    if mechanism_of(spec).row_per_patient and (public or shown):
        return ("its noisy rows come in the same order as the roster's public columns, which tell whose they are",)
    if spec.public and not shown and any(mechanism_of(each).row_per_patient for each in held):
        return (
            "its public columns come in the same order as noisy rows of an earlier release, and tell whose they are",
        )
    return ()
