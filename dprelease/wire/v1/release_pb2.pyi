from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ReleaseState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELEASE_STATE_UNSPECIFIED: _ClassVar[ReleaseState]
    RELEASE_STATE_PROPOSED: _ClassVar[ReleaseState]
    RELEASE_STATE_APPROVED: _ClassVar[ReleaseState]
    RELEASE_STATE_RUNNING: _ClassVar[ReleaseState]
    RELEASE_STATE_PUBLISHED: _ClassVar[ReleaseState]
    RELEASE_STATE_REJECTED: _ClassVar[ReleaseState]
    RELEASE_STATE_FAILED: _ClassVar[ReleaseState]
    RELEASE_STATE_CANCELLED: _ClassVar[ReleaseState]
    RELEASE_STATE_EXPIRED: _ClassVar[ReleaseState]

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_PROPOSED: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_DONE: _ClassVar[RunState]
    RUN_STATE_DECLINED: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]
    RUN_STATE_CANCELLED: _ClassVar[RunState]
    RUN_STATE_EXPIRED: _ClassVar[RunState]
RELEASE_STATE_UNSPECIFIED: ReleaseState
RELEASE_STATE_PROPOSED: ReleaseState
RELEASE_STATE_APPROVED: ReleaseState
RELEASE_STATE_RUNNING: ReleaseState
RELEASE_STATE_PUBLISHED: ReleaseState
RELEASE_STATE_REJECTED: ReleaseState
RELEASE_STATE_FAILED: ReleaseState
RELEASE_STATE_CANCELLED: ReleaseState
RELEASE_STATE_EXPIRED: ReleaseState
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_PROPOSED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_DONE: RunState
RUN_STATE_DECLINED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_CANCELLED: RunState
RUN_STATE_EXPIRED: RunState

class Chunk(_message.Message):
    __slots__ = ("offset", "data", "crc32")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    crc32: int
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32: _Optional[int] = ...) -> None: ...

class AgreementRecord(_message.Message):
    __slots__ = ("proposal", "state", "consents", "explanation")
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONSENTS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    proposal: bytes
    state: int
    consents: _containers.RepeatedScalarFieldContainer[bytes]
    explanation: str
    def __init__(self, proposal: _Optional[bytes] = ..., state: _Optional[int] = ..., consents: _Optional[_Iterable[bytes]] = ..., explanation: _Optional[str] = ...) -> None: ...

class AwaitNewsRequest(_message.Message):
    __slots__ = ("seen",)
    SEEN_FIELD_NUMBER: _ClassVar[int]
    seen: int
    def __init__(self, seen: _Optional[int] = ...) -> None: ...

class AwaitNewsResponse(_message.Message):
    __slots__ = ("latest",)
    LATEST_FIELD_NUMBER: _ClassVar[int]
    latest: int
    def __init__(self, latest: _Optional[int] = ...) -> None: ...
