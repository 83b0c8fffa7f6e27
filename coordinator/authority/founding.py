"""`coordinator init`: everything that a new consortium needs, written once and never over anything.

::

    DIR/coordinator.toml        settings of the coordinator; written last
        coordinator.sqlite      its state
        root.pem, root.key      the consortium's root and its private key
        coordinator.pem, .key   the coordinator's certificate and key
        hub/                    to be moved to the hub: hub.toml, hub.pem, hub.key, root.pem
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from coordinator.authority.authority import SERVER_DAYS, Authority, general_name
from coordinator.settings import SQLITE
from coordinator.store.store import Store
from dprelease.data.columns import Name
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.identity.certificates import Role, certificate_fingerprint
from dprelease.identity.signing import new_private_key, private_key_pem, write_private
from dprelease.privacy.gaussian import check_target
from dprelease.release.fake import FAKE
from dprelease.wire.transport import check_address

SETTINGS = "coordinator.toml"
DATABASE = "coordinator.sqlite"
HUB_FOLDER = "hub"


Port = Annotated[int, Field(ge=0, le=65535)]
Hosts = Annotated[tuple[str, ...], Field(min_length=1)]


def _real(name: str) -> str:
    if name.startswith(f"{FAKE}-"):
        raise ValueError(f"a name that begins with {FAKE}- marks what a dry run made up; take another")
    return name


class Founding(Settings):
    """Settings that a consortium is founded with.

    Attributes:
        name: the consortium's name.
        hosts: names and addresses of the coordinator; others are told the first.
        hub_hosts: the same of the hub.
        epsilon: of the joint guarantee that all releases together keep to.
        delta: of the same.
        listen_host: address that the listeners bind to.
        port: coordinator, for parties and the hub.
        enrol_port: coordinator, for enrolment.
        hub_port: hub, for parties.
        hub_public_port: hub, for the public.
        database: URL of another database than an SQLite file in the folder.
    """

    name: Annotated[Name, AfterValidator(_real)]
    hosts: Hosts
    hub_hosts: Hosts
    epsilon: float
    delta: float
    listen_host: str = "0.0.0.0"  # noqa: S104 - hospitals call from outside, with certificates
    port: Port = 7441
    enrol_port: Port = 7442
    hub_port: Port = 7443
    hub_public_port: Port = 7444
    database: str | None = None


@dataclass(frozen=True)
class Founded:
    """A new consortium.

    Attributes:
        settings: path of coordinator.toml.
        hub: folder for the hub.
        fingerprint: SHA-256 of the root certificate; what learners pin.
        mu2: total mu^2, as text.
    """

    settings: Path
    hub: Path
    fingerprint: str
    mu2: str


def found(home: Path, plan: Founding, now: datetime) -> Founded:
    """Make a consortium.

    Args:
        home: folder to fill; it must be empty or not yet exist.
        plan: names, addresses and the total budget.
        now: the present.

    Raises:
        InvalidInput: the folder has something in it, or a part of the plan cannot be used. Nothing is written then.
        PeerUnavailable: the given database does not answer.
    """
    _check(home, plan)
    if plan.database is None:
        _make_private(home)
    located = plan.database or f"{SQLITE}{home.resolve() / DATABASE}"
    store = Store.create(located, plan.name, plan.epsilon, plan.delta)
    try:
        return _fill(home, plan, store, now)
    finally:
        store.close()


def _fill(home: Path, plan: Founding, store: Store, now: datetime) -> Founded:
    _make_private(home)
    authority = Authority.found(plan.name, now)
    hub = home / HUB_FOLDER
    write_private(home / "root.key", private_key_pem(authority.key))
    write_identity(home, authority, "coordinator", plan.hosts, now)
    certificate = write_identity(hub, authority, "hub", plan.hub_hosts, now)
    with store.writing() as tx:
        tx.hub.set(certificate)
    public = _address(plan.hosts[0], plan.port)
    _write_toml(hub / "hub.toml", _hub_settings(plan, public))
    _write_toml(home / SETTINGS, _coordinator_settings(plan, public))
    return Founded(
        settings=home / SETTINGS,
        hub=hub,
        fingerprint=certificate_fingerprint(authority.root_pem),
        mu2=str(store.consortium.mu2),
    )


def _check(home: Path, plan: Founding) -> None:
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise InvalidInput(f"{home} exists and is not an empty folder; it is left as it is")
    check_target(plan.epsilon, plan.delta)
    for host in (*plan.hosts, *plan.hub_hosts):
        general_name(host)
    check_address(_address(plan.listen_host, plan.port))


def _make_private(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)


def write_identity(folder: Path, authority: Authority, role: Role, hosts: Iterable[str], now: datetime) -> str:
    """Write a server's new key, its certificate and the root to a folder; returns the certificate, PEM.

    Raises:
        InvalidInput: a key is there already, or a host cannot be one.
    """
    key = new_private_key()
    certificate = authority.issue(role, role, key.public_key(), now, SERVER_DAYS, hosts)
    write_private(folder / f"{role}.key", private_key_pem(key))
    (folder / f"{role}.pem").write_bytes(certificate)
    (folder / "root.pem").write_bytes(authority.root_pem)
    return certificate.decode()


def _coordinator_settings(plan: Founding, public: str) -> dict[str, str | bool]:
    return {
        "consortium": plan.name,
        "database": plan.database or f"{SQLITE}{DATABASE}",
        "listen": _address(plan.listen_host, plan.port),
        "listen_enrolment": _address(plan.listen_host, plan.enrol_port),
        "public_address": public,
        "enrolment_address": _address(plan.hosts[0], plan.enrol_port),
        "hub_address": _address(plan.hub_hosts[0], plan.hub_port),
        "root": "root.pem",
        "certificate": "coordinator.pem",
        "key": "coordinator.key",
        "authority_key": "root.key",
        "reflection": False,
    }


def _hub_settings(plan: Founding, public: str) -> dict[str, str | bool]:
    return {
        "consortium": plan.name,
        "storage": "storage",
        "listen_parties": _address(plan.listen_host, plan.hub_port),
        "listen_public": _address(plan.listen_host, plan.hub_public_port),
        "coordinator": public,
        "root": "root.pem",
        "certificate": "hub.pem",
        "key": "hub.key",
        "reflection": False,
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _write_toml(path: Path, settings: dict[str, str | bool]) -> None:
    # A JSON string or boolean is a TOML one.
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()), encoding="utf-8")
