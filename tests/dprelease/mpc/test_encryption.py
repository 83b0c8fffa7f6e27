"""End-to-end encryption: what opens, for whom, and that nothing else does."""

from dataclasses import replace
from itertools import combinations
from secrets import token_bytes

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.errors import IntegrityError
from dprelease.mpc.encryption import (
    KEY_BYTES,
    ColumnCipher,
    Context,
    commitment,
    new_session_key,
    private_bytes,
    public_bytes,
    seal,
    shared_seed,
    unseal,
)
from dprelease.mpc.schedule import SEAL_BYTES, TAG_BYTES

CONTEXT = Context("deal", "a" * 64, "b" * 64, "amber", "birch", "cedar")
FIELDS = ("purpose", "task", "session", "sender", "receiver", "dealer")
MESSAGE = b"thirty-two bytes of a secret seed"

PRIME = 2**255 - 19
SMALL_ORDER = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    PRIME - 1,
    PRIME,
    PRIME + 1,
)
"""u-coordinates of points of order 1, 2, 4 and 8, on the curve and on its twist: with them every exchange gives zero."""


def flipped(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data, "big") ^ 1 << bit).to_bytes(len(data), "big")


def test_what_is_sealed_opens_with_the_receivers_key_in_its_context() -> None:
    key = new_session_key()
    for message in (b"", MESSAGE, bytes(100_000)):
        sealed = seal(public_bytes(key), message, CONTEXT)
        assert len(sealed) == len(message) + SEAL_BYTES
        assert unseal(key, sealed, CONTEXT) == message


def test_nothing_of_a_message_shows_and_no_two_are_alike() -> None:
    key = new_session_key()
    first, second = seal(public_bytes(key), MESSAGE, CONTEXT), seal(public_bytes(key), MESSAGE, CONTEXT)
    assert MESSAGE not in first
    assert first[:KEY_BYTES] != second[:KEY_BYTES]
    assert first[KEY_BYTES:] != second[KEY_BYTES:]


def test_another_key_does_not_open_it() -> None:
    sealed = seal(public_bytes(new_session_key()), MESSAGE, CONTEXT)
    with pytest.raises(IntegrityError, match="what amber sent does not open as a deal"):
        unseal(new_session_key(), sealed, CONTEXT)


@pytest.mark.parametrize("field", FIELDS)
def test_another_context_does_not_open_it(field: str) -> None:
    key = new_session_key()
    sealed = seal(public_bytes(key), MESSAGE, CONTEXT)
    with pytest.raises(IntegrityError):
        unseal(key, sealed, replace(CONTEXT, **{field: "other"}))


def test_one_flipped_bit_anywhere_is_noticed() -> None:
    key = new_session_key()
    sealed = seal(public_bytes(key), b"seed", CONTEXT)
    for bit in range(8 * len(sealed)):  # X25519 ignores the top bit of a point, but the key's derivation does not
        with pytest.raises(IntegrityError):
            unseal(key, flipped(sealed, bit), CONTEXT)


def test_what_is_too_short_or_too_long_does_not_open() -> None:
    key = new_session_key()
    sealed = seal(public_bytes(key), MESSAGE, CONTEXT)
    for data in (b"", sealed[:5], sealed[:KEY_BYTES], sealed[: SEAL_BYTES - 1], sealed[:-1], sealed + b"\0"):
        with pytest.raises(IntegrityError):
            unseal(key, data, CONTEXT)


def test_the_coordinator_is_named_when_its_deal_does_not_open() -> None:
    sealed = seal(public_bytes(new_session_key()), MESSAGE, replace(CONTEXT, sender=""))
    with pytest.raises(IntegrityError, match="what the coordinator sent does not open"):
        unseal(new_session_key(), sealed, replace(CONTEXT, sender=""))


@pytest.mark.parametrize("point", SMALL_ORDER)
@pytest.mark.parametrize("top", [0, 1 << 255])
def test_points_of_small_order_are_refused(point: int, top: int) -> None:
    key, peer = new_session_key(), (point | top).to_bytes(KEY_BYTES, "little")
    with pytest.raises(IntegrityError, match="not a usable X25519 key"):
        seal(peer, MESSAGE, CONTEXT)
    with pytest.raises(IntegrityError, match="what amber sent does not open as a deal"):
        unseal(key, peer + bytes(40), CONTEXT)
    with pytest.raises(IntegrityError, match="not a usable X25519 key"):
        shared_seed(key, peer, CONTEXT)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(IntegrityError, match="not a usable X25519 key"):
        seal(b"\x09" * length, MESSAGE, CONTEXT)
    with pytest.raises(IntegrityError, match="not a usable X25519 key"):
        shared_seed(new_session_key(), b"\x09" * length, CONTEXT)


