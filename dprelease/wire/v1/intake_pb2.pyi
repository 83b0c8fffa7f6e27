from dprelease.wire.v1 import release_pb2 as _release_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OpenBlockRequest(_message.Message):
    __slots__ = ("sealed",)
    SEALED_FIELD_NUMBER: _ClassVar[int]
    sealed: bytes
    def __init__(self, sealed: _Optional[bytes] = ...) -> None: ...

class OpenBlockResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class SendBlockRequest(_message.Message):
    __slots__ = ("spec_digest", "chunk", "sequence")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    chunk: _release_pb2.Chunk
    sequence: int
    def __init__(self, spec_digest: _Optional[bytes] = ..., chunk: _Optional[_Union[_release_pb2.Chunk, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class SendBlockResponse(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    def __init__(self, digest: _Optional[bytes] = ...) -> None: ...
