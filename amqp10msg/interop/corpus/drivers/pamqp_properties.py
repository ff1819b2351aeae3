"""pamqp, and aiormq, whose codec it is: properties of AMQP 0-9-1, and field tables."""

from __future__ import annotations

import importlib
import struct
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from pamqp import commands, decode, encode, exceptions, header

sys.path.insert(0, str(Path(__file__).parent))
from basic_values import properties, table  # type: ignore[import-not-found]

_NAMES = {"type": "message_type"}
# Its default, which an empty one cannot be told from.
_ABSENT = {"cluster_id": ""}


class Driver:
    """Its codec; it has no exceptions of its own for bytes that are cut short.

    Args:
        through: a library that hands out the classes of pamqp, such as ``aiormq``.
    """

    refusals = (
        *(exceptions.PAMQPException, struct.error, ValueError, LookupError, TypeError),
        *(OverflowError, OSError),
    )

    def __init__(self, through: str = "") -> None:
        self._class = commands.Basic.Properties
        self.name = f"pamqp {metadata.version('pamqp')}"
        if through:
            self._class = importlib.import_module(through).spec.Basic.Properties
            self.name = f"{through} {metadata.version(through)} ({self.name})"

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode properties or a table; types as far as they are kept."""
        made = self._decoded(kind, data)
        if kind == "basic-properties":
            return ["properties", properties(made, _NAMES, _ABSENT)]
        return ["F", table(made)]

    def again(self, kind: str, data: bytes) -> Any:
        """Decode, and encode what was decoded."""
        made = self._decoded(kind, data)
        return made.marshal() if kind == "basic-properties" else encode.field_table(made)

    def _decoded(self, kind: str, data: bytes) -> Any:
        if kind == "basic-properties":
            used, flags = header.ContentHeader._get_flags(data)
            made = self._class()
            made.unmarshal(flags, data[used:])
            return made
        if kind == "field-table":
            used, table_of_it = decode.field_table(data)
            if used != len(data):
                raise ValueError(f"{len(data) - used} trailing bytes after the table")
            return table_of_it
        raise NotImplementedError(f"pamqp speaks AMQP 0-9-1, and has no {kind}")
