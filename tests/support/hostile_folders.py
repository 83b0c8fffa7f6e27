"""What a stranger may put where a file of a release belongs."""

import os
from collections.abc import Callable
from pathlib import Path

from dprelease.release.folder import LARGEST_MANIFEST, MANIFEST, SIGNATURE

FILES = (MANIFEST, SIGNATURE, "blocks/south.0.block")


def sparse(path: Path) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 40)


def larger_by_a_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes().ljust(LARGEST_MANIFEST + 1))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to(target: str) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return replace


def linked_elsewhere(path: Path) -> None:
    outside = path.parent.parent / "outside"
    path.rename(outside)
    path.symlink_to(outside)


def folder_in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a sparse terabyte": (sparse, "has 1099511627776 bytes where at most"),
    "a byte too large": (larger_by_a_byte, "bytes where at most"),
    "a pipe": (pipe, "is not a file"),
    "a link to zeros": (link_to("/dev/zero"), "is a link"),
    "a link to nothing": (link_to("/nonexistent"), "is a link"),
    "a link to itself": (lambda path: link_to(path.name)(path), "is a link"),
    "a link out of the folder to what belongs there": (linked_elsewhere, "is a link"),
    "a folder": (folder_in_its_place, "is not a file"),
}
