# The kernel of `amqp10msg.columns.encode`, write.pyx.

from collections.abc import Sequence
from typing import Any, TypeAlias

BOOL: int
INT16: int
INT64: int
WIDE: int
TEXT: int
LIST: int

BOOLEAN_FIELD: int
UBYTE_FIELD: int
UINT_FIELD: int
TIMESTAMP_FIELD: int
BINARY_FIELD: int
STRING_FIELD: int
SYMBOL_FIELD: int
IDENTIFIER_FIELD: int

COPY_STEP: int
OPEN_STEP: int
LIST_STEP: int
MAP_STEP: int
FIELDS_STEP: int
FIELD_STEP: int
ENTRY_STEP: int
DATA_STEP: int
BODY_STEP: int

BOOLEAN_MODE: int
WHOLE_MODE: int
ULONG_MODE: int
DOUBLE_MODE: int
FLOAT_MODE: int
TEXT_MODE: int

# The kind, the first cell, and the addresses and sizes of validity, cells and bytes.
Column: TypeAlias = tuple[int, int, int, int, int, int, int, int] | None
_Field: TypeAlias = tuple[int, int, Any, Column, Column]

class Rows:
    def write(
        self, first: int, size: int, to: int, room: int, ends: int, unsupported: int
    ) -> tuple[int, int]: ...

class Writer(Rows):
    def __init__(
        self,
        rows: int,
        *,
        header: tuple[int, Sequence[_Field]],
        properties: tuple[int, Sequence[_Field]],
        maps: Sequence[tuple[int, bool, Column, Sequence[Column], int]],
        has_properties: Column,
        lengths: tuple[Column, Column, int],
        body: tuple[int, Sequence[bytes], Column, Column, Column],
    ) -> None: ...

class Filler(Rows):
    def __init__(
        self, rows: int, steps: list[tuple[int, bytes, int, int, int | None, int, int, Column]]
    ) -> None: ...
