"""Offline verification: an honest release passes; departures of the hub and of the parties are refused."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.canonical import canonical_bytes
from dprelease.errors import IntegrityError
from dprelease.identity.signing import PrivateKey
from dprelease.mechanisms.noisy_rows.calibration import party_noise
from dprelease.mechanisms.noisy_rows.terms import PartyNoise
from dprelease.mpc.modulus import P
from dprelease.release.accounting import guarantee, trust
from dprelease.release.approval import SignedApproval
from dprelease.release.block import read_block
from dprelease.release.manifest import sign_manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.release.verification import verify_release
from dprelease.spec_base import Target
from tests.support.certificates import NOW, Member, certify
from tests.support.joint import exact_gram
from tests.support.noise import SeededNoise
from tests.support.specs import (
    TWO_PARTIES,
    Consortium,
    Published,
    build_spec,
    categorical,
    new_consortium,
    numeric,
    publish,
    random_rows,
    seal,
    sign_approval,
    with_terms,
)

TRIAL = new_consortium(*TWO_PARTIES)
NORTH, SOUTH = TRIAL.parties["north"], TRIAL.parties["south"]
SPEC = build_spec(keys=TRIAL.keys)
HONEST = publish(TRIAL, SPEC, SeededNoise(1))

Departure = Callable[[], Published]


REFUSED: dict[str, tuple[Departure, str]] = {}
"""What a learner might be handed, by name, each with a part of the sentence that refuses it."""


def because(sentence: str) -> Callable[[Departure], Departure]:
    def register(departure: Departure) -> Departure:
        REFUSED[departure.__name__] = (departure, sentence)
        return departure

    return register


def verified(published: Published) -> Release:
    return verify_release(
        published.manifest, published.signature, lambda block: published.blocks[block.party], published.root
    )


def by_hub(change: Callable[[dict[str, Any]], object], key: PrivateKey = TRIAL.hub.key) -> Published:
    """The manifest changed as plain data and properly signed again: what a dishonest hub can do."""
    data = json.loads(HONEST.manifest)
    change(data)
    manifest = canonical_bytes(data)
    return replace(HONEST, manifest=manifest, signature=sign_manifest(key, manifest))


def by_everybody(spec: ReleaseSpec) -> Published:
    """A spec that does not hold what it says, approved, sealed and signed by all: only its numbers give it away."""
    return publish(TRIAL, spec, SeededNoise(3))


def with_blocks(**blocks: bytes) -> Published:
    """Other bytes for some of the blocks, under the honest manifest."""
    return replace(HONEST, blocks={**HONEST.blocks, **blocks})


THREE_PARTIES = {**TWO_PARTIES, "west": (categorical("smoker", "yes"),)}


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
@pytest.mark.parametrize("scope", ["joint", "per-party"])
def test_an_honest_release_verifies(mechanism: str, scope: str) -> None:
    spec = build_spec(keys=TRIAL.keys, mechanism=mechanism, scope=scope)
    published = publish(TRIAL, spec, SeededNoise(2))
    release = verified(published)
    assert release.spec == spec
    assert release.guarantee == guarantee(spec).words()
    for party, data in published.blocks.items():
        assert np.array_equal(release.blocks[party][0].values, read_block(data, spec, party).values)


@pytest.mark.parametrize("dealer", ["rotating", "coordinator"])
def test_honest_joint_moments_verify(dealer: str) -> None:
    trio = new_consortium(*THREE_PARTIES)
    spec = build_spec(THREE_PARTIES, keys=trio.keys, mechanism="moments", dealer=dealer)
    release = verified(publish(trio, spec, SeededNoise(2)))
    assert release.guarantee == guarantee(spec).words()
    moments = release.moments()
    tables = {party: random_rows(spec, party) for party in THREE_PARTIES}
    exact = exact_gram(spec, tables).astype(float) / 4.0**spec.grid_bits
    # 36 independent entries at most; 6 sd leave out one such test in ten million.
    assert np.all(np.abs(moments.gram - exact) <= 6 * moments.noise_sd)
    assert np.any(moments.gram != exact)


# The hub's signature and certificate.


@because("not a PEM certificate")
def a_root_that_is_no_certificate() -> Published:
    return replace(HONEST, root="hello")


@because("certificate")
def a_hub_without_a_certificate() -> Published:
    return by_hub(lambda data: data.update(hub_certificate="hello"))


# The manifest's form and words.


@because("not a valid Manifest")
def a_manifest_that_is_not_json() -> Published:
    return replace(HONEST, manifest=b"\xff" + HONEST.manifest)


@because("not a valid Manifest: published")
def a_publication_on_no_day() -> Published:
    return by_hub(lambda data: data.update(published="2026-02-31T12:00:00Z"))


@because("guarantee printed in the manifest")
def a_guarantee_without_its_small_print() -> Published:
    return by_hub(lambda data: data["guarantee"].pop())


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # cryptography's remark on a damaged certificate
@pytest.mark.parametrize("part", range(200))
def test_one_bit_of_the_manifest(part: int) -> None:
    flipped = bytearray(HONEST.manifest)
    position = part * len(flipped) // 200
    flipped[position] ^= 1 << position % 8
    with pytest.raises(IntegrityError):
        verified(replace(HONEST, manifest=bytes(flipped)))


def test_certificates_are_judged_at_publication_and_not_today() -> None:
    # Everything here expired long ago; what was valid when it was signed stays verifiable.
    start = NOW - timedelta(days=4000)
    root = certify("trial", None, authority=True, start=start, end=NOW + timedelta(seconds=1))
    span = {"by": root, "start": NOW - timedelta(days=1), "end": NOW}
    old = Consortium(
        root=root,
        hub=certify("hub", "hub", **span),  # type: ignore[arg-type]
        parties={name: certify(name, "party", **span) for name in TWO_PARTIES},  # type: ignore[arg-type]
    )
    assert verified(publish(old, build_spec(keys=old.keys), SeededNoise(5))).spec.released[0] == "age"


# Approvals.
@because("approvals must name the spec's parties")
def one_approval_given_twice() -> Published:
    return by_hub(lambda data: data["approvals"].__setitem__(1, data["approvals"][0]))


def _approval(signed: SignedApproval) -> Published:
    return by_hub(lambda data: data["approvals"].__setitem__(0, signed.model_dump(mode="json")))


@because("not made with the key that the release names")
def an_approval_under_a_new_key_of_the_same_name() -> Published:
    return _approval(sign_approval(certify("north", "party", by=TRIAL.root), SPEC))


# Sealed blocks.
@because("blocks must name the spec's parties")
def a_sealed_block_left_out() -> Published:
    return by_hub(lambda data: data["blocks"].pop(0))


@because("block 0 of north belongs to another release")
def a_seal_of_another_release() -> Published:
    other = build_spec(keys=TRIAL.keys, title="another")
    return by_hub(
        lambda data: data["blocks"].__setitem__(0, seal(NORTH, other, HONEST.blocks["north"]).model_dump(mode="json"))
    )


@because("block 0 of north belongs to another release")
def a_seal_of_another_size() -> Published:
    return by_hub(lambda data: data["blocks"][0]["sealed"].update(size=1))


def _resealed(member: Member) -> Published:
    entry = seal(member, SPEC, HONEST.blocks["north"]).model_dump(mode="json")
    return by_hub(lambda data: data["blocks"].__setitem__(0, entry))


@because("was not signed with the key that the spec names")
def a_block_sealed_under_a_new_key_of_the_same_name() -> Published:
    return _resealed(certify("north", "party", by=TRIAL.root))


@because("was not signed with the key that the spec names")
def a_block_sealed_under_a_certificate_in_another_name() -> Published:
    return _resealed(replace(certify("west", "party", by=TRIAL.root, key=NORTH.key), name="north"))


@because("not issued by the pinned consortium root")
def a_block_sealed_under_a_certificate_of_its_own() -> Published:
    return _resealed(certify("north", "party", key=NORTH.key))


# The spec: everybody signs, the numbers do not add up.
def _with_noise(change: Callable[[PartyNoise], PartyNoise]) -> ReleaseSpec:
    return with_terms(SPEC, noise=tuple(change(noise) for noise in SPEC.terms.noise))


@because("noise scales are not those of its declared bounds")
def noise_scales_lowered() -> Published:
    return by_everybody(_with_noise(lambda noise: noise.model_copy(update={"scale": noise.scale * 0.99})))


@because("noise scales are not those of its declared bounds")
def an_anchor_with_less_noise() -> Published:
    return by_everybody(_with_noise(lambda noise: noise.model_copy(update={"anchor_scale": noise.scale})))


@because("does not reach the joint target")
def shares_that_exceed_the_target() -> Published:
    def twice(noise: PartyNoise) -> PartyNoise:
        sensitivity2 = SPEC.terms.squared_sensitivity(SPEC, noise.party)
        return party_noise(noise.party, 2 * Fraction(noise.mu2), sensitivity2, SPEC.terms.squared_norm, Fraction(1, 10))

    return by_everybody(_with_noise(twice))


@because("does not reach the joint target epsilon = 0.5")
def another_target_claimed() -> Published:
    return by_everybody(SPEC.model_copy(update={"target": Target(scope="joint", epsilon=0.5, delta=1e-5)}))


@because("does not reach the joint target")
def a_target_for_each_party_sold_as_joint() -> Published:
    spec = build_spec(keys=TRIAL.keys, scope="per-party")
    return by_everybody(spec.model_copy(update={"target": SPEC.target}))


@because("too coarse")
def a_grid_too_coarse() -> Published:
    return by_everybody(build_spec(keys=TRIAL.keys, grid_bits=4, epsilon=3.0))


# The blocks' bytes.
@because("differs from the digest")
def a_block_of_the_same_shape_from_another_release() -> Published:
    return with_blocks(**publish(TRIAL, SPEC, SeededNoise(4)).blocks)


@because("does not have the shape that the spec calls for")
def a_block_sealed_with_values_that_are_no_block() -> Published:
    junk = b"\0" * len(HONEST.blocks["north"])
    entry = seal(NORTH, SPEC, junk).model_dump(mode="json")
    changed = by_hub(lambda data: data["blocks"].__setitem__(0, entry))
    return replace(changed, blocks={**HONEST.blocks, "north": junk})


# Joint moments.
JOINT = build_spec(keys=TRIAL.keys, mechanism="moments")


def _sealed_again(honest: Published, south: bytes) -> Published:
    """Another block of the south's, properly sealed by it and published by the hub without a look."""
    data = json.loads(honest.manifest)
    data["blocks"][1] = seal(SOUTH, JOINT, south).model_dump(mode="json")
    manifest = canonical_bytes(data)
    signature = sign_manifest(TRIAL.hub.key, manifest)
    return replace(honest, manifest=manifest, signature=signature, blocks={**honest.blocks, "south": south})


