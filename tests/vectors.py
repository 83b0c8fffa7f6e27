"""Writes docs/vectors: releases that every verifier takes, and copies with one fault each that every verifier refuses.

    python -m tests.vectors [FOLDER]

Keys are fresh and forgotten, and noise is the kernel's: every run writes other bytes. Run it where the format changed.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.about import About
from dprelease.canonical import canonical_bytes, sha256
from dprelease.data.bounding import BoundedRows, bound
from dprelease.identity.signing import BLOCK, PrivateKey, sign
from dprelease.mpc.modulus import P
from dprelease.privacy.noise import SecureNoise
from dprelease.publication.plain import plain_files
from dprelease.release.accounting import trust
from dprelease.release.block import Block
from dprelease.release.folder import MANIFEST, SIGNATURE, ReleaseFolder, block_file
from dprelease.release.manifest import assemble, sign_block, sign_manifest
from dprelease.release.spec import ReleaseSpec
from dprelease.version import __version__
from tests import proof_vectors
from tests.mechanisms.test_contract import blocks_of
from tests.support.certificates import NOW, certify
from tests.support.panels import donors_of, panel_spec
from tests.support.rounds import ranges_first, ranges_first_without_bounds
from tests.support.specs import (
    Consortium,
    build_spec,
    categorical,
    new_consortium,
    numeric,
    seal,
    sign_approval,
    with_terms,
)
from tests.support.streams import first_spec, following, published

VECTORS = Path(__file__).parent.parent / "docs" / "vectors"
ROOT, LIST = "root.pem", "vectors.json"
NUMBERS = ("moments.csv", "rows.csv")
"""Tables beside the good ones: the numbers that a reader must get."""

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit="years"), categorical("smoker", "no", "yes")),
    "south": (numeric("systolic", 60.0, 240.0, unit="mmHg"), numeric("weight", 0.0, 200.0, unit="kg", public=True)),
}
PRIVATE = {party: tuple(column for column in own if not column.public) for party, own in COLUMNS.items()}
ABOUT = About.model_validate(
    {
        "description": "Made-up patients: systolic blood pressure rises with age, and is higher for smokers.",
        "licence": "CC0-1.0",
        "creators": [{"name": "Authors of dprelease"}],
        "keywords": ["test vector"],
    }
)
TRIAL = new_consortium(*COLUMNS)
NORTH = TRIAL.parties["north"]

Files = Mapping[str, bytes]
"""Names to bytes of a release's folder."""


def _spec(mechanism: str, columns: Mapping[str, Any] = PRIVATE, rows: int = 4000, **more: Any) -> ReleaseSpec:
    title = f"A test vector: {mechanism}"
    return build_spec(columns, keys=TRIAL.keys, mechanism=mechanism, title=title, about=ABOUT, rows=rows, **more)


def _stream() -> tuple[ReleaseSpec, ...]:
    """The specs of its two checkpoints; one between them failed."""
    first = first_spec(_spec("moments", epsilon=3.0), of="moments", checkpoints=4)
    return first, following(first, 2000, 3)


def _stream_of_mixtures() -> tuple[ReleaseSpec, ...]:
    """The specs of three checkpoints, added up in a tree."""
    first = first_spec(_spec("mixed", rows=400, epsilon=80.0), of="mixed", k=20, checkpoints=6, factor="tree")
    second = following(first, 300, 2)
    return first, second, following(second, 50, 4)


def _panel() -> ReleaseSpec:
    """A synthetic control of five times, by 30 donors of the north."""
    spec = panel_spec([0.1, 0.2, 0.2, 0.6, 0.7], "t3", donors=30, epsilon=3.0)
    (part,) = spec.parties
    told = {
        "parties": (part.model_copy(update={"key": TRIAL.keys["north"]}),),
        "about": ABOUT,
        "title": f"A test vector: {spec.mechanism}",
    }
    return ReleaseSpec.from_bytes(spec.model_copy(update=told).to_bytes())


