"""What the coordinator does for parties and the hub: plain functions over a request, the store and the time."""

from __future__ import annotations

from datetime import datetime, timedelta

from coordinator.lifecycle.lifecycle import Approved, Declined, IntakeReported, PublicationAuthorized, Published
from coordinator.service.recovery import hear_forgotten
from coordinator.settings import Limits
from coordinator.store.releases import Release
from coordinator.store.store import Store
from dprelease.catalogue import Catalogue
from dprelease.errors import AccessDenied, Conflict, InvalidInput
from dprelease.one_line import one_line
from dprelease.release.approval import SignedApproval, check_approval
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import ReleaseRecord

REMEMBERED = timedelta(days=30)
"""How long a party is still told about a release that has ended."""

DIGEST_BYTES = 32

MOST_UNSETTLED = 500
"""Releases that a party names at most when it asks what became of them."""


def report_catalogue(
    request: pb.ReportCatalogueRequest, store: Store, party: str, limits: Limits, now: datetime
) -> pb.ReportCatalogueResponse:
    """Keep a party's catalogue.

    Raises:
        InvalidInput: the bytes are not a catalogue, or too many.
        AccessDenied: it is another party's.
    """
    _not_longer("a catalogue", request.catalogue, limits.longest_catalogue_bytes)
    catalogue = Catalogue.from_bytes(request.catalogue)
    _only_for_itself(party, catalogue.party)
    with store.writing() as tx:
        tx.members.report_catalogue(catalogue, now)
    return pb.ReportCatalogueResponse()


def list_releases(request: pb.ListReleasesRequest, store: Store, party: str, now: datetime) -> pb.ListReleasesResponse:
    """The releases in which a party takes part that are open or ended lately; of the latter only some, where it names them.

    Raises:
        InvalidInput: it names too many.
    """
    if len(request.unsettled) > MOST_UNSETTLED:
        raise InvalidInput(f"a party names at most {MOST_UNSETTLED} releases; ask for all that ended lately")
    among = frozenset(digest.hex() for digest in request.unsettled) if request.open_only else None
    with store.reading() as tx:
        found = tx.releases.of_party(party, now - REMEMBERED, among)
    return pb.ListReleasesResponse(releases=[release_to_proto(release) for release in found])


def approve(
    request: pb.ApproveRequest, store: Store, party: str, root_pem: bytes, limits: Limits, now: datetime
) -> pb.ApproveResponse:
    """Keep a party's signed approval, after checking it as every other party will; see also `hear_forgotten`.

    Raises:
        InvalidInput: the bytes are not a signed approval, or too many.
        AccessDenied: it is another party's.
        NotFound: no such release.
        IntegrityError: wrong spec, signature, certificate or key.
        Conflict: the release is past its decision, or the party approved with another commitment before.
    """
    _not_longer("an approval", request.signed_approval, limits.longest_approval_bytes)
    signed = SignedApproval.from_bytes(request.signed_approval)
    approval = signed.approval
    _only_for_itself(party, approval.party)
    if request.spec and hear_forgotten(signed, request.spec, store, root_pem.decode(), now):
        return pb.ApproveResponse()
    with store.reading() as tx:
        spec = tx.releases.get(approval.spec).read_spec()
    check_approval(signed, spec, root_pem.decode())
    with store.writing() as tx:
        for known in map(SignedApproval.from_bytes, tx.releases.get(approval.spec).approvals):
            if known.approval.party == party and known.approval.commitment != approval.commitment:
                raise Conflict(f"{party} approved this release before, with another commitment")
        tx.releases.advance(approval.spec, Approved(party), now, request.signed_approval)
    return pb.ApproveResponse()


def decline(request: pb.DeclineRequest, store: Store, party: str, limits: Limits, now: datetime) -> pb.DeclineResponse:
    """Note that a party will not take part.

    Raises:
        AccessDenied: it is not a party of this release.
        NotFound: no such release.
        Conflict: it is too late.
    """
    digest = _digest(request.spec_digest)
    with store.writing() as tx:
        if party not in tx.releases.get(digest).record.parties:
            raise AccessDenied(f"{party} is not a party of release {digest[:12]}")
        tx.releases.advance(digest, Declined(party, one_line(request.reason, limits.longest_reason)), now)
    return pb.DeclineResponse()


def get_release(request: pb.GetReleaseRequest, store: Store) -> pb.GetReleaseResponse:
    """One release with all its approvals, for the hub.

    Raises:
        NotFound: no such release.
    """
    with store.reading() as tx:
        return pb.GetReleaseResponse(release=release_to_proto(tx.releases.get(_digest(request.spec_digest))))


def report_intake(request: pb.ReportIntakeRequest, store: Store, now: datetime) -> pb.ReportIntakeResponse:
    """Note whose blocks the hub holds.

    Raises:
        NotFound: no such release.
        Conflict: the release is not approved by everybody, or is over; or a name is not of its parties.
    """
    with store.writing() as tx:
        tx.releases.advance(_digest(request.spec_digest), IntakeReported(frozenset(request.received)), now)
    return pb.ReportIntakeResponse()


def authorize_publication(
    request: pb.AuthorizePublicationRequest, store: Store, now: datetime
) -> pb.AuthorizePublicationResponse:
    """Let the hub publish, unless the release was cancelled, lapsed or never approved.

    Raises:
        NotFound: no such release.
        Conflict: it may not be published.
    """
    with store.writing() as tx:
        tx.releases.advance(_digest(request.spec_digest), PublicationAuthorized(), now)
    return pb.AuthorizePublicationResponse()


def report_publication(
    request: pb.ReportPublicationRequest, store: Store, now: datetime
) -> pb.ReportPublicationResponse:
    """Note that the release is public.

    Raises:
        NotFound: no such release.
        Conflict: it was not allowed to be, or was published under another manifest.
    """
    with store.writing() as tx:
        event = Published(_digest(request.manifest_digest))
        tx.releases.advance(_digest(request.spec_digest), event, now)
    return pb.ReportPublicationResponse()


def list_revoked(store: Store) -> pb.ListRevokedResponse:
    """The keys whose blocks the hub must neither take nor publish."""
    with store.reading() as tx:
        return pb.ListRevokedResponse(keys=map(bytes.fromhex, tx.members.revoked_keys()))


def release_to_proto(release: Release) -> ReleaseRecord:
    """A release as it travels. What a party may not see, such as another's reason to decline, is not in it."""
    return ReleaseRecord(
        spec=release.spec,
        state=f"RELEASE_STATE_{release.record.state}",
        approvals=release.approvals,
        explanation=release.record.explain(),
    )


def _only_for_itself(party: str, named: str) -> None:
    if named != party:
        raise AccessDenied(f"{party} spoke for {named}")


def _not_longer(what: str, data: bytes, longest: int) -> None:
    if len(data) > longest:
        raise InvalidInput(f"{what} of {len(data)} bytes; at most {longest} are taken")


def _digest(data: bytes) -> str:
    if len(data) != DIGEST_BYTES:
        raise InvalidInput(f"a digest has {DIGEST_BYTES} bytes, not {len(data)}")
    return data.hex()
