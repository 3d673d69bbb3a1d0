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
    __slots__ = ("rows", "null_count", "nulls", "key_count", "leaf_offset", "leaf_length", "leaf_crc32c", "leaf_keys", "leaf_rows", "int_bounds", "byte_bounds", "shares_rows")
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
    SHARES_ROWS_FIELD_NUMBER: _ClassVar[int]
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
    shares_rows: bool
    def __init__(self, rows: _Optional[int] = ..., null_count: _Optional[int] = ..., nulls: _Optional[_Union[PageRef, _Mapping]] = ..., key_count: _Optional[int] = ..., leaf_offset: _Optional[int] = ..., leaf_length: _Optional[_Iterable[int]] = ..., leaf_crc32c: _Optional[_Iterable[int]] = ..., leaf_keys: _Optional[_Iterable[int]] = ..., leaf_rows: _Optional[_Iterable[int]] = ..., int_bounds: _Optional[_Iterable[int]] = ..., byte_bounds: _Optional[_Iterable[bytes]] = ..., shares_rows: bool = ...) -> None: ...

class NgramBody(_message.Message):
    __slots__ = ("block_rows", "stripes")
    BLOCK_ROWS_FIELD_NUMBER: _ClassVar[int]
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    block_rows: int
    stripes: _containers.RepeatedCompositeFieldContainer[NgramStripe]
    def __init__(self, block_rows: _Optional[int] = ..., stripes: _Optional[_Iterable[_Union[NgramStripe, _Mapping]]] = ...) -> None: ...

class NgramStripe(_message.Message):
    __slots__ = ("rows", "blocks")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    blocks: BitmapStripe
    def __init__(self, rows: _Optional[int] = ..., blocks: _Optional[_Union[BitmapStripe, _Mapping]] = ...) -> None: ...

class RowsBody(_message.Message):
    __slots__ = ("stripes",)
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    stripes: _containers.RepeatedCompositeFieldContainer[RowsStripe]
    def __init__(self, stripes: _Optional[_Iterable[_Union[RowsStripe, _Mapping]]] = ...) -> None: ...

class RowsStripe(_message.Message):
    __slots__ = ("rows", "block_rows", "offset", "blocks", "dictionary", "max_block")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ROWS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    MAX_BLOCK_FIELD_NUMBER: _ClassVar[int]
    rows: int
    block_rows: int
    offset: int
    blocks: PageRef
    dictionary: PageRef
    max_block: int
    def __init__(self, rows: _Optional[int] = ..., block_rows: _Optional[int] = ..., offset: _Optional[int] = ..., blocks: _Optional[_Union[PageRef, _Mapping]] = ..., dictionary: _Optional[_Union[PageRef, _Mapping]] = ..., max_block: _Optional[int] = ...) -> None: ...

class MinMaxBody(_message.Message):
    __slots__ = ("row_group_rows", "stripes")
    ROW_GROUP_ROWS_FIELD_NUMBER: _ClassVar[int]
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    row_group_rows: int
    stripes: _containers.RepeatedCompositeFieldContainer[MinMaxStripe]
    def __init__(self, row_group_rows: _Optional[int] = ..., stripes: _Optional[_Iterable[_Union[MinMaxStripe, _Mapping]]] = ...) -> None: ...

class MinMaxStripe(_message.Message):
    __slots__ = ("rows", "extent", "groups")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    EXTENT_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    extent: Extent
    groups: PageRef
    def __init__(self, rows: _Optional[int] = ..., extent: _Optional[_Union[Extent, _Mapping]] = ..., groups: _Optional[_Union[PageRef, _Mapping]] = ...) -> None: ...

class Extent(_message.Message):
    __slots__ = ("null_count", "int_min", "int_max", "byte_min", "byte_max", "max_is_prefix")
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    INT_MIN_FIELD_NUMBER: _ClassVar[int]
    INT_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTE_MIN_FIELD_NUMBER: _ClassVar[int]
    BYTE_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_IS_PREFIX_FIELD_NUMBER: _ClassVar[int]
    null_count: int
    int_min: int
    int_max: int
    byte_min: bytes
    byte_max: bytes
    max_is_prefix: bool
    def __init__(self, null_count: _Optional[int] = ..., int_min: _Optional[int] = ..., int_max: _Optional[int] = ..., byte_min: _Optional[bytes] = ..., byte_max: _Optional[bytes] = ..., max_is_prefix: bool = ...) -> None: ...

