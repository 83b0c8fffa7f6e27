"""The sealed block on disk: made once, whole or absent, and never anything else than what was signed."""

from pathlib import Path

import numpy as np
import pytest

from dprelease.canonical import sha256
from dprelease.errors import IntegrityError
from dprelease.files.durable import write_durably
from dprelease.identity.signing import PrivateKey, new_private_key
from dprelease.release.block import Block, expected_header
from dprelease.release.manifest import verify_block
from party_node.state.vault import Vault
from tests.support.specs import build_spec

SPEC = build_spec()


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return new_private_key()


def block(value: int) -> Block:
    header = expected_header(SPEC, "north")
    return Block(header, np.full((header.rows, header.columns), value, np.int64))


def test_a_sealed_block_is_found_as_it_was_signed(folder: Path, key: PrivateKey) -> None:
    (sealed,) = Vault(folder / "sealed").seal((block(1),), key)
    found = Vault(folder / "sealed").find(SPEC.digest())
    assert found == (sealed,)
    data = Vault(folder / "sealed").path(SPEC.digest()).read_bytes()
    assert (sealed.sha256, sealed.size, data) == (sha256(data), len(data), block(1).to_bytes())
    verify_block(key.public_key(), sealed)


def test_a_second_draw_for_the_same_release_is_dropped(folder: Path, key: PrivateKey) -> None:
    vault = Vault(folder / "sealed")
    first = vault.seal((block(1),), key)
    assert vault.seal((block(2),), key) == first
    assert vault.path(SPEC.digest()).read_bytes() == block(1).to_bytes()


def test_nothing_is_sealed_before_its_seal_is_there(folder: Path, key: PrivateKey) -> None:
    vault = Vault(folder / "sealed")
    assert vault.find(SPEC.digest()) == ()
    write_durably(vault.path(SPEC.digest()), block(1).to_bytes())
    assert vault.find(SPEC.digest()) == ()
    assert vault.seal((block(2),), key)[0].sha256 == sha256(block(2).to_bytes())


def test_only_the_owner_can_read_it(folder: Path, key: PrivateKey) -> None:
    Vault(folder / "sealed").seal((block(1),), key)
    assert {path.stat().st_mode & 0o777 for path in (folder / "sealed").iterdir()} == {0o600}


def test_an_altered_or_lost_block_is_not_found_but_reported(folder: Path, key: PrivateKey) -> None:
    vault = Vault(folder / "sealed")
    vault.seal((block(1),), key)
    path = vault.path(SPEC.digest())
    path.write_bytes(block(2).to_bytes())
    with pytest.raises(IntegrityError, match="altered"):
        vault.find(SPEC.digest())
    path.unlink()
    with pytest.raises(IntegrityError, match="altered"):
        vault.seal((block(2),), key)


def test_discarding_leaves_nothing_and_may_be_repeated(folder: Path, key: PrivateKey) -> None:
    vault = Vault(folder / "sealed")
    vault.discard(SPEC.digest())
    vault.seal((block(1),), key)
    for _ in range(2):
        vault.discard(SPEC.digest())
    assert vault.find(SPEC.digest()) == ()
    assert list((folder / "sealed").iterdir()) == []
