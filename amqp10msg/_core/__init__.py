"""The kernel: the encodings of Part 1 and the sections of Part 3, compiled where that was possible.

The rest of the library imports from here, and what needs a C type from `_core.twin`. Each module
runs as it is; where it was compiled, the library beside it runs instead.
"""

from __future__ import annotations

from amqp10msg._core.path import key_text, path_of
from amqp10msg._core.twin import COMPILED, Layout
from amqp10msg._core.wire import (
    ANNOTATIONS,
    BINARY,
    COMPOSITE,
    PROPERTIES_MAP,
    READ_FAULTS,
    SEQUENCE,
    TYPE_IDS,
    VALUE,
    Reader,
    Scanned,
    Spec,
    Writer,
    check_section,
    decode_message,
    decode_value,
    decode_values,
    encode_fault,
    encode_message,
    encode_value,
    octets_of,
    register,
    register_message,
    register_scan,
    register_section,
    scan,
    skip_value,
    write_message,
)

__all__ = [
    "ANNOTATIONS",
    "BINARY",
    "COMPILED",
    "COMPOSITE",
    "PROPERTIES_MAP",
    "READ_FAULTS",
    "SEQUENCE",
    "TYPE_IDS",
    "VALUE",
    "Layout",
    "Reader",
    "Scanned",
    "Spec",
    "Writer",
    "check_section",
    "decode_message",
    "decode_value",
    "decode_values",
    "encode_fault",
    "encode_message",
    "encode_value",
    "key_text",
    "octets_of",
    "path_of",
    "register",
    "register_message",
    "register_scan",
    "register_section",
    "scan",
    "skip_value",
    "write_message",
]
