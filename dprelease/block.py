"""A block: what one party releases, as integers on the grid, and the same thing sealed as bytes.

Everything in this module is already noisy: a `Block` may be shown to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.canonical import Value
from dprelease.columns import Name
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.spec import Digest, ReleaseSpec

MAGIC = b"DPRBLK1\n"
_LENGTH_BYTES = 4


class BlockHeader(Value):
    """What a block says of itself.

    Attributes:
        spec: digest of the release spec.
        party: who released it.
        rows: released rows: the anchor first (if the spec has one), then the mixing rows; 1 for ``moments``.
        columns: d_j, released columns of the party; for ``moments`` the E noisy entries of the Gram matrix.
    """

    format: Literal[1] = 1
    spec: Digest
    party: Name
    rows: int
    columns: int


@dataclass(frozen=True)
class Block:
    """Released integers of one party.

    Attributes:
        header: identity and shape.
        values: (rows, d_j) int64, grid units, noise included; for ``moments`` one party's masked share of every entry,
            modulo 2^64, which says nothing without the shares of all others.
    """

    header: BlockHeader
    values: npt.NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """Magic, header length (4 bytes, little endian), header, values row by row as little-endian int64."""
        header = self.header.to_bytes()
        size = len(header).to_bytes(_LENGTH_BYTES, "little")
        return MAGIC + size + header + np.ascontiguousarray(self.values, dtype="<i8").tobytes()


def expected_header(spec: ReleaseSpec, party: str) -> BlockHeader:
    """The header that the party's block must have under this spec.

    Raises:
        InvalidInput: the party is not in the spec.
    """
    if spec.party(party) is None:
        raise InvalidInput(f"{party!r} is not a party of release {spec.digest()[:12]}")
    return BlockHeader(spec=spec.digest(), party=party, rows=spec.block_rows(), columns=spec.block_columns(party))


def block_size(spec: ReleaseSpec, party: str) -> int:
    """Bytes of the party's block, known from the spec alone."""
    header = expected_header(spec, party)
    return len(MAGIC) + _LENGTH_BYTES + len(header.to_bytes()) + 8 * header.rows * header.columns


def read_block(data: bytes, spec: ReleaseSpec, party: str) -> Block:
    """Read a block that claims to be the party's under this spec.

    Raises:
        IntegrityError: the header, shape or size is not what the spec calls for.
    """
    header = expected_header(spec, party)
    lead = MAGIC + len(header.to_bytes()).to_bytes(_LENGTH_BYTES, "little") + header.to_bytes()
    if not data.startswith(lead) or len(data) != block_size(spec, party):
        raise IntegrityError(f"the block of {party} does not have the shape that the spec calls for")
    values = np.frombuffer(data, dtype="<i8", offset=len(lead)).reshape(header.rows, header.columns)
    return Block(header, values.astype(np.int64))


class SealedBlock(Value):
    """The frozen identity of a block's bytes.

    Attributes:
        party: who sealed it.
        spec: digest of the release spec.
        sha256: of the block's bytes.
        size: their number.
        signature: hexadecimal signature by the party over spec and sha256.
    """

    party: Name
    spec: Digest
    sha256: Digest
    size: int
    signature: str