def _specs() -> dict[str, tuple[ReleaseSpec, ...]]:
    """Name to specs: one, or those of a stream's checkpoints, of which the last is written."""
    moments = _spec("moments")
    alone = {
        "moments": moments,
        "moments-modulo-2-64": with_terms(moments, modulus=None),
        "moments-range-proofs": with_terms(moments, range_proofs=True),
        "moments-outcomes": _spec("moments", outcomes=("systolic",)),
        "moments-ranges-first": ranges_first(moments),
        "moments-unknown-bounds": ranges_first_without_bounds(moments, ("systolic",)),
        "mixed": _spec("mixed", COLUMNS, rows=400, outputs=40),
        "rows": _spec("rows", rows=40),
        "rows-in-ranges": ranges_first(_spec("rows", rows=400, epsilon=40.0)),
        "ranges": _spec("ranges"),
        "synthetic-control": _panel(),
    }
    return {name: (spec,) for name, spec in alone.items()} | {
        "stream": _stream(),
        "stream-mixtures": _stream_of_mixtures(),
    }


def _tables(spec: ReleaseSpec) -> dict[str, BoundedRows]:
    """Everybody's rows: systolic = 100 + age/2 + 8 for smokers, and what differs between people."""
    generator, n = np.random.default_rng(1), spec.rows
    if spec.mechanism == "synthetic-control":
        return {"north": donors_of(spec, generator.uniform(-0.5, 0.5, (n, len(spec.columns))))}
    age, smoker = generator.uniform(20.0, 90.0, n), generator.random(n) < 0.3
    raw: dict[str, Any] = {
        "age": age,
        "smoker": ["yes" if each else "no" for each in smoker],
        "systolic": 100 + age / 2 + 8 * smoker + generator.normal(0.0, 12.0, n),
        "weight": np.clip(generator.normal(75.0, 12.0, n), 0.0, 200.0),
    }
    return {
        part.party: BoundedRows(
            bound({column.name: raw[column.name] for column in part.columns}, part.columns, spec.grid_bits),
            part.columns,
            spec.grid_bits,
        )
        for part in spec.parties
    }


def _blocks(*specs: ReleaseSpec) -> Mapping[str, tuple[Block, ...]]:
    """Blocks of a release that stands alone, or of the last of a stream's checkpoints."""
    if len(specs) == 1:
        return blocks_of(specs[0], _tables(specs[0]), SecureNoise())
    return published(specs, (_tables(spec) for spec in specs), SecureNoise())


def _signed(manifest: bytes, key: PrivateKey) -> Files:
    return {MANIFEST: manifest, SIGNATURE: sign_manifest(key, manifest).encode()}


def _published(spec: ReleaseSpec, blocks: Mapping[str, tuple[Block, ...]]) -> Files:
    """The release of these blocks, whatever they are: nothing is checked here."""
    data = {(party, at): block.to_bytes() for party, own in blocks.items() for at, block in enumerate(own)}
    entries = [seal(TRIAL.parties[party], spec, block, at) for (party, at), block in data.items()]
    approvals = {party: sign_approval(TRIAL.parties[party], spec) for party in blocks}
    manifest = assemble(spec, entries, approvals, TRIAL.hub.certificate, __version__, NOW)
    return {**_signed(manifest.to_bytes(), TRIAL.hub.key), **{block_file(*key): block for key, block in data.items()}}


