from dprelease.wire.v1 import release_pb2 as _release_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListPublishedRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPublishedResponse(_message.Message):
    __slots__ = ("releases", "next_page_token")
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    releases: _containers.RepeatedCompositeFieldContainer[PublishedRelease]
    next_page_token: str
    def __init__(self, releases: _Optional[_Iterable[_Union[PublishedRelease, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PublishedRelease(_message.Message):
    __slots__ = ("spec_digest", "title", "published", "rows", "columns", "size", "checkpoint")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    title: str
    published: str
    rows: int
    columns: int
    size: int
    checkpoint: Checkpoint
    def __init__(self, spec_digest: _Optional[bytes] = ..., title: _Optional[str] = ..., published: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., size: _Optional[int] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("stream", "number", "last")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    stream: bytes
    number: int
    last: int
    def __init__(self, stream: _Optional[bytes] = ..., number: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class GetManifestRequest(_message.Message):
    __slots__ = ("spec_digest",)
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    def __init__(self, spec_digest: _Optional[bytes] = ...) -> None: ...

class GetManifestResponse(_message.Message):
    __slots__ = ("manifest", "signature")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    signature: str
    def __init__(self, manifest: _Optional[bytes] = ..., signature: _Optional[str] = ...) -> None: ...

class DownloadBlockRequest(_message.Message):
    __slots__ = ("spec_digest", "party", "offset", "sequence")
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PARTY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    spec_digest: bytes
    party: str
    offset: int
    sequence: int
    def __init__(self, spec_digest: _Optional[bytes] = ..., party: _Optional[str] = ..., offset: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class DownloadBlockResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _release_pb2.Chunk
    def __init__(self, chunk: _Optional[_Union[_release_pb2.Chunk, _Mapping]] = ...) -> None: ...
