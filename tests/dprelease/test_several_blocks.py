"""Two blocks of each party: named, signed, listed and read by their sequence numbers, and no others."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.canonical import sha256
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.release.block import block_keys, block_size, expected_header, read_block
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry, Manifest, assemble, sign_manifest, verify_block
from dprelease.release.verification import check_entry
from tests.support.certificates import NOW
from tests.support.noise import SeededNoise
from tests.support.several_blocks import ask_for_two, second_block
from tests.support.specs import TWO_PARTIES, build_spec, new_consortium, private_blocks, seal, sign_approval

TRIAL = new_consortium(*TWO_PARTIES)
SPEC = build_spec(keys=TRIAL.keys)


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for_two(monkeypatch)


@pytest.fixture
def blocks(two: None) -> dict[tuple[str, int], bytes]:
    first = private_blocks(SPEC, SeededNoise(3))
    second = {(party, 1): second_block(SPEC, party).to_bytes() for party in first}
    return {(party, 0): block for party, block in first.items()} | second


@pytest.fixture
def entries(blocks: dict[tuple[str, int], bytes]) -> list[BlockEntry]:
    return [seal(TRIAL.parties[party], SPEC, data, at) for (party, at), data in sorted(blocks.items())]


@pytest.fixture
def manifest(entries: list[BlockEntry]) -> Manifest:
    approvals = {name: sign_approval(member, SPEC) for name, member in TRIAL.parties.items()}
    return assemble(SPEC, reversed(entries), approvals, TRIAL.hub.certificate, "0.1.0", NOW)


@pytest.fixture
def folder(tmp_path: Path, blocks: dict[tuple[str, int], bytes], manifest: Manifest) -> ReleaseFolder:
    made = ReleaseFolder(tmp_path / "release")
    (tmp_path / "release" / "blocks").mkdir(parents=True)
    for name, data in blocks.items():
        made.block(*name).write_bytes(data)
    made.write_manifest(manifest.to_bytes(), sign_manifest(TRIAL.hub.key, manifest.to_bytes()))
    return made


def test_a_block_says_which_it_is() -> None:
    assert [key[1:] for key in block_keys(SPEC)] == [("north", 0), ("north", 1), ("south", 0), ("south", 1)]
    block = second_block(SPEC, "north")
    assert (block.header.sequence, block.header.rows, block.header.columns) == (1, 2, 3)
    data = block.to_bytes()
    assert len(data) == block_size(SPEC, "north", 1)
    assert np.array_equal(read_block(data, SPEC, "north", 1).values, block.values)
    with pytest.raises(IntegrityError, match="block 0 of north does not have the shape"):
        read_block(data, SPEC, "north", 0)
    with pytest.raises(IntegrityError, match="block 1 of south does not have the shape"):
        read_block(data, SPEC, "south", 1)


@pytest.mark.parametrize("number", [-1, 2, 1 << 40])
def test_there_is_no_further_block(number: int) -> None:
    for ask in (expected_header, block_size):
        with pytest.raises(InvalidInput, match=f"has no block {number} of north"):
            ask(SPEC, "north", number)


def test_a_party_signs_which_block_it_is(entries: list[BlockEntry]) -> None:
    key, sealed = TRIAL.parties["north"].key.public_key(), entries[1].sealed
    verify_block(key, sealed)
    with pytest.raises(IntegrityError):
        verify_block(key, sealed.model_copy(update={"sequence": 0}))


def test_a_seal_with_a_number_that_the_spec_does_not_ask_for_is_refused(entries: list[BlockEntry]) -> None:
    root, published = TRIAL.root.certificate, "2026-03-01T12:00:00Z"
    for entry in entries:
        check_entry(entry, SPEC, root, published)
    further = seal(TRIAL.parties["north"], SPEC, second_block(SPEC, "north").to_bytes(), 2)
    with pytest.raises(IntegrityError, match="has no block 2 of north"):
        check_entry(further, SPEC, root, published)


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries[:3],
        lambda entries: [entries[0], *entries],
        lambda entries: [entries[0], entries[0], *entries[2:]],
        lambda entries: [entries[1], entries[0], *entries[2:]],
        lambda entries: [entries[0], entries[2], entries[1], entries[3]],
        lambda entries: [*entries, seal(TRIAL.parties["south"], SPEC, b"", 2)],
    ],
    ids=["missing", "doubled", "doubled instead", "out of order", "by number first", "one too many"],
)
def test_a_manifest_has_every_block_once_in_order(
    manifest: Manifest, change: Callable[[Sequence[BlockEntry]], Sequence[BlockEntry]]
) -> None:
    with pytest.raises(ValidationError, match="each with its sequence numbers, in its order"):
        Manifest.model_validate({**dict(manifest), "blocks": tuple(change(manifest.blocks))})


def test_a_missing_or_exchanged_second_block_is_named(folder: ReleaseFolder) -> None:
    folder.block("north", 1).write_bytes(folder.block("south", 1).read_bytes())
    with pytest.raises(IntegrityError, match="block 1 of north differs from the digest"):
        folder.verify(TRIAL.root.certificate)
    folder.block("north", 1).unlink()
    with pytest.raises(IntegrityError, match="block 1 of north is missing"):
        folder.verify(TRIAL.root.certificate)


def test_blocks_under_one_anothers_numbers_are_refused(manifest: Manifest, folder: ReleaseFolder) -> None:
    """Signed so by their party: only what the bytes say of themselves tells."""
    north, first, second = TRIAL.parties["north"], folder.block("north"), folder.block("north", 1)
    exchanged = second.read_bytes(), first.read_bytes()
    turned = tuple(seal(north, SPEC, data, at) for at, data in enumerate(exchanged))
    data = manifest.model_copy(update={"blocks": (*turned, *manifest.blocks[2:])}).to_bytes()
    assert sha256(data) != sha256(manifest.to_bytes())
    for path, block in zip((first, second), exchanged, strict=True):
        path.write_bytes(block)
    folder.write_manifest(data, sign_manifest(TRIAL.hub.key, data))
    with pytest.raises(IntegrityError, match="block 0 of north belongs to another release"):
        folder.verify(TRIAL.root.certificate)
