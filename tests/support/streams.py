"""A whole stream in one process: specs of its checkpoints, real sessions, what hospitals keep between them, and blocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dprelease.arrays import Integers
from dprelease.canonical import sha256
from dprelease.catalogue import Catalogue
from dprelease.data.bounding import BoundedRows
from dprelease.identity.signing import new_private_key
from dprelease.mechanisms.base import StreamState
from dprelease.mechanisms.draft import Draft, PublishedRanges
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options
from dprelease.mpc import in_memory
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.block import Block
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.specs import SEED, build_spec, random_rows


def first_spec(
    spec: ReleaseSpec | None = None, published: Callable[[str], PublishedRanges] | None = None, **options: Any
) -> ReleaseSpec:
    """The spec of a stream's first checkpoint as a request makes it.

    Args:
        spec: parties, target, first patients; of any mechanism.
        published: what earlier releases did.
        options: keys of the request.
    """
    base = spec or build_spec()
    facts = {name: getattr(base, name) for name in ("roster", "rows", "rows_per_subject", "alignment")}
    agreed = Catalogue(party=base.parties[0].party, columns=base.parties[0].columns, **facts)
    columns = base.columns_by_party
    known = {} if published is None else {"ranges": published}
    draft = Draft(columns, agreed, base.target, base.grid_bits, lambda size: SEED[:size], **known)
    numbers = mechanism_named("stream").propose(read_options("stream", options), draft)
    return ReleaseSpec.from_bytes(base.model_copy(update={"terms": numbers.terms}).to_bytes())


def following(previous: ReleaseSpec, rows: int, checkpoint: int | None = None) -> ReleaseSpec:
    """The spec of the checkpoint after one that was published."""
    number = previous.place.number + 1 if checkpoint is None else checkpoint
    terms = previous.terms.following(previous, number, rows)
    fields = {"terms": terms, "rows": rows, "alignment": sha256(b"batch %d" % number)}
    spec = ReleaseSpec.from_bytes(previous.model_copy(update=fields).to_bytes())
    spec.terms.check_follows(spec, previous)
    return spec


def multiplied(spec: ReleaseSpec, tables: Mapping[str, BoundedRows]) -> Mapping[str, Products]:
    """What a real session of all parties leaves; nothing where there is none."""
    schedule = mechanism_of(spec).schedule(spec)
    if schedule is None:
        return {}
    matrices = {party: mechanism_of(spec).matrix(rows, spec) for party, rows in tables.items()}
    keys = {party: new_private_key() for party in tables}
    said = dict.fromkeys(tables, "5e" * 32)
    return in_memory.multiply(schedule, matrices, keys, said, lambda name: nullcontext())


@dataclass
class Hospitals:
    """What all hospitals keep of one stream, and what they make of it.

    Attributes:
        spec: of the checkpoint that was published last.
        tables: party to its rows of each checkpoint that was published, by number.
        increments: party to what it keeps.
        blocks: party to its last block.
    """

    spec: ReleaseSpec
    tables: dict[str, dict[int, BoundedRows]] = field(default_factory=dict)
    increments: dict[str, dict[int, Integers]] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(part.party for part in self.spec.parties)

    def publish(
        self, noise: NoiseSource, *, failed: bool = False, given: Mapping[str, BoundedRows] | None = None
    ) -> Release:
        """One checkpoint of given rows, or random ones; of a failed one nothing is kept."""
        spec, number = self.spec, self.spec.place.number
        check_spec(spec)
        tables = given or {
            party: random_rows(spec, party, 100 * number + place) for place, party in enumerate(self.parties)
        }
        products, blocks = multiplied(spec, tables), {}
        for party, rows in tables.items():
            made = products.get(party)
            own = dict(self.increments.get(party, {}))
            own[number] = mechanism_of(spec).exact(rows, spec, party, made)
            sent = self.blocks[party].values if party in self.blocks else None
            (blocks[party],) = privatize(rows, spec, party, noise, made, kept=StreamState(own, sent))
            if not failed:
                self.increments[party] = own
                self.tables.setdefault(party, {})[number] = rows
        if not failed:
            self.blocks = blocks
        return Release(spec, {party: (block,) for party, block in blocks.items()}, ())

    def rows(self, upto: int | None = None) -> np.ndarray[Any, Any]:
        """(n, p) scaled cells of all patients of the checkpoints that were published, up to one of them."""
        numbers = [number for number in self.tables[self.parties[0]] if upto is None or number <= upto]
        codes = [np.hstack([self.tables[party][number].codes for party in self.parties]) for number in numbers]
        return np.vstack(codes) / 2.0**self.spec.grid_bits


def published(
    specs: Sequence[ReleaseSpec], tables: Iterable[Mapping[str, BoundedRows]], noise: NoiseSource
) -> Mapping[str, tuple[Block, ...]]:
    """Every party's blocks of the last of a stream's checkpoints, after all of them were published.

    Args:
        specs: of the checkpoints.
        tables: party to its rows, of each checkpoint.
        noise: of all of them.
    """
    hospitals = Hospitals(specs[0])
    for spec, given in zip(specs, tables, strict=True):
        hospitals.spec = spec
        release = hospitals.publish(noise, given=given)
    return release.blocks
