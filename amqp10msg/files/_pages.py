"""Compute the decompressed sizes of row groups in a Parquet file from its page headers.

The footer contains the decompressed sizes of the row groups, but pyarrow does not enforce them: it
allocates the size in each page header. So `Pages` adds up the sizes in the page headers before
pyarrow reads a row group. The footer and the page headers are structs of Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import attrs

#: The last bytes of a Parquet file.
_PARQUET_MAGIC = b"PAR1"
# Thrift field ids. First line: row_groups of FileMetaData, columns of RowGroup, meta_data of
# ColumnChunk. Second line: fields of ColumnMetaData. Third line: fields of PageHeader.
_ROW_GROUPS, _COLUMNS, _METADATA = 4, 1, 3
_TOTAL_COMPRESSED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 2, 3
# Thrift field ids of the data page header in PageHeader, and of the encoding in the data page
# header; for data pages of version 1, and of version 2.
_ENCODING_FIELD_IDS = ((5, 2), (8, 4))
#: The number of the encoding DELTA_BYTE_ARRAY.
_DELTA_BYTE_ARRAY_ENCODING = 7
# Number of bytes to read first for a page header. Most headers are smaller; the statistics in a
# header may contain two long values.
_FIRST_HEADER_READ_SIZE = 1 << 10
#: Maximum size of a page header in bytes.
_MAX_HEADER_SIZE = 16 << 20
#: Maximum levels of nested structs.
_MAX_STRUCT_DEPTH = 32


class _TruncatedError(Exception):
    """The data to parse ends in the middle of a value."""


class _ThriftReader:
    """Parses values of Thrift's compact protocol."""

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos

    def _octet(self) -> int:
        """Read one byte."""
        if self.pos >= len(self.data):
            raise _TruncatedError
        self.pos += 1
        return self.data[self.pos - 1]

    def _varint(self) -> int:
        """Read an unsigned varint of at most 64 bits."""
        value = shift = 0
        while True:
            octet = self._octet()
            value |= (octet & 127) << shift
            if octet < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("an integer exceeds 64 bits")

    def _integer(self) -> int:
        """Read a signed integer: a varint in zigzag encoding."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, level: int = 0) -> dict[int, Any]:
        """Parse a struct that is nested in `level` other structs. Returns {field id: value}."""
        if level > _MAX_STRUCT_DEPTH:
            raise ValueError("structs are nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._octet():
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15, level, in_struct=True)
        return fields

    def _value(self, kind: int, level: int, *, in_struct: bool = False) -> Any:
        """Parse a value of the Thrift type `kind`; None for a map or text, which are skipped.

        `in_struct`: whether the value is a field of a struct. Then `kind` is 1 for true and 2 for
        false, and a boolean has no further bytes.
        """
        if kind in (1, 2):
            return kind == 1 if in_struct else self._octet() == 1
        if kind == 3:
            return self._octet()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            return self._skip(8 if kind == 7 else self._varint())
        if kind in (9, 10):
            head = self._octet()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            self._check_count(count)
            return [self._value(head & 15, level + 1) for _ in range(count)]
        if kind == 11:
            count = self._varint()
            self._check_count(count)
            kinds = self._octet() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, level + 1)
                self._value(kinds & 15, level + 1)
            return None
        if kind == 12:
            return self.struct(level + 1)
        raise ValueError(f"unknown Thrift type {kind}")

    def _skip(self, size: int) -> None:
        """Skip `size` bytes; raise _TruncatedError if there are fewer."""
        self.pos += size
        if self.pos > len(self.data):
            raise _TruncatedError

    def _check_count(self, count: int) -> None:
        """Raise _TruncatedError if `count` exceeds the remaining bytes.

        Each of the `count` elements has at least one byte.
        """
        if count > len(self.data) - self.pos:
            raise _TruncatedError


@attrs.frozen
class PageSizes:
    """The decompressed sizes of some pages.

    Attributes:
        octets: the sum for all pages, in bytes.
        longest: the maximum size of a delta-encoded byte array, in bytes; 0 if there are none. It
            is the size of the largest page with this encoding: byte arrays in such a page share
            prefixes, so each of them may be as long as the page.
    """

    octets: int
    longest: int


class Pages:
    """Reads the page headers of a Parquet file.

    Args:
        stream: the file.
        columns: the indexes of the columns whose pages are read; None for all.

    Raises:
        ValueError: the footer cannot be parsed.
    """

    def __init__(self, stream: IO[bytes], columns: Sequence[int] | None = None) -> None:
        end = stream.seek(0, 2)
        tail = _read_at(stream, max(end - 8, 0), 8)
        size = int.from_bytes(tail[:4], "little")
        if tail[4:] != _PARQUET_MAGIC or size > end - 8:
            raise ValueError("the footer is missing")
        try:
            footer = _ThriftReader(_read_at(stream, end - 8 - size, size)).struct()
            self._groups = [
                [
                    _struct_field(column, _METADATA)
                    for number, column in enumerate(group[_COLUMNS])
                    if columns is None or number in columns
                ]
                for group in footer[_ROW_GROUPS]
            ]
        except (_TruncatedError, KeyError, TypeError, AttributeError, IndexError):
            raise ValueError("the footer is damaged") from None

    def spans(self, group: int) -> list[tuple[int, int]]:
        """Return the offsets (start, end) of each column of a row group.

        Columns with invalid offsets are left out.
        """
        columns = self._groups[group] if group < len(self._groups) else ()
        return [span for column in columns if 0 <= (span := _span(column))[0] <= span[1]]

    def measure(self, stream: IO[bytes], group: int, max_bytes: int) -> PageSizes:
        """Add up the page sizes of a row group. Stops after the page that exceeds `max_bytes`.

        Raises:
            ValueError: a page header cannot be parsed.
        """
        total = longest = 0
        for column in self._groups[group] if group < len(self._groups) else ():
            for header in _page_headers(stream, column):
                size = header[_UNCOMPRESSED_SIZE]
                total += size
                for page_field, encoding in _ENCODING_FIELD_IDS:
                    if (
                        _int_field(_struct_field(header, page_field), encoding)
                        == _DELTA_BYTE_ARRAY_ENCODING
                    ):
                        longest = max(longest, size)
                if total > max_bytes:
                    return PageSizes(total, longest)
        return PageSizes(total, longest)


def _struct_field(fields: dict[int, Any], number: int) -> dict[int, Any]:
    """Return the field `number` if it is a struct, else {}."""
    value = fields.get(number)
    return value if isinstance(value, dict) else {}


def _int_field(fields: dict[int, Any], number: int) -> int:
    """Return the field `number` if it is an integer, else -1."""
    value = fields.get(number)
    return value if isinstance(value, int) else -1


def _read_at(stream: IO[bytes], offset: int, size: int) -> bytes:
    """Read `size` bytes at an offset, or fewer at the end of the file."""
    stream.seek(offset)
    return stream.read(size)


def _page_headers(stream: IO[bytes], column: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """Yield the page headers of a column of a row group."""
    begin, end = _span(column)
    if not 0 <= begin <= end:
        raise ValueError("the offset of a column is invalid")
    while begin < end:
        header, size = _read_header(stream, begin, min(end - begin, _FIRST_HEADER_READ_SIZE))
        if min(_int_field(header, _COMPRESSED_SIZE), _int_field(header, _UNCOMPRESSED_SIZE)) < 0:
            raise ValueError("a page header has no size")
        yield header
        begin += size + header[_COMPRESSED_SIZE]


def _span(column: dict[int, Any]) -> tuple[int, int]:
    """Return the offsets (start, end) of a column.

    If its metadata is invalid, the result does not satisfy ``0 <= start <= end``.
    """
    begin, dictionary = _int_field(column, _DATA_PAGE), _int_field(column, _DICTIONARY_PAGE)
    if 0 < dictionary < begin:
        begin = dictionary
    return begin, begin + _int_field(column, _TOTAL_COMPRESSED_SIZE)


def _read_header(stream: IO[bytes], offset: int, read_size: int) -> tuple[dict[int, Any], int]:
    """Parse a page header; return its fields and its size.

    `read_size` is the number of bytes to read first; more are read for a larger header.
    """
    while True:
        data = _read_at(stream, offset, read_size)
        reader = _ThriftReader(data)
        try:
            return reader.struct(), reader.pos
        except _TruncatedError:
            if len(data) < read_size or read_size >= _MAX_HEADER_SIZE:
                raise ValueError("a page header is damaged") from None
        read_size = max(read_size * 16, _FIRST_HEADER_READ_SIZE)
