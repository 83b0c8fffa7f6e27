"""Every way in which a published release can be false, as changes to a folder that holds an honest one."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dprelease.canonical import canonical_bytes
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest, sign_manifest
from tests.learner.world import World
from tests.support.certificates import mint

Tamper = Callable[[ReleaseFolder, World], None]


def _rewrite(change: Callable[[Manifest], Manifest], *, resign: bool) -> Tamper:
    def tamper(folder: ReleaseFolder, world: World) -> None:
        data = change(folder.manifest()).to_bytes()
        signature = sign_manifest(world.hub.key, data) if resign else folder.signed_manifest()[1]
        folder.write_manifest(data, signature)

    return tamper


def _update(**fields: object) -> Callable[[Manifest], Manifest]:
    return lambda manifest: manifest.model_copy(update=fields)


def _title(manifest: Manifest) -> Manifest:
    return manifest.model_copy(update={"spec": manifest.spec.model_copy(update={"title": "another"})})


def _swap_certificates(manifest: Manifest) -> Manifest:
    north, south = manifest.blocks
    return manifest.model_copy(
        update={
            "blocks": (
                north.model_copy(update={"certificate": south.certificate}),
                south.model_copy(update={"certificate": north.certificate}),
            )
        }
    )


def _other_approval(manifest: Manifest) -> Manifest:
    north, south = manifest.approvals
    return manifest.model_copy(update={"approvals": (north.model_copy(update={"signature": south.signature}), south)})


def _block(change: Callable[[bytes], bytes]) -> Tamper:
    def tamper(folder: ReleaseFolder, world: World) -> None:
        path = folder.block("north")
        path.write_bytes(change(path.read_bytes()))

    return tamper


def _swap_blocks(folder: ReleaseFolder, world: World) -> None:
    north, south = folder.block("north").read_bytes(), folder.block("south").read_bytes()
    folder.block("north").write_bytes(south)
    folder.block("south").write_bytes(north)


def _shape(folder: ReleaseFolder, world: World) -> None:
    path = folder.block("north")
    block = path.read_bytes().replace(b'"columns":4', b'"columns":5')
    path.write_bytes(block)
    manifest = folder.manifest()
    north, south = manifest.blocks
    sealed = north.model_copy(update={"sealed": world.seal("north", manifest.spec, block)})
    data = manifest.model_copy(update={"blocks": (sealed, south)}).to_bytes()
    folder.write_manifest(data, sign_manifest(world.hub.key, data))


def _signature(text: str) -> Tamper:
    return lambda folder, world: folder.write_manifest(folder.signed_manifest()[0], text)


def _spaces(folder: ReleaseFolder, world: World) -> None:
    data = json.dumps(json.loads(folder.signed_manifest()[0])).encode()
    folder.write_manifest(data, sign_manifest(world.hub.key, data))


def _extra_field(folder: ReleaseFolder, world: World) -> None:
    data = canonical_bytes({**json.loads(folder.signed_manifest()[0]), "extra": 1})
    folder.write_manifest(data, sign_manifest(world.hub.key, data))


def _signed_by(make: Callable[[World], tuple[str, str]]) -> Tamper:
    def tamper(folder: ReleaseFolder, world: World) -> None:
        key_holder = mint("hub", "hub", world.root)
        role, root = make(world)
        member = mint("hub", role, world.root if root == "ours" else mint("trial", None), key=key_holder.key)
        data = folder.manifest().model_copy(update={"hub_certificate": member.certificate}).to_bytes()
        folder.write_manifest(data, sign_manifest(member.key, data))

    return tamper


MANIFEST: Mapping[str, Tamper] = {
    "another title, old signature": _rewrite(_title, resign=False),
    "another title, signed by the hub": _rewrite(_title, resign=True),
    "a better guarantee, signed by the hub": _rewrite(_update(guarantee=("epsilon = 0",)), resign=True),
    "a version as long as a page, signed by the hub": _rewrite(_update(software="1" * 201), resign=True),
    "published when no certificate was valid": _rewrite(_update(published="2020-01-01T00:00:00Z"), resign=True),
    "certificates of each other": _rewrite(_swap_certificates, resign=True),
    "an approval that was not signed": _rewrite(_other_approval, resign=True),
    "no signature": _signature(""),
    "a signature of something else": _signature("3006020101020101"),
    "a signature that is no text": _signature("\N{SNOWMAN}"),
    "not canonical": _spaces,
    "an unknown field": _extra_field,
    "not JSON": lambda folder, world: folder.write_manifest(b"\x00", "00"),
    "signed by a party": _signed_by(lambda world: ("party", "ours")),
    "signed by a hub of another root": _signed_by(lambda world: ("hub", "theirs")),
}

BLOCKS: Mapping[str, Tamper] = {
    "a flipped bit": _block(lambda data: data[:-3] + bytes([data[-3] ^ 4]) + data[-2:]),
    "swapped blocks": _swap_blocks,
    "another shape, signed by its party and the hub": _shape,
}

FILES: Mapping[str, Tamper] = {
    "a missing byte": _block(lambda data: data[:-1]),
    "an extra byte": _block(lambda data: data + b"\0"),
    "an empty block": _block(lambda data: b""),
    "a missing block": lambda folder, world: folder.block("south").unlink(),
}
"""What can only happen to files: over the wire these are lengths that do not fit."""


def copy(folder: ReleaseFolder, to: Path) -> ReleaseFolder:
    import shutil

    shutil.copytree(folder.path, to)
    return ReleaseFolder(to)
