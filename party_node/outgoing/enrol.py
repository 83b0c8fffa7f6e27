"""The first call that a hospital makes: an invite becomes a certificate."""

from __future__ import annotations

from dprelease.identity.certificates import signing_request
from dprelease.identity.invite import Invite
from dprelease.release.charges import SignedStatement
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.transport import CALL_SECONDS, Credentials, connect
from dprelease.wire.v1 import enrolment_pb2, enrolment_pb2_grpc
from party_node.identity import Enrolment, Identity


def trade(invite: Invite, identity: Identity, name: str) -> Enrolment:
    """Trade an invite for a certificate, over TLS pinned to the root that the invite carries, and keep it.

    Args:
        invite: from the consortium's office.
        identity: ours.
        name: our name in party.toml.

    Raises:
        InvalidInput: the invite is for another party, or has lapsed.
        Unauthenticated: the coordinator does not accept it.
        PeerUnavailable: the coordinator cannot be reached.
    """
    identity.check_invite(invite, name)
    request = signing_request(name, identity.key()).decode()
    with connect(invite.address, Credentials(invite.root.encode())) as channel, translated("the coordinator"):
        answer = enrolment_pb2_grpc.EnrolmentServiceStub(channel).Enrol(
            enrolment_pb2.EnrolRequest(secret=invite.secret, signing_request=request),
            timeout=CALL_SECONDS,
            metadata=VERSION,
        )
    enrolment = Enrolment(
        party=name,
        consortium=invite.consortium,
        coordinator=answer.coordinator,
        hub=answer.hub,
        certificate=answer.certificate,
        root=invite.root,
        cap_mu2=invite.cap_mu2,
    )
    identity.keep_enrolment(enrolment, SignedStatement.from_bytes(answer.charges))
    return enrolment
