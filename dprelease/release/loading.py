"""A release out of a folder in one line, verified: `dprelease.load(folder, root=...)`."""

from __future__ import annotations

from pathlib import Path

from dprelease.errors import InvalidInput
from dprelease.release.folder import ReleaseFolder
from dprelease.release.release import Release


def load(folder: str | Path, root: str | Path | None = None) -> Release:
    """Read a release and check everything that can be checked offline, as ``learner verify`` does.

    Whose release it is follows from the root alone, so there is no loading without one. With a root that was pinned by
    ``learner trust add``, `learner.load` needs no file.

    Args:
        folder: holds manifest.json, manifest.sig and blocks, as ``learner fetch`` or a hub keeps them.
        root: file of the consortium's root certificate (PEM), compared with what the consortium published elsewhere.

    Raises:
        InvalidInput: no root was given, or the file cannot be read.
        NotFound: the folder holds no release.
        IntegrityError: any link of the chain from the root to the last byte of a block is broken.
    """
    if root is None:
        raise InvalidInput(
            "say by whose root certificate to verify: dprelease.load(folder, root='root.pem'); "
            "or learner.load(folder), if that root was pinned with learner trust add"
        )
    try:
        pem = Path(root).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{root} is not a root certificate that can be read (PEM); ask the consortium for it"
        ) from error
    return ReleaseFolder(Path(folder)).verify(pem)
