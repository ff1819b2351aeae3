"""What the pages of a Parquet file say that they make: `Pages`.

The footer of a file says how large its row groups are once they are decompressed, but nothing holds
it to that: a page is made as large as its own header says. So these are read, and added up, before
pyarrow reads a row group. Footer and headers are structs of Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import attrs

_MAGIC = b"PAR1"
# Numbers of the fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and PageHeader.
_ROW_GROUPS, _COLUMNS, _METADATA = 4, 1, 3
_COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_PAGE_MADE, _PAGE_SIZE = 2, 3
# Of a data page of either version: where its header has it, and there its encoding.
_ENCODINGS = ((5, 2), (8, 4))
_DELTA_BYTE_ARRAY = 7
# A header has a few bytes, and may have statistics of two values.
_HEADER = 1 << 10
_LONGEST_HEADER = 16 << 20
_DEEPEST = 32


class _CutError(Exception):
    """The bytes end within a value."""


class _Compact:
    """A cursor over values of Thrift's compact protocol."""

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos

    def _octet(self) -> int:
        if self.pos >= len(self.data):
            raise _CutError
        self.pos += 1
        return self.data[self.pos - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            octet = self._octet()
            value |= (octet & 127) << shift
            if octet < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, level: int = 0) -> dict[int, Any]:
        """Read a struct; return the values of its fields by their numbers."""
        if level > _DEEPEST:
            raise ValueError("structs are nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while head := self._octet():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15, level, in_struct=True)
        return found

    def _value(self, kind: int, level: int, *, in_struct: bool = False) -> Any:
        if kind in (1, 2):
            return kind == 1 if in_struct else self._octet() == 1
        if kind == 3:
            return self._octet()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            return self._skipped(8 if kind == 7 else self._varint())
        if kind in (9, 10):
            head = self._octet()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            self._check(count)
            return [self._value(head & 15, level + 1) for _ in range(count)]
        if kind == 11:
            count = self._varint()
            self._check(count)
            kinds = self._octet() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, level + 1)
                self._value(kinds & 15, level + 1)
            return None
        if kind == 12:
            return self.struct(level + 1)
        raise ValueError(f"{kind} stands for no type of Thrift")

    def _skipped(self, size: int) -> None:
        self.pos += size
        if self.pos > len(self.data):
            raise _CutError

    def _check(self, count: int) -> None:
        # No element takes less than a byte.
        if count > len(self.data) - self.pos:
            raise _CutError


@attrs.frozen
class Made:
    """What pages make.

    Attributes:
        octets: of them all, decompressed.
        longest: of the largest one whose values share what they begin with, 0 where there is none:
            each value may be as long.
    """

    octets: int
    longest: int


class Pages:
    """The pages of a Parquet file, by their headers, maybe of the columns with these numbers.

    Raises:
        ValueError: the footer cannot be read.
    """

    def __init__(self, stream: IO[bytes], columns: Sequence[int] | None = None) -> None:
        end = stream.seek(0, 2)
        tail = _read(stream, max(end - 8, 0), 8)
        size = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or size > end - 8:
            raise ValueError("there is no footer")
        try:
            footer = _Compact(_read(stream, end - 8 - size, size)).struct()
            self._groups = [
                [
                    _struct(column, _METADATA)
                    for number, column in enumerate(group[_COLUMNS])
                    if columns is None or number in columns
                ]
                for group in footer[_ROW_GROUPS]
            ]
        except (_CutError, KeyError, TypeError, AttributeError, IndexError):
            raise ValueError("the footer is damaged") from None

    def spans(self, group: int) -> list[tuple[int, int]]:
        """Return where the columns of a row group begin and end, as far as the footer says it."""
        found = self._groups[group] if group < len(self._groups) else ()
        return [span for column in found if 0 <= (span := _span(column))[0] <= span[1]]

    def made(self, stream: IO[bytes], group: int, most: int) -> Made:
        """Add up what the pages of a row group make, up to `most` bytes or a page more.

        Raises:
            ValueError: a header cannot be read.
        """
        made = longest = 0
        for column in self._groups[group] if group < len(self._groups) else ():
            for header in _headers(stream, column):
                size = header[_PAGE_MADE]
                made += size
                for place, encoding in _ENCODINGS:
                    if _number(_struct(header, place), encoding) == _DELTA_BYTE_ARRAY:
                        longest = max(longest, size)
                if made > most:
                    return Made(made, longest)
        return Made(made, longest)


def _struct(found: dict[int, Any], number: int) -> dict[int, Any]:
    """Return a field that is a struct; an empty one where it is none."""
    value = found.get(number)
    return value if isinstance(value, dict) else {}


def _number(found: dict[int, Any], number: int) -> int:
    """Return a field that is a number; -1 where it is none."""
    value = found.get(number)
    return value if isinstance(value, int) else -1


def _read(stream: IO[bytes], at: int, size: int) -> bytes:
    stream.seek(at)
    return stream.read(size)


def _headers(stream: IO[bytes], column: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """Yield the headers of the pages of a column."""
    begin, end = _span(column)
    if not 0 <= begin <= end:
        raise ValueError("the place of a column is damaged")
    while begin < end:
        header, size = _header(stream, begin, min(end - begin, _HEADER))
        if min(_number(header, _PAGE_SIZE), _number(header, _PAGE_MADE)) < 0:
            raise ValueError("the header of a page has no size")
        yield header
        begin += size + header[_PAGE_SIZE]


def _span(column: dict[int, Any]) -> tuple[int, int]:
    """Return where a column begins and ends; with a negative number where that is damaged."""
    begin, dictionary = _number(column, _DATA_PAGE), _number(column, _DICTIONARY_PAGE)
    if 0 < dictionary < begin:
        begin = dictionary
    return begin, begin + _number(column, _COMPRESSED)


def _header(stream: IO[bytes], at: int, size: int) -> tuple[dict[int, Any], int]:
    """Return the header of a page at a place, of about this size, and how many bytes it takes."""
    while True:
        data = _read(stream, at, size)
        reader = _Compact(data)
        try:
            return reader.struct(), reader.pos
        except _CutError:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise ValueError("the header of a page is damaged") from None
        size = max(size * 16, _HEADER)
