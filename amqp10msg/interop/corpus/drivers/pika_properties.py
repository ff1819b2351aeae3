"""pika: the properties of a message of AMQP 0-9-1, and field tables."""

from __future__ import annotations

import struct
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from pika import data as codec
from pika import exceptions, spec

sys.path.insert(0, str(Path(__file__).parent))
from basic_values import properties, table  # type: ignore[import-not-found]


class Driver:
    """Its codec; it has no exceptions of its own for bytes that are cut short."""

    refusals = (
        exceptions.AMQPError,
        struct.error,
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
    )

    def __init__(self) -> None:
        self.name = f"pika {metadata.version('pika')}"

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode properties or a table; types as far as they are kept."""
        made = self._decoded(kind, data)
        return (
            ["properties", properties(made, {}, {})]
            if kind == "basic-properties"
            else ["F", table(made)]
        )

    def again(self, kind: str, data: bytes) -> bytes:
        """Decode, and encode what was decoded."""
        made = self._decoded(kind, data)
        if kind == "basic-properties":
            return b"".join(made.encode())
        pieces: list[bytes] = []
        codec.encode_table(pieces, made)
        return b"".join(pieces)

    def _decoded(self, kind: str, data: bytes) -> Any:
        if kind == "basic-properties":
            return spec.BasicProperties().decode(data)
        if kind == "field-table":
            made, used = codec.decode_table(data, 0)
            if used != len(data):
                raise ValueError(f"{len(data) - used} trailing bytes after the table")
            return made
        raise NotImplementedError(f"pika speaks AMQP 0-9-1, and has no {kind}")
