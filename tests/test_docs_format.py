"""docs/format.md and docs/guarantees.md say what the code does: their tables and vectors are read here."""

import base64
import hashlib
import hmac
import inspect
import json
import math
import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from coordinator.authority.authority import Authority
from dprelease import about, agreement, catalogue, spec_base
from dprelease.canonical import FEW_BRACKETS, LEAST_BYTES_A_BRACKET, Rational, Value, canonical_bytes
from dprelease.data import columns, decades, ranges
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.column import FORMS
from dprelease.errors import InvalidInput
from dprelease.identity import signing
from dprelease.identity.certificates import Role, check_certificate
from dprelease.identity.invite import Invite
from dprelease.identity.signing import new_private_key, private_key_pem
from dprelease.intersection import task
from dprelease.mechanisms.base import COARSEST
from dprelease.mechanisms.moments import clipping, terms
from dprelease.mechanisms.noisy_rows import terms as rows_terms
from dprelease.mechanisms.noisy_rows.calibration import plan_mixing
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing, BucketMixing
from dprelease.mechanisms.noisy_rows.privatize import integer_query, weighted
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, PartyNoise
from dprelease.mechanisms.ranges import terms as ranges_terms
from dprelease.mechanisms.stream import terms as stream_terms
from dprelease.mechanisms.synthetic_control import terms as synthetic_control_terms
from dprelease.mpc import messages
from dprelease.privacy import gaussian
from dprelease.privacy.public_stream import PublicStream
from dprelease.release import approval, block, charges, manifest, spec, stream
from dprelease.release.accounting import check_spec, trust
from dprelease.spec_base import PartyColumns, SpecBase, Target, Terms
from dprelease.wire import boundary, chunks
from dprelease.wire import limits as wire_limits
from dprelease.wire.retry import Backoff
from dprelease.wire.v1 import coordination_pb2, enrolment_pb2, intake_pb2, public_pb2, relay_pb2
from learner.hub.published import LARGEST_PAGE, SHORTEST_PREFIX_BYTES
from learner.hub.settings import HubLimits as HubLimits
from learner.listing import Index
from party_node.identity import alignment_key_text, key_check
from party_node.source.alignment import align, as_names, pseudonym
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, categorical, new_consortium, numeric, publish

ROOT = Path(__file__).parents[1]
FORMAT, GUARANTEES = ((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("format", "guarantees"))
SEED = bytes(range(32))


@dataclass(frozen=True)
class Table:
    """A table of a document: the heading above it, its first line and the others."""

    heading: str
    header: list[str]
    rows: list[list[str]]


def tables(document: str) -> list[Table]:
    found, heading = [], ""
    for part in re.split(r"\n\n+", document):
        lines = part.strip().split("\n")
        if lines[0].startswith("#"):
            heading = lines[0].lstrip("# ")
        if lines[0].startswith("| "):
            cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
            found.append(Table(heading, cells[0], cells[2:]))
    return found


def table(document: str, *header: str) -> list[list[str]]:
    """The rows of the one table whose first line begins so."""
    (found,) = [each for each in tables(document) if each.header[: len(header)] == list(header)]
    return found.rows


V = dict(re.findall(r"^```text ([\w-]+)\n(.*?)\n```$", FORMAT, re.M | re.S))
"""The vectors of format.md, by name."""


def joined(name: str) -> str:
    return "".join(V[name].splitlines())


def sentences(name: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split("\n")) for part in V[name].split("\n\n"))


SPEC = spec.ReleaseSpec.from_bytes("".join(V["spec"].splitlines()).encode())
NORTH = SPEC.parties[0]
assert isinstance(SPEC.terms, MixedTerms)
TERMS = SPEC.terms


def test_every_vector_is_compared_with_the_code() -> None:
    tests = [
        Path(__file__).with_name(f"test_docs_{name}.py")
        for name in ("format", "moments", "ranges", "streams", "synthetic_control", "alignment")
    ]
    used = re.findall(r'(?:V\[|joined\(|sentences\()"([\w-]+)"', "".join(path.read_text() for path in tests))
    assert FORMAT.count("```") == 2 * len(V)
    assert set(V) == set(used)


# 1 and 2: canonical bytes and values.


