"""The alignment key as people hand it over, and eight digits by which they see that they hold the same one."""

from __future__ import annotations

import base64
import hashlib

from dprelease.errors import InvalidInput
from party_node.source.alignment import KEY_BYTES


def key_check(key: bytes) -> str:
    """Eight digits by which two hospitals see that they hold the same alignment key."""
    return hashlib.sha256(b"alignment-key-check" + key).hexdigest()[:8]


def alignment_key_text(key: bytes) -> str:
    """An alignment key for people to hand over: base32 in groups of four, three check bytes at the end."""
    text = base64.b32encode(key + hashlib.sha256(b"alignment-key" + key).digest()[:3]).decode().rstrip("=")
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def alignment_key_from_text(text: str) -> bytes:
    """Read `alignment_key_text`.

    Raises:
        InvalidInput: the text is not a key, or was mistyped.
    """
    letters = "".join(text.split()).replace("-", "").upper()
    try:
        data = base64.b32decode(letters + "=" * (-len(letters) % 8))
    except ValueError as error:
        raise InvalidInput("this is not an alignment key; copy it whole") from error
    key, check = data[:KEY_BYTES], data[KEY_BYTES:]
    if len(data) != KEY_BYTES + 3 or check != hashlib.sha256(b"alignment-key" + key).digest()[:3]:
        raise InvalidInput("this alignment key was mistyped or is not whole; its check characters do not fit")
    return key
