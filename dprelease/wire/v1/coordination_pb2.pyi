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

class ListReleasesRequest(_message.Message):
    __slots__ = ("open_only", "unsettled", "page_token")
    OPEN_ONLY_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    open_only: bool
    unsettled: _containers.RepeatedScalarFieldContainer[bytes]
    page_token: str
    def __init__(self, open_only: _Optional[bool] = ..., unsettled: _Optional[_Iterable[bytes]] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListReleasesResponse(_message.Message):
    __slots__ = ("releases", "next_page_token")
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    releases: _containers.RepeatedCompositeFieldContainer[_release_pb2.ReleaseRecord]
    next_page_token: str
    def __init__(self, releases: _Optional[_Iterable[_Union[_release_pb2.ReleaseRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ApproveRequest(_message.Message):
    __slots__ = ("signed_approval", "spec")
    SIGNED_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    signed_approval: bytes
    spec: bytes
    def __init__(self, signed_approval: _Optional[bytes] = ..., spec: _Optional[bytes] = ...) -> None: ...

class ApproveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeclineRequest(_message.Message):
    __slots__ = ("spec_digest", "reason")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    reason: str
    def __init__(self, spec_digest: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class DeclineResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetReleaseRequest(_message.Message):
    __slots__ = ("spec_digest",)
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    def __init__(self, spec_digest: _Optional[bytes] = ...) -> None: ...

class GetReleaseResponse(_message.Message):
    __slots__ = ("release",)
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    release: _release_pb2.ReleaseRecord
    def __init__(self, release: _Optional[_Union[_release_pb2.ReleaseRecord, _Mapping]] = ...) -> None: ...

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