def test_floats_and_strings() -> None:
    for line in V["floats"].splitlines():
        double, text = line.split()
        (number,) = struct.unpack(">d", bytes.fromhex(double))
        assert canonical_bytes(number).decode() == text
        assert struct.pack(">d", json.loads(text)).hex() == double
    for line in V["strings"].splitlines():
        points, text = line.rsplit(" ", 1)
        assert canonical_bytes("".join(chr(int(point, 16)) for point in points.split())).decode() == text


NEVER_WRITTEN = (Value, SpecBase, Terms, rows_terms.NoisyRowsTerms, columns.DeclaredColumn, columns.Number)
VALUES: dict[str, type[Value]] = {
    kind.__name__: kind
    for module in (
        about,
        columns,
        decades,
        ranges,
        catalogue,
        spec_base,
        spec,
        rows_terms,
        ranges_terms,
        synthetic_control_terms,
        clipping,
        terms,
        stream_terms,
        agreement,
        approval,
        block,
        manifest,
        stream,
        messages,
        task,
    )
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, Value) and kind not in NEVER_WRITTEN
} | {"Invite": Invite}
TABLES = {each.heading: each for each in tables(FORMAT) if each.header == ["field", "type", "limits", "meaning"]}
PATTERNS = {"name": V["name"], "digest": "^[0-9a-f]{64}$"}
CHECKED = {"rational": Rational, "instant": spec_base.Instant}
JSON_TYPES = {"integer": "integer", "float": "number", "boolean": "boolean"} | dict.fromkeys(
    ("text", "name", "digest", "instant", "rational", "pem", "hex"), "string"
)


def described(word: str, schema: Mapping[str, Any]) -> bool:
    """Whether a word of the type column fits a JSON schema."""
    if word.endswith(" or null"):
        inner, null = schema["anyOf"]
        return null == {"type": "null"} and described(word.removesuffix(" or null"), inner)
    if word.endswith(" or empty"):
        inner, empty = schema["anyOf"]
        return empty == {"const": "", "type": "string"} and described(word.removesuffix(" or empty"), inner)
    if word.startswith("list of "):
        return schema["type"] == "array" and described(word.removeprefix("list of "), schema["items"])
    if word == "column":
        return [part["$ref"] for part in schema["oneOf"]] == [
            f"#/$defs/{kind}" for kind in ("NumericColumn", "CategoricalColumn", "OrderedColumn")
        ]
    if word == "terms":
        return schema.get("$ref") == "#/$defs/Terms"
    if word in VALUES:
        return schema.get("$ref") == f"#/$defs/{word}"
    known = PATTERNS.get(word)
    pattern = schema.get("pattern")
    return schema["type"] == JSON_TYPES[word] and (pattern == known if known else pattern not in PATTERNS.values())


def limits(schema: Mapping[str, Any]) -> str:
    """The limits of a JSON schema in the words of the documents."""
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    low, high, unit = schema.get("minimum"), schema.get("maximum"), ""
    if schema.get("type") == "array":
        low, high = schema.get("minItems"), schema.get("maxItems")
        unit = " items" if high else " item"
    elif "minLength" in schema:
        low, high, unit = schema["minLength"], schema["maxLength"], " characters"
    if low is not None:
        return (f"{low} to {high}" if high is not None else f">= {low}") + unit
    open_ends = [("exclusiveMinimum", ">"), ("exclusiveMaximum", "<")]
    return ", ".join(f"{sign} {schema[key]:g}" for key, sign in open_ends if key in schema)


def test_every_signed_or_hashed_value_has_a_table() -> None:
    assert set(TABLES) == set(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_fields_types_and_limits(name: str) -> None:
    model, schemas = VALUES[name], VALUES[name].model_json_schema()["properties"]
    rows = TABLES[name].rows
    assert [row[0].strip("`") for row in rows] == list(model.model_fields)
    for (field, word, limit, _), schema in zip(rows, schemas.values(), strict=True):
        assert described(word, schema), field
        assert limit == limits(schema), field
        marks = model.model_fields[field.strip("`")].metadata
        for kind, annotated in CHECKED.items():
            assert (word == kind) == any(mark in marks for mark in get_args(annotated)[1:]), field


def test_derivations() -> None:
    examples = V["derivations"].splitlines()
    for text, form in zip(examples, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 6, 4, 8, 8, 9, 10, 11, 12, 13, 14, 14], strict=True):
        assert [number for number, each in enumerate(FORMS) if re.fullmatch(each, text)] == [form]
        assert numeric("x", derivation=text).derivation == text
    for text in (
        "age",
        "log(-1)",
        "log(cost +1)",
        "log(cost + -1)",
        "a*b",
        "Age > 3",
        's = "',
        's = ""',
        "a^3",
        "(a)^2",
        " a^2",
        "a^2\n",
    ):
        with pytest.raises(ValueError, match="derivation"):
            numeric("x", derivation=text)
    column = columns.NumericColumn.from_bytes(joined("derived-column").encode())
    assert column == numeric("log_cost", 0.0, 12.0, fill=3.0, derivation="log(cost + 1)")
    assert "derivation" not in numeric("x").to_bytes().decode()


