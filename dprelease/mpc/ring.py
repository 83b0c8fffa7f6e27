"""Secret keystreams, and exact products of tall matrices of 64-bit words: in the ring Z_2^64, or as `Limbs` say.

Products run in float64 matrix multiplication, which is many times faster than NumPy's own on integers, and are exact:

* A word x is split into balanced limbs, in the ring x = x0 + 2^22 x1 + 2^44 x2 mod 2^64 with -2^21 <= x0, x1 < 2^21 and
  -2^19 <= x2 < 2^19. A small integer, |q| <= 2^b with b <= 24, is one limb. So an operand's limbs are at most 2^c in
  magnitude, with c = 21 or c = b.
* left^T right = sum over i, j of 2^(22 (i + j)) left_i^T right_j. Pairs with i + j >= 3 vanish mod 2^64: of nine, six are left.
* Rows are taken 2^(53 - c_left - c_right) at a time (2,048 for two words, at least 32 for two small integers). Then the sum
  of any of these rows' products, hence every intermediate result in whatever order the library adds, with or without
  fused multiplication, is an integer of magnitude at most 2^53, and float64 holds it exactly.
* The sums, as 64-bit integers, are shifted and added with wrap-around, which is arithmetic in the ring.

`dprelease.mpc.modulus` has the other way to split and to put together, for words of a prime field.

Source: docs/protocol.md, steps 3 to 6; the keystream in docs/format.md 15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.errors import InvalidInput

Words = npt.NDArray[np.uint64]
"""Elements of Z_2^64, where a signed integer is there in two's complement, or of a field with less than 2^64 elements."""

LARGEST_BITS = 24
"""b of the largest small integers, |q| <= 2^b, that `product` takes."""

CHUNK_BYTES = 1 << 20
"""Most bytes of a chunk of words, unless two rows take more."""

_SEED_BYTES = 32
_COUNTER_BYTES = 16
_WORD_BYTES = 8
_ZEROS = bytes(1 << 16)  # encrypted piece by piece, so that nothing of the output's size is zeroed first

_EXACT_BITS = 53  # float64 holds every integer of magnitude at most 2^53
_LIMBS = 3

# OpenBLAS starts threads for a product of more than 2^18 multiplications. Threads that wait for one another make such
# small products many times slower where cores are busy, so tiles of columns and pieces of rows stay below that.
_ONE_THREAD = 1 << 18
_TILE = 64
_PIECE_ROWS = 1 << 11


@dataclass(frozen=True)
class Limbs:
    """How words are split into three balanced limbs, and how sums of the limbs' products become words: in the ring Z_2^64.

    Attributes:
        bits: w; the limbs below the highest lie in [-2^(w-1), 2^(w-1)), and the highest is no larger.
        pairs: with how many of the right operand's limbs each of the left's is multiplied, the lowest first.
    """

    bits: int
    pairs: tuple[int, ...]

    def add(self, total: Words, sums: npt.NDArray[np.int64], place: int) -> Words:
        """total + sums 2^(w place)."""
        return total + (sums.view(np.uint64) << np.uint64(self.bits * place))


RING_LIMBS = Limbs(22, (3, 2, 1))


