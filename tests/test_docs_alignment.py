"""What docs/format.md says about alignment runs, computed again from its words alone and compared with code and vectors."""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.intersection.curve import hash_to_curve
from dprelease.intersection.key_value_store import labels_of, rows_of, shares
from dprelease.intersection.ring import Ring
from tests.test_docs_format import V, joined

P = 2**255 - 19
RUN = bytes(range(32))
SEED = bytes(range(0x40, 0x60))


def point(element: bytes) -> bytes:
    counter = 0
    while True:
        text = b"dprelease/intersection/point/v1" + RUN + element + counter.to_bytes(4, "big")
        u = int.from_bytes(hashlib.sha256(text).digest(), "little") % 2**255
        if u < P and pow(u**3 + 486662 * u**2 + u, (P - 1) // 2, P) == 1:
            return u.to_bytes(32, "little")
        counter += 1


def test_hashes_of_elements() -> None:
    lines = [bytes.fromhex(line) for line in V["alignment-points"].splitlines()]
    for element, expected in zip(lines[::2], lines[1::2], strict=True):
        assert point(element) == expected == hash_to_curve(RUN, element)


def test_rows_and_shares() -> None:
    evaluation = bytes.fromhex(joined("alignment-evaluation"))
    sizes = 100, 1
    segment = -(-13 * max(sizes) // 30)
    words = [int.from_bytes(evaluation[start : start + 8], "little") for start in (0, 8, 16)]
    cells = [place * segment + word % segment for place, word in enumerate(words)]
    dense = int.from_bytes(evaluation[24:40], "little")
    bits = [place for place in range(128) if dense >> place & 1]
    cipher = Cipher(algorithms.AES256(SEED), modes.CBC(bytes(16))).encryptor()  # one block
    share = int.from_bytes(cipher.update(evaluation[40:56])[:8], "little")
    printed = V["alignment-row"].splitlines()
    assert printed == [" ".join(map(str, cells)), " ".join(map(str, bits)), f"{share:016x}"]
    array = np.frombuffer(evaluation, np.uint8)[None, :]
    assert Ring("5e" * 32, dict(zip("ab", sizes, strict=True))).segment == segment
    rows = rows_of(array, segment)
    assert rows.cells[0].tolist() == cells
    assert np.flatnonzero(np.unpackbits(rows.dense[0], bitorder="little")).tolist() == bits
    assert shares([SEED], labels_of(array))[0] == share
