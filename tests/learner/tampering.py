"""Every way in which a published release can be false, as changes to a folder that holds an honest one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dprelease.release.folder import MANIFEST as NAME
from dprelease.release.folder import SIGNATURE, ReleaseFolder
from tests.learner.world import World
from tests.support.specs import Consortium
from tests.vectors import BAD, Fault, Files, Honest, write_files

Tamper = Callable[[ReleaseFolder, World], None]


def _by(fault: Fault) -> Tamper:
    def tamper(folder: ReleaseFolder, world: World) -> None:
        paths = [folder.path / NAME, folder.path / SIGNATURE, *folder.path.glob("blocks/*.block")]
        files = {str(path.relative_to(folder.path)): path.read_bytes() for path in paths}
        made = fault(Honest((folder.manifest().spec,), files, Consortium(world.root, world.hub, world.parties)))
        assert made != files
        for name in files.keys() - made.keys():
            (folder.path / name).unlink()
        write_files(folder.path, made)

    return tamper


def _vectors(*names: str) -> dict[str, Tamper]:
    """Faults of docs/vectors."""
    return {name: _by(BAD[name.replace(" ", "-")][0]) for name in names}


def _by_hub(**fields: object) -> Tamper:
    return _by(lambda honest: honest.by_hub(lambda data: data.update(fields)))


def _title(data: dict[str, Any]) -> None:
    data["spec"]["title"] = "another"


def _swap_certificates(data: dict[str, Any]) -> None:
    north, south = data["blocks"]
    north["certificate"], south["certificate"] = south["certificate"], north["certificate"]


def _signature(text: str) -> Tamper:
    return _by(lambda honest: {**honest.files, SIGNATURE: text.encode()})


def _swap_blocks(honest: Honest) -> Files:
    north, south = (name for name in honest.files if name.endswith(".block"))
    return {**honest.files, north: honest.files[south], south: honest.files[north]}


MANIFEST: Mapping[str, Tamper] = {
    "another title, signed by the hub": _by(lambda honest: honest.by_hub(_title)),
    "published when no certificate was valid": _by_hub(published="2020-01-01T00:00:00Z"),
    "certificates of each other": _by(lambda honest: honest.by_hub(_swap_certificates)),
    "a version as long as a page, signed by the hub": _by_hub(software="1" * 201),
    "a signature of something else": _signature("3006020101020101"),
    "a signature that is no text": _signature("\N{SNOWMAN}"),
    "not JSON": _by(lambda honest: {**honest.files, NAME: b"\x00"}),
    **_vectors(
        "altered number",
        "better guarantee",
        "approval signed by another",
        "missing signature",
        "not canonical space",
        "unknown field",
        "wrong role of hub",
        "hub of another root",
    ),
}

BLOCKS: Mapping[str, Tamper] = {
    **_vectors("flipped bit of block"),
    "swapped blocks": _by(_swap_blocks),
    "another shape, signed by its party and the hub": _by(
        lambda honest: honest.north(lambda block: block.replace(b'"columns":4', b'"columns":5'), sealed=True)
    ),
}

FILES: Mapping[str, Tamper] = {
    **_vectors("missing byte of block", "surplus byte of block", "missing block"),
    "an empty block": _by(lambda honest: honest.north(lambda block: b"")),
}
"""What can only happen to files: over the wire these are lengths that do not fit."""


def copy(folder: ReleaseFolder, to: Path) -> ReleaseFolder:
    import shutil

    shutil.copytree(folder.path, to)
    return ReleaseFolder(to)
