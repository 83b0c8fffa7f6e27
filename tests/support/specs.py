"""Small releases for tests: declared columns, specs, raw tables, a consortium with real keys, a published release."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.about import About
from dprelease.canonical import sha256
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.column import RawColumn
from dprelease.data.columns import (
    CategoricalColumn,
    Column,
    NumericColumn,
    OrderedColumn,
    numbers,
    squared_sensitivity,
    weights_of,
)
from dprelease.mechanisms.noisy_rows.calibration import party_noise, shares
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, Mixing, MixingKind, RowsTerms
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.privacy.calibration import budget
from dprelease.privacy.noise import NoiseSource
from dprelease.release.approval import SignedApproval, approve
from dprelease.release.block import Block, BlockHeader
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry, Manifest, assemble, sealed_block, sign_manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import PartyColumns, Target, Terms, instant
from tests.support.blocks import privatize
from tests.support.certificates import NOW, Member, certify
from tests.support.joint import compute
from tests.support.moments import joint_moments

SEED = bytes(range(32))
"""The public mixing seed, unless a test says otherwise."""


def numeric(name: str, lower: float = -1.0, upper: float = 1.0, **declared: object) -> NumericColumn:
    """A numeric column; [-1, 1] unless told, so that raw cells are scaled cells."""
    return NumericColumn.model_validate({"name": name, "lower": lower, "upper": upper, **declared})


def categorical(name: str, *levels: str, **declared: object) -> CategoricalColumn:
    return CategoricalColumn.model_validate({"name": name, "levels": levels, **declared})


def ordered(name: str, *levels: str, **declared: object) -> OrderedColumn:
    """A category with an order, filled with its lowest level unless told."""
    return OrderedColumn.model_validate({"name": name, "levels": levels, "fill": levels[0], **declared})


ABOUT = 'about = { description = "Made-up rows", licence = "CC0-1.0", creators = [{ name = "A test" }] }'
"""The line of a request without which none is proposed."""

TWO_PARTIES: Mapping[str, tuple[Column, ...]] = {
    "north": (numeric("age", 0.0, 120.0, unit="years"), categorical("sex", "female", "male")),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}


def build_spec(
    parties: Mapping[str, tuple[Column, ...]] = TWO_PARTIES,
    *,
    mechanism: str = "mixed",
    rows: int = 40,
    outputs: int = 8,
    anchor_weight: str | None = None,
    scope: str = "joint",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    grid_bits: int = 10,
    rows_per_subject: int = 1,
    seed: bytes = SEED,
    keys: Mapping[str, str] | None = None,
    curious: int | None = None,
    dealer: str | None = None,
    guarantee: str | None = None,
    outcomes: tuple[str, ...] = (),
    public_norm2: Fraction | None = None,
    title: str = "a test release",
    weights: Mapping[str, int] | None = None,
    mixing: MixingKind = "bernoulli",
    about: About | None = None,
) -> ReleaseSpec:
    """A sound spec: shares of the target and the least noise that keeps to them.

    Args:
        parties: party to columns.
        mechanism: ``mixed``, ``rows``, ``moments`` or ``ranges``.
        rows: n.
        outputs: k, for ``mixed``.
        anchor_weight: rho; 1/10 for ``mixed`` and 0 otherwise, unless told.
        scope: of the target.
        epsilon: of the target.
        delta: of the target.
        grid_bits: b.
        rows_per_subject: q.
        seed: public mixing seed.
        curious: t, for ``moments``; 1 unless told, 0 for one party.
        dealer: for ``moments``; rotating wherever that is possible, unless told.
        keys: party to key fingerprint; made up where nothing is signed.
        guarantee: what it is called; DP, or feature-DP where a column is public, unless told.
        outcomes: columns that are outcomes only, for ``moments``.
        public_norm2: largest squared norm of public ones, as stated.
        title: tells two otherwise equal releases apart.
        weights: column to weight, where it is not 1.
        mixing: kind of mixing matrix, for ``mixed``.
        about: what people need to find, cite and use it.
    """
    weighed = {party: weights_of(columns, weights or {}) for party, columns in parties.items()}
    target = Target.model_validate({"scope": scope, "epsilon": epsilon, "delta": delta})
    terms: Terms
    if mechanism == "moments":
        terms = joint_moments(parties, target, curious, dealer, grid_bits, rows_per_subject, outcomes, public_norm2)
    elif mechanism == "ranges":
        everything = tuple(column for own in parties.values() for column in own)
        numeric_ones = everything if numbers(everything) else (numeric("nobody"),)
        terms = RangesTerms.least(budget(target), numeric_ones, rows_per_subject)
    else:
        mixed = mechanism == "mixed"
        weight, matrix = (
            anchor_weight or ("1/10" if mixed else "0"),
            Mixing(kind=mixing, outputs=outputs, seed=seed.hex()),
        )
        norm = matrix.squared_norm if mixed else 1
        moved = rows_per_subject ** (2 if mixed else 1)
        sensitivity2 = {
            party: squared_sensitivity(columns, weighed[party]) * moved << (2 * grid_bits)
            for party, columns in parties.items()
        }
        noise = tuple(
            party_noise(party, mu2, sensitivity2[party], norm, Fraction(weight))
            for party, mu2 in shares(budget(target), target.scope, sensitivity2).items()
        )
        shared: dict[str, Any] = {"anchor_weight": weight, "noise": noise}
        terms = MixedTerms(mixing=matrix, **shared) if mixed else RowsTerms(**shared)
    public = any(column.public for columns in parties.values() for column in columns)
    named = keys or {party: sha256(party.encode()) for party in parties}
    return ReleaseSpec.model_validate(
        {
            "title": title,
            "consortium": "trial",
            "roster": "roster-1",
            "rows": rows,
            "rows_per_subject": rows_per_subject,
            "alignment": hashlib.sha256(b"alignment").hexdigest(),
            "guarantee": guarantee or ("feature-DP" if public else "DP"),
            "terms": terms,
            "grid_bits": grid_bits,
            "target": target,
            "parties": tuple(
                PartyColumns(party=party, key=named[party], columns=columns, weights=weighed[party])
                for party, columns in parties.items()
            ),
            "created": instant(NOW - timedelta(hours=2)),
            "expires": instant(NOW + timedelta(days=7)),
            "about": about,
        }
    )


def with_terms(spec: ReleaseSpec, **fields: object) -> ReleaseSpec:
    """The spec with other values of its mechanism's own fields, which nothing checks."""
    return spec.model_copy(update={"terms": spec.terms.model_copy(update=fields)})


