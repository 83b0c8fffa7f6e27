"""A block: what one party releases, as integers on the grid, and the same thing sealed as bytes.

Everything in this module is already noisy, or was declared public by its owner: a `Block` may be shown to anybody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, FileRows
from dprelease.canonical import Digest, Value
from dprelease.data.bounding import within
from dprelease.data.columns import Name
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mpc.modulus import MODULI, RING
from dprelease.release.spec import BlockKey, ReleaseSpec, Sequence

MAGIC = b"DPRBLK1\n"
_LENGTH_BYTES = 4


class BlockHeader(Value):
    """A block's statement about itself.

    Attributes:
        spec: digest of the release spec.
        party: who released it.
        sequence: which of its blocks.
        rows: of the noisy integers, as the spec's mechanism shapes them.
        columns: of the same.
        public: released columns of the party's public ones, n rows each.
    """

    format: Literal[1] = 1
    spec: Digest
    party: Name
    sequence: Sequence = 0
    rows: int
    columns: int
    public: int = 0


@dataclass(frozen=True)
class Block:
    """Released integers of one party.

    Attributes:
        header: identity and shape.
        values: (rows, columns) int64, noise included; `FileRows` where a mechanism reads some rows at a time.
        public: (n, a) int32 exact codes of the party's public columns, in the order of the alignment.
    """

    header: BlockHeader
    values: npt.NDArray[np.int64]
    public: Codes = field(default_factory=lambda: np.zeros((0, 0), np.int32))

    def to_bytes(self) -> bytes:
        """Magic, header length (4 bytes, little endian), header, values row by row as little-endian int64, public int32."""
        header = self.header.to_bytes()
        lead = MAGIC + len(header).to_bytes(_LENGTH_BYTES, "little") + header
        values = np.ascontiguousarray(self.values, dtype="<i8").tobytes()
        return lead + values + np.ascontiguousarray(self.public, dtype="<i4").tobytes()


def block_keys(spec: ReleaseSpec) -> tuple[BlockKey, ...]:
    """Every block of a release: party after party in the spec's order, each party's by sequence number."""
    release = spec.digest()
    parties = (part.party for part in spec.parties)
    return tuple(BlockKey(release, party, at) for party in parties for at in range(len(spec.blocks(party))))


def expected_header(spec: ReleaseSpec, party: str, sequence: int = 0) -> BlockHeader:
    """The header that one of the party's blocks must have under this spec.

    Raises:
        InvalidInput: the party is not in the spec, or does not send such a block.
    """
    release = spec.digest()
    if spec.party(party) is None:
        raise InvalidInput(f"{party!r} is not a party of release {release[:12]}")
    shapes = spec.blocks(party)
    if not 0 <= sequence < len(shapes):
        raise InvalidInput(f"release {release[:12]} has no {BlockKey(release, party, sequence).words}")
    return BlockHeader(spec=release, party=party, sequence=sequence, **vars(shapes[sequence]))


def block_size(spec: ReleaseSpec, party: str, sequence: int = 0) -> int:
    """Bytes of one of the party's blocks, known from the spec alone.

    Raises:
        InvalidInput: as `expected_header`.
    """
    header = expected_header(spec, party, sequence)
    noisy, public = 8 * header.rows * header.columns, 4 * spec.rows * header.public
    return len(MAGIC) + _LENGTH_BYTES + len(header.to_bytes()) + noisy + public


def read_block(data: bytes, spec: ReleaseSpec, party: str, sequence: int = 0) -> Block:
    """Read a block that claims to be this one of the party's under this spec.

    Raises:
        IntegrityError: the header, shape or size is not what the spec calls for, or a number is none that may be there.
        InvalidInput: as `expected_header`.
    """
    view = view_block(data, spec, party, sequence)
    return Block(view.header, view.values.astype(np.int64), view.public.copy())


def view_block(data: bytes | memoryview | FileRows, spec: ReleaseSpec, party: str, sequence: int = 0) -> Block:
    """The same, as read-only views of the data: for who only wants to know whether it is such a block.

    Numbers of a file stay there, where every 64 bits are one that may be there.

    Raises:
        IntegrityError, InvalidInput: as `read_block`.
    """
    header = expected_header(spec, party, sequence)
    name = BlockKey(header.spec, party, sequence).words
    lead = MAGIC + len(header.to_bytes()).to_bytes(_LENGTH_BYTES, "little") + header.to_bytes()
    if bytes(data[: len(lead)]) != lead or len(data) != block_size(spec, party, sequence):
        raise IntegrityError(f"{name} does not have the shape that the spec calls for")
    values, shape = _numbers(data, "<i8", len(lead), (header.rows, header.columns)), (spec.rows, header.public)
    modulus = MODULI[spec.terms.modulo if sequence in spec.rounds()[-1] else None]
    if not isinstance(values, FileRows) or modulus is not RING:
        values = modulus.canonical(values[:].astype(np.int64, copy=False).view(np.uint64), name).view(np.int64)
    codes = _numbers(data, "<i4", len(lead) + 8 * header.rows * header.columns, shape)[:]
    public = codes.astype(np.int32, copy=False)
    if header.public and not within(public, spec.part(party).public, spec.grid_bits):
        raise IntegrityError(f"the public columns of {party} hold codes that their declarations do not allow")
    return Block(header, values, public)


def _numbers(data: bytes | memoryview | FileRows, dtype: str, offset: int, shape: tuple[int, int]) -> Any:
    """An array at some place of the data: a view of bytes, or rows that stay in their file."""
    if isinstance(data, FileRows):
        return FileRows(data.path, data.offset + offset, shape, dtype)
    return np.frombuffer(data, dtype, math.prod(shape), offset).reshape(shape)


def values_of(blocks: Mapping[str, tuple[Block, ...]]) -> dict[str, tuple[npt.NDArray[np.int64], ...]]:
    """Party to the noisy integers of its blocks, as mechanisms read them."""
    return {party: tuple(block.values for block in own) for party, own in blocks.items()}


class SealedBlock(Value):
    """The frozen identity of a block's bytes.

    Attributes:
        party: who sealed it.
        spec: digest of the release spec.
        sequence: which of its blocks.
        sha256: of the block's bytes.
        size: their number.
        signature: hexadecimal signature by the party over spec, sequence and sha256.
    """

    party: Name
    spec: Digest
    sequence: Sequence = 0
    sha256: Digest
    size: int
    signature: str

    @property
    def key(self) -> BlockKey:
        """The block's release, party and number."""
        return BlockKey(self.spec, self.party, self.sequence)