class SecretStream:
    """Keystream of a secret 32-byte seed. The seed takes off what it masks: never publish or store it bare.

    It is AES-256 in counter mode over zeros, key = the seed, counter from 0 (big endian, 128 bits), read as little-endian words
    row by row. It masks hospitals' columns, so its type is not that of public streams.

    Args:
        seed: 32 bytes, fresh from the operating system and used for one purpose.

    Raises:
        InvalidInput: the seed has another length.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != _SEED_BYTES:
            raise InvalidInput(f"a secret seed has {_SEED_BYTES} bytes, not {len(seed)}")
        self._key = algorithms.AES256(seed)

    def __repr__(self) -> str:
        return "SecretStream(...)"

    def read_words(self, first_row: int, rows: int, width: int) -> Words:
        """Rows [first_row, first_row + rows) of the stream laid out as a matrix of `width` columns.

        Args:
            first_row: where to begin; even, unless the width is: the stream can be entered every 16 bytes.
            rows: how many rows, odd or even.
            width: words in a row.

        Returns:
            (rows, width) uint64, a new array.

        Raises:
            InvalidInput: a number is negative, or the first row begins between multiples of 16 bytes.
        """
        if min(first_row, rows, width) < 0:
            raise InvalidInput(f"rows {first_row} + {rows} of width {width}: none of them may be negative")
        offset = first_row * width * _WORD_BYTES
        if offset % _COUNTER_BYTES:
            raise InvalidInput(f"row {first_row} of odd width {width} lies inside a cipher block; begin at an even row")
        counter = (offset // _COUNTER_BYTES).to_bytes(_COUNTER_BYTES, "big")
        encryptor = Cipher(self._key, modes.CTR(counter)).encryptor()
        data = np.empty(rows * width * _WORD_BYTES, np.uint8)
        view = data.data
        for start in range(0, len(view), len(_ZEROS)):
            piece = view[start : start + len(_ZEROS)]
            encryptor.update_into(_ZEROS[: len(piece)], piece)
        return data.view("<u8").astype(np.uint64, copy=False).reshape(rows, width)


def chunk_rows(width: int) -> int:
    """Rows of a chunk: the largest even number whose words take at most 1 MiB, and at least two.

    Raises:
        InvalidInput: the width is not positive.
    """
    if width < 1:
        raise InvalidInput(f"a chunk has at least one column, not {width}")
    return max(2, CHUNK_BYTES // (_WORD_BYTES * width) // 2 * 2)


def product(
    left: npt.NDArray[np.integer],
    right: npt.NDArray[np.integer],
    *,
    left_bits: int | None = None,
    right_bits: int | None = None,
    limbs: Limbs = RING_LIMBS,
) -> Words:
    """left^T right mod 2^64, exactly. For uint64 takes six float64 products, with one small operand three, with two one.

    Args:
        left: (r, d); uint64, or signed integers together with `left_bits`.
        right: (r, e); uint64, or signed integers together with `right_bits`.
        left_bits: b, 0 to 24, where |left| <= 2^b is known in public; None for uint64 of full range.
        right_bits: the same for `right`.
        limbs: of the ring; others for another modulus.

    Returns:
        (d, e) uint64.

    Raises:
        InvalidInput: the shapes do not fit, a type does not fit its bits, or an integer lies beyond its bound.
    """
    if left.ndim != 2 or right.ndim != 2 or len(left) != len(right):
        raise InvalidInput(f"matrices of shapes {left.shape} and {right.shape} do not have the same rows")
    reach = sum(_magnitude_bits(*each, limbs) for each in ((left, left_bits), (right, right_bits)))
    rows = 1 << (_EXACT_BITS - reach)
    result = np.empty((left.shape[1], right.shape[1]), np.uint64)
    for i in range(0, left.shape[1], _TILE):
        for j in range(0, right.shape[1], _TILE):
            tile = slice(i, i + _TILE), slice(j, j + _TILE)
            result[tile] = _tile(left[:, tile[0]], right[:, tile[1]], left_bits, right_bits, rows, limbs)
    return result


def _magnitude_bits(values: npt.NDArray[np.integer], bits: int | None, limbs: Limbs) -> int:
    """c, where the operand's limbs are at most 2^c in magnitude; refuses values of which that is not true."""
    if bits is None:
        if values.dtype != np.uint64:
            raise InvalidInput(f"{values.dtype} needs a bound on its magnitude; only uint64 goes without")
        return limbs.bits - 1
    if values.dtype.kind != "i" or not 0 <= bits <= LARGEST_BITS:
        raise InvalidInput(f"a bound of 2^{bits} on {values.dtype}: give signed integers and 0 to {LARGEST_BITS} bits")
    if values.size and (int(values.max()) > 1 << bits or int(values.min()) < -(1 << bits)):
        raise InvalidInput(f"an integer lies beyond its bound of 2^{bits}")
    return bits


def _tile(
    left: npt.NDArray[np.integer],
    right: npt.NDArray[np.integer],
    left_bits: int | None,
    right_bits: int | None,
    rows: int,
    limbs: Limbs,
) -> Words:
    """left^T right for at most `_TILE` columns each, where sums over `rows` rows are exact in float64."""
    width, height = right.shape[1], left.shape[1]
    step = min(rows, _ONE_THREAD // (width * height), _PIECE_ROWS, max(1, len(left)))
    split_left, split_right = (_Splitter(*each, step, limbs) for each in ((height, left_bits), (width, right_bits)))
    total = np.zeros((height, width), np.uint64)
    block = np.empty((split_right.limbs, height, width))
    for start in range(0, len(left), rows):
        end = min(start + rows, len(left))
        sums = np.zeros((split_left.limbs, *block.shape))
        for first in range(start, end, step):
            last = min(first + step, end)
            lefts, rights = split_left(left[first:last]), split_right(right[first:last])
            for i, (limb, met) in enumerate(zip(lefts, limbs.pairs, strict=False)):
                sums[i, :met] += np.matmul(limb.T, rights[:met], out=block[:met])
        places: dict[int, npt.NDArray[np.int64]] = {}
        for i, (row, met) in enumerate(zip(sums, limbs.pairs, strict=False)):
            for j, entries in enumerate(row[:met].astype(np.int64)):
                places[i + j] = places[i + j] + entries if i + j in places else entries
        for place, entries in places.items():
            total = limbs.add(total, entries, place)
    return total


class _Splitter:
    """Splits rows of an operand into limbs, in memory that is taken once: fresh pages cost more than the arithmetic."""

    def __init__(self, width: int, bits: int | None, rows: int, limbs: Limbs) -> None:
        self.limbs = _LIMBS if bits is None else 1
        self._bits, self._half = limbs.bits, 1 << (limbs.bits - 1)
        # Makes the lower limbs non-negative, so that masks can cut them out.
        self._offset = np.uint64(self._half | self._half << limbs.bits)
        self._out = np.empty((self.limbs, rows, width))
        self._shifted = np.empty((rows if bits is None else 0, width), np.uint64)
        self._cut = np.empty(self._shifted.shape, np.int64)

    def __call__(self, values: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(limbs, r, width), overwritten by the next call."""
        out = self._out[:, : len(values)]
        if self.limbs == 1:
            out[0] = values
            return out
        cut, mask = self._cut[: len(values)], 2 * self._half - 1
        shifted = np.add(values, self._offset, out=self._shifted[: len(values)]).view(np.int64)
        for place in range(_LIMBS - 1):
            np.right_shift(shifted, place * self._bits, out=cut)
            np.bitwise_and(cut, mask, out=cut)
            out[place] = np.subtract(cut, self._half, out=cut)
        out[-1] = np.right_shift(shifted, (_LIMBS - 1) * self._bits, out=cut)
        return out
