"""Whom a learner trusts: consortium roots that a person compared and pinned, each with the addresses of its hub and mirrors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID
from pydantic import Field, TypeAdapter, ValidationError

from dprelease.canonical import Value
from dprelease.data.columns import Name
from dprelease.errors import Conflict, InvalidInput, NotFound
from dprelease.files.durable import write_durably
from dprelease.identity.certificates import certificate_fingerprint, read_certificate
from dprelease.one_line import one_line
from dprelease.wire.transport import check_address
from learner.client.mirror import check_url


class Trusted(Value):
    """A consortium that the learner trusts.

    Attributes:
        name: the consortium's name, as in its specs.
        hub: host:port of its hub's public listener, if it has one for us.
        mirrors: addresses of folders with its releases, best first.
        root: its root certificate, PEM.
    """

    name: Name
    hub: Annotated[str | None, Field(exclude_if=lambda hub: hub is None)] = None
    mirrors: Annotated[tuple[str, ...], Field(exclude_if=lambda mirrors: not mirrors)] = ()
    root: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the root certificate, hexadecimal."""
        return certificate_fingerprint(self.root)


def read_root(path: Path) -> str:
    """A consortium's root certificate, PEM.

    Raises:
        InvalidInput: the file cannot be read, or holds no root certificate.
    """
    try:
        pem = path.read_text(encoding="ascii")
        root = read_certificate(pem)
        root.verify_directly_issued_by(root)
    except (OSError, UnicodeDecodeError, ValueError, TypeError, InvalidSignature, InvalidInput) as error:
        raise InvalidInput(f"{path} is not a consortium's root certificate (PEM); ask the consortium for it") from error
    return pem


def check_holder(root_pem: str, name: str) -> None:
    """Refuse another name than the root's, under which no release of the consortium would be believed.

    Raises:
        InvalidInput: they differ.
    """
    names = read_certificate(root_pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if name not in (own := [str(each.value) for each in names]):
        raise InvalidInput(
            f"the root is that of consortium {one_line(' '.join(own))}, not {one_line(name)}; use its name"
        )


def check_fingerprint(fingerprint: str, expected: str) -> None:
    """Compare a root's fingerprint with one that came by another way; colons, spaces and case do not count.

    Raises:
        InvalidInput: they differ.
    """
    if expected.replace(":", "").replace(" ", "").lower() != fingerprint:
        raise InvalidInput(f"the root's fingerprint is {fingerprint}, not {expected}; do not trust this file")


class TrustStore:
    """The pinned roots in a learner's folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "trust"

    def add(self, name: str, root_pem: str, hub: str | None, mirrors: Iterable[str] = ()) -> Trusted:
        """Pin a root; the addresses of a pinned root may be changed, all at once.

        Raises:
            InvalidInput: the name or an address is malformed, or there is no address.
            Conflict: another root is pinned under this name.
        """
        if hub is not None:
            check_address(hub)
        mirrors = tuple(dict.fromkeys(check_url(mirror) for mirror in mirrors))
        if hub is None and not mirrors:
            raise InvalidInput("say where the consortium's releases are: --hub HOST:PORT, --mirror URL, or both")
        trusted = Trusted(name=_checked_name(name), hub=hub, mirrors=mirrors, root=root_pem)
        known = self._read(name)
        if known is not None and known.fingerprint != trusted.fingerprint:
            raise Conflict(f"another root is pinned for {name}; if that is over, run: learner trust remove {name}")
        write_durably(self._path(name), trusted.to_bytes())
        return trusted

    def remove(self, name: str) -> None:
        """Trust a consortium no longer.

        Raises:
            NotFound: it was not trusted.
        """
        self.get(name)
        self._path(name).unlink()

    def all(self) -> tuple[Trusted, ...]:
        """All trusted consortia, by name."""
        return tuple(Trusted.from_bytes(path.read_bytes()) for path in sorted(self._folder.glob("*.json")))

    def get(self, name: str | None) -> Trusted:
        """The named consortium; without a name the only one.

        Raises:
            InvalidInput: the name is malformed, or left out although several are trusted.
            NotFound: it is not trusted.
        """
        if name is not None:
            known = self._read(name)
            if known is None:
                raise NotFound(
                    f"consortium {name} is not trusted yet; run: learner trust add {name} --root ... (--hub ... or --mirror ...)"
                )
            return known
        trusted = self.all()
        if not trusted:
            raise NotFound("no consortium is trusted yet; run: learner trust add NAME --root root.pem --hub HOST:PORT")
        if len(trusted) > 1:
            raise InvalidInput(f"say which consortium: --from {' | '.join(each.name for each in trusted)}")
        return trusted[0]

    def _read(self, name: str) -> Trusted | None:
        path = self._path(name)
        return Trusted.from_bytes(path.read_bytes()) if path.exists() else None

    def _path(self, name: str) -> Path:
        return self._folder / f"{_checked_name(name)}.json"


def _checked_name(name: str) -> str:
    try:
        return TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        raise InvalidInput(f"{name!r} is not a consortium's name: a letter, then letters, digits, _ . -") from error