@dataclass(frozen=True)
class Honest:
    """A release of which bad ones are copies.

    Attributes:
        specs: its spec; of a stream, those of its checkpoints up to it.
        files: its folder.
        by: who signed it.
    """

    specs: tuple[ReleaseSpec, ...]
    files: Files
    by: Consortium = TRIAL

    @property
    def spec(self) -> ReleaseSpec:
        return self.specs[-1]

    @property
    def manifest(self) -> bytes:
        return self.files[MANIFEST]

    def signed(self, manifest: bytes, key: PrivateKey | None = None) -> Files:
        """Other bytes of the manifest, signed by the hub or with another key."""
        return {**self.files, **_signed(manifest, key or self.by.hub.key)}

    def by_hub(self, change: Callable[[dict[str, Any]], object], key: PrivateKey | None = None) -> Files:
        """The manifest changed as plain data and properly signed again: what a dishonest hub can do."""
        data = json.loads(self.manifest)
        change(data)
        return self.signed(canonical_bytes(data), key)

    def by_all(self, **fields: object) -> Files:
        """Other terms, signed by everybody, over the same numbers and words."""
        spec = with_terms(self.spec, **fields)
        old, new = (each.digest().encode() for each in (self.spec, spec))
        blocks = {name: data.replace(old, new) for name, data in self.files.items() if name.endswith(".block")}
        entries, approvals = [], []
        for name, member in self.by.parties.items():
            entries.append(seal(member, spec, blocks[block_file(name, 0)]).model_dump(mode="json"))
            approvals.append(sign_approval(member, spec).model_dump(mode="json"))
        changed = {"spec": spec.model_dump(mode="json"), "blocks": entries, "approvals": approvals}
        return {**self.by_hub(lambda data: data.update(changed)), **blocks}

    def by_all_within(self, **fields: object) -> Files:
        """Other terms of what a stream adds up, signed by everybody."""
        return self.by_all(of=self.spec.terms.of.model_copy(update=fields))

    def north(self, change: Callable[[bytes], bytes], *, sealed: bool = False) -> Files:
        """Another block of the north's; where it is sealed, by the north and the hub."""
        name = block_file("north", 0)
        block = change(self.files[name])
        entry = seal(self.by.parties["north"], self.spec, block).model_dump(mode="json")
        files = self.by_hub(lambda data: data["blocks"].__setitem__(0, entry)) if sealed else self.files
        return {**files, name: block}


Fault = Callable[[Honest], Files]
BAD: dict[str, tuple[Fault, int, str, str]] = {}
"""Name to what makes it, the step of docs/format.md 12, "Checking a release", that fails, a part of what `learner` says, and the
good release of which it is a copy."""


def _refused(step: int, says: str, of: str = "moments") -> Callable[[Fault], Fault]:
    def register(fault: Fault) -> Fault:
        BAD[fault.__name__.replace("_", "-")] = (fault, step, says, of)
        return fault

    return register


@_refused(1, "not in canonical form")
def not_canonical_space(honest: Honest) -> Files:
    """The manifest has a space after its first comma, and the hub signed it so."""
    return honest.signed(honest.manifest.replace(b",", b", ", 1))


@_refused(1, "not in canonical form")
def not_canonical_key_twice(honest: Honest) -> Files:
    """The manifest has two titles, and the hub signed it so."""
    return honest.signed(honest.manifest.replace(b'"title":', b'"title":"shown","title":', 1))


@_refused(1, "not in canonical form")
def surplus_byte_of_manifest(honest: Honest) -> Files:
    """The manifest ends with a line feed, and the hub signed it so."""
    return honest.signed(honest.manifest + b"\n")


@_refused(1, "not a valid Manifest: format")
def unknown_format(honest: Honest) -> Files:
    """The manifest says format 2, and the hub signed it so."""
    return honest.by_hub(lambda data: data.update(format=2))


@_refused(1, "not a valid Manifest: comment")
def unknown_field(honest: Honest) -> Files:
    """The manifest has a field that the format does not know, and the hub signed it so."""
    return honest.by_hub(lambda data: data.update(comment="trust me"))


@_refused(1, "approvals must name the spec's parties")
def wrong_order_of_approvals(honest: Honest) -> Files:
    """The approvals are not in the spec's order of hospitals."""
    return honest.by_hub(lambda data: data["approvals"].reverse())


@_refused(1, "blocks must name the spec's parties")
def wrong_order_of_blocks(honest: Honest) -> Files:
    """The sealed blocks are not in the spec's order of hospitals."""
    return honest.by_hub(lambda data: data["blocks"].reverse())


@_refused(1, "approvals must name the spec's parties")
def approval_left_out(honest: Honest) -> Files:
    """One hospital's approval is missing."""
    return honest.by_hub(lambda data: data["approvals"].pop())


@_refused(2, "kind dprelease/manifest/v1 is not valid")
def missing_signature(honest: Honest) -> Files:
    """The file of the hub's signature is empty."""
    return {**honest.files, SIGNATURE: b""}


@_refused(2, "kind dprelease/manifest/v1 is not valid")
def signature_of_another_kind(honest: Honest) -> Files:
    """The hub signed the manifest's bytes as a block, not as a manifest."""
    return {**honest.files, SIGNATURE: sign(honest.by.hub.key, BLOCK, honest.manifest).encode()}


