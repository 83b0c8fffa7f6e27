"""What docs/format.md says about joint moments, computed again from its words alone and compared with code and vectors."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dprelease.canonical import canonical_bytes
from dprelease.mechanisms.moments.calibration import FINEST, PLAUSIBLE, noise_reach
from dprelease.mechanisms.moments.entries import EntryKind, code
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc import encryption
from dprelease.mpc.messages import MOST_ROUNDS, Message, MessageHeader, check_message, session_digest
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.proof.claim import Claim, GridInterval
from dprelease.mpc.round import transcript_digest
from dprelease.mpc.schedule import read_randomness
from dprelease.release.accounting import check_spec, trust
from dprelease.release.block import Block, expected_header
from dprelease.release.spec import ReleaseSpec
from tests.support.rounds import ranges_first
from tests.support.specs import build_spec, categorical, numeric, one_block_each, with_terms
from tests.test_docs_format import FORMAT, GUARANTEES, V, epsilon_at, joined, sentences, table

RING = 1 << 64
SPEC = ReleaseSpec.from_bytes(joined("moments-spec").encode())
SCHEDULE = schedule_of(SPEC)
TERMS = joint_moments(SPEC)
NAMES = ("north", "south", "east")
COUNT = 4
UNIT = 1024

Matrix = list[list[int]]

EQUAL = "to the hospitals in equal parts"


def read(text: str) -> Matrix:
    return [[int(cell) for cell in line.split()] for line in text.splitlines()]


CODES = {"north": read(V["codes-north"]), "south": read(V["codes-south"]), "east": read(V["codes-east"])}
WIDTH = {name: len(rows[0]) for name, rows in CODES.items()}
MASKS = {
    ("north", "east"): 1,
    ("south", "east"): 2,
    ("north", "south"): 3,
    ("east", "south"): 4,
    ("south", "north"): 5,
    ("east", "north"): 6,
}
SEEDS = {("north", "south"): 7, ("north", "east"): 8, ("south", "east"): 9}
DEALER = {("north", "south"): "east", ("north", "east"): "south", ("south", "east"): "north"}
PRIVATE = {"north": 0x11, "south": 0x12, "east": 0x13}


def seed(byte: int) -> bytes:
    return bytes([byte]) * 32


def keystream(key: bytes, rows: int, width: int) -> Matrix:
    """Words of section 15."""
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * rows * width))
    words = [int.from_bytes(stream[at : at + 8], "little") for at in range(0, len(stream), 8)]
    return [words[row * width : (row + 1) * width] for row in range(rows)]


def times(left: Matrix, right: Matrix) -> Matrix:
    """left' right modulo 2^64."""
    return [
        [sum(a[i] * b[j] for a, b in zip(left, right, strict=True)) % RING for j in range(len(right[0]))]
        for i in range(len(left[0]))
    ]


def combine(left: Matrix, right: Matrix, sign: int) -> Matrix:
    return [[(a + sign * b) % RING for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)]


def stored(words: Matrix) -> bytes:
    return b"".join(word.to_bytes(8, "little") for row in words for word in row)


def mask(party: str, dealer: str) -> Matrix:
    return keystream(seed(MASKS[party, dealer]), COUNT, WIDTH[party])


def masked(party: str, dealer: str) -> Matrix:
    return combine(CODES[party], mask(party, dealer), 1)


def pad(pair: tuple[str, str]) -> Matrix:
    return keystream(seed(SEEDS[pair]), WIDTH[pair[0]], WIDTH[pair[1]])


def correction(pair: tuple[str, str]) -> Matrix:
    return combine(times(mask(pair[0], DEALER[pair]), mask(pair[1], DEALER[pair])), pad(pair), -1)


def share_of(pair: tuple[str, str], party: str) -> Matrix:
    first, second = pair
    if party == first:
        return combine(pad(pair), times(mask(first, DEALER[pair]), masked(second, DEALER[pair])), -1)
    return combine(times(masked(first, DEALER[pair]), CODES[second]), correction(pair), 1)


def public(name: str) -> bytes:
    return X25519PrivateKey.from_private_bytes(seed(PRIVATE[name])).public_key().public_bytes_raw()


