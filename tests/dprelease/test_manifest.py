"""The manifest: one entry for each party, in the spec's order, and signatures over its very bytes."""

import pytest
from pydantic import ValidationError

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import new_private_key
from dprelease.release.manifest import Manifest, assemble, sign_block, sign_manifest, verify_block, verify_manifest
from tests.support.certificates import NOW
from tests.support.specs import TWO_PARTIES, build_spec, new_consortium, seal, sign_approval

TRIAL = new_consortium(*TWO_PARTIES)
SPEC = build_spec(keys=TRIAL.keys)
BLOCKS = {name: seal(member, SPEC, b"block of " + name.encode()) for name, member in TRIAL.parties.items()}
APPROVALS = {name: sign_approval(member, SPEC) for name, member in TRIAL.parties.items()}
MANIFEST = assemble(SPEC, BLOCKS.values(), APPROVALS, TRIAL.hub.certificate, "0.1.0", NOW)


@pytest.mark.parametrize("field", ["blocks", "approvals"])
def test_a_missing_doubled_or_misplaced_entry_is_no_manifest(field: str) -> None:
    one, two = getattr(MANIFEST, field)
    for entries in ((), (one,), (two, one), (one, one), (one, two, two)):
        with pytest.raises(ValidationError, match="must name the spec's parties"):
            Manifest.model_validate({**dict(MANIFEST), field: entries})


def test_fields_that_this_format_does_not_know_are_refused() -> None:
    with pytest.raises(InvalidInput, match="comment"):
        Manifest.from_bytes(
            MANIFEST.to_bytes().replace(b'"format":1,"guarantee"', b'"comment":1,"format":1,"guarantee"')
        )


def test_the_hub_signs_every_byte() -> None:
    data = MANIFEST.to_bytes()
    signature = sign_manifest(TRIAL.hub.key, data)
    verify_manifest(TRIAL.hub.key.public_key(), signature, data)
    with pytest.raises(IntegrityError):
        verify_manifest(TRIAL.hub.key.public_key(), signature, data + b" ")
    with pytest.raises(IntegrityError):
        verify_manifest(new_private_key().public_key(), signature, data)


def test_a_party_signs_its_block_for_one_spec() -> None:
    north = TRIAL.parties["north"]
    sealed = BLOCKS["north"].sealed
    verify_block(north.key.public_key(), sealed)
    for change in ({"spec": "0" * 64}, {"sha256": "0" * 64}, {"spec": sealed.sha256, "sha256": sealed.spec}):
        with pytest.raises(IntegrityError):
            verify_block(north.key.public_key(), sealed.model_copy(update=change))


def test_a_signed_manifest_is_no_signed_block() -> None:
    key = new_private_key()
    sealed = BLOCKS["north"].sealed
    as_manifest = sign_manifest(key, bytes.fromhex(sealed.spec) + bytes.fromhex(sealed.sha256))
    with pytest.raises(IntegrityError):
        verify_block(key.public_key(), sealed.model_copy(update={"signature": as_manifest}))
    assert sign_block(key, sealed.spec, sealed.sha256) != as_manifest
