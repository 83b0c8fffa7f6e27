from dprelease.wire.v1 import release_pb2 as _release_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
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

class ListEarlierBlocksRequest(_message.Message):
    __slots__ = ("spec_digest",)
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    def __init__(self, spec_digest: _Optional[bytes] = ...) -> None: ...

class ListEarlierBlocksResponse(_message.Message):
    __slots__ = ("sealed", "own")
    SEALED_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    sealed: _containers.RepeatedScalarFieldContainer[bytes]
    own: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, sealed: _Optional[_Iterable[bytes]] = ..., own: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FetchEarlierBlockRequest(_message.Message):
    __slots__ = ("spec_digest", "party", "sequence", "offset")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PARTY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    party: str
    sequence: int
    offset: int
    def __init__(self, spec_digest: _Optional[bytes] = ..., party: _Optional[str] = ..., sequence: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchEarlierBlockResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _release_pb2.Chunk
    def __init__(self, chunk: _Optional[_Union[_release_pb2.Chunk, _Mapping]] = ...) -> None: ...