def test_a_session_key_comes_back_from_disk() -> None:
    key = new_session_key()
    again = X25519PrivateKey.from_private_bytes(private_bytes(key))
    assert len(private_bytes(key)) == len(public_bytes(key)) == KEY_BYTES
    assert public_bytes(again) == public_bytes(key) != private_bytes(key)
    assert unseal(again, seal(public_bytes(key), MESSAGE, CONTEXT), CONTEXT) == MESSAGE
    assert public_bytes(new_session_key()) != public_bytes(key)


def test_two_parties_share_a_seed_and_every_pair_and_context_another() -> None:
    keys = [new_session_key() for _ in range(4)]
    seeds = set()
    for first, second in combinations(keys, 2):
        seed = shared_seed(first, public_bytes(second), CONTEXT)
        assert seed == shared_seed(second, public_bytes(first), CONTEXT)
        assert len(seed) == KEY_BYTES
        seeds.add(seed)
    assert len(seeds) == 6
    for field in FIELDS:
        seeds.add(shared_seed(keys[0], public_bytes(keys[1]), replace(CONTEXT, **{field: "other"})))
    assert len(seeds) == 6 + len(FIELDS)


def test_a_seed_is_not_the_key_of_a_message_in_the_same_context() -> None:
    """The salt names the ephemeral key, so that one exchange never serves two purposes even with one context."""
    key, once = new_session_key(), new_session_key()
    sealed = seal(public_bytes(key), MESSAGE, CONTEXT)
    seed = shared_seed(key, public_bytes(once), CONTEXT)
    with pytest.raises(IntegrityError):
        ColumnCipher(seed, CONTEXT).decrypt(0, sealed[KEY_BYTES:])


def test_context_bytes_tell_every_field_apart() -> None:
    contexts = [CONTEXT, *(replace(CONTEXT, **{field: "x"}) for field in FIELDS)]
    contexts += [replace(CONTEXT, sender="am", receiver="berbirch"), replace(CONTEXT, sender='amber","x":"')]
    assert len({context.to_bytes() for context in contexts}) == len(contexts)
    assert all(context.to_bytes().startswith(b"dprelease/moments/v1|") for context in contexts)


COLUMNS = Context("columns", "a" * 64, "b" * 64, "amber", "", "cedar")


def test_chunks_of_columns_open_in_their_place_only() -> None:
    key = token_bytes(KEY_BYTES)
    cipher = ColumnCipher(key, COLUMNS)
    chunks = [bytes([number]) * 100 for number in range(3)]
    sealed = [cipher.encrypt(number, memoryview(chunk)) for number, chunk in enumerate(chunks)]
    assert {len(chunk) for chunk in sealed} == {100 + TAG_BYTES}
    for number, chunk in enumerate(sealed):
        assert ColumnCipher(key, COLUMNS).decrypt(number, chunk) == chunks[number]
        for place in {0, 1, 2, 3} - {number}:
            with pytest.raises(IntegrityError, match=f"chunk {place} of the columns of amber was altered"):
                cipher.decrypt(place, chunk)


def test_chunks_do_not_open_with_another_key_context_or_bit() -> None:
    key = token_bytes(KEY_BYTES)
    sealed = ColumnCipher(key, COLUMNS).encrypt(7, b"some words")
    refused = [ColumnCipher(token_bytes(KEY_BYTES), COLUMNS)]
    refused += [ColumnCipher(key, replace(COLUMNS, **{field: "other"})) for field in FIELDS]
    for cipher in refused:
        with pytest.raises(IntegrityError):
            cipher.decrypt(7, sealed)
    for bit in range(8 * len(sealed)):
        with pytest.raises(IntegrityError):
            ColumnCipher(key, COLUMNS).decrypt(7, flipped(sealed, bit))
    for data in (b"", sealed[:TAG_BYTES], sealed[:-1]):
        with pytest.raises(IntegrityError):
            ColumnCipher(key, COLUMNS).decrypt(7, data)


def test_equal_chunks_look_different() -> None:
    cipher = ColumnCipher(token_bytes(KEY_BYTES), COLUMNS)
    assert len({cipher.encrypt(number, bytes(64)) for number in range(20)}) == 20


def test_a_commitment_binds_to_a_key_and_hides_it() -> None:
    keys = [token_bytes(KEY_BYTES) for _ in range(20)]
    assert len({commitment(key) for key in keys}) == 20
    assert commitment(keys[0]) == commitment(bytes(keys[0]))
    assert keys[0].hex() not in commitment(keys[0])
    assert len(commitment(keys[0])) == 64