def agreed(private: int, peer: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(seed(private)).exchange(X25519PublicKey.from_public_bytes(peer))


def derived(secret: bytes, salt: bytes, context: bytes) -> bytes:
    """HKDF with SHA-256 for 32 bytes, from RFC 5869; no salt is a salt of zeros."""
    extracted = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, context + b"\x01", hashlib.sha256).digest()


def context(purpose: str, sender: str, receiver: str, dealer: str) -> bytes:
    said = {"purpose": purpose, "sender": sender, "receiver": receiver, "dealer": dealer}
    return b"dprelease/moments/v1|" + canonical_bytes(said | {"task": SPEC.digest(), "session": V["session"]})


def pair_seed(first: str, second: str) -> bytes:
    return derived(agreed(PRIVATE[first], public(second)), b"", context("block-mask", first, second, ""))


# 9 and 10: noise scales and words.


def squared(count: Fraction, target: float) -> bool:
    return Fraction(math.nextafter(target, 0)) ** 2 < count <= Fraction(target) ** 2


def test_noise_scales() -> None:
    numbers, binaries, groups, parties, curious = 2, 1, 1, 3, 1
    mu2 = Fraction(TERMS.mu2)
    squared_delta = 16**10 * (1 + numbers + binaries + groups) ** 2
    weight = 1 + groups + binaries + Fraction(numbers + 1, 2)
    assert squared((squared_delta / mu2 + 4) / (parties - curious), TERMS.scale)
    assert squared((squared_delta / (weight * mu2) + 4) / (parties - curious), TERMS.diagonal_scale)
    room = 2 * Fraction(TERMS.scale) ** 2 - 4
    other = weight * (2 * Fraction(TERMS.diagonal_scale) ** 2 - 4)
    spent = squared_delta / min(room, other)
    said = check_spec(SPEC)
    assert said.joint_mu2 == spent
    epsilon = f"{epsilon_at(spent, SPEC.target.delta):.6g}"
    filled = [
        text.format(E=epsilon, D=f"{SPEC.target.delta:g}", WHO="any single hospital", SPLIT=EQUAL)
        for text in sentences("words-together")
    ]
    assert said.words() == (*filled, sentences("words")[2]) == sentences("moments-guarantee")


def test_a_single_category_is_a_case_of_its_own() -> None:
    spec = build_spec({"north": (categorical("stage", "I", "II"),)}, mechanism="moments")
    said = joint_moments(spec)
    delta2 = 16**10 * (2**2 - 1 - 1)
    assert squared(Fraction(delta2) / Fraction(said.mu2) + 4, said.scale)
    assert said.scale == said.diagonal_scale


@pytest.mark.parametrize(
    ("parties", "curious", "dealer"), [(1, 0, "none"), (2, 1, "coordinator"), (3, 1, "rotating"), (4, 2, "coordinator")]
)
def test_words_of_guarantee_and_trust(parties: int, curious: int, dealer: str) -> None:
    names = [f"p{number}" for number in range(parties)]
    spec = build_spec(
        {name: (numeric(f"x_{name}"),) for name in names}, mechanism="moments", curious=curious, dealer=dealer
    )
    who = "any single hospital" if curious == 1 else f"any {curious} hospitals that pool what they saw"
    said = sentences("words-alone") if parties == 1 else sentences("words-together")
    assert check_spec(spec).words()[:-1] == tuple(text.format(E="1", D="1e-05", WHO=who, SPLIT=EQUAL) for text in said)
    if parties == 1:
        expected = sentences("trust-alone")
    else:
        together, _, *rest = sentences("trust-rotating")
        pooled = "one hospital" if curious == 1 else f"{curious} hospitals"
        (dealt,) = (text.format(CURIOUS=pooled) for text in sentences("trust-coordinator"))
        expected = sentences("trust-rotating") if dealer == "rotating" else (together, dealt, *rest)
    assert trust(spec) == expected


@pytest.mark.parametrize(
    ("curious", "altered", "error"),
    [(1, "one hospital runs", "2^-52.4"), (2, "up to 2 hospitals that pool run", "2^-51.4")],
)
def test_words_about_range_proofs(curious: int, altered: str, error: str) -> None:
    columns = {name: (numeric(f"x_{name}"),) for name in "abcd"}
    plain = build_spec(columns, mechanism="moments", curious=curious, dealer="coordinator")
    spec = with_terms(plain, range_proofs=True)
    blanks = {"ALTERED": altered, "VERIFIERS": "one other" if curious == 1 else "2 others", "ERROR": error}
    first, last = check_spec(plain).words()
    proved = [text.format(**blanks) for text in sentences("words-proved")]
    checked = [text.format(**blanks) for text in sentences("trust-proved")]
    assert check_spec(spec).words() == (first, *proved, last)
    assert trust(spec) == (*trust(plain)[:-1], *checked)