def _summing_to(value: int) -> Published:
    """Honest moments but for the first entry of their sum."""
    honest = publish(TRIAL, JOINT, SeededNoise(3))
    north, south = (read_block(honest.blocks[party], JOINT, party) for party in TRIAL.parties)
    values = south.values.copy()
    values[0, 0] = (value - int(north.values[0, 0])) % P
    return _sealed_again(honest, replace(south, values=values).to_bytes())


@because("noise scales are not those of the declared bounds")
def moments_against_more_curious_hospitals_than_there_is_noise_for() -> Published:
    trio = new_consortium("a", "b", "c")
    columns = {party: (numeric(f"x{party}"),) for party in trio.parties}
    spec = build_spec(columns, keys=trio.keys, mechanism="moments", dealer="coordinator")
    return publish(trio, with_terms(spec, curious=2), SeededNoise(3))


@because("trust statement")
def moments_in_the_words_of_blocks() -> Published:
    honest = publish(TRIAL, JOINT, SeededNoise(3))
    data = json.loads(honest.manifest)
    data["trust"] = list(trust(SPEC))
    manifest = canonical_bytes(data)
    return replace(honest, manifest=manifest, signature=sign_manifest(TRIAL.hub.key, manifest))


def _largest() -> int:
    """Largest sum that is not garbage: n G^2 and 20 standard deviations."""
    return (JOINT.rows << 2 * JOINT.grid_bits) + int(20 * JOINT.terms.scale * math.sqrt(2)) + 1


