"""Keys of all hospitals in one file, which is worth what the people made sure of who compared its digest.

Each hospital finds its own key in it by itself. Hospitals that read the same digest to one another have the same file, so every key
in it is right, whoever made it and whichever way it came.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from dprelease.canonical import Digest, Name, Value
from dprelease.errors import InvalidInput
from dprelease.files.durable import can, write_durably

LARGEST_BYTES = 1 << 20
MOST_KEYS = 1_000


class PeerKeys(Value):
    """Keys of hospitals.

    Attributes:
        consortium: whose hospitals they are.
        keys: party to the SHA-256 of its public key.
    """

    format: Literal[1] = 1
    consortium: Name
    keys: Annotated[dict[Name, Digest], Field(min_length=1, max_length=MOST_KEYS)]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The keys in a file.

        Raises:
            InvalidInput: it cannot be read, or has no such keys.
        """
        with can("read", path):
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_BYTES:
                raise InvalidInput(f"{path} is no file of keys; have it sent again")
            data = path.read_bytes()
        try:
            return cls.from_bytes(data.strip())
        except InvalidInput as error:
            raise InvalidInput(f"{path} is no file of keys, or was changed on its way; have it sent again") from error

    def write(self, path: Path) -> None:
        """Write a file that `read` reads; raises `InvalidInput` if it cannot be written."""
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no folder {path.parent}; make it, or name another file")
        with can("write", path):
            write_durably(path, self.to_bytes() + b"\n")
