from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Manifest(_message.Message):
    __slots__ = ("number", "table_uri", "created_ms", "indexes", "segments", "shared_indexes", "commit_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TABLE_URI_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SHARED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    number: int
    table_uri: str
    created_ms: int
    indexes: _containers.RepeatedCompositeFieldContainer[Index]
    segments: _containers.RepeatedCompositeFieldContainer[FileSegment]
    shared_indexes: _containers.RepeatedCompositeFieldContainer[SharedIndex]
    commit_id: bytes
    def __init__(self, number: _Optional[int] = ..., table_uri: _Optional[str] = ..., created_ms: _Optional[int] = ..., indexes: _Optional[_Iterable[_Union[Index, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[FileSegment, _Mapping]]] = ..., shared_indexes: _Optional[_Iterable[_Union[SharedIndex, _Mapping]]] = ..., commit_id: _Optional[bytes] = ...) -> None: ...

class Index(_message.Message):
    __slots__ = ("id", "name", "column", "type", "column_type", "properties", "where", "created_ms", "creator", "refreshed_ms", "level", "deferred", "comment", "annotations", "quarantined", "inputs", "time_zones")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    REFRESHED_MS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    column: str
    type: str
    column_type: str
    properties: _containers.RepeatedCompositeFieldContainer[Property]
    where: str
    created_ms: int
    creator: str
    refreshed_ms: int
    level: str
    deferred: bool
    comment: str
    annotations: _containers.RepeatedCompositeFieldContainer[Property]
    quarantined: str
    inputs: str
    time_zones: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., column: _Optional[str] = ..., type: _Optional[str] = ..., column_type: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[Property, _Mapping]]] = ..., where: _Optional[str] = ..., created_ms: _Optional[int] = ..., creator: _Optional[str] = ..., refreshed_ms: _Optional[int] = ..., level: _Optional[str] = ..., deferred: bool = ..., comment: _Optional[str] = ..., annotations: _Optional[_Iterable[_Union[Property, _Mapping]]] = ..., quarantined: _Optional[str] = ..., inputs: _Optional[str] = ..., time_zones: _Optional[str] = ...) -> None: ...

class Property(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class FileSegment(_message.Message):
    __slots__ = ("num_files", "first_path", "last_path", "data", "path", "length", "checksum", "shared_indexes", "indexes")
    NUM_FILES_FIELD_NUMBER: _ClassVar[int]
    FIRST_PATH_FIELD_NUMBER: _ClassVar[int]
    LAST_PATH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    SHARED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    num_files: int
    first_path: str
    last_path: str
    data: bytes
    path: str
    length: int
    checksum: int
    shared_indexes: _containers.RepeatedScalarFieldContainer[int]
    indexes: _containers.RepeatedCompositeFieldContainer[SegmentIndex]
    def __init__(self, num_files: _Optional[int] = ..., first_path: _Optional[str] = ..., last_path: _Optional[str] = ..., data: _Optional[bytes] = ..., path: _Optional[str] = ..., length: _Optional[int] = ..., checksum: _Optional[int] = ..., shared_indexes: _Optional[_Iterable[int]] = ..., indexes: _Optional[_Iterable[_Union[SegmentIndex, _Mapping]]] = ...) -> None: ...

class SegmentIndex(_message.Message):
    __slots__ = ("index", "num_files", "length")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_FILES_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    index: int
    num_files: int
    length: int
    def __init__(self, index: _Optional[int] = ..., num_files: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class KeyExtent(_message.Message):
    __slots__ = ("rows", "null_count", "int_min", "int_max", "byte_min", "byte_max", "max_is_prefix")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    INT_MIN_FIELD_NUMBER: _ClassVar[int]
    INT_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTE_MIN_FIELD_NUMBER: _ClassVar[int]
    BYTE_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_IS_PREFIX_FIELD_NUMBER: _ClassVar[int]
    rows: int
    null_count: int
    int_min: int
    int_max: int
    byte_min: bytes
    byte_max: bytes
    max_is_prefix: bool
    def __init__(self, rows: _Optional[int] = ..., null_count: _Optional[int] = ..., int_min: _Optional[int] = ..., int_max: _Optional[int] = ..., byte_min: _Optional[bytes] = ..., byte_max: _Optional[bytes] = ..., max_is_prefix: bool = ...) -> None: ...

class SharedIndex(_message.Message):
    __slots__ = ("id", "index", "column_type", "partition", "num_files", "num_row_groups", "files")
    ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COLUMN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NUM_FILES_FIELD_NUMBER: _ClassVar[int]
    NUM_ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    id: str
    index: int
    column_type: str
    partition: str
    num_files: int
    num_row_groups: int
    files: _containers.RepeatedCompositeFieldContainer[SharedIndexFile]
    def __init__(self, id: _Optional[str] = ..., index: _Optional[int] = ..., column_type: _Optional[str] = ..., partition: _Optional[str] = ..., num_files: _Optional[int] = ..., num_row_groups: _Optional[int] = ..., files: _Optional[_Iterable[_Union[SharedIndexFile, _Mapping]]] = ...) -> None: ...

class SharedIndexFile(_message.Message):
    __slots__ = ("path", "length", "footer_checksum", "extent")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    FOOTER_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    EXTENT_FIELD_NUMBER: _ClassVar[int]
    path: str
    length: int
    footer_checksum: int
    extent: KeyExtent
    def __init__(self, path: _Optional[str] = ..., length: _Optional[int] = ..., footer_checksum: _Optional[int] = ..., extent: _Optional[_Union[KeyExtent, _Mapping]] = ...) -> None: ...

class StripeStats(_message.Message):
    __slots__ = ("null_counts", "int_mins", "int_maxs", "byte_mins", "byte_maxs", "cut")
    NULL_COUNTS_FIELD_NUMBER: _ClassVar[int]
    INT_MINS_FIELD_NUMBER: _ClassVar[int]
    INT_MAXS_FIELD_NUMBER: _ClassVar[int]
    BYTE_MINS_FIELD_NUMBER: _ClassVar[int]
    BYTE_MAXS_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    null_counts: _containers.RepeatedScalarFieldContainer[int]
    int_mins: _containers.RepeatedScalarFieldContainer[int]
    int_maxs: _containers.RepeatedScalarFieldContainer[int]
    byte_mins: _containers.RepeatedScalarFieldContainer[bytes]
    byte_maxs: _containers.RepeatedScalarFieldContainer[bytes]
    cut: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, null_counts: _Optional[_Iterable[int]] = ..., int_mins: _Optional[_Iterable[int]] = ..., int_maxs: _Optional[_Iterable[int]] = ..., byte_mins: _Optional[_Iterable[bytes]] = ..., byte_maxs: _Optional[_Iterable[bytes]] = ..., cut: _Optional[_Iterable[int]] = ...) -> None: ...

class FileMetadata(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[ByteRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[ByteRange, _Mapping]]] = ...) -> None: ...

class ByteRange(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...