@because("do not add up to moments")
def a_sum_beyond_what_data_and_noise_can_reach() -> Published:
    return _summing_to(_largest() + 1)


@because("do not add up to moments")
def a_sum_as_far_below() -> Published:
    return _summing_to(-_largest() - 1)


@because("do not add up to moments")
def the_least_of_all_integers() -> Published:
    return _summing_to(1 - (1 << 60))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_data_and_noise_can_just_reach_verifies(sign: int) -> None:
    release = verified(_summing_to(sign * _largest()))
    assert release.moments().gram[0, 1] == sign * _largest() / 4**JOINT.grid_bits


@pytest.mark.parametrize("departure", REFUSED)
def test_a_departure_from_the_honest_release_is_refused(departure: str) -> None:
    make, sentence = REFUSED[departure]
    with pytest.raises(IntegrityError, match=sentence):
        verified(make())


@pytest.mark.parametrize("party", TWO_PARTIES)
@pytest.mark.parametrize("position", [0, 8, 12, 40, 200, -9, -1])
def test_one_bit_of_a_block(party: str, position: int) -> None:
    flipped = bytearray(HONEST.blocks[party])
    flipped[position] ^= 0x10
    with pytest.raises(IntegrityError, match=f"block 0 of {party} differs"):
        verified(with_blocks(**{party: bytes(flipped)}))
