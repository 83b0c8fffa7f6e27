from dprelease.wire.v1 import release_pb2 as _release_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OpenParcelRequest(_message.Message):
    __slots__ = ("parcel", "body")
    PARCEL_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    parcel: bytes
    body: bytes
    def __init__(self, parcel: _Optional[bytes] = ..., body: _Optional[bytes] = ...) -> None: ...

class OpenParcelResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class OpenParcelsRequest(_message.Message):
    __slots__ = ("parcels",)
    PARCELS_FIELD_NUMBER: _ClassVar[int]
    parcels: _containers.RepeatedCompositeFieldContainer[OpenParcelRequest]
    def __init__(self, parcels: _Optional[_Iterable[_Union[OpenParcelRequest, _Mapping]]] = ...) -> None: ...

class OpenParcelsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class SendParcelRequest(_message.Message):
    __slots__ = ("header_digest", "spec_digest", "chunk")
    HEADER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header_digest: bytes
    spec_digest: bytes
    chunk: _release_pb2.Chunk
    def __init__(self, header_digest: _Optional[bytes] = ..., spec_digest: _Optional[bytes] = ..., chunk: _Optional[_Union[_release_pb2.Chunk, _Mapping]] = ...) -> None: ...

class SendParcelResponse(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    def __init__(self, digest: _Optional[bytes] = ...) -> None: ...

class ListParcelsRequest(_message.Message):
    __slots__ = ("spec_digest", "after", "mark")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    after: int
    mark: bytes
    def __init__(self, spec_digest: _Optional[bytes] = ..., after: _Optional[int] = ..., mark: _Optional[bytes] = ...) -> None: ...

class ListParcelsResponse(_message.Message):
    __slots__ = ("parcels", "last", "whole", "mark")
    PARCELS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    parcels: _containers.RepeatedScalarFieldContainer[bytes]
    last: int
    whole: bool
    mark: bytes
    def __init__(self, parcels: _Optional[_Iterable[bytes]] = ..., last: _Optional[int] = ..., whole: _Optional[bool] = ..., mark: _Optional[bytes] = ...) -> None: ...

class FetchParcelRequest(_message.Message):
    __slots__ = ("spec_digest", "header_digest", "offset")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    HEADER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    header_digest: bytes
    offset: int
    def __init__(self, spec_digest: _Optional[bytes] = ..., header_digest: _Optional[bytes] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchParcelResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _release_pb2.Chunk
    def __init__(self, chunk: _Optional[_Union[_release_pb2.Chunk, _Mapping]] = ...) -> None: ...

class FetchShortParcelsRequest(_message.Message):
    __slots__ = ("spec_digest", "header_digests")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    HEADER_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    header_digests: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, spec_digest: _Optional[bytes] = ..., header_digests: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FetchShortParcelsResponse(_message.Message):
    __slots__ = ("bodies",)
    BODIES_FIELD_NUMBER: _ClassVar[int]
    bodies: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, bodies: _Optional[_Iterable[bytes]] = ...) -> None: ...
