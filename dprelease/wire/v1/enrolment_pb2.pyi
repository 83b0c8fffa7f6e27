from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class EnrolRequest(_message.Message):
    __slots__ = ("secret", "signing_request")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SIGNING_REQUEST_FIELD_NUMBER: _ClassVar[int]
    secret: str
    signing_request: str
    def __init__(self, secret: _Optional[str] = ..., signing_request: _Optional[str] = ...) -> None: ...

class EnrolResponse(_message.Message):
    __slots__ = ("certificate", "root", "consortium", "coordinator", "hub", "charges", "delta")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    CONSORTIUM_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    HUB_FIELD_NUMBER: _ClassVar[int]
    CHARGES_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    root: str
    consortium: str
    coordinator: str
    hub: str
    charges: bytes
    delta: float
    def __init__(self, certificate: _Optional[str] = ..., root: _Optional[str] = ..., consortium: _Optional[str] = ..., coordinator: _Optional[str] = ..., hub: _Optional[str] = ..., charges: _Optional[bytes] = ..., delta: _Optional[float] = ...) -> None: ...
