"""The types that `Header` and `Properties` are given: a wrong one is refused at once."""

from __future__ import annotations

import uuid
from types import NoneType
from typing import Any

from amqp10msg.composite import composite_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import Symbol, Timestamp, UByte, UInt, ULong

# By AMQP type: the Python types of which every value fits, but for its range.
_FITTING: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "ubyte": (int, UByte),
    "uint": (int, UInt),
    "timestamp": (int, Timestamp),
    "string": (str,),
    "symbol": (str, Symbol),
    "binary": (bytes, bytearray, memoryview),
    "message-id": (str, int, ULong, uuid.UUID, bytes, bytearray, memoryview),
    "address": (str,),
}


def fitting_types(cls: type) -> dict[str, tuple[type, ...]]:
    """Return the types that each field of a section takes as they are, by the field's name."""
    return {
        field.name: (NoneType, *_FITTING[field.requires or field.type])
        for field in composite_of(cls).fields
    }


def check_types(section: Any, cls: type) -> None:
    """Refuse a section with a value of a wrong type; ranges are looked at when it is encoded.

    Args:
        section: an instance of the class, or of one that derives from it.
        cls: the class that declares the fields.

    Raises:
        EncodeError: which field, what it takes, and what was given.
    """
    composite = composite_of(cls)
    for field, kind in zip(composite.fields, composite.spec.kinds, strict=True):
        value = getattr(section, field.name)
        if value is None or type(value) in _FITTING[field.requires or field.type]:
            continue
        writer = kernel.Writer()
        try:
            writer.typed(kind, value)
        except EncodeError as error:
            path = f"{composite.name}.{field.wire_name}"
            raise EncodeError(error.reason, path) from None
