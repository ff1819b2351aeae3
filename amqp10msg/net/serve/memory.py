"""Limits the memory of a server: messages, and structures such as nodes and links."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from amqp10msg.delivery.node import Memory
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.primitives import Described

#: Memory in bytes, without names, of a node, of a link, of a source that outlives its link, and of
#: an exchange, a binding or a declared queue. The first three were measured with tracemalloc on
#: CPython 3.11 and rounded up; the fourth, and the two constants below, are estimates.
NODE_BYTES, LINK_BYTES, KEPT_BYTES, DEFINITION_BYTES = 7_000, 2_500, 1_500, 1_500
#: Memory in bytes of each character of a name, of which several objects have a copy.
_NAME_BYTES = 3
#: Memory in bytes of each encoded byte of a map or list. A null or a small integer has one encoded
#: byte.
_VALUE_BYTES = 32


def name_cost(*names: object) -> int:
    """Return the memory of names in bytes; a value that is not a str counts as empty."""
    return _NAME_BYTES * sum(len(name) for name in names if isinstance(name, str))


def value_cost(value: Any) -> int:
    """Return the memory of a decoded value, such as the options of a queue, in bytes."""
    return _VALUE_BYTES * len(encode_value(value))


def terminus_cost(terminus: Any) -> int:
    """Return the memory of a source or target received in an attach, in bytes."""
    fields = terminus.value if isinstance(terminus, Described) else None
    address = fields[0] if isinstance(fields, list) and fields else None
    length = len(address.encode()) if isinstance(address, str) else 0
    return name_cost(address) + _VALUE_BYTES * (len(encode_value(terminus)) - length)


@attrs.define(eq=False)
class ServerMemory(Memory):
    """Counts the memory of a server: messages in `message_bytes`, everything else in `structures`.

    Structures are nodes, links, kept sources, topics, exchanges, bindings and declared queues, with
    their names. Their first `STRUCTURE_ALLOWANCE_BYTES` bytes are not counted, so that a test with
    a limit of a few kilobytes for messages can still have some nodes and links.

    Attributes:
        structures: current memory of the structures, in bytes.
    """

    STRUCTURE_ALLOWANCE_BYTES: ClassVar[int] = 64 << 10

    structures: int = 0

    @property
    def used(self) -> int:
        """The bytes of messages and of counted structures, to which `limit` applies."""
        return self.message_bytes + max(self.structures - self.STRUCTURE_ALLOWANCE_BYTES, 0)

    @property
    def is_overdrawn(self) -> bool:
        """Whether `limit` is exceeded by more than `STRUCTURE_ALLOWANCE_BYTES`."""
        return self.limit is not None and self.used > self.limit + self.STRUCTURE_ALLOWANCE_BYTES

    def excess(self, size: int) -> str:
        """Return an error text if a message of `size` bytes would exceed the limit; else empty."""
        size += self.PER_MESSAGE
        if self.limit is None or self.used + size <= self.limit:
            return ""
        return (
            f"{self.limit} bytes are allowed for all messages, {self.used} are in use, and this "
            f"message takes {size}"
        )

    def lacks_room(self, size: int) -> bool:
        """Whether another structure of `size` bytes would exceed the limit."""
        counted = max(self.structures + size - self.STRUCTURE_ALLOWANCE_BYTES, 0)
        return self.limit is not None and counted > 0 and self.message_bytes + counted > self.limit