class BloomBody(_message.Message):
    __slots__ = ("row_group_rows", "hashes", "stripes")
    ROW_GROUP_ROWS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    row_group_rows: int
    hashes: int
    stripes: _containers.RepeatedCompositeFieldContainer[BloomStripe]
    def __init__(self, row_group_rows: _Optional[int] = ..., hashes: _Optional[int] = ..., stripes: _Optional[_Iterable[_Union[BloomStripe, _Mapping]]] = ...) -> None: ...

class BloomStripe(_message.Message):
    __slots__ = ("rows", "filter", "bits", "groups", "group_bits", "group_nulls")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    GROUP_BITS_FIELD_NUMBER: _ClassVar[int]
    GROUP_NULLS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    filter: PageRef
    bits: int
    groups: PageRef
    group_bits: _containers.RepeatedScalarFieldContainer[int]
    group_nulls: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rows: _Optional[int] = ..., filter: _Optional[_Union[PageRef, _Mapping]] = ..., bits: _Optional[int] = ..., groups: _Optional[_Union[PageRef, _Mapping]] = ..., group_bits: _Optional[_Iterable[int]] = ..., group_nulls: _Optional[_Iterable[int]] = ...) -> None: ...

class BTreeBody(_message.Message):
    __slots__ = ("locations", "location_pages", "null_count", "nulls", "key_count", "runs", "leaf_length", "leaf_crc32c", "leaf_keys", "leaf_rows", "int_bounds", "byte_bounds")
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_PAGES_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    NULLS_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    LEAF_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LEAF_CRC32C_FIELD_NUMBER: _ClassVar[int]
    LEAF_KEYS_FIELD_NUMBER: _ClassVar[int]
    LEAF_ROWS_FIELD_NUMBER: _ClassVar[int]
    INT_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    BYTE_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    locations: int
    location_pages: _containers.RepeatedCompositeFieldContainer[LocationPage]
    null_count: int
    nulls: PageRef
    key_count: int
    runs: _containers.RepeatedCompositeFieldContainer[LeafRun]
    leaf_length: _containers.RepeatedScalarFieldContainer[int]
    leaf_crc32c: _containers.RepeatedScalarFieldContainer[int]
    leaf_keys: _containers.RepeatedScalarFieldContainer[int]
    leaf_rows: _containers.RepeatedScalarFieldContainer[int]
    int_bounds: _containers.RepeatedScalarFieldContainer[int]
    byte_bounds: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, locations: _Optional[int] = ..., location_pages: _Optional[_Iterable[_Union[LocationPage, _Mapping]]] = ..., null_count: _Optional[int] = ..., nulls: _Optional[_Union[PageRef, _Mapping]] = ..., key_count: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[LeafRun, _Mapping]]] = ..., leaf_length: _Optional[_Iterable[int]] = ..., leaf_crc32c: _Optional[_Iterable[int]] = ..., leaf_keys: _Optional[_Iterable[int]] = ..., leaf_rows: _Optional[_Iterable[int]] = ..., int_bounds: _Optional[_Iterable[int]] = ..., byte_bounds: _Optional[_Iterable[bytes]] = ...) -> None: ...

class LeafRun(_message.Message):
    __slots__ = ("offset", "leaves")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    offset: int
    leaves: int
    def __init__(self, offset: _Optional[int] = ..., leaves: _Optional[int] = ...) -> None: ...

class LocationPage(_message.Message):
    __slots__ = ("page", "first")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    page: PageRef
    first: int
    def __init__(self, page: _Optional[_Union[PageRef, _Mapping]] = ..., first: _Optional[int] = ...) -> None: ...

class Locations(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[LocatedFile]
    def __init__(self, files: _Optional[_Iterable[_Union[LocatedFile, _Mapping]]] = ...) -> None: ...

class LocatedFile(_message.Message):
    __slots__ = ("path", "length", "tail_checksum", "row_group_rows", "stripe_rows")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    TAIL_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUP_ROWS_FIELD_NUMBER: _ClassVar[int]
    STRIPE_ROWS_FIELD_NUMBER: _ClassVar[int]
    path: str
    length: int
    tail_checksum: int
    row_group_rows: int
    stripe_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, path: _Optional[str] = ..., length: _Optional[int] = ..., tail_checksum: _Optional[int] = ..., row_group_rows: _Optional[int] = ..., stripe_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class BundleBody(_message.Message):
    __slots__ = ("length", "footer_crc32c")
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    FOOTER_CRC32C_FIELD_NUMBER: _ClassVar[int]
    length: _containers.RepeatedScalarFieldContainer[int]
    footer_crc32c: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, length: _Optional[_Iterable[int]] = ..., footer_crc32c: _Optional[_Iterable[int]] = ...) -> None: ...
