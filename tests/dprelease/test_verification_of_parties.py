"""Offline verification: departures in the parties' approvals, seals, spec and blocks are refused."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dprelease.canonical import canonical_bytes
from dprelease.errors import IntegrityError
from dprelease.mechanisms.noisy_rows.calibration import party_noise
from dprelease.mechanisms.noisy_rows.terms import PartyNoise
from dprelease.mpc.modulus import P
from dprelease.release.accounting import trust
from dprelease.release.approval import SignedApproval
from dprelease.release.block import read_block
from dprelease.release.manifest import sign_block, sign_manifest
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.dprelease.departures import (
    HONEST,
    NORTH,
    SOUTH,
    SPEC,
    TRIAL,
    Departures,
    by_everybody,
    by_hub,
    verified,
    with_blocks,
)
from tests.support.certificates import Member, certify
from tests.support.noise import SeededNoise
from tests.support.specs import (
    TWO_PARTIES,
    Published,
    build_spec,
    new_consortium,
    numeric,
    publish,
    seal,
    sign_approval,
    with_terms,
)

REFUSED = Departures()


# Approvals.


@REFUSED.because("approvals must name the spec's parties")
def one_approval_given_twice() -> Published:
    return by_hub(lambda data: data["approvals"].__setitem__(1, data["approvals"][0]))


def _approval(signed: SignedApproval) -> Published:
    return by_hub(lambda data: data["approvals"].__setitem__(0, signed.model_dump(mode="json")))


@REFUSED.because("not made with the key that the release names")
def an_approval_under_a_new_key_of_the_same_name() -> Published:
    return _approval(sign_approval(certify("north", "party", by=TRIAL.root), SPEC))


# Sealed blocks.


@REFUSED.because("blocks must name the spec's parties")
def a_sealed_block_left_out() -> Published:
    return by_hub(lambda data: data["blocks"].pop(0))


@REFUSED.because("block 0 of north belongs to another release")
def a_seal_of_another_release() -> Published:
    other = build_spec(keys=TRIAL.keys, title="another")
    return by_hub(
        lambda data: data["blocks"].__setitem__(0, seal(NORTH, other, HONEST.blocks["north"]).model_dump(mode="json"))
    )


@REFUSED.because("block 0 of north belongs to another release")
def a_seal_of_another_size() -> Published:
    return by_hub(lambda data: data["blocks"][0]["sealed"].update(size=1))


def _resealed(member: Member) -> Published:
    entry = seal(member, SPEC, HONEST.blocks["north"]).model_dump(mode="json")
    return by_hub(lambda data: data["blocks"].__setitem__(0, entry))


@REFUSED.because("was not signed with the key that the spec names")
def a_block_sealed_under_a_new_key_of_the_same_name() -> Published:
    return _resealed(certify("north", "party", by=TRIAL.root))


@REFUSED.because("was not signed with the key that the spec names")
def a_block_sealed_under_a_certificate_in_another_name() -> Published:
    return _resealed(replace(certify("west", "party", by=TRIAL.root, key=NORTH.key), name="north"))


@REFUSED.because("not issued by the pinned consortium root")
def a_block_sealed_under_a_certificate_of_its_own() -> Published:
    return _resealed(certify("north", "party", key=NORTH.key))


@REFUSED.because("was not signed with the key that the spec names")
def a_block_signed_by_the_other_party() -> Published:
    def change(data: dict[str, Any]) -> None:
        sealed = data["blocks"][0]["sealed"]
        sealed["signature"] = sign_block(SOUTH.key, SPEC.digest(), sealed["sha256"])
        data["blocks"][0]["certificate"] = SOUTH.certificate

    return by_hub(change)


# The spec: everybody signs, the numbers do not add up.


def _with_noise(change: Callable[[PartyNoise], PartyNoise]) -> ReleaseSpec:
    return with_terms(SPEC, noise=tuple(change(noise) for noise in SPEC.terms.noise))


@REFUSED.because("noise scales are not those of its declared bounds")
def noise_scales_lowered() -> Published:
    return by_everybody(_with_noise(lambda noise: noise.model_copy(update={"scale": noise.scale * 0.99})))


@REFUSED.because("noise scales are not those of its declared bounds")
def an_anchor_with_less_noise() -> Published:
    return by_everybody(_with_noise(lambda noise: noise.model_copy(update={"anchor_scale": noise.scale})))


@REFUSED.because("does not reach the joint target")
def shares_that_exceed_the_target() -> Published:
    def twice(noise: PartyNoise) -> PartyNoise:
        sensitivity2 = SPEC.terms.squared_sensitivity(SPEC, noise.party)
        return party_noise(noise.party, 2 * Fraction(noise.mu2), sensitivity2, SPEC.terms.squared_norm, Fraction(1, 10))

    return by_everybody(_with_noise(twice))


@REFUSED.because("does not reach the joint target epsilon = 0.5")
def another_target_claimed() -> Published:
    return by_everybody(SPEC.model_copy(update={"target": Target(scope="joint", epsilon=0.5, delta=1e-5)}))


@REFUSED.because("does not reach the joint target")
def a_target_for_each_party_sold_as_joint() -> Published:
    spec = build_spec(keys=TRIAL.keys, scope="per-party")
    return by_everybody(spec.model_copy(update={"target": SPEC.target}))


@REFUSED.because("too coarse")
def a_grid_too_coarse() -> Published:
    return by_everybody(build_spec(keys=TRIAL.keys, grid_bits=4, epsilon=3.0))


# The blocks' bytes.


@REFUSED.because("differs from the digest")
def blocks_swapped() -> Published:
    return with_blocks(north=HONEST.blocks["south"], south=HONEST.blocks["north"])


@REFUSED.because("differs from the digest")
def a_block_of_the_same_shape_from_another_release() -> Published:
    return with_blocks(**publish(TRIAL, SPEC, SeededNoise(4)).blocks)


@REFUSED.because("does not have the shape that the spec calls for")
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


@REFUSED.because("noise scales are not those of the declared bounds")
def moments_against_more_curious_hospitals_than_there_is_noise_for() -> Published:
    trio = new_consortium("a", "b", "c")
    columns = {party: (numeric(f"x{party}"),) for party in trio.parties}
    spec = build_spec(columns, keys=trio.keys, mechanism="moments", dealer="coordinator")
    return publish(trio, with_terms(spec, curious=2), SeededNoise(3))


@REFUSED.because("trust statement")
def moments_in_the_words_of_blocks() -> Published:
    honest = publish(TRIAL, JOINT, SeededNoise(3))
    data = json.loads(honest.manifest)
    data["trust"] = list(trust(SPEC))
    manifest = canonical_bytes(data)
    return replace(honest, manifest=manifest, signature=sign_manifest(TRIAL.hub.key, manifest))


def _largest() -> int:
    """Largest sum that is not garbage: n G^2 and 20 standard deviations."""
    return (JOINT.rows << 2 * JOINT.grid_bits) + int(20 * JOINT.terms.scale * math.sqrt(2)) + 1


@REFUSED.because("do not add up to moments")
def a_sum_beyond_what_data_and_noise_can_reach() -> Published:
    return _summing_to(_largest() + 1)


@REFUSED.because("do not add up to moments")
def a_sum_as_far_below() -> Published:
    return _summing_to(-_largest() - 1)


@REFUSED.because("do not add up to moments")
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
