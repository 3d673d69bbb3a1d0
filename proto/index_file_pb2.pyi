from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KeyKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEY_KIND_UNSPECIFIED: _ClassVar[KeyKind]
    KEY_KIND_INT64: _ClassVar[KeyKind]
    KEY_KIND_BYTES: _ClassVar[KeyKind]
KEY_KIND_UNSPECIFIED: KeyKind
KEY_KIND_INT64: KeyKind
KEY_KIND_BYTES: KeyKind

class PageRef(_message.Message):
    __slots__ = ("offset", "length", "crc32c")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    offset: int
    length: int
    crc32c: int
    def __init__(self, offset: _Optional[int] = ..., length: _Optional[int] = ..., crc32c: _Optional[int] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class FileFooter(_message.Message):
    __slots__ = ("index_type", "column", "column_type", "key_kind", "properties", "metadata", "writer", "body")
    INDEX_TYPE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    COLUMN_TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_KIND_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    index_type: str
    column: str
    column_type: str
    key_kind: KeyKind
    properties: _containers.RepeatedCompositeFieldContainer[Entry]
    metadata: _containers.RepeatedCompositeFieldContainer[Entry]
    writer: str
    body: bytes
    def __init__(self, index_type: _Optional[str] = ..., column: _Optional[str] = ..., column_type: _Optional[str] = ..., key_kind: _Optional[_Union[KeyKind, str]] = ..., properties: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., metadata: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., writer: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class BitmapBody(_message.Message):
    __slots__ = ("stripes",)
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    stripes: _containers.RepeatedCompositeFieldContainer[BitmapStripe]
    def __init__(self, stripes: _Optional[_Iterable[_Union[BitmapStripe, _Mapping]]] = ...) -> None: ...

class BitmapStripe(_message.Message):
    __slots__ = ("rows", "null_count", "nulls", "key_count", "leaf_offset", "leaf_length", "leaf_crc32c", "leaf_keys", "leaf_rows", "int_bounds", "byte_bounds")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    NULLS_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEAF_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEAF_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LEAF_CRC32C_FIELD_NUMBER: _ClassVar[int]
    LEAF_KEYS_FIELD_NUMBER: _ClassVar[int]
    LEAF_ROWS_FIELD_NUMBER: _ClassVar[int]
    INT_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    BYTE_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    null_count: int
    nulls: PageRef
    key_count: int
    leaf_offset: int
    leaf_length: _containers.RepeatedScalarFieldContainer[int]
    leaf_crc32c: _containers.RepeatedScalarFieldContainer[int]
    leaf_keys: _containers.RepeatedScalarFieldContainer[int]
    leaf_rows: _containers.RepeatedScalarFieldContainer[int]
    int_bounds: _containers.RepeatedScalarFieldContainer[int]
    byte_bounds: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, rows: _Optional[int] = ..., null_count: _Optional[int] = ..., nulls: _Optional[_Union[PageRef, _Mapping]] = ..., key_count: _Optional[int] = ..., leaf_offset: _Optional[int] = ..., leaf_length: _Optional[_Iterable[int]] = ..., leaf_crc32c: _Optional[_Iterable[int]] = ..., leaf_keys: _Optional[_Iterable[int]] = ..., leaf_rows: _Optional[_Iterable[int]] = ..., int_bounds: _Optional[_Iterable[int]] = ..., byte_bounds: _Optional[_Iterable[bytes]] = ...) -> None: ...