def random_raw(columns: tuple[Column, ...], rows: int, generator: np.random.Generator) -> dict[str, RawColumn]:
    """Raw cells within the declared bounds and levels."""
    raw: dict[str, RawColumn] = {}
    for column in columns:
        if isinstance(column, NumericColumn):
            ends = (column.lower, column.upper) if column.bounded else (-30.0, 90.0)
            raw[column.name] = generator.uniform(*ends, rows)
        else:
            raw[column.name] = [str(level) for level in generator.choice(column.values, rows)]
    return raw


def random_rows(spec: ReleaseSpec, party: str, seed: int = 0) -> BoundedRows:
    part = spec.party(party)
    assert part is not None
    raw = random_raw(part.columns, spec.rows, np.random.default_rng(seed))
    return BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)


def private_blocks(spec: ReleaseSpec, noise: NoiseSource, seed: int = 0) -> dict[str, bytes]:
    """Every party's honest block over random tables."""
    rows = {part.party: random_rows(spec, part.party, seed) for part in spec.parties}
    if spec.mechanism == "moments":
        made = compute(spec, rows, dict.fromkeys(rows, noise)).blocks
        return {party: block.to_bytes() for party, block in made.items()}
    return {party: privatize(table, spec, party, noise).to_bytes() for party, table in rows.items()}


@dataclass(frozen=True)
class Consortium:
    """A root, a hub and parties, each with a real P-256 key."""

    root: Member
    hub: Member
    parties: Mapping[str, Member]

    @property
    def keys(self) -> dict[str, str]:
        return {name: member.fingerprint for name, member in self.parties.items()}


def new_consortium(*parties: str) -> Consortium:
    root = certify("trial", None, authority=True)
    return Consortium(
        root=root,
        hub=certify("hub", "hub", by=root),
        parties={party: certify(party, "party", by=root) for party in parties},
    )


def sign_approval(member: Member, spec: ReleaseSpec) -> SignedApproval:
    """A party's consent to a spec."""
    return approve(spec, member.name, sha256(b"commitment"), member.key, member.certificate, NOW)


def seal(member: Member, spec: ReleaseSpec, block: bytes, sequence: int = 0) -> BlockEntry:
    """A party's signature over one of its blocks."""
    header = BlockHeader(spec=spec.digest(), party=member.name, sequence=sequence, rows=1, columns=1)
    return BlockEntry(sealed=sealed_block(member.key, header, block), certificate=member.certificate)


def one_block_each(spec: ReleaseSpec, blocks: Mapping[str, Block], words: tuple[str, ...] = ()) -> Release:
    """A release in which every party has one block, without keys and signatures."""
    return Release(spec, {party: (block,) for party, block in blocks.items()}, words)


@dataclass(frozen=True)
class Published:
    """A release as a learner finds it: the manifest's bytes, the hub's signature, the blocks, and the root it pinned."""

    manifest: bytes
    signature: str
    blocks: Mapping[str, bytes]
    root: str

    def write(self, path: Path) -> ReleaseFolder:
        """The same as files."""
        made = ReleaseFolder(path)
        made.write_manifest(self.manifest, self.signature)
        for party, block in self.blocks.items():
            made.block(party).parent.mkdir(exist_ok=True)
            made.block(party).write_bytes(block)
        return made


def publish(consortium: Consortium, spec: ReleaseSpec, noise: NoiseSource) -> Published:
    """Privatise random tables, seal, approve, assemble and sign, whatever the spec says: nothing is checked here."""
    members = {part.party: consortium.parties[part.party] for part in spec.parties}
    blocks = private_blocks(spec, noise)
    manifest: Manifest = assemble(
        spec,
        [seal(member, spec, blocks[name]) for name, member in members.items()],
        {name: sign_approval(member, spec) for name, member in members.items()},
        consortium.hub.certificate,
        "0.1.0",
        NOW,
    )
    data = manifest.to_bytes()
    return Published(data, sign_manifest(consortium.hub.key, data), blocks, consortium.root.certificate)
