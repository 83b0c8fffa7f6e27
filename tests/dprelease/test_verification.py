"""Offline verification: an honest release passes; departures in the hub's part of the chain are refused."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from dprelease.errors import IntegrityError
from dprelease.release.accounting import guarantee
from dprelease.release.block import read_block
from tests.dprelease.departures import HONEST, TRIAL, Departures, by_hub, verified
from tests.support.certificates import NOW, certify
from tests.support.joint import exact_gram
from tests.support.noise import SeededNoise
from tests.support.specs import (
    TWO_PARTIES,
    Consortium,
    Published,
    build_spec,
    categorical,
    new_consortium,
    publish,
    random_rows,
)

REFUSED = Departures()

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


@REFUSED.because("not a PEM certificate")
def a_root_that_is_no_certificate() -> Published:
    return replace(HONEST, root="hello")


@REFUSED.because("certificate")
def a_hub_without_a_certificate() -> Published:
    return by_hub(lambda data: data.update(hub_certificate="hello"))


# The manifest's form and words.


@REFUSED.because("not a valid Manifest")
def a_manifest_that_is_not_json() -> Published:
    return replace(HONEST, manifest=b"\xff" + HONEST.manifest)


@REFUSED.because("not a valid Manifest: published")
def a_publication_on_no_day() -> Published:
    return by_hub(lambda data: data.update(published="2026-02-31T12:00:00Z"))


@REFUSED.because("guarantee printed in the manifest")
def a_guarantee_without_its_small_print() -> Published:
    return by_hub(lambda data: data["guarantee"].pop())


@REFUSED.because("trust")
def a_trust_statement_that_promises_more() -> Published:
    return by_hub(lambda data: data.update(trust=["Nobody needs to be trusted for anything."]))


@pytest.mark.parametrize("departure", REFUSED)
def test_a_departure_from_the_honest_release_is_refused(departure: str) -> None:
    make, sentence = REFUSED[departure]
    with pytest.raises(IntegrityError, match=sentence):
        verified(make())


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