@_refused(2, "kind dprelease/manifest/v1 is not valid")
def altered_number(honest: Honest) -> Files:
    """The number of patients was altered after the hub had signed."""
    return {**honest.by_hub(lambda data: data["spec"].update(rows=4001)), SIGNATURE: honest.files[SIGNATURE]}


@_refused(2, "holds a party certificate where a hub")
def wrong_role_of_hub(honest: Honest) -> Files:
    """A hospital signed the manifest in the hub's place."""
    north = honest.by.parties["north"]
    return honest.by_hub(lambda data: data.update(hub_certificate=north.certificate), north.key)


@_refused(2, "authority stands where")
def root_as_hub(honest: Honest) -> Files:
    """The root signed the manifest in the hub's place."""
    return honest.by_hub(lambda data: data.update(hub_certificate=honest.by.root.certificate), honest.by.root.key)


@_refused(2, "not issued by the pinned consortium root")
def hub_of_another_root(honest: Honest) -> Files:
    """The hub's certificate is of another root with the same name."""
    other = certify("hub", "hub", by=certify("trial", None, authority=True))
    return honest.by_hub(lambda data: data.update(hub_certificate=other.certificate), other.key)


@_refused(2, "not valid at")
def hub_expired(honest: Honest) -> Files:
    """The hub's certificate had ended a second before the signed time of publication."""
    old = certify("hub", "hub", by=TRIAL.root, end=NOW - timedelta(seconds=1))
    return honest.by_hub(lambda data: data.update(hub_certificate=old.certificate), old.key)


@_refused(2, "not valid at")
def hub_not_yet_valid(honest: Honest) -> Files:
    """The hub's certificate began a second after the signed time of publication."""
    early = certify("hub", "hub", by=TRIAL.root, start=NOW + timedelta(seconds=1))
    return honest.by_hub(lambda data: data.update(hub_certificate=early.certificate), early.key)


@_refused(3, "noise scales are not those of the declared bounds")
def less_noise(honest: Honest) -> Files:
    """The spec, which everybody signed, has half the noise that its guarantee needs."""
    spec = with_terms(honest.spec, scale=honest.spec.terms.scale / 2)
    return _published(spec, _blocks(spec))


@_refused(3, "guarantee printed in the manifest")
def better_guarantee(honest: Honest) -> Files:
    """The guarantee in words has another epsilon than the spec gives, and the hub signed it so."""
    return honest.by_hub(lambda data: data["guarantee"].__setitem__(0, data["guarantee"][0].replace("(1, ", "(0.1, ")))


@_refused(3, "range proofs need the prime field")
def proofs_that_cannot_be_made(honest: Honest) -> Files:
    """The spec, which everybody signed, has range proofs and no prime modulus to make them in."""
    spec = with_terms(honest.spec, modulus=None, range_proofs=True)
    return _published(spec, _blocks(with_terms(honest.spec, modulus=None)))


@_refused(3, "trust statement printed in the manifest")
def proofs_that_nobody_made(honest: Honest) -> Files:
    """The words say that columns were checked by range proofs, the spec has none, and the hub signed it so."""
    proved = trust(with_terms(honest.spec, range_proofs=True))
    return honest.by_hub(lambda data: data.update(trust=list(proved)))


@_refused(4, "an approval by north is for another release")
def approval_of_another_release(honest: Honest) -> Files:
    """One hospital approved another spec."""
    other = sign_approval(NORTH, _spec("moments", epsilon=2.0)).model_dump(mode="json")
    return honest.by_hub(lambda data: data["approvals"].__setitem__(0, other))


@_refused(4, "kind dprelease/approval/v1 is not valid")
def approval_signed_by_another(honest: Honest) -> Files:
    """One hospital's approval has a signature of the other hospital's key."""
    forged = sign_approval(honest.by.parties["south"], honest.spec).signature
    return honest.by_hub(lambda data: data["approvals"][0].update(signature=forged))


@_refused(4, "not valid at")
def approval_expired(honest: Honest) -> Files:
    """One hospital's certificate had ended a second before the signed time of its approval."""
    old = certify("north", "party", by=TRIAL.root, key=NORTH.key, end=NOW - timedelta(seconds=1))
    return honest.by_hub(lambda data: data["approvals"][0].update(certificate=old.certificate))


