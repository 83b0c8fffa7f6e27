"""Keys that stay on site, the key that hospitals share, and the peers that people compared by telephone."""

import errno
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import Conflict, InvalidInput, NotFound, PeerUnavailable
from party_node.identity import KeyFolder, alignment_key_from_text, alignment_key_text, key_check
from party_node.source.alignment import KEY_BYTES

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
FINGERPRINT = "0123456789abcdef" * 4


@pytest.fixture
def identity(folder: Path) -> KeyFolder:
    return KeyFolder(folder / "state")


def test_the_key_is_made_once_and_only_its_owner_can_read_it(identity: KeyFolder, folder: Path) -> None:
    first = identity.fingerprint()
    assert KeyFolder(folder / "state").fingerprint() == first
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert (folder / "state" / "identity" / "key.pem").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_that_others_can_read_is_not_used(identity: KeyFolder, folder: Path, mode: int) -> None:
    identity.fingerprint()
    (folder / "state" / "identity" / "key.pem").chmod(mode)
    with pytest.raises(InvalidInput, match="chmod 600"):
        identity.fingerprint()


def test_before_enrolment_there_is_no_certificate(identity: KeyFolder) -> None:
    for use in (identity.enrolment, identity.credentials):
        with pytest.raises(NotFound, match="ask the consortium's office for an invite"):
            use()


