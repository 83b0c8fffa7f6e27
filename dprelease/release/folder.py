"""A release as files: the same layout at the hub, at a learner and in a dry run, so that a copied folder verifies as it is.

    manifest.json   canonical bytes of the manifest
    manifest.sig    the hub's signature, hexadecimal
    blocks/NAME.SEQUENCE.block
    index.html      for people, made from the others; a hub writes it, and no release needs it

Nothing in it is believed before `ReleaseFolder.verify` has passed, not even that its files are files: who got the folder from
a stranger may find links, pipes and devices in their place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dprelease.arrays import FileRows
from dprelease.errors import IntegrityError, InvalidInput, NotFound, refused_as
from dprelease.files.durable import write_durably
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.release.block import SealedBlock
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from dprelease.release.verification import verify_release

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
BLOCKS = "blocks"
PAGE = "index.html"
"""Name of the page for people, which a hub writes beside a release, and beside all of them."""

LARGEST_MANIFEST = 16 << 20
"""Bytes of a manifest; a hub cannot send a fourth of it in one message."""

LARGEST_SIGNATURE = 1 << 10
"""Bytes of a signature's file."""

IN_FILE_BYTES = 1 << 26
"""Bytes from which on a block of rows is not read into memory: they are read when they are needed.

Such a file must not be changed before whoever verified it is done.
"""

_AS_IT_IS = sum(
    getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)  # not all systems have all


@dataclass(frozen=True)
class ReleaseFolder:
    """A folder that holds a release, or is being filled with one."""

    path: Path

    def block(self, party: str, sequence: int = 0) -> Path:
        """The path of a party's block; the name comes from a checked spec or manifest."""
        return self.path / block_file(party, sequence)

    def write_manifest(self, data: bytes, signature: str) -> None:
        """Write the manifest and its signature durably."""
        write_durably(self.path / SIGNATURE, signature.encode())
        write_durably(self.path / MANIFEST, data)

    def signed_manifest(self) -> tuple[bytes, str]:
        """The manifest's bytes and the hub's signature, unchecked.

        Raises:
            NotFound: the folder holds no release.
            IntegrityError: something else stands where a file belongs, or one of no sensible size.
        """
        try:
            data = _read(self.path / MANIFEST, LARGEST_MANIFEST)
            signature = _read(self.path / SIGNATURE, LARGEST_SIGNATURE)
        except OSError as error:
            raise NotFound(f"{self.path} holds no release: {MANIFEST} or {SIGNATURE} cannot be read") from error
        return data, signature.decode("ascii", "replace").strip()

    def manifest(self) -> Manifest:
        """The manifest, unchecked: enough to name the release, never to believe it.

        Raises:
            NotFound: the folder holds no release.
            IntegrityError: the manifest is malformed, or not a file.
        """
        return _parse(self.signed_manifest()[0])

    def verify(self, root_pem: str, known: EarlierRounds = FIRST_ROUND) -> Release:
        """Check manifest and blocks against a pinned root, offline; `known` as of `Release`.

        Raises:
            NotFound: the folder holds no release.
            IntegrityError: any link of the chain is broken.
        """
        data, signature = self.signed_manifest()
        return verify_release(data, signature, self._read_block, root_pem, known)

    def _read_block(self, sealed: SealedBlock) -> bytes | FileRows:
        try:
            if (self.path / BLOCKS).is_symlink():
                raise IntegrityError(f"{self.path / BLOCKS} is a link; a release lies in its own folder")
            path = self.block(sealed.party, sealed.sequence)
            return _read(path, sealed.size) if sealed.size < IN_FILE_BYTES else _kept(path, sealed.size)
        except OSError as error:
            raise IntegrityError(f"{sealed.key.words} is missing; fetch the release again") from error


def load_folder(folder: str | Path, root: str | Path | None = None) -> Release:
    """Read a release and check everything that can be checked offline, as ``learner verify`` does.

    The root alone says whose release it is, so there is no loading without one.

    Args:
        folder: holds manifest.json, manifest.sig and blocks, as ``learner fetch`` or a hub keeps them.
        root: file of the consortium's root certificate (PEM), compared with what the consortium published elsewhere.

    Raises:
        InvalidInput: no root was given, or the file cannot be read.
        NotFound: the folder holds no release.
        IntegrityError: any link of the chain from the root to the last byte of a block is broken.
    """
    if root is None:
        raise InvalidInput(f"say by whose root certificate to verify {folder}: name the file of the consortium's root")
    try:
        pem = Path(root).read_text(encoding="ascii")
    except OSError as error:
        raise InvalidInput(f"the root certificate {root} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{root} is not a root certificate that can be read (PEM); ask the consortium for it"
        ) from error
    return ReleaseFolder(Path(folder)).verify(pem)


def block_file(party: str, sequence: int) -> str:
    """The place of a block in a release's folder. No two share a file: a party's name may have dots, the number has none."""
    return f"{BLOCKS}/{party}.{sequence}.block"


def _parse(data: bytes) -> Manifest:
    with refused_as(IntegrityError):
        return Manifest.from_bytes(data)


def _read(path: Path, most: int) -> bytes:
    """The bytes of a regular file."""
    with _opened(path, most) as file:
        return file.read(most)


def _kept(path: Path, most: int) -> FileRows:
    """The same, not read."""
    with _opened(path, most) as file:
        return FileRows(path.resolve(), 0, (os.fstat(file.fileno()).st_size,), "u1")


@contextmanager
def _opened(path: Path, most: int) -> Iterator[BinaryIO]:
    """A regular file, looked at before it is read; reading a link, a pipe or a device might never end."""
    if path.is_symlink():
        raise IntegrityError(f"{path} is a link; a release lies in its own folder")
    handle = os.open(path, os.O_RDONLY | _AS_IT_IS)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise IntegrityError(f"{path} is not a file; fetch the release again")
        if found.st_size > most:
            raise IntegrityError(
                f"{path} has {found.st_size} bytes where at most {most} belong; fetch the release again"
            )
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)