def test_exhaustive_levels() -> None:
    column = columns.CategoricalColumn.from_bytes(joined("exhaustive-column").encode())
    assert column == categorical("sex", "female", "male", exhaustive=True, fill="male")
    codes = bound({"sex": ["female", "male", "F", None]}, (column,), 10)
    assert (codes // 1024).tolist() == [[1, 0], [0, 1], [0, 1], [0, 1]]


def test_ordered_levels() -> None:
    column = columns.OrderedColumn.from_bytes(joined("ordered-column").encode())
    assert column.to_bytes() == joined("ordered-column").encode()
    cells, codes = zip(*(line.split() for line in V["ordered-codes"].splitlines()), strict=True)
    assert bound({"grade": list(cells)}, (column,), 10)[:, 0].tolist() == [int(code) for code in codes]


def test_lines_of_the_list() -> None:
    schema = Index.model_json_schema()["$defs"]["Listed"]["properties"]
    rows = table(FORMAT, "in a line", "type")
    assert [row[0].strip("`") for row in rows] == list(schema)
    assert all(described(row[1], each) for row, each in zip(rows, schema.values(), strict=True))
    assert set(Index.model_fields) == {"format", "releases"}


def test_an_invite_token_is_base64_of_canonical_bytes() -> None:
    fields = {"consortium": "trial", "party": "north", "address": "office:1", "root": "-", "secret": "??>>"}
    invite = Invite(**fields, cap_mu2="1/7", expires="2026-03-08T12:00:00Z")
    token = base64.urlsafe_b64encode(invite.to_bytes()).decode().replace("=", "")
    assert Invite.from_token(f"{token[:9]}\n {token[9:]}") == invite
    assert invite.token() == token


# 3 and 4: signatures and blocks.


def framed(label: str, *parts: bytes) -> bytes:
    return b"".join(struct.pack(">Q", len(part)) + part for part in (label.encode(), *parts))


def public_key() -> ec.EllipticCurvePublicKey:
    key = serialization.load_pem_public_key(V["public-key"].encode())
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def test_labels_and_framing() -> None:
    labels = [row[1].strip("`") for row in table(FORMAT, "signature", "label", "parts")]
    assert labels == [signing.ACCEPTANCE, signing.APPROVAL, signing.BLOCK, signing.MANIFEST, signing.SESSION]
    assert framed(signing.BLOCK, b"\x01\x02\x03", b"").hex() == V["message"]
    key = signing.new_private_key()
    signature = bytes.fromhex(signing.sign(key, signing.BLOCK, b"\x01\x02\x03", b""))
    key.public_key().verify(signature, bytes.fromhex(V["message"]), ec.ECDSA(hashes.SHA256()))


def test_the_signed_approval() -> None:
    der = base64.b64decode("".join(V["public-key"].splitlines()[1:-1]))
    assert hashlib.sha256(der).hexdigest() == NORTH.key == signing.key_fingerprint(public_key())
    signed = approval.Approval.from_bytes(joined("approval").encode())
    assert (signed.party, signed.spec, signed.commitment) == ("north", V["spec-digest"], V["commitment"])
    signing.verify(public_key(), joined("approval-signature"), signing.APPROVAL, signed.to_bytes())


def test_the_block_file() -> None:
    data, digest = bytes.fromhex(joined("block")), V["block-digest"]
    assert block.MAGIC.hex() == V["magic"]
    header = canonical_bytes(
        {"columns": 4, "format": 1, "party": "north", "public": 0, "rows": 6, "sequence": 0, "spec": V["spec-digest"]}
    )
    lead = bytes.fromhex(V["magic"]) + struct.pack("<I", len(header)) + header
    assert data == lead + struct.pack("<24q", *range(-12, 12))
    assert block.read_block(data, SPEC, "north").values.tolist() == np.arange(-12, 12).reshape(6, 4).tolist()
    assert block.block_size(SPEC, "north") == len(data)
    assert hashlib.sha256(data).hexdigest() == digest
    sealed = {"party": "north", "spec": V["spec-digest"], "sequence": 0, "sha256": digest, "size": len(data)}
    key = ec.derive_private_key(int.from_bytes(SEED, "big"), ec.SECP256R1()).public_key()
    assert key.public_numbers() == public_key().public_numbers()
    manifest.verify_block(key, block.SealedBlock(**sealed, signature=joined("block-signature")))
    signed = framed(signing.BLOCK, bytes.fromhex(V["spec-digest"]), struct.pack(">I", 0), bytes.fromhex(digest))
    key.verify(bytes.fromhex(joined("block-signature")), signed, ec.ECDSA(hashes.SHA256()))


# 5 and 6: the public stream and the mixing matrix.


def stream(offset: int) -> int:
    """One byte of the public stream by the words of section 5."""
    encrypt = Cipher(algorithms.AES256(SEED), modes.ECB()).encryptor()  # noqa: S305 - the definition of counter mode
    return encrypt.update((offset // 16).to_bytes(16, "big"))[offset % 16]


def sign_of(r: int, i: int, outputs: int) -> int:
    """One entry of B by the words of section 6."""
    return -1 if stream(16 * -(-outputs // 16) * (i // 8) + r) >> (i % 8) & 1 else 1


def test_keystream() -> None:
    assert bytes(map(stream, range(32))).hex() == V["keystream"] == PublicStream(SEED).read(0, 32).hex()


def drawn(rows: Iterable[Iterable[int]]) -> str:
    return "\n".join("".join("0+-"[entry] for entry in row) for row in rows)


@pytest.mark.parametrize(("vector", "k", "n"), [(V["mixing-5-20"], 5, 20), (V["mixing-17-9"], 17, 9)])
def test_mixing_signs(vector: str, k: int, n: int) -> None:
    assert drawn(BernoulliMixing(PublicStream(SEED), k, n).signs(0, n)) == vector
    assert drawn([sign_of(r, i, k) for i in range(n)] for r in range(k)) == vector


def test_mixing_products() -> None:
    mixing, ones, ramp = BernoulliMixing(PublicStream(SEED), 5, 20), V["row-sums"].split(), V["product"].split()
    assert mixing.row_sums().tolist() == [int(text) for text in ones]
    assert mixing.apply([np.arange(1, 21).reshape(-1, 1)]).ravel().tolist() == [int(text) for text in ramp]
    assert [sum(sign_of(r, i, 5) * (i + 1) for i in range(20)) for r in range(5)] == [int(text) for text in ramp]


def entry_of(i: int, outputs: int) -> tuple[int, int]:
    """Row and sign of the entry in a column of B in buckets by the words of section 6."""
    group, number = divmod(i, outputs)
    first = 16 * -(-(8 + -(-outputs // 8)) // 16) * group
    turn = sum(stream(first + byte) << 8 * byte for byte in range(8))
    return (number + turn) % outputs, -1 if stream(first + 8 + number // 8) >> (number % 8) & 1 else 1


def test_buckets() -> None:
    mixing, entries = BucketMixing(PublicStream(SEED), 5, 20), [entry_of(i, 5) for i in range(20)]
    assert drawn(mixing.signs(0, 20)) == V["buckets-5-20"]
    assert drawn([sign * (row == r) for row, sign in entries] for r in range(5)) == V["buckets-5-20"]
    assert mixing.row_sums().tolist() == [int(text) for text in V["buckets-row-sums"].split()]
    ramp = mixing.apply([np.arange(1, 21).reshape(-1, 1)]).ravel().tolist()
    assert ramp == [int(text) for text in V["buckets-product"].split()]


def test_buckets_over_two_blocks_of_the_cipher() -> None:
    signs = BucketMixing(PublicStream(SEED), 65, 68).signs(0, 68)
    for i, text in enumerate(V["buckets-65-68"].split()):
        row, sign = entry_of(i, 65)
        assert (f"{sign:+d}"[0], row) == (text[0], int(text[1:]))
        assert signs[:, i].tolist() == [sign * (r == row) for r in range(65)]


# 7 and 8: codes and alignment.


def test_codes_of_single_cells() -> None:
    for line in V["codes"].splitlines():
        cell, code = float(line.split()[0]), int(line.split()[1])
        assert bound({"age": np.array([cell])}, NORTH.columns[:1], 10).tolist() == [[code]]
        readable = cell if math.isfinite(cell) else 60.0
        assert round((min(max(readable, 0.0), 120.0) - 60.0) / 60.0 * 1024) == code


def keyed(label: bytes, text: str) -> bytes:
    normal = unicodedata.normalize("NFC", text).encode()
    return hmac.new(SEED, label + b"\0" + normal, hashlib.sha256).digest()


ORDER = V["alignment-order"].split()


PATIENTS = [int(name[1:]) for name in ORDER]
SEXES = [None if i == 20 else "female" if i % 2 else "male" for i in PATIENTS]
CODES = bound({"age": np.array([6.0 * i for i in PATIENTS]), "sex": SEXES}, NORTH.columns, 10)


def test_the_toy_table() -> None:
    codes = CODES
    by_hand = [
        [round((i - 10) * 102.4), *(1024 * (sex == level) for level in ("female", "male", None))]
        for i, sex in zip(PATIENTS, SEXES, strict=True)
    ]
    assert codes.tolist() == by_hand
    data = b"".join(struct.pack("<4i", *row) for row in by_hand)
    digest = hashlib.sha256(b"dprelease/codes/v1|10|(20, 4)" + data).hexdigest()
    assert digest == V["codes-digest"] == BoundedRows(codes, NORTH.columns, 10).digest()
    committed = hashlib.sha256(b"dprelease/commitment/v1" + SEED + bytes.fromhex(digest)).hexdigest()
    assert committed == V["commitment"] == approval.commit(SEED, digest)
    query = [[int(text) for text in line.split()] for line in V["query"].splitlines()]
    assert integer_query([codes], SPEC, TERMS).tolist() == query
    anchored = np.array([[1] * 20] + [[sign_of(r, i, 5) for i in range(20)] for r in range(5)])
    assert (anchored @ np.array(by_hand)).tolist() == query


def test_pseudonyms() -> None:
    for line in V["pseudonyms"].replace("\n  ", "").splitlines():
        subject, record, *digits = line.split()
        names = (subject,) if record == "-" else (subject, record)
        expected = b"".join(keyed(label, name) for label, name in zip((b"subject", b"record"), names, strict=False))
        decomposed = (f" {unicodedata.normalize('NFD', name)}\t" for name in names)
        assert "".join(digits) == expected.hex() == pseudonym(SEED, *decomposed).hex()


def test_alignment() -> None:
    subjects = [f"P{i:02d}" for i in range(1, 21)]
    found = align(SEED, as_names([pseudonym(SEED, name) for name in ORDER]), "roster-1")
    assert sorted(subjects, key=lambda name: keyed(b"subject", name)) == ORDER
    message = b"dprelease/alignment/v1|roster-1|20|" + b"".join(keyed(b"subject", name) for name in ORDER)
    assert hmac.new(SEED, message, hashlib.sha256).hexdigest() == V["alignment-digest"]
    assert found.digest == V["alignment-digest"] == SPEC.alignment


def test_an_alignment_key_for_people() -> None:
    text = base64.b32encode(SEED + hashlib.sha256(b"alignment-key" + SEED).digest()[:3]).decode()
    assert V["alignment-key"].replace("-", "") == text
    assert alignment_key_text(SEED) == V["alignment-key"]
    assert hashlib.sha256(b"alignment-key-check" + SEED).hexdigest()[:8] == V["key-check"] == key_check(SEED)


# 9 to 11: noise, the guarantee in words, the example.


def test_the_example_spec() -> None:
    assert SPEC.to_bytes() == joined("spec").encode()
    assert SPEC.digest() == V["spec-digest"] == hashlib.sha256(joined("spec").encode()).hexdigest()
    assert TERMS.mixing.seed == SEED.hex()
    assert check_spec(SPEC).words() == sentences("spec-guarantee")


def contrast(part: PartyColumns) -> int:
    return 4**10 * sum(4 if column.kind == "numeric" else 2 for column in part.columns)


def share(noise: PartyNoise, part: PartyColumns) -> Fraction:
    """spent_j by the words of section 9."""
    assert noise.anchor_scale is not None
    anchor, scale = Fraction(noise.anchor_scale), Fraction(noise.scale)
    return contrast(part) / (anchor**2 - 4) + 5 * contrast(part) / (scale**2 - 4)


def test_the_example_with_a_weight() -> None:
    part = PartyColumns.from_bytes(joined("weighed-party").encode())
    assert part.model_copy(update={"weights": ()}) == NORTH
    weights = dict(zip([column.name for column in part.columns], part.weights, strict=True))
    by_hand = 4**10 * sum((4 if column.kind == "numeric" else 2) * weights[column.name] ** 2 for column in part.columns)
    said = SPEC.model_copy(update={"parties": (part, *SPEC.parties[1:])})
    assert by_hand == int(V["weighed-sensitivity"]) == TERMS.squared_sensitivity(said, "north")
    plain = [int(text) for text in V["query"].splitlines()[0].split()]
    anchor = [int(text) for text in V["weighed-anchor"].split()]
    assert anchor == [value * weight for value, weight in zip(plain, [1, 3, 3, 3], strict=True)]
    assert (
        integer_query([weighted(BoundedRows(CODES, NORTH.columns, 10), said, "north")], said, TERMS)[0].tolist()
        == anchor
    )


def test_noise_scales_of_the_example() -> None:
    for noise, part in zip(TERMS.noise, SPEC.parties, strict=True):
        assert noise.anchor_scale is not None
        variance = contrast(part) / Fraction(noise.mu2) + 4
        for scale, least in ((noise.anchor_scale, 10 * variance), (noise.scale, 5 * variance * Fraction(10, 9))):
            assert Fraction(math.nextafter(scale, 0)) ** 2 < least <= Fraction(scale) ** 2


def epsilon_at(mu2: Fraction, delta: float) -> float:
    """The root of section 10 by bisection, good to far more than six digits at these sizes."""
    mu, low, high = math.sqrt(mu2), 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        first, second = (math.erfc((middle / mu - end * mu / 2) / math.sqrt(2)) / 2 for end in (1, -1))
        low, high = (middle, high) if first - math.exp(middle) * second > delta else (low, middle)
    return high


def figure(value: float) -> str:
    """The least decimal of six digits that is not below a root of bisection, which is good to some 1e-12."""
    up = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(value) * (1 - Decimal("1e-10")))
    return f"{float(up):.6g}"


def test_the_guarantee_in_words() -> None:
    spent = {part.party: share(noise, part) for noise, part in zip(TERMS.noise, SPEC.parties, strict=True)}
    delta = SPEC.target.delta
    each = "; ".join(f"{party}: epsilon = {figure(epsilon_at(mu2, delta))}" for party, mu2 in spent.items())
    joint = figure(epsilon_at(sum(spent.values(), Fraction(0)), delta))
    filled = tuple(text.format(E=joint, D=f"{delta:g}", LIST=each) for text in sentences("words"))
    assert filled == sentences("spec-guarantee")
    assert sentences("trust") == trust(SPEC)


@pytest.mark.parametrize("line", V["words-sides"].splitlines())
@pytest.mark.parametrize("mechanism", ["mixed", "moments"])
def test_the_guarantee_in_words_with_public_columns(mechanism: str, line: str) -> None:
    label, side = line.split(" ", 1)
    parties = {
        "north": (numeric("age", public=True), numeric("weight")),
        "south": (categorical("sex", "m", public=True),),
    }
    said = build_spec(parties, mechanism=mechanism, guarantee=label)
    words, blanks = check_spec(said).words(), {"LABEL": label, "SIDE": side, "PRIVATE": "weight", "PUBLIC": "age, sex"}
    assert words[-2:] == tuple(text.format(**blanks) for text in sentences("words-public"))
    assert trust(said)[-1:] == sentences("trust-public")
    if mechanism == "mixed":
        assert words[1].endswith("north: epsilon = 1; south: nothing private.")
        return
    split = "to the hospitals with a private column in equal parts"
    usual = sentences("words-together")[0].format(E="1", D="1e-05", WHO="any single hospital", SPLIT=split)
    assert words[0] == usual.replace("all released", "all private")


def test_numbers_named_in_the_text() -> None:
    gaussian.check_target(1e-12, 1e-300)
    gaussian.check_target(1e6, 0.5)
    for epsilon, delta in ((0.9e-12, 0.5), (1.1e6, 0.5), (1.0, 0.9e-300)):
        with pytest.raises(InvalidInput):
            gaussian.check_target(epsilon, delta)
    for document, said in {
        FORMAT: (
            f"D2_j >= {COARSEST}^2 * mu_j^2",
            f"relative {gaussian.MARGIN}",
            "epsilon outside 1e-12 ... 1e6, a delta below 1e-300",
        ),
        GUARANTEES: (f"sqrt(D2_j)/mu_j >= {COARSEST},", f"eta = {gaussian.MARGIN} (`gaussian.MARGIN`)"),
    }.items():
        flowing = " ".join(document.split())
        assert all(words in flowing for words in said)


# 12 and 13: certificates and the wire.


def test_roles() -> None:
    assert tuple(row[0].strip("`") for row in table(FORMAT, "role", "used as")) == get_args(Role)


def test_services() -> None:
    written = [[cell.strip("`") for cell in row[:4]] for row in table(FORMAT, "service", "method")]
    kinds = {True: "stream", False: "one"}
    protos = (enrolment_pb2, coordination_pb2, intake_pb2, relay_pb2, public_pb2)
    assert written == [
        [service.name, method.name, kinds[method.client_streaming], kinds[method.server_streaming]]
        for proto in protos
        for service in proto.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]


def test_version_chunks_and_errors() -> None:
    flowing = " ".join(FORMAT.split())
    assert f"metadata key `{boundary.VERSION_KEY}`, once" in flowing
    assert f"in decimal, now `{boundary.PROTOCOL_VERSION}`" in flowing
    accepted = ", ".join(f"`{version}`" for version in sorted(boundary.ACCEPTED_VERSIONS))
    assert f"A server accepts: {accepted}." in flowing
    assert f"chunks of {chunks.CHUNK_BYTES} bytes; a receiver takes 1 to {chunks.MAX_CHUNK_BYTES}," in flowing
    assert f"`domain` is `{boundary.DOMAIN}`" in flowing
    rows = [[f"`{row.error.__name__}`", f"`{row.code.name}`", row.sentence] for row in boundary.TABLE]
    assert table(FORMAT, "error", "status", "sentence") == rows


def test_lengths_of_messages() -> None:
    flowing, requests = (
        " ".join(FORMAT.split()),
        {name.rpartition("/")[2]: most for name, most in wire_limits.REQUESTS.items()},
    )
    chunk = wire_limits.MAX_CHUNK_BYTES + wire_limits.SHORT_BYTES
    longest = requests["Approve"]
    assert requests == dict.fromkeys(("ReportCatalogue", "Approve"), longest) | {
        "RequestDeal": requests["RequestDeal"],
        "OpenParcels": requests["RequestDeal"],
        "SendBlock": chunk,
        "SendParcel": chunk,
    }
    assert (
        f"A request has at most {wire_limits.SHORT_BYTES} bytes, but for `ReportCatalogue` and `Approve` ({longest}), "
        f"`RequestDeal` and `OpenParcels` ({requests['RequestDeal']}), and messages that carry a chunk ({chunk})"
    ) in flowing
    assert f"an answer of more than {wire_limits.LONG_BYTES >> 20} MiB" in flowing
    assert SpecBase.most_bytes == catalogue.Catalogue.most_bytes
    assert manifest.Manifest.most_bytes == charges.SignedStatement.most_bytes
    assert (
        f"Refuse a spec or catalogue of more than {SpecBase.most_bytes} bytes, a manifest or statement of charges of more than "
        f"{manifest.Manifest.most_bytes}, and any other value of more than {Value.most_bytes} that somebody else sent. "
        f"Beyond {FEW_BRACKETS}, refuse more than one `{{` or `[` for each {LEAST_BYTES_A_BRACKET} bytes."
    ) in flowing


def test_what_stands_in_a_manifest_is_canonical_where_it_stands() -> None:
    consortium = new_consortium("north", "south")
    made = publish(consortium, build_spec(keys=consortium.keys, title='"spec":{'), SeededNoise(3)).manifest
    whole = manifest.Manifest.from_bytes(made)
    assert made[made.index(b'"spec":{') + len(b'"spec":') :].startswith(whole.spec.to_bytes() + b",")
    approvals = b",".join(
        b'{"approval":%b,' % signed.approval.to_bytes() + signed.to_bytes().split(b"},", 1)[1]
        for signed in whole.approvals
    )
    assert b'"approvals":[%b]' % approvals in made
    assert "are the very bytes that stand there" in " ".join(FORMAT.split())


def test_lists_downloads_and_waiting(tmp_path: Path) -> None:
    flowing, limits, waits = " ".join(FORMAT.split()), HubLimits(), Backoff()
    assert f"at most {LARGEST_PAGE} in a page" in flowing
    assert f"a `page_size` of 0, or a larger one, stands for {LARGEST_PAGE}" in flowing
    assert f"first {SHORTEST_PREFIX_BYTES} to 32 bytes of a spec's digest" in flowing
    (tmp_path / "block").write_bytes(b"block")
    assert [*chunks.read_chunks(tmp_path / "block", 5, intake_pb2.SendBlockRequest())] == []
    assert "equal to the block's size is a stream without a message" in flowing
    assert f"{waits.first_seconds:g} s at first, twice as long" in flowing
    assert (waits.factor, [*islice(waits.waits(min), 3)]) == (2.0, [0.5, 1.0, 2.0])
    assert f"at most {waits.longest_seconds:g} s, each wait drawn at random between half of that and all" in flowing
    assert (
        f"{limits.calls_per_second:g} calls a second in the long run and {limits.streams_per_peer} streams" in flowing
    )


def test_extended_key_usage_is_for_tls() -> None:
    """A certificate that is good for signatures is refused by TLS where its purpose is another."""
    now = datetime.now(UTC)
    authority = Authority.found("trial", now)

    def handshake(serves: Role, calls: Role) -> grpc.StatusCode:
        keys = new_private_key(), new_private_key()
        server_pem, client_pem = (
            authority.issue("x", role, key.public_key(), now, 90, ["localhost"])
            for role, key in zip((serves, calls), keys, strict=True)
        )
        check_certificate(server_pem, authority.root_pem, now, serves)
        check_certificate(client_pem, authority.root_pem, now, calls)
        serving = grpc.ssl_server_credentials([(private_key_pem(keys[0]), server_pem)], authority.root_pem, True)
        calling = grpc.ssl_channel_credentials(authority.root_pem, private_key_pem(keys[1]), client_pem)
        server = grpc.server(ThreadPoolExecutor(1))
        port = server.add_secure_port("localhost:0", serving)
        server.start()
        try:
            with grpc.secure_channel(f"localhost:{port}", calling) as channel, pytest.raises(grpc.RpcError) as failed:
                channel.unary_unary("/x/y")(b"", timeout=30)
        finally:
            server.stop(None).wait()
        code: grpc.StatusCode = failed.value.code()
        return code

    assert handshake("hub", "party") == grpc.StatusCode.UNIMPLEMENTED  # TLS let it through, and there is no such method
    assert handshake("party", "party") == handshake("hub", "coordinator") == grpc.StatusCode.UNAVAILABLE
    assert "A verifier of a signature does not look at them" in " ".join(FORMAT.split())


# docs/guarantees.md


def test_files_named_in_the_guarantees_exist() -> None:
    named = set(re.findall(r"`((?:dprelease|party_node|coordinator|learner|tests)/[\w/.]+)`", GUARANTEES))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_every_claim_has_a_section() -> None:
    claims = [row[0] for row in table(GUARANTEES, "#", "claim")]
    sections = re.split(r"^## (\d+)\. ", GUARANTEES, flags=re.M)[1:]
    assert claims == sections[::2] == [str(number) for number in range(1, len(claims) + 1)]
    for text in sections[1::2]:
        assert {"**Claim.**", "**Code.**"} <= set(re.findall(r"\*\*\w+\.\*\*", text))


def test_joint_figures() -> None:
    mu = gaussian.mu_of(1.0, 1e-5)
    for parties, joint, each in table(GUARANTEES, "m"):
        root = math.sqrt(int(parties))
        assert [joint, each] == [f"{gaussian.epsilon_of(mu * factor, 1e-5):.6g}" for factor in (root, 1 / root)]


def test_what_small_releases_cannot_give() -> None:
    for epsilon, mu, noise, patients in table(GUARANTEES, "epsilon", "mu"):
        exact = gaussian.mu_of(float(epsilon), 1e-6)
        s = math.sqrt(40) / exact
        assert [mu, noise, patients] == [f"{exact:.4g}", f"{s:.4g}", f"{27 * s * s:.3g}"]
    ten = tuple(numeric(f"x{i}") for i in range(10))
    target = Target(scope="joint", epsilon=1.0, delta=1e-6)
    for rows, outputs, weight, error in table(GUARANTEES, "n", "k"):
        plan = plan_mixing(int(rows), {"a": ten[:5], "b": ten[5:]}, target)
        mean_error = math.sqrt(plan.noise_variance / plan.anchor_weight) / int(rows)
        assert [outputs, weight, error] == [str(plan.outputs), str(plan.anchor_weight), f"{mean_error:.3g}"]
