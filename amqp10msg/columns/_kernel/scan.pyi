# The kernel of `amqp10msg.columns.decode`, scan.pyx.

from collections.abc import Callable, Mapping, Sequence
from typing import Any

BOOL: int
INT16: int
INT32: int
INT64: int
TEXT: int

COLUMN: int
MAP: int
PICK: int
PARTS: int
NUMBERS: int
VARIANT: int

BOOLEAN_FIELD: int
UBYTE_FIELD: int
UINT_FIELD: int
TIMESTAMP_FIELD: int
BINARY_FIELD: int
STRING_FIELD: int
SYMBOL_FIELD: int
IDENTIFIER_FIELD: int

class ColumnPlan:
    def __init__(
        self,
        *,
        needs: Sequence[bool],
        fields: Mapping[int, Sequence[tuple[int, int, int, Any]]],
        maps: Mapping[int, tuple[bool, int]],
        picks: Sequence[tuple[int, bytes]],
        properties: tuple[int, int],
        body: Sequence[int],
        kinds: Sequence[int],
        kind_names: Sequence[bytes],
        results: Sequence[tuple[int, int]],
        importer: Callable[[int], Any],
    ) -> None: ...
    def read(
        self,
        data: int,
        data_size: int,
        offsets: int,
        offsets_size: int,
        width: int,
        valid: int,
        valid_size: int,
        first: int,
        rows: int,
        max_items: int,
        max_zero_width: int,
        zero_width_per_byte: int,
        max_size: int,
        max_depth: int,
        zero_room: int,
    ) -> tuple[Any, list[int]]: ...
