"""AMQP 1.0 messages: exact, strict, fast. Bytes in, typed values out, no sockets."""

import importlib
from typing import Any

from amqp10msg._core import COMPILED, decode_value, decode_values, encode_value, skip_value
from amqp10msg.errors import AmqpError, ContentError, DecodeError, EncodeError, ValidationError
from amqp10msg.lenient import Malformed
from amqp10msg.limits import Limits
from amqp10msg.message import Message
from amqp10msg.parts import Part, Scan, scan
from amqp10msg.primitives import (
    AmqpMap,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from amqp10msg.sections import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.validation import Violation, validate

__version__ = "0.1.0"

__all__ = [
    "COMPILED",
    "AmqpError",
    "AmqpMap",
    "AmqpSequence",
    "AmqpValue",
    "ApplicationProperties",
    "Array",
    "Byte",
    "Char",
    "ContentError",
    "Data",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "DecodeError",
    "DeliveryAnnotations",
    "Described",
    "EncodeError",
    "Float",
    "Footer",
    "Header",
    "Int",
    "Limits",
    "Malformed",
    "Message",
    "MessageAnnotations",
    "Part",
    "Properties",
    "Scan",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "ValidationError",
    "Violation",
    "__version__",
    "decode_value",
    "decode_values",
    "encode_value",
    "scan",
    "skip_value",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Import a subpackage or module when it is first used, such as ``amqp10msg.delivery``."""
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise  # it is there, and an extra that it needs is not
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of this module and of the modules that can be had from it."""
    import pkgutil  # noqa: PLC0415  (only needed here)

    found = {module.name for module in pkgutil.iter_modules(__path__)}
    return sorted({*globals(), *(name for name in found if not name.startswith("_"))})
