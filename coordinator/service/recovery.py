"""The office as witness, and after a restore of an older database: open work ends, and what others can prove is taken back.

Two proofs need no trust in whoever brings them: the hub's signed manifest of a published release, with every party's approval in
it, and a party's own signed approval beside the spec that it names (docs/coordinator.md, "Backup and restore").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from coordinator.authority.authority import Authority
from coordinator.lifecycle import Cancelled, Stage, Standing, Topic
from coordinator.store.store import Store, Transaction
from dprelease.agreement import Signed, check_consent
from dprelease.canonical import sha256
from dprelease.errors import Conflict, DpReleaseError, IntegrityError, NotFound
from dprelease.privacy.price import price_text, room_text
from dprelease.release.accounting import check_spec, guarantee
from dprelease.release.charges import Charge, SignedStatement, charge, state
from dprelease.release.folder import MANIFEST, ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.spec import ReleaseSpec
from dprelease.release.verification import check_manifest
from dprelease.spec_base import instant, moment


def statement(store: Store, tx: Transaction, authority: Authority, party: str, now: datetime) -> SignedStatement:
    """Every release that a party and all its partners approved, whatever became of it."""
    return state(store.consortium.name, party, _charges(tx, party), authority.key, now)


def _charges(tx: Transaction, party: str) -> list[Charge]:
    return [
        charge(release.read_spec(), party, published=release.record.state is Stage.PUBLISHED)
        for release in tx.releases.approved_by_all(party)
    ]


def left(tx: Transaction, party: str, roster: str, without: str = "") -> Fraction:
    """Rest of a hospital's ledger, mu^2, as far as the office has seen; below 0 where more was promised than there is.

    Releases that all their parties approved count, whatever became of them: a ledger may have more, where one of them was given
    up before its first byte.

    Args:
        tx: reads releases and members.
        party: its name.
        roster: whose budget.
        without: digest of a release to leave out.

    Raises:
        NotFound: no such party.
    """
    member = tx.members.find(party)
    if member is None:
        raise NotFound(f"no party {party}; see: coordinator party list")
    spent = [each.mu2 for each in _charges(tx, party) if each.roster == roster and each.release != without]
    return member.cap_mu2 - sum(map(Fraction, spent), Fraction(0))


def left_after(tx: Transaction, spec: ReleaseSpec) -> dict[str, Fraction]:
    """Party to what its ledger has left once a release is charged; see `left`."""
    costs = guarantee(spec)
    return {
        part.party: left(tx, part.party, spec.roster, spec.digest()) - costs.party(part.party).mu2
        for part in spec.parties
    }


def left_text(party: str, mu2: Fraction, charge: Fraction, delta: float) -> str:
    """Rest of a hospital's ledger after a release of some price, in words."""
    if mu2 < 0:
        return f"{party}: its ledger seems to have no room for this release; {price_text(-mu2, delta)} is missing"
    return f"{party} has left after it {price_text(mu2, delta)}, {room_text(mu2, charge)}"


FORGOTTEN = "the office had forgotten it in a restore, and {party} brought it back; propose it again"
"""Reason of a release that is put down as failed because a party showed its approval first."""

MOST_SHOWN = 1000
"""Forgotten releases that one party may have put down: it chooses what it shows, and each takes up to 1 MiB for good."""


@dataclass(frozen=True)
class Restored:
    """State that a restored database was brought to: since when it knows nothing, and whose invites and which releases ended."""

    since: datetime
    invited: tuple[str, ...]
    ended: tuple[str, ...]


def take_into_use(store: Store, now: datetime) -> Restored:
    """End what a database opened as a copy believes is open: an invite may have been used, a release cancelled or dealt for.

    A release that the hub may have published waits for its report.
    """
    with store.writing() as tx:
        since = tx.copies.restore(now)
        event = Cancelled(f"the office restored its database, which ends at {instant(since)}")
        due = [each.digest for each in tx.agreements.open() if each.record.publishing is None]
        over = [tx.agreements.advance(each, event, now) for each in due]
        ended = tuple(each.digest for each in over if each.record.kind is Topic.RELEASE)
        invited = tx.members.end_invitations(now)
        tx.history.note(f"restored; what happened from {instant(since)} to now was forgotten", now)
    return Restored(since, invited, ended)