@_refused(5, "holds a hub certificate where a party")
def wrong_role_of_block(honest: Honest) -> Files:
    """The hub sealed a block in a hospital's place."""

    def change(data: dict[str, Any]) -> None:
        entry = data["blocks"][0]
        entry["sealed"]["signature"] = sign_block(honest.by.hub.key, honest.spec.digest(), entry["sealed"]["sha256"])
        entry["certificate"] = honest.by.hub.certificate

    return honest.by_hub(change)


@_refused(5, "kind dprelease/block/v1 is not valid")
def wrong_sequence_number(honest: Honest) -> Files:
    """A hospital signed its block as its second one."""

    def change(data: dict[str, Any]) -> None:
        sealed = data["blocks"][0]["sealed"]
        sealed["signature"] = sign_block(honest.by.parties["north"].key, honest.spec.digest(), sealed["sha256"], 1)

    return honest.by_hub(change)


@_refused(5, "kind dprelease/block/v1 is not valid")
def altered_block_of_the_hub(honest: Honest) -> Files:
    """The last number of a block is 0, and the hub signed its new digest under the hospital's old seal."""
    changed = honest.north(lambda block: block[:-8] + bytes(8))
    digest = sha256(changed[block_file("north", 0)])
    return {**changed, **_only_signed(honest.by_hub(lambda data: data["blocks"][0]["sealed"].update(sha256=digest)))}


def _only_signed(files: Files) -> Files:
    return {name: files[name] for name in (MANIFEST, SIGNATURE)}


@_refused(5, "not valid at")
def block_expired(honest: Honest) -> Files:
    """The certificate of a block's signer had ended a second before the signed time of publication."""
    old = certify("north", "party", by=TRIAL.root, key=NORTH.key, end=NOW - timedelta(seconds=1))
    return honest.by_hub(lambda data: data["blocks"][0].update(certificate=old.certificate))


@_refused(5, "belongs to another release")
def surplus_byte_of_sealed_block(honest: Honest) -> Files:
    """A block is one byte longer than the spec asks for, and its hospital and the hub signed it so."""
    return honest.north(lambda block: block + b"\0", sealed=True)


@_refused(6, "bytes where at most")
def surplus_byte_of_block(honest: Honest) -> Files:
    """A block has one byte too many."""
    return honest.north(lambda block: block + b"\0")


@_refused(6, "differs from the digest")
def missing_byte_of_block(honest: Honest) -> Files:
    """A block lacks its last byte."""
    return honest.north(lambda block: block[:-1])


@_refused(6, "differs from the digest")
def flipped_bit_of_block(honest: Honest) -> Files:
    """One bit of a block was flipped."""
    return honest.north(lambda block: block[:-3] + bytes([block[-3] ^ 4]) + block[-2:])


@_refused(6, "block 0 of south is missing")
def missing_block(honest: Honest) -> Files:
    """The file of one block is missing."""
    return {name: data for name, data in honest.files.items() if name != block_file("south", 0)}


@_refused(6, "does not have the shape that the spec calls for")
def header_of_another_block(honest: Honest) -> Files:
    """The header of a block says that it is its hospital's second one, and everybody signed it so."""
    return honest.north(lambda block: block.replace(b'"sequence":0', b'"sequence":1'), sealed=True)


@_refused(6, "has a number that is no element")
def word_that_is_no_element(honest: Honest) -> Files:
    """The last number of a block is the modulus itself, which stands for 0, and everybody signed it so."""
    return honest.north(lambda block: block[:-8] + P.to_bytes(8, "little"), sealed=True)


@_refused(7, "do not add up to moments")
def blocks_of_two_sessions(honest: Honest) -> Files:
    """The blocks are of two sessions, each sealed by its hospital, so their masks do not cancel."""
    other = _blocks(honest.spec)["north"][0].to_bytes()
    return honest.north(lambda block: other, sealed=True)


@_refused(7, "do not add up to moments", of="stream")
def stream_of_two_sessions(honest: Honest) -> Files:
    """The blocks of a checkpoint are of two sessions, each sealed by its hospital, so their masks do not cancel."""
    other = _blocks(*honest.specs)["north"][0].to_bytes()
    return honest.north(lambda block: other, sealed=True)