@pytest.mark.parametrize("parties", [1, 3])
def test_words_of_two_rounds(parties: int) -> None:
    names = [f"p{number}" for number in range(parties)]
    columns = {name: (numeric(f"x_{name}"),) for name in names}
    plain = build_spec(columns, mechanism="moments", grid_bits=16)
    plain = with_terms(plain, range_proofs=parties > 1)
    spec = ranges_first(plain)
    (rounds,) = (text.format(P=15, WHAT="moments") for text in sentences("words-rounds"))
    assert check_spec(spec).words() == (
        *(each.replace("Its price", "The price of the moments") for each in check_spec(plain).words()[:-1]),
        rounds,
        check_spec(plain).words()[-1],
    )
    said = trust(spec)
    assert said[:-1] == (*trust(plain), *sentences("trust-rounds"))
    assert said[-1].startswith("Moments are of rows as clipped")


@pytest.mark.parametrize(("mechanism", "what"), [("mixed", "mixtures"), ("rows", "noisy copies")])
def test_words_of_noisy_rows_in_two_rounds(mechanism: str, what: str) -> None:
    plain = build_spec({"a": (numeric("x"),), "b": (numeric("y"),)}, mechanism=mechanism, grid_bits=16)
    spec = ranges_first(plain)
    assert check_spec(spec).words()[-2:-1] == tuple(t.format(P=15, WHAT=what) for t in sentences("words-rounds"))
    about = (text.format(WHAT=what.capitalize()) for text in sentences("about-rounds"))
    assert trust(spec) == (*trust(plain), *sentences("trust-rounds"), *about)


def test_words_about_whoever_has_a_public_side() -> None:
    shown, hidden = numeric("p", public=True), numeric("z")
    shape = {"mechanism": "moments", "outcomes": ("p",), "guarantee": "feature-DP", "public_norm2": Fraction(1, 2)}
    stated = trust(build_spec({"a": (shown,), "b": (hidden,)}, **shape))  # type: ignore[arg-type]
    assert stated[-2:-1] == tuple(text.format(OWNER="a") for text in sentences("trust-norm"))


def test_numbers_named_in_the_text() -> None:
    flowing = " ".join(FORMAT.split())
    assert f"min(scale, diagonal_scale) >= {FINEST:g} and" in flowing
    assert f"n G^2 + floor({PLAUSIBLE} s sqrt(m)) + 1" in flowing
    assert f"1 to {MOST_ROUNDS}" in flowing


def test_the_limit_of_an_entry_is_exact_where_doubles_are_not() -> None:
    """Each scale by hand: doubles give a floor that is one too large, too large, too small."""
    for scale, parties, inexact in (
        (425812788.84670645, 5, 19042926831),
        (173260332.61117703, 8, 9801084488),
        (5966449352.288442, 3, 206683868378),
    ):
        assert int(PLAUSIBLE * (scale * math.sqrt(parties))) == inexact
        floor = noise_reach(scale, parties) - 1
        bound = (PLAUSIBLE * Fraction(scale)) ** 2 * parties
        assert floor != inexact
        assert floor**2 <= bound < (floor + 1) ** 2
    assert "the largest integer whose square is at most 400 s^2 m" in " ".join(FORMAT.split())


# 14: entries and blocks.


def kinds() -> list[tuple[int, str]]:
    """(declared column, kind) of index 0 and every variable, by the words of section 14."""
    found = [(-1, "constant")]
    declared = [column for part in SPEC.parties for column in part.columns]
    for place, column in enumerate(declared):
        if column.kind == "numeric":
            found.append((place, "number"))
        elif len(column.levels) == 1:
            found.append((place, "binary"))
        else:
            found += [(place, "level")] * (len(column.levels) + 1)
    return found


def in_a_block() -> Iterator[tuple[int, int]]:
    known = kinds()
    for i in range(len(known)):
        for j in range(i, len(known)):
            if known[i][0] != known[j][0] or known[i][1] == "number":
                yield i, j


