from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_PROPOSED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_DONE: RunState
RUN_STATE_DECLINED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_CANCELLED: RunState
RUN_STATE_EXPIRED: RunState

class RunRecord(_message.Message):
    __slots__ = ("task", "state", "acceptances", "explanation")
    TASK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTANCES_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    task: bytes
    state: RunState
    acceptances: _containers.RepeatedScalarFieldContainer[bytes]
    explanation: str
    def __init__(self, task: _Optional[bytes] = ..., state: _Optional[_Union[RunState, str]] = ..., acceptances: _Optional[_Iterable[bytes]] = ..., explanation: _Optional[str] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunRecord]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunRecord, _Mapping]]] = ...) -> None: ...

class AcceptRunRequest(_message.Message):
    __slots__ = ("signed_acceptance",)
    SIGNED_ACCEPTANCE_FIELD_NUMBER: _ClassVar[int]
    signed_acceptance: bytes
    def __init__(self, signed_acceptance: _Optional[bytes] = ...) -> None: ...

class AcceptRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeclineRunRequest(_message.Message):
    __slots__ = ("run", "reason")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    reason: str
    def __init__(self, run: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class DeclineRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FinishRunRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    def __init__(self, run: _Optional[bytes] = ...) -> None: ...

class FinishRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    def __init__(self, run: _Optional[bytes] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: RunRecord
    def __init__(self, run: _Optional[_Union[RunRecord, _Mapping]] = ...) -> None: ...
