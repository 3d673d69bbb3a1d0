from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Manifest(_message.Message):
    __slots__ = ("number", "table_uri", "created_ms", "indexes", "schemas", "segments")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TABLE_URI_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    table_uri: str
    created_ms: int
    indexes: _containers.RepeatedCompositeFieldContainer[Index]
    schemas: _containers.RepeatedScalarFieldContainer[str]
    segments: _containers.RepeatedCompositeFieldContainer[FileSegment]
    def __init__(self, number: _Optional[int] = ..., table_uri: _Optional[str] = ..., created_ms: _Optional[int] = ..., indexes: _Optional[_Iterable[_Union[Index, _Mapping]]] = ..., schemas: _Optional[_Iterable[str]] = ..., segments: _Optional[_Iterable[_Union[FileSegment, _Mapping]]] = ...) -> None: ...

class Index(_message.Message):
    __slots__ = ("id", "name", "column", "type", "column_type", "properties", "where", "created_ms", "creator")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    column: str
    type: str
    column_type: str
    properties: _containers.RepeatedCompositeFieldContainer[Property]
    where: str
    created_ms: int
    creator: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., column: _Optional[str] = ..., type: _Optional[str] = ..., column_type: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[Property, _Mapping]]] = ..., where: _Optional[str] = ..., created_ms: _Optional[int] = ..., creator: _Optional[str] = ...) -> None: ...

class Property(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class FileSegment(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[DataFile]
    def __init__(self, files: _Optional[_Iterable[_Union[DataFile, _Mapping]]] = ...) -> None: ...

class DataFile(_message.Message):
    __slots__ = ("path", "length", "mtime_ns", "tail_checksum", "num_rows", "stripe_rows", "schema", "index_files")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    MTIME_NS_FIELD_NUMBER: _ClassVar[int]
    TAIL_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    NUM_ROWS_FIELD_NUMBER: _ClassVar[int]
    STRIPE_ROWS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    INDEX_FILES_FIELD_NUMBER: _ClassVar[int]
    path: str
    length: int
    mtime_ns: int
    tail_checksum: int
    num_rows: int
    stripe_rows: _containers.RepeatedScalarFieldContainer[int]
    schema: int
    index_files: _containers.RepeatedCompositeFieldContainer[IndexFile]
    def __init__(self, path: _Optional[str] = ..., length: _Optional[int] = ..., mtime_ns: _Optional[int] = ..., tail_checksum: _Optional[int] = ..., num_rows: _Optional[int] = ..., stripe_rows: _Optional[_Iterable[int]] = ..., schema: _Optional[int] = ..., index_files: _Optional[_Iterable[_Union[IndexFile, _Mapping]]] = ...) -> None: ...

class IndexFile(_message.Message):
    __slots__ = ("index", "path", "length", "footer_checksum")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    FOOTER_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    index: int
    path: str
    length: int
    footer_checksum: int
    def __init__(self, index: _Optional[int] = ..., path: _Optional[str] = ..., length: _Optional[int] = ..., footer_checksum: _Optional[int] = ...) -> None: ...