def test_the_alignment_key_is_made_at_one_hospital_and_imported_at_the_others(folder: Path) -> None:
    one, other = KeyFolder(folder / "one"), KeyFolder(folder / "other")
    for identity in (one, other):
        with pytest.raises(NotFound, match="alignment-key new"):
            identity.alignment_key()
    key = one.new_alignment_key()
    assert other.import_alignment_key(alignment_key_text(key)) == key
    assert one.alignment_key() == other.alignment_key() == key
    assert len(key) == KEY_BYTES
    for path in folder.glob("*/identity/alignment.key"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_no_key_that_is_cut_short(
    identity: KeyFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identifiers under an empty alignment key could be guessed by anybody."""
    (folder / "state" / "identity").mkdir(parents=True)
    monkeypatch.setattr("dprelease.files.durable.os.fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
    for make in (identity.new_alignment_key, identity.key):
        with pytest.raises(PeerUnavailable, match="No space left"):
            make()
    assert list((folder / "state" / "identity").iterdir()) == []
    monkeypatch.undo()
    assert identity.new_alignment_key() == identity.alignment_key()
    (folder / "state" / "identity" / "alignment.key").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"alignment\.key is cut short; move it away, then: .* alignment-key import"):
        identity.alignment_key()


def test_an_alignment_key_is_not_replaced(identity: KeyFolder) -> None:
    key = identity.new_alignment_key()
    with pytest.raises(InvalidInput, match="exists already"):
        identity.new_alignment_key()
    with pytest.raises(InvalidInput, match="exists already"):
        identity.import_alignment_key(alignment_key_text(bytes(KEY_BYTES)))
    assert identity.alignment_key() == key


@given(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES))
def test_a_key_as_text_reads_back(key: bytes) -> None:
    text = alignment_key_text(key)
    assert re.fullmatch("[A-Z2-7]{4}(-[A-Z2-7]{4}){13}", text)
    assert alignment_key_from_text(text) == key
    assert alignment_key_from_text(f"  {text.lower().replace('-', ' ')}\n") == key
    assert re.fullmatch("[0-9a-f]{8}", key_check(key))


@given(
    key=st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), position=st.integers(0, 54), letter=st.sampled_from(LETTERS)
)
def test_a_mistyped_letter_and_two_in_each_others_place_are_noticed(key: bytes, position: int, letter: str) -> None:
    letters = alignment_key_text(key).replace("-", "")
    before, (one, other), after = letters[:position], letters[position : position + 2], letters[position + 2 :]
    for mistyped in {before + letter + other + after, before + one + letter + after, before + other + one + after}:
        if mistyped != letters:
            with pytest.raises(InvalidInput, match="mistyped"):
                alignment_key_from_text(mistyped)


@pytest.mark.parametrize("cut", [1, 4, 5, 10, 60])
def test_a_key_that_is_not_whole_is_noticed(cut: int) -> None:
    text = alignment_key_text(bytes(range(KEY_BYTES)))
    with pytest.raises(InvalidInput):
        alignment_key_from_text(text[:-cut])
    with pytest.raises(InvalidInput):
        alignment_key_from_text(text + text[:cut])


@given(st.text(max_size=80))
def test_any_other_text_is_no_key(text: str) -> None:
    with pytest.raises(InvalidInput):
        alignment_key_from_text(text)


def test_a_refused_text_is_not_kept(identity: KeyFolder) -> None:
    with pytest.raises(InvalidInput):
        identity.import_alignment_key("ABCD-EFGH")
    with pytest.raises(NotFound):
        identity.alignment_key()


@pytest.mark.parametrize(
    "written",
    [
        FINGERPRINT,
        FINGERPRINT.upper(),
        ":".join(FINGERPRINT[i : i + 2] for i in range(0, 64, 2)),
        " ".join(FINGERPRINT[i : i + 8] for i in range(0, 64, 8)),
    ],
)
def test_a_peer_is_pinned_however_its_key_is_read_out(identity: KeyFolder, folder: Path, written: str) -> None:
    assert identity.pins() == {}
    identity.pin("south", written)
    identity.pin("south", FINGERPRINT)
    assert KeyFolder(folder / "state").pins() == {"south": FINGERPRINT}


@pytest.mark.parametrize("damaged", [b"", b"{", b"[1]", b"\xff", b"[" * 10_000, b'{"x":1' + b"0" * 5_000 + b"}"])
def test_damaged_pins_are_refused_by_name(identity: KeyFolder, folder: Path, damaged: bytes) -> None:
    identity.pin("south", FINGERPRINT)
    (folder / "state" / "identity" / "peers.json").write_bytes(damaged)
    with pytest.raises(InvalidInput, match=r"peers\.json: "):
        identity.pins()


@pytest.mark.parametrize("written", ["", FINGERPRINT[:-1], FINGERPRINT + "0", "g" * 64, "٣" * 64, "south"])
def test_what_is_no_fingerprint_is_refused(identity: KeyFolder, written: str) -> None:
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        identity.pin("south", written)
    assert identity.pins() == {}


def test_another_key_for_a_pinned_peer_is_a_conflict_until_it_is_forgotten(identity: KeyFolder) -> None:
    identity.pin("south", FINGERPRINT)
    identity.pin("east", "b" * 64)
    with pytest.raises(Conflict, match="peers forget south"):
        identity.pin("south", "a" * 64)
    assert identity.pins()["south"] == FINGERPRINT
    identity.forget("south")
    assert identity.pins() == {"east": "b" * 64}
    identity.pin("south", "a" * 64)
    with pytest.raises(NotFound, match="no key is pinned for west"):
        identity.forget("west")


def test_nobody_is_pinned_by_a_name_that_no_hospital_can_have(identity: KeyFolder) -> None:
    with pytest.raises(InvalidInput, match="'south, not' cannot name a hospital; take a name of at most 64"):
        identity.pin("south, not", "ab" * 32)
    assert identity.pins() == {}


def test_a_key_that_is_pinned_under_another_name_is_refused(identity: KeyFolder) -> None:
    identity.pin("south", FINGERPRINT)
    with pytest.raises(Conflict, match="this key of sout is the key of south"):
        identity.pin("sout", FINGERPRINT)
    with pytest.raises(Conflict, match="this key of west is the key of east"):
        identity.pin_all({"east": "b" * 64, "west": "b" * 64})
    assert identity.pins() == {"south": FINGERPRINT}
