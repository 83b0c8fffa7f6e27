from dprelease.wire.v1 import release_pb2 as _release_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReportCatalogueRequest(_message.Message):
    __slots__ = ("catalogue",)
    CATALOGUE_FIELD_NUMBER: _ClassVar[int]
    catalogue: bytes
    def __init__(self, catalogue: _Optional[bytes] = ...) -> None: ...

class ReportCatalogueResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAgreementsRequest(_message.Message):
    __slots__ = ("open_only", "unsettled", "page_token")
    OPEN_ONLY_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    open_only: bool
    unsettled: _containers.RepeatedScalarFieldContainer[bytes]
    page_token: str
    def __init__(self, open_only: _Optional[bool] = ..., unsettled: _Optional[_Iterable[bytes]] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAgreementsResponse(_message.Message):
    __slots__ = ("agreements", "next_page_token")
    AGREEMENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    agreements: _containers.RepeatedCompositeFieldContainer[_release_pb2.AgreementRecord]
    next_page_token: str
    def __init__(self, agreements: _Optional[_Iterable[_Union[_release_pb2.AgreementRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ApproveRequest(_message.Message):
    __slots__ = ("signed_consent", "proposal")
    SIGNED_CONSENT_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    signed_consent: bytes
    proposal: bytes
    def __init__(self, signed_consent: _Optional[bytes] = ..., proposal: _Optional[bytes] = ...) -> None: ...

class ApproveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeclineRequest(_message.Message):
    __slots__ = ("digest", "reason")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    reason: str
    def __init__(self, digest: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class DeclineResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetAgreementRequest(_message.Message):
    __slots__ = ("digest", "reports")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    reports: bool
    def __init__(self, digest: _Optional[bytes] = ..., reports: _Optional[bool] = ...) -> None: ...

class GetAgreementResponse(_message.Message):
    __slots__ = ("agreement",)
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    agreement: _release_pb2.AgreementRecord
    def __init__(self, agreement: _Optional[_Union[_release_pb2.AgreementRecord, _Mapping]] = ...) -> None: ...

class FinishRunRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    def __init__(self, run: _Optional[bytes] = ...) -> None: ...

class FinishRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportIntakeRequest(_message.Message):
    __slots__ = ("spec_digest", "received")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    received: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, spec_digest: _Optional[bytes] = ..., received: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportIntakeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AuthorizePublicationRequest(_message.Message):
    __slots__ = ("spec_digest",)
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    def __init__(self, spec_digest: _Optional[bytes] = ...) -> None: ...

class AuthorizePublicationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportPublicationRequest(_message.Message):
    __slots__ = ("spec_digest", "manifest_digest")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    manifest_digest: bytes
    def __init__(self, spec_digest: _Optional[bytes] = ..., manifest_digest: _Optional[bytes] = ...) -> None: ...

class ReportPublicationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RenewCertificateRequest(_message.Message):
    __slots__ = ("signing_request",)
    SIGNING_REQUEST_FIELD_NUMBER: _ClassVar[int]
    signing_request: str
    def __init__(self, signing_request: _Optional[str] = ...) -> None: ...

class RenewCertificateResponse(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    def __init__(self, certificate: _Optional[str] = ...) -> None: ...

class ListChargesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListChargesResponse(_message.Message):
    __slots__ = ("charges",)
    CHARGES_FIELD_NUMBER: _ClassVar[int]
    charges: bytes
    def __init__(self, charges: _Optional[bytes] = ...) -> None: ...

class ListRevokedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRevokedResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RequestDealRequest(_message.Message):
    __slots__ = ("offers",)
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    offers: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, offers: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RequestDealResponse(_message.Message):
    __slots__ = ("sealed",)
    SEALED_FIELD_NUMBER: _ClassVar[int]
    sealed: bytes
    def __init__(self, sealed: _Optional[bytes] = ...) -> None: ...

class RequestAnswerRequest(_message.Message):
    __slots__ = ("challenge", "body")
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    challenge: bytes
    body: bytes
    def __init__(self, challenge: _Optional[bytes] = ..., body: _Optional[bytes] = ...) -> None: ...

class RequestAnswerResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _release_pb2.Chunk
    def __init__(self, chunk: _Optional[_Union[_release_pb2.Chunk, _Mapping]] = ...) -> None: ...
