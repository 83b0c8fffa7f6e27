"""Every sentence that is printed about joint moments, their clipping and counts of levels; some are part of the manifest's format.

The noise in the number of patients of a category's level, which joint moments publish as an entry of the Gram matrix.

A level is coded 0 or 1 beside the constant, so the entry of the two counts its patients. A category of two levels is one variable
of +1 and -1, whose sum is twice a level's number less n: half the noise.

Source: docs/guarantees.md 11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from dprelease.data.columns import Column
from dprelease.data.ranges import REACH, share
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.moments import claims
from dprelease.mechanisms.moments.calibration import released_sd
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.mechanisms.moments.terms import (
    Association,
    JointMoments,
    joint_moments,
    layout_of,
    norm_owner,
    sensitivity_of,
)
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.spec_base import SpecBase

ALONE = ("The moments were computed and noised inside the one hospital; nobody else saw a row.",)

COMPUTED_TOGETHER = (
    "The hospitals computed the moments together on masked columns. If they followed the protocol, the hub, the public "
    "and the coordinator together learn the released numbers and nothing else."
)

ROTATING = (
    "A third hospital dealt the randomness for each pair: one hospital may be curious about the others, but no two may "
    "pool their protocol messages. The coordinator has no part in this."
)

RANGE_ATTACK = (
    "Not covered: a hospital that runs altered software can feed numbers outside the declared bounds and read chosen "
    "patients' cells of other hospitals, undetected. Blocks of mechanism 'mixed' do not have this weakness."
)

PROVED_FIGURE = (
    "By range proofs this holds for the columns of the other hospitals also if {altered} altered software, with a delta larger by "
    "at most {error} for each session."
)

RANGES_PROVED = (
    "Before any block was made each hospital proved to {verifiers} that its columns keep the declared bounds, and showed all "
    "others the same columns. Each row has one level of each category and is no longer than the norms that the noise is for."
)

PROVED_AGAINST = (
    "So a patient's cells in other hospitals are covered also if {altered} altered software, as long as whoever dealt their "
    "randomness followed the protocol and does not pool with them. A false proof passes in a session with probability {error} at "
    "most."
)

NOT_COVERED = (
    "Not covered: other numbers within the bounds, which spoil the results and nobody's privacy, and a dealer that pools with a "
    "hospital that it dealt for."
)

NOT_REVIEWED = "Checked by range proofs; nobody outside has reviewed the proof yet."

STATED_NORM = (
    "The noise for private features beside public outcomes counts on {owner}, who has these outcomes, to have made sure that "
    "no patient's are longer than stated. Every verifier makes sure again."
)

KEYS = "It rests on keys that the hospitals compared with one another, not on the coordinator's certificates."

ADDED_UP = "moments recomputed: the blocks of all parties added up, where their masks cancel"


def guarantee(spec: SpecBase, cost: Cost, joint: str, delta: str, *, alone: bool) -> tuple[str, ...]:
    """The guarantee as sentences; arguments as of `Mechanism.guarantee`, but for what the moments cost."""
    which = "private" if spec.public else "released"
    figure = f"(epsilon, delta) = ({joint}, {delta}) for all {which} columns of a patient"
    if not cost.collusion_threshold:
        return (f"Joint: {figure}, provided the hospital added its declared noise.",)
    with_private = " with a private column" if spec.public else ""
    charged = {party: mu2 for party, mu2 in cost.charges.items() if mu2}
    parts = ", ".join(f"{party} {mu2 / cost.joint}" for party, mu2 in charged.items())
    equal = len(set(charged.values())) == 1
    split = f"to the hospitals{with_private} in equal parts" if equal else f"in parts: {parts}"
    t = cost.collusion_threshold
    pooled = "any single hospital" if t == 1 else f"any {t} hospitals that pool what they saw"
    price = "Its price" if alone else "The price of the moments"
    return (
        f"Joint: {figure}, against the public, the hub, and {pooled}, also with the hub, "
        f"provided every other hospital added its declared noise. {price} is charged {split}.",
        *((PROVED_FIGURE.format(**_proved(t)),) if joint_moments(spec).range_proofs else ()),
    )


def words(spec: SpecBase, terms: JointMoments) -> Statements:
    """Every other sentence."""
    parties, columns = len(spec.parties), len(spec.columns)
    together = f"computed together by {parties} hospitals" if parties > 1 else "computed by one hospital"
    outcome_only = len(terms.outcomes)
    content = f"moments of {columns} columns, {together}"
    if outcome_only:
        content = f"moments of {columns - outcome_only} features and their association with {outcome_only} outcomes, {together}"
    only = f", outcomes only: {', '.join(terms.outcomes)}" if terms.outcomes else ""
    source = None if terms.clipping is None else terms.clipping.source
    reused = "" if source is None else f", ranges of release {source[:12]}"
    proofs = ", range proofs" if terms.range_proofs else ""
    return Statements(
        would_publish=_would_publish(spec, terms),
        details=_details(spec, terms),
        trust=_trust(spec, terms),
        content=content,
        about=about(terms.clipping, spec.columns_by_party) if terms.clipping is not None else (),
        summary=f"moments: one noisy matrix of sums of products of {columns} columns",
        shape=f"collusion threshold {terms.curious}, dealer {terms.dealer}{proofs}{only}{reused}",
        figures={
            "collusion_threshold": terms.curious,
            "dealer": terms.dealer,
            **({} if source is None else {"ranges": source}),
        },
        checks=(ADDED_UP,),
    )


def _proved(curious: int) -> dict[str, str]:
    """Blanks of the sentences about range proofs."""
    altered = "one hospital runs" if curious == 1 else f"up to {curious} hospitals that pool run"
    return {
        "altered": altered,
        "verifiers": _verifiers(curious),
        "error": claims.power_of_two(claims.proof_error(curious)),
    }


def _verifiers(curious: int) -> str:
    return "one other" if curious == 1 else f"{curious} others"


def _proofs_in_words(parties: int, curious: int, *, proofs: bool) -> str:
    """A sentence of a plan about range proofs; empty for one party."""
    if proofs:
        return (
            f"{parties * curious} range proofs are made: each hospital proves to {_verifiers(curious)} that its columns keep their "
            "bounds, and shows all others the same."
        )
    if parties > 1:
        return "No range proofs are made; the key range_proofs of a request says otherwise."
    return ""


def _trust(spec: SpecBase, terms: JointMoments) -> tuple[str, ...]:
    if len(spec.parties) == 1:
        return ALONE
    owner = norm_owner(spec)
    ranges: tuple[str, ...] = (RANGE_ATTACK, *(() if owner is None else (STATED_NORM.format(owner=owner),)))
    if terms.range_proofs:
        blanks = _proved(terms.curious)
        ranges = (RANGES_PROVED.format(**blanks), PROVED_AGAINST.format(**blanks), NOT_COVERED, NOT_REVIEWED)
    if terms.dealer == "rotating":
        return (COMPUTED_TOGETHER, ROTATING, KEYS, *ranges)
    curious = "one hospital" if terms.curious == 1 else f"{terms.curious} hospitals"
    dealt = (
        "The coordinator dealt the randomness: it must not collude with any hospital. "
        f"Up to {curious} may be curious about the others."
    )
    return (COMPUTED_TOGETHER, dealt, KEYS, *ranges)


def _would_publish(spec: SpecBase, terms: JointMoments) -> str:
    parties = len(spec.parties)
    whom = "by this hospital alone" if parties == 1 else f"by {parties} hospitals on masked columns"
    private = "private " if spec.public else ""
    sums = f"{layout_of(spec).entries} noisy sums over all {spec.rows} {spec.counted}"
    if terms.association is None:
        clipped = " of clipped rows" if terms.clipping is not None else ""
        return (
            f"{sums}: means and products of {len(spec.columns)} columns{clipped}, computed {whom}; "
            f"no {private}row of anybody's"
        )
    what = _of_outcomes(spec, terms, terms.association)
    return f"{sums}: {what}, computed {whom}; no product of two outcomes, no {private}row of anybody's"


def _of_outcomes(spec: SpecBase, terms: JointMoments, outcome_only: Association) -> str:
    outcomes = len(outcome_only.outcomes)
    features = len(spec.columns) - outcomes
    covariance = f"means and products of {features} features, " if terms.scale else ""
    squares = " and squares" if outcome_only.square_scale else ""
    return f"{covariance}means{squares} of {outcomes} outcomes and their products with the {features} features"


def _details(spec: SpecBase, terms: JointMoments) -> tuple[str, ...]:
    """How rows are clipped; how much noise each part of a release with outcomes gets, and how the budget is split; levels."""
    levels = levels_in_words(layout_of(spec), terms.scales, terms.clipping, len(spec.parties), spec.grid_bits)
    proofs = _proofs_in_words(len(spec.parties), terms.curious, proofs=True) if terms.range_proofs else ""
    return (*_parts(spec, terms), *filter(None, [levels, proofs.rstrip(".")]))


def _parts(spec: SpecBase, terms: JointMoments) -> tuple[str, ...]:
    if terms.clipping is not None:
        return details(terms.clipping, spec.columns_by_party)
    if terms.association is None:
        return ()
    names = {
        EntryKind.PRODUCT: "products of two features",
        EntryKind.ASSOCIATION: "products of a feature and an outcome",
        EntryKind.OUTCOME_SQUARE: "squares of outcomes",
    }
    parties, unit, found = len(spec.parties), 4.0**spec.grid_bits, []
    for kind, name in names.items():
        scale = terms.scales[kind]
        noise = f"noise sd {released_sd(scale, parties) / unit:.4g} patients" if scale else "none is noisy"
        found.append(f"{name}: {noise}")
    owner = norm_owner(spec)
    if owner is not None:
        stated = float(terms.public_norm2 or 0)
        found.append(f"noise is for public outcomes of squared norm {stated:.6g} at most, as {owner} states")
    return (*found, f"split of mu^2: q = {float(Fraction(terms.association.split)):.3g}")


def review_reasons(spec: SpecBase, terms: JointMoments, party: str, *, named: bool) -> tuple[str, ...]:
    """Why a person should decide where a policy would: joint moments ask for more trust than blocks of rows."""
    if len(spec.parties) == 1:
        return ()
    found = []
    if not named:
        found.append("joint moments ask for more trust than blocks: name the mechanism in auto_approve, or decide here")
    if terms.dealer == "coordinator" and len(spec.parties) > 2 and terms.curious == 1:
        found.append("the coordinator would deal, although a third hospital could")
    owner = norm_owner(spec)
    if not terms.range_proofs and claims.unproved(spec.columns_by_party, terms, spec.grid_bits) is None:
        found.append(
            "there are no range proofs, although they are possible: altered software of a hospital could read rows"
        )
    if owner not in (None, party) and not terms.range_proofs:
        found.append(
            f"the noise counts on {owner} for how long its public outcomes are, which nobody else can check before publication"
        )
    return tuple(found)


def reuse_in_words(source: str, rows: int, columns: tuple[Column, ...]) -> str:
    """The owner of the ranges that a release uses and what that saves, in a clause."""
    cost = share(rows, columns)
    return f"in the ranges that release {source[:12]} published, at no charge, where new ones would cost {cost} of mu^2"


def _norms(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> list[tuple[str, str, float, float]]:
    """Each party with a norm: its name, how many numbers that is over, r^2 and k.

    r^2 is in squares of the reach of numbers of average weight. It lies k standard deviations of a normal row's squared norm above
    the mean.
    """
    weights = clipping.number_weights(tuple(column for own in parties.values() for column in own))
    owner, found = {numbers_of(own): party for party, own in parties.items()}, []
    for norm in clipping.norms:
        squares = [(weights[name] / REACH) ** 2 for name in norm.columns]
        k = (norm.squared - sum(squares)) / math.sqrt(2 * sum(square**2 for square in squares))
        numbers = "1 number" if len(squares) == 1 else f"{len(squares)} numbers"
        found.append((owner[norm.columns], numbers, norm.squared * len(squares) / sum(squares), k))
    return found


def about(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> tuple[str, ...]:
    """Facts about the moments, one sentence each; part of the manifest."""
    wider = "Intervals of slopes are wider by an estimate of what that takes from them."
    if not clipping.norms:
        return (f"Moments are of numbers as clipped to their published ranges. {wider}",)
    bounds = ", ".join(
        f"{party} r^2 = {radius2:.3g} of {numbers}" for party, numbers, radius2, _ in _norms(clipping, parties)
    )
    return (
        "Moments are of rows as clipped: each private number to its published range, then each hospital's numbers of a patient, "
        f"in units of what each reaches from their centres, to a squared norm: {bounds}. {wider}",
    )


def details(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> tuple[str, ...]:
    """How rows are clipped, a line each, for a hospital's review."""
    source = "" if clipping.source is None else f" by release {clipping.source[:12]}, as the office states"
    lines = [
        f"private numbers are coded in the ranges published{source}; public bounds stay, and cells beyond either are clipped"
    ]
    lines += [
        f"{party}: {numbers} of a patient clipped to r^2 = {radius2:.3g} in squares of what each reaches "
        f"(k = {round(k, 6) + 0.0:.2g})"
        for party, numbers, radius2, k in _norms(clipping, parties)
    ]
    if clipping.norms:
        lines.append(
            "a patient whose numbers are far from the centres is drawn in towards them: what is published is of such rows, in "
            "which spreads and long tails are smaller than in yours"
        )
    heavier = _heavier(clipping, parties)
    if heavier:
        lines.append(f"less noise than in other numbers, by weight: {', '.join(heavier)}")
    return tuple(lines)