def recall(store: Store, root_pem: str, published: Path, now: datetime) -> Iterator[tuple[str, str]]:
    """Take published releases back from their signed manifests.

    Args:
        store: the consortium's.
        root_pem: its root.
        published: a folder of release folders: the hub's, a mirror's or a learner's.
        now: the present.

    Yields:
        For each release the name of its folder and its outcome in words; nothing for one that is known as published.
    """
    for path in sorted(path.parent for path in published.glob(f"*/{MANIFEST}")):
        try:
            done = _recall(store, root_pem, ReleaseFolder(path), now)
        except DpReleaseError as error:
            yield path.name, f"not taken back: {error.message}"
        else:
            if done:
                yield path.name, "taken back as published"


def _recall(store: Store, root_pem: str, folder: ReleaseFolder, now: datetime) -> bool:
    data, signature = folder.signed_manifest()
    manifest = check_manifest(data, signature, root_pem)
    _check_consortium(manifest.spec, store)
    with store.writing() as tx:
        known = _known(tx, manifest.spec.digest())
        if known is not None and known.manifest is not None:
            if known.manifest != sha256(data):
                raise Conflict(f"it was published under another manifest, {known.manifest[:12]}, which counts")
            return False
        record = _published(manifest, sha256(data))
        approvals = {signed.approval.party: signed.to_bytes() for signed in manifest.approvals}
        tx.releases.take_back(manifest.spec, record, approvals, now)
    return True


def hear_forgotten(signed: Signed, data: bytes, store: Store, root_pem: str, now: datetime) -> bool:
    """Note a party's approval of a release that this office does not know, or of which it has forgotten the approval.

    A release that it does not know is put down as failed: nobody can tell whether it was cancelled meanwhile. Once every party
    has shown its approval the office is a witness of the charges again (`statement`).

    Returns:
        True if it was one; False for a release that is open here, whose approvals come as always.

    Raises:
        InvalidInput, SpecRefused, IntegrityError: the spec or the approval does not check out.
        NotFound: no such release, and this database was not restored, or not over that time.
        Conflict: a party of it is not enrolled here.
        Conflict: or the party was the first to show `MOST_SHOWN` such releases.
    """
    spec, approval = ReleaseSpec.from_bytes(data), signed.consent
    _check_consortium(spec, store)
    check_spec(spec)
    check_consent(signed, spec, root_pem)
    digest, party = spec.digest(), approval.party
    with store.writing() as tx:
        known = _known(tx, digest)
        if known is None and not tx.copies.forgot(moment(spec.created)):
            raise NotFound(
                f"{party} shows its approval of release {digest[:12]}, which is not known here; if this database was restored "
                "from an older copy: coordinator backup restored"
            )
        if known is None:
            if tx.releases.ended_for(FORGOTTEN.format(party=party)) >= MOST_SHOWN:
                raise Conflict(f"{party} has shown {MOST_SHOWN} releases that are not known here; restore a later copy")
            tx.releases.take_back(spec, _failed(spec, party, now), {party: signed.to_bytes()}, now)
        elif not known.final or not tx.copies.forgot(moment(approval.given)):
            return False
        elif party not in known.approved:
            tx.releases.keep_approval(digest, party, signed.to_bytes(), now)
    return True


def _known(tx: Transaction, digest: str) -> Standing | None:
    try:
        return tx.releases.get(digest).record
    except NotFound:
        return None


def _check_consortium(spec: ReleaseSpec, store: Store) -> None:
    if spec.consortium != store.consortium.name:
        raise IntegrityError(f"this is a release of {spec.consortium}, not of {store.consortium.name}")


def _published(manifest: Manifest, digest: str) -> Standing:
    parties = frozenset(manifest.spec.party_keys)
    at = moment(manifest.published)
    return _over(manifest.spec, Stage.PUBLISHED, at, approved=parties, received=parties, publishing=at, manifest=digest)


def _failed(spec: ReleaseSpec, party: str, now: datetime) -> Standing:
    return _over(spec, Stage.FAILED, now, approved=frozenset({party}), reason=FORGOTTEN.format(party=party))


def _over(spec: ReleaseSpec, state: Stage, since: datetime, **known: object) -> Standing:
    nothing = since - since
    return Standing(Topic.RELEASE, tuple(spec.party_keys), state, since, None, nothing, joint=spec.joint, **known)  # type: ignore[arg-type]