@_refused(1, "the stream has room for", of="stream")
def stream_without_room(honest: Honest) -> Files:
    """A checkpoint, which everybody signed, has one patient more than its stream has room for."""
    return honest.by_all(most_rows=honest.spec.patients - 1)


@_refused(1, "numbered upwards from 1", of="stream-mixtures")
def stream_in_another_order(honest: Honest) -> Files:
    """A checkpoint, which everybody signed, names those before it in another order."""
    return honest.by_all(history=honest.spec.terms.history[::-1])


@_refused(1, "every later one names the first", of="stream-mixtures")
def stream_without_its_first(honest: Honest) -> Files:
    """A later checkpoint, which everybody signed, does not name the first one."""
    return honest.by_all(first=None)


@_refused(1, "this would be number", of="stream-mixtures")
def stream_beyond_its_end(honest: Honest) -> Files:
    """A checkpoint, which everybody signed, comes after the last one that its stream may have."""
    return honest.by_all(checkpoints=honest.spec.place.number - 1)


@_refused(1, "factor 'weighted' is for streams", of="stream-mixtures")
def stream_of_another_matrix(honest: Honest) -> Files:
    """A checkpoint of a tree, which everybody signed, says that its stream is one of unknown length."""
    return honest.by_all(factor="weighted")


@_refused(3, "a stream has no buckets", of="stream-mixtures")
def stream_in_buckets(honest: Honest) -> Files:
    """A checkpoint, which everybody signed, puts patients into buckets, which no stream does."""
    mixing = honest.spec.terms.of.mixing
    return honest.by_all_within(mixing=mixing.model_copy(update={"kind": "buckets"}))


@_refused(3, "noise scales are not those", of="stream-mixtures")
def stream_with_less_noise(honest: Honest) -> Files:
    """A checkpoint, which everybody signed, has less noise than its guarantee needs."""
    noise = honest.spec.terms.of.noise
    return honest.by_all_within(noise=tuple(each.model_copy(update={"scale": 0.999 * each.scale}) for each in noise))


@_refused(7, "centre and scale do not follow", of="rows-in-ranges")
def range_of_another_centre(honest: Honest) -> Files:
    """The centre of a published range does not follow from the numbers beside it, and everybody signed it so."""
    return honest.north(lambda block: block[:-22] + bytes([block[-22] ^ 16]) + block[-21:], sealed=True)


@_refused(7, "reach does not follow", of="rows-in-ranges")
def range_of_another_reach(honest: Honest) -> Files:
    """The reach of a published range is not the best one, and everybody signed it so."""
    return honest.north(lambda block: block[:-8] + bytes([block[-8] ^ 4]) + block[-7:], sealed=True)


def write_files(folder: Path, files: Files) -> ReleaseFolder:
    """Write a release's files."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return ReleaseFolder(folder)


def write(to: Path) -> None:
    """Write all vectors into a folder, and the root and the list beside them."""
    shutil.rmtree(to, ignore_errors=True)
    good, bad, honest = [], [], {}
    for name, specs in _specs().items():
        spec, files = specs[-1], _published(specs[-1], _blocks(*specs))
        honest[name] = Honest(specs, files)
        folder = write_files(to / "good" / name, files)
        release = folder.verify(TRIAL.root.certificate)
        plain = plain_files(release, folder.manifest())
        write_files(folder.path, {table: plain[table] for table in NUMBERS if table in plain})
        good.append({"folder": f"good/{name}", "must": "verify", "release": spec.digest(), "mechanism": spec.mechanism})
    for name, (fault, step, says, of) in BAD.items():
        write_files(to / "bad" / name, fault(honest[of]))
        wrong = " ".join((fault.__doc__ or "").split())
        found = {"folder": f"bad/{name}", "copy_of": f"good/{of}", "must": "refuse"}
        bad.append({**found, "wrong": wrong, "step": step, "learner_says": says})
    listed = {"consortium": TRIAL.root.name, "root": ROOT, "good": good, "bad": bad}
    write_files(to, {ROOT: TRIAL.root.certificate.encode(), LIST: f"{json.dumps(listed, indent=1)}\n".encode()})
    write_files(to, {proof_vectors.FILE: proof_vectors.to_bytes()})


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else VECTORS)
