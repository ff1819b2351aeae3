"""Messages written down: typed JSON, plain JSON, CBOR, and the diagnostic tree."""

from amqp10msg.notation._error import NotationError
from amqp10msg.notation.cbor import from_cbor, to_cbor
from amqp10msg.notation.plain import from_plain, to_plain, value_from_plain
from amqp10msg.notation.typed import from_typed, to_typed

__all__ = [
    "NotationError",
    "from_cbor",
    "from_plain",
    "from_typed",
    "to_cbor",
    "to_plain",
    "to_typed",
    "value_from_plain",
]
