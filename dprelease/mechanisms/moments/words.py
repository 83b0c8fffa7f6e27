"""Every sentence that is printed about joint moments; some are part of the manifest's format."""

from __future__ import annotations

from fractions import Fraction

from dprelease.mechanisms.moments.calibration import released_sd
from dprelease.mechanisms.moments.clipping_words import about, details
from dprelease.mechanisms.moments.entries import Kind
from dprelease.mechanisms.moments.level_counts import levels_in_words
from dprelease.mechanisms.moments.terms import Association, JointMoments, layout_of, norm_owner
from dprelease.mechanisms.statement import Cost, Words
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
    )


def words(spec: SpecBase, terms: JointMoments) -> Words:
    """Every other sentence."""
    parties, columns = len(spec.parties), len(spec.columns)
    together = f"computed together by {parties} hospitals" if parties > 1 else "computed by one hospital"
    apart = len(terms.outcomes)
    content = f"moments of {columns} columns, {together}"
    if apart:
        content = f"moments of {columns - apart} features and their association with {apart} outcomes, {together}"
    only = f", outcomes only: {', '.join(terms.outcomes)}" if terms.outcomes else ""
    source = None if terms.clipping is None else terms.clipping.source
    reused = "" if source is None else f", ranges of release {source[:12]}"
    return Words(
        would_publish=_would_publish(spec, terms),
        details=_details(spec, terms),
        trust=_trust(spec, terms),
        content=content,
        about=about(terms.clipping, spec.columns_by_party) if terms.clipping is not None else (),
        summary=f"moments: one noisy matrix of sums of products of {columns} columns",
        shape=f"curious = {terms.curious}, dealer {terms.dealer}{only}{reused}",
        figures={"curious": terms.curious, "dealer": terms.dealer, **({} if source is None else {"ranges": source})},
        checks=(ADDED_UP,),
    )


def _trust(spec: SpecBase, terms: JointMoments) -> tuple[str, ...]:
    if len(spec.parties) == 1:
        return ALONE
    owner = norm_owner(spec)
    stated = () if owner is None else (STATED_NORM.format(owner=owner),)
    if terms.dealer == "rotating":
        return (COMPUTED_TOGETHER, ROTATING, KEYS, RANGE_ATTACK, *stated)
    curious = "one hospital" if terms.curious == 1 else f"{terms.curious} hospitals"
    dealt = (
        "The coordinator dealt the randomness: it must not collude with any hospital. "
        f"Up to {curious} may be curious about the others."
    )
    return (COMPUTED_TOGETHER, dealt, KEYS, RANGE_ATTACK, *stated)


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


def _of_outcomes(spec: SpecBase, terms: JointMoments, apart: Association) -> str:
    outcomes = len(apart.outcomes)
    features = len(spec.columns) - outcomes
    covariance = f"means and products of {features} features, " if terms.scale else ""
    squares = " and squares" if apart.square_scale else ""
    return f"{covariance}means{squares} of {outcomes} outcomes and their products with the {features} features"


def _details(spec: SpecBase, terms: JointMoments) -> tuple[str, ...]:
    """How rows are clipped; how much noise each part of a release with outcomes gets, and how the budget is split; levels."""
    levels = levels_in_words(layout_of(spec), terms.scales, terms.clipping, len(spec.parties), spec.grid_bits)
    return (*_parts(spec, terms), *filter(None, [levels]))


def _parts(spec: SpecBase, terms: JointMoments) -> tuple[str, ...]:
    if terms.clipping is not None:
        return details(terms.clipping, spec.columns_by_party)
    if terms.association is None:
        return ()
    names = {
        Kind.PRODUCT: "products of two features",
        Kind.ASSOCIATION: "products of a feature and an outcome",
        Kind.OUTCOME_SQUARE: "squares of outcomes",
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
    if owner not in (None, party):
        found.append(
            f"the noise counts on {owner} for how long its public outcomes are, which nobody else can check before publication"
        )
    return tuple(found)
