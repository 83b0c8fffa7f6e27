"""PEM that was damaged, the same way at every run."""

import base64
import random
from collections.abc import Iterator


def mutated(pem: str, label: str, count: int, seed: int) -> Iterator[str]:
    """PEM around bytes of which one or a few were changed, some at a length, where DER is most easily broken."""
    der = base64.b64decode("".join(pem.strip().splitlines()[1:-1]))
    chance = random.Random(seed)
    for number in range(count):
        damaged = bytearray(der)
        for _ in range(1 + number % 3):
            damaged[chance.randrange(len(der))] = chance.choice((chance.randrange(256), 0, 0x80, 0xFF))
        if damaged != der:
            yield f"-----BEGIN {label}-----\n{base64.encodebytes(damaged).decode()}-----END {label}-----\n"