def _heavier(clipping: Clipping, parties: dict[str, tuple[Column, ...]]) -> dict[str, float]:
    """Number to its weight beside the lightest, of those that weigh more."""
    weights = clipping.number_weights(tuple(column for own in parties.values() for column in own))
    least = min(weights.values(), default=1)
    return {name: weight / least for name, weight in weights.items() if weight > least}


def plan_in_words(layout: Layout, terms: JointMoments, draft: Draft) -> str:
    """Sentences of a plan: ranges that it uses again, its noise, the numbers of patients of levels, and range proofs."""
    parties, rows, grid_bits = len(draft.columns), draft.agreed.rows, draft.grid_bits
    plan, clipping = _noise_in_words(layout, terms, parties, rows, grid_bits), terms.clipping
    if clipping is not None and clipping.source is not None:
        plan = f"{reuse_in_words(clipping.source, rows, draft.everything)}; the key ranges of a request says otherwise. {plan}"
    levels = levels_in_words(layout, terms.scales, clipping, parties, grid_bits)
    said = plan, f"So {levels}." if levels else "", _proofs_in_words(parties, terms.curious, proofs=terms.range_proofs)
    return " ".join(filter(None, said))


def _noise_in_words(layout: Layout, terms: JointMoments, parties: int, rows: int, grid_bits: int) -> str:
    """Expected noise beside the number of patients, in one line, from public numbers alone.

    An entry is a sum over patients of numbers in [-1, 1]; Delta is how far one row moves all of them.
    """
    noise = {kind: released_sd(scale, parties) / 4**grid_bits for kind, scale in terms.scales.items()}
    variables, outcomes = len(layout.variables), int(layout.outcome.sum())
    covariance, association = noise[EntryKind.PRODUCT], noise[EntryKind.ASSOCIATION]
    if outcomes:
        of_features = f"{covariance:.4g} patients" if covariance else "0, as every feature is public"
        return (
            f"d = {variables - outcomes} features, l = {outcomes} outcomes, noise sd of an entry of the "
            f"covariance = {of_features}, of the association = {association:.4g} patients "
            f"({association / rows:.2%} of n = {rows:,}). Products of two outcomes are not released."
        )
    moved = math.sqrt(sensitivity_of(layout, terms.clipping, grid_bits).squared)
    return (
        f"p = {variables} variables, Delta = {moved:.4g}, noise sd of an entry = {covariance:.4g} patients "
        f"({covariance / rows:.2%} of n = {rows:,})."
    )


def levels_in_words(
    layout: Layout,
    scales: Mapping[EntryKind, float],
    clipping: Clipping | None,
    parties: int,
    grid_bits: int,
    times: float = 1.0,
) -> str:
    """The standard deviation of so many times that noise, in patients, or the least and the largest of all.

    It is empty without a private category.
    """
    found = []
    for place, variable in enumerate(layout.variables, 1):
        if variable.measured or variable.public:
            continue
        unit = 4**grid_bits if clipping is None else clipping.constant * clipping.weights[variable.column]
        kind = EntryKind.ASSOCIATION if layout.outcome[place] else EntryKind.PRODUCT
        found.append(times * released_sd(scales[kind], parties) / unit / (1 if variable.level else 2))
    if not found:
        return ""
    shown = " to ".join(dict.fromkeys(f"{float(f'{sd:.2g}'):,g}" for sd in (min(found), max(found))))
    return f"the number of patients of a level is published with a standard deviation of about {shown}"