def test_entries() -> None:
    written = " ".join(f"{i},{j}{'*' if i == j else ''}" for i, j in in_a_block())
    assert " ".join(V["moments-entries"].split()) == written
    layout = layout_of(SPEC)
    marks = ["*" if square else "" for square in layout.diagonal]
    found = zip(layout.rows, layout.cols, marks, strict=True)
    assert written == " ".join(f"{i},{j}{mark}" for i, j, mark in found)


# 9 and 14, with outcomes.

WITH_OUTCOMES = ReleaseSpec.model_validate_json(
    json.dumps(json.loads(joined("moments-spec")) | {"terms": json.loads(joined("outcomes-terms"))})
)


def test_noise_scales_with_outcomes() -> None:
    numbers, binaries, groups, private_outcomes, honest = 1, 1, 0, 2, 2
    moments = joint_moments(WITH_OUTCOMES)
    assert moments.association is not None
    mu2, q = Fraction(moments.mu2), Fraction(moments.association.split)
    reach = 1 + numbers + binaries + groups
    weight, unit = 1 + binaries + groups + Fraction(numbers + 1, 2), 16**10
    covariance, across = reach**2, 4 * reach * private_outcomes
    assert squared((unit * covariance * (1 + q) ** 2 / mu2 + 4) / honest, moments.scale)
    assert squared((unit * covariance * (1 + q) ** 2 / (weight * mu2) + 4) / honest, moments.diagonal_scale)
    second = unit * across * (1 + q) ** 2 / (4 * q * mu2)
    assert squared((second + 4) / honest, moments.association.scale)
    assert squared((second / reach + 4) / honest, moments.association.square_scale)

    def room(scale: float) -> Fraction:
        return honest * Fraction(scale) ** 2 - 4

    a = unit * covariance / min(room(moments.scale), weight * room(moments.diagonal_scale))
    b = unit * across / min(room(moments.association.scale), reach * room(moments.association.square_scale))
    assert b <= 4 * a
    spent = a + b / 2 + b**2 / (16 * a)
    assert check_spec(WITH_OUTCOMES).joint_mu2 == spent <= mu2
    assert check_spec(WITH_OUTCOMES).words() == sentences("moments-guarantee")


def test_entries_with_outcomes() -> None:
    names = ("constant", "age", "smoker", "glucose", "I", "II", "other")
    outcome = [name in ("glucose", "I", "II", "other") for name in names]
    written = []
    for i, j in in_a_block():
        if outcome[i] and outcome[j] and i != j:
            continue
        mark = ("#" if outcome[i] else "*") if i == j else "+" if outcome[j] else ""
        written.append(f"{i},{j}{mark}")
    assert V["outcomes-entries"].split() == written
    layout = layout_of(WITH_OUTCOMES)
    marks = {EntryKind.PRODUCT: "", EntryKind.SQUARE: "*", EntryKind.ASSOCIATION: "+", EntryKind.OUTCOME_SQUARE: "#"}
    found = zip(layout.rows, layout.cols, layout.kinds, strict=True)
    assert written == [f"{i},{j}{marks[EntryKind(kind)]}" for i, j, kind in found]


def test_label_privacy_has_noise_for_what_outcomes_are_in() -> None:
    """The scales of section 9, by its words."""
    parties = {
        "north": (numeric("a", public=True), categorical("s", "I", "II", public=True)),
        "south": (numeric("y"), numeric("z")),
    }
    spec = build_spec(parties, mechanism="moments", guarantee="label-DP", outcomes=("y", "z"), grid_bits=10)
    moments = joint_moments(spec)
    assert moments.association is not None
    assert (moments.scale, moments.diagonal_scale, moments.association.split) == (0, 0, "1")
    mu2 = Fraction(moments.mu2)
    assert squared(Fraction(16**10 * 4 * 3 * 2) / mu2 + 4, moments.association.scale)


def test_codes_of_a_column_with_one_level() -> None:
    plain = np.array([[-1024, 1024, 0], [512, 0, 1024]], np.int32)
    assert code(plain, SPEC.parties[0].columns).tolist() == CODES["north"][:2]


