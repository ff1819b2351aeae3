"""The kernel reads and writes the encodings of Part 1 and the sections of Part 3.

The rest of the library imports names from this module, and classes with a C type from
`kernel.twin`. Each module can run as Python; if it was compiled, Python loads the extension module
instead.
"""

from __future__ import annotations

from amqp10msg.wire.kernel.codes import (
    ALLOWED_NEXT_SECTIONS,
    IS_SECTION_REPEATABLE,
    KIND_OF_TYPE_NAME,
    PLACE_OF_SECTION,
    SHAPE_ANNOTATIONS,
    SHAPE_BINARY,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
    SHAPE_SEQUENCE,
    SHAPE_VALUE,
    order_rule,
)
from amqp10msg.wire.kernel.messages import (
    Reader,
    Scanned,
    check_section,
    decode_message,
    encode_message,
    scan,
    write_message,
)
from amqp10msg.wire.kernel.path import key_text, path_of
from amqp10msg.wire.kernel.picks import Picks, SectionPlan
from amqp10msg.wire.kernel.templates import Pattern, Step
from amqp10msg.wire.kernel.twin import COMPILED, AttributeSlots, Mapping, Record, make_fast
from amqp10msg.wire.kernel.value_reader import (
    READ_FAULTS,
    decode_value,
    decode_values,
    is_limited_to_one_section,
    octets_of,
    skip_value,
)
from amqp10msg.wire.kernel.value_writer import encode_fault
from amqp10msg.wire.kernel.writer import (
    Spec,
    Writer,
    encode_value,
    register,
    register_message,
    register_scan,
    register_section,
)

__all__ = [
    "ALLOWED_NEXT_SECTIONS",
    "COMPILED",
    "IS_SECTION_REPEATABLE",
    "KIND_OF_TYPE_NAME",
    "PLACE_OF_SECTION",
    "READ_FAULTS",
    "SHAPE_ANNOTATIONS",
    "SHAPE_BINARY",
    "SHAPE_COMPOSITE",
    "SHAPE_PROPERTIES",
    "SHAPE_SEQUENCE",
    "SHAPE_VALUE",
    "AttributeSlots",
    "Mapping",
    "Pattern",
    "Picks",
    "Reader",
    "Record",
    "Scanned",
    "SectionPlan",
    "Spec",
    "Step",
    "Writer",
    "check_section",
    "decode_message",
    "decode_value",
    "decode_values",
    "encode_fault",
    "encode_message",
    "encode_value",
    "is_limited_to_one_section",
    "key_text",
    "make_fast",
    "octets_of",
    "order_rule",
    "path_of",
    "register",
    "register_message",
    "register_scan",
    "register_section",
    "scan",
    "skip_value",
    "write_message",
]