def share(party: str) -> dict[tuple[int, int], int]:
    """The share of every entry, by the table of section 14."""
    start = {"north": 1, "south": 1 + WIDTH["north"], "east": 1 + WIDTH["north"] + WIDTH["south"]}
    found = {}
    own = times(CODES[party], CODES[party])
    for i in range(WIDTH[party]):
        found[0, start[party] + i] = UNIT * sum(row[i] for row in CODES[party])
        for j in range(WIDTH[party]):
            found[start[party] + i, start[party] + j] = own[i][j]
    for pair in SEEDS:
        if party in pair:
            for i, row in enumerate(share_of(pair, party)):
                for j, value in enumerate(row):
                    found[start[pair[0]] + i, start[pair[1]] + j] = value
    return found


def block_of(party: str) -> list[int]:
    known = share(party)
    total = [known.get(entry, 0) for entry in in_a_block()]
    for peer in NAMES:
        if peer != party:
            first, second = sorted((party, peer), key=NAMES.index)
            sign = 1 if party == first else -1
            words = keystream(pair_seed(first, second), len(total), 1)
            total = [value + sign * word for value, (word,) in zip(total, words, strict=True)]
    return [(value + RING // 2) % RING - RING // 2 for value in total]


def test_blocks_and_their_sum() -> None:
    vectors = {"north": V["block-north"], "south": V["block-south"], "east": V["block-east"]}
    blocks = {}
    for party, text in vectors.items():
        values = [int(number) for number in text.split()]
        assert values == block_of(party)
        blocks[party] = Block(expected_header(SPEC, party), np.array([values], np.int64))
    rows = [[UNIT, *north, *south, *east] for north, south, east in zip(*CODES.values(), strict=True)]
    exact = [sum(row[i] * row[j] for row in rows) for i, j in in_a_block()]
    assert [int(number) for number in V["moments-sum"].split()] == exact
    moments = one_block_each(SPEC, blocks, ()).moments()
    assert (moments.gram * 4**10).tolist() == [
        [sum(row[i] * row[j] for row in rows) for j in range(7)] for i in range(7)
    ]
    sd = [(TERMS.diagonal_scale if i == j else TERMS.scale) * math.sqrt(3) / 4**10 for i, j in in_a_block()]
    assert [moments.noise_sd[entry] for entry in in_a_block()] == pytest.approx(sd, rel=1e-12)


# 15: the session.


def test_dealers() -> None:
    assert {(pair.first, pair.second): pair.dealer for pair in SCHEDULE.pairs} == DEALER
    names = tuple("abcde")
    circle = build_spec({name: (numeric(name),) for name in names}, mechanism="moments")
    for pair in schedule_of(circle).pairs:
        place = names.index(pair.second)
        after = [names[(place + step) % 5] for step in range(1, 5)]
        assert pair.dealer == next(name for name in after if name != pair.first)
    grouped, group = replace(schedule_of(circle), groups=3), dict(zip(names, (0, 0, 1, 1, 2), strict=True))
    for pair in grouped.pairs:
        a, b = group[pair.first], group[pair.second]
        c = next(each % 3 for each in (b + 1, b + 2) if each % 3 != a)
        members = [name for name in names if group[name] == c]
        assert pair.dealer == members[(a + b) % len(members)]


def test_a_deal() -> None:
    data = bytes.fromhex(joined("deal-south"))
    assert data == seed(2) + stored(correction(("north", "south")))
    (pair,) = SCHEDULE.dealt_by("east")
    opened = read_randomness(data, SCHEDULE, "south", "east")
    assert opened.mask == seed(2)
    assert opened.shares[pair].tolist() == correction(("north", "south"))
    first = read_randomness(seed(1) + seed(7), SCHEDULE, "north", "east")
    assert first.shares[pair].tolist() == pad(("north", "south"))


def test_masked_columns() -> None:
    plain, key = stored(masked("north", "east")), seed(0x21)
    assert plain.hex() == joined("masked-north")
    about = context("columns", "north", "", "east")
    chunk = ChaCha20Poly1305(key).encrypt(bytes(12), plain, about)
    assert chunk.hex() == joined("chunk")
    assert len(chunk) == SCHEDULE.columns_size("north")
    said = encryption.Context("columns", SPEC.digest(), V["session"], "north", "", "east")
    assert encryption.ColumnCipher(key, said).decrypt(0, chunk) == plain
    later = ChaCha20Poly1305(key).encrypt((7).to_bytes(12, "big"), plain, about)
    assert encryption.ColumnCipher(key, said).encrypt(7, plain) == later


@pytest.mark.parametrize(("widths", "rows"), [((1, 3), 43690), ((2, 100), 1310), ((1, 70000), 2)])
def test_rows_of_a_chunk(widths: tuple[int, int], rows: int) -> None:
    assert rows == max(2, 2 * (2**20 // (8 * max(widths)) // 2))
    if max(widths) < 1000:
        parties = {
            f"p{place}": tuple(numeric(f"x{place}_{i}") for i in range(width)) for place, width in enumerate(widths)
        }
        assert schedule_of(build_spec(parties, mechanism="moments")).chunk_rows == rows


def hello(name: str) -> MessageHeader:
    said = {"task": SPEC.digest(), "round": 1, "session": "", "kind": "hello", "sender": name, "receivers": ()}
    empty = hashlib.sha256(b"").hexdigest()
    return MessageHeader(**said, dealer="", payload=public(name).hex(), size=0, sha256=empty)  # type: ignore[arg-type]


def test_hellos_and_the_session() -> None:
    hellos = [hello(name) for name in NAMES]
    assert hellos[0].to_bytes().decode() == joined("hello")
    by_hand = b"[" + b",".join(header.to_bytes() for header in hellos) + b"]"
    assert hashlib.sha256(by_hand).hexdigest() == V["session"] == session_digest(hellos)


def test_kinds_of_messages() -> None:
    rows = {row[0].strip("`"): row[1:] for row in table(FORMAT, "kind", "round and session")}
    empty = {"session": V["session"], "receivers": (), "dealer": "", "payload": "", "size": 0}
    one = {"payload": "00" * 32}
    shapes: dict[str, dict[str, object]] = {
        "hello": {"session": ""} | one,
        "deal": {"receivers": ("south",), "size": 32 + 8 * 2 + 48, "sender": "east"},
        "columns": {"receivers": ("south",), "dealer": "east", "size": 8 * 4 * 2 + 16} | one,
        "key": {"receivers": ("south",), "dealer": "east", "size": 32 + 48},
        "transcript": one,
    }
    assert list(rows) == list(shapes)
    for kind, shape in shapes.items():
        said = {"task": SPEC.digest(), "round": 1, "kind": kind, "sender": "north"} | empty | shape
        digest = hashlib.sha256(b"" if not said["size"] else b"body").hexdigest()
        check_message(Message(header=MessageHeader(**said, sha256=digest), signature=""), schedule_of(SPEC))  # type: ignore[arg-type]
        session, receivers, dealer, payload, body = rows[kind]
        assert ("no session" in session) == (not said["session"])
        assert (receivers == "none") == (not said["receivers"])
        assert (dealer == "dealer") == bool(said["dealer"])
        assert (payload == "empty") == (not said["payload"])
        assert (body == "none") == (not said["size"])


def test_kinds_of_messages_of_proofs() -> None:
    number = GridInterval(-UNIT, UNIT)
    claimed = {name: Claim((number,) * width) for name, width in SCHEDULE.widths.items()}
    proved = replace(SCHEDULE, modulus=FIELD, claims=claimed)
    rows = {row[0].strip("`"): row[1:] for row in table(FORMAT, "kind", "sender")}
    empty = {"sender": "north", "receivers": (), "dealer": "", "payload": "", "size": 0}
    one, to_south = {"payload": "00" * 32}, {"receivers": ("south",)}
    challenge = one | {"sender": "south", "receivers": ("north",), "size": 32}
    plan = proved.proof_plan("north", "south")
    shapes: dict[str, dict[str, object]] = {
        "bits": to_south | {"dealer": "east", "size": 4 * plan.units * 4 + 16},
        "coin": one,
        "challenge-1": challenge,
        "matrices": to_south | {"size": 8 * plan.units * 32 * 32 + 48},
        "challenge-2": challenge,
        "lines": to_south | {"size": 8 * (plan.line + 1) ** 2 + 48},
        "challenge-3": challenge | {"receivers": ("east",), "dealer": "north", "size": 96},
        "answer": to_south | {"sender": "east", "dealer": "north", "size": 8 * (plan.units + 3) + 48},
        "checked": one | {"receivers": ("south", "east"), "size": 8 * 2},
    }
    assert list(rows) == list(shapes)
    for kind, shape in shapes.items():
        said = {"task": SPEC.digest(), "round": 1, "session": V["session"], "kind": kind} | empty | shape
        digest = hashlib.sha256(b"" if not said["size"] else b"body").hexdigest()
        check_message(Message(header=MessageHeader(**said, sha256=digest), signature=""), proved)  # type: ignore[arg-type]
        sender, receivers, dealer, payload, body = rows[kind]
        assert (sender == "dealer") == (said["sender"] == "east")
        assert (receivers == "none") == (not said["receivers"])
        assert (dealer == "empty") == (not said["dealer"])
        assert (payload == "empty") == (not said["payload"])
        assert (body == "none") == (not said["size"])


def test_the_transcript() -> None:
    header = MessageHeader.from_bytes(joined("columns-header").encode())
    assert (header.sha256, header.size) == (hashlib.sha256(bytes.fromhex(joined("chunk"))).hexdigest(), 80)
    assert header.payload == V["key-commitment"]
    check_message(Message(header=header, signature=""), schedule_of(SPEC))
    commitments = [V["commitment"]] * 3
    digest = hashlib.sha256(joined("columns-header").encode()).hexdigest()
    said = {"columns": [digest], "commitments": commitments, "session": V["session"], "task": SPEC.digest()}
    by_hand = hashlib.sha256(b"dprelease/moments/transcript/v1" + canonical_bytes(said)).hexdigest()
    assert by_hand == V["transcript"] == transcript_digest(SPEC.digest(), V["session"], commitments, [header])
    others = [header.model_copy(update={"dealer": dealer}) for dealer in ("east", "south", "north")]
    said["columns"] = sorted(each.digest() for each in others)
    sorted_by_hand = hashlib.sha256(b"dprelease/moments/transcript/v1" + canonical_bytes(said)).hexdigest()
    for each in (others, others[::-1]):
        assert transcript_digest(SPEC.digest(), V["session"], commitments, each) == sorted_by_hand


# 16: envelopes.


def test_a_sealed_key() -> None:
    key, about = seed(0x21), context("key", "north", "south", "east")
    once = X25519PrivateKey.from_private_bytes(seed(0x22)).public_key().public_bytes_raw()
    shared = derived(agreed(0x22, public("south")), once + public("south"), about)
    by_hand = once + ChaCha20Poly1305(shared).encrypt(bytes(12), key, about)
    assert by_hand.hex() == joined("sealed-key")
    said = encryption.Context("key", SPEC.digest(), V["session"], "north", "south", "east")
    assert encryption.unseal(X25519PrivateKey.from_private_bytes(seed(PRIVATE["south"])), by_hand, said) == key
    sealed = encryption.seal(public("south"), key, said)
    once = sealed[:32]
    shared = derived(agreed(PRIVATE["south"], once), once + public("south"), about)
    assert ChaCha20Poly1305(shared).decrypt(bytes(12), sealed[32:], about) == key
    assert hashlib.sha256(b"dprelease/moments/content-key/v1" + key).hexdigest() == V["key-commitment"]
    assert encryption.commitment(key) == V["key-commitment"]


def test_the_seed_of_a_pair() -> None:
    assert pair_seed("north", "south").hex() == V["block-mask"]
    said = encryption.Context("block-mask", SPEC.digest(), V["session"], "north", "south", "")
    for mine, peer in (("north", "south"), ("south", "north")):
        own = X25519PrivateKey.from_private_bytes(seed(PRIVATE[mine]))
        assert encryption.shared_seed(own, public(peer), said).hex() == V["block-mask"]


# docs/guarantees.md


def test_noise_of_small_releases() -> None:
    columns = tuple(numeric(f"x{place}") for place in range(10))
    parties = {"a": columns[:3], "b": columns[3:6], "c": columns[6:]}
    rows = table(GUARANTEES, "for epsilon")
    assert len(rows) == 5
    for epsilon, *noise in rows:
        spec = build_spec(parties, mechanism="moments", epsilon=float(epsilon), delta=1e-6, grid_bits=20)
        said = joint_moments(spec)
        entry, square = (scale * math.sqrt(3) / 4**20 for scale in (said.scale, said.diagonal_scale))
        assert noise == [f"{entry:.4g}", f"{square:.4g}", f"{entry / 1000:.3g}"]
