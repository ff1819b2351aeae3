"""A template for a driver of messages: replace `read` and `write` by calls of the implementation.

Test the driver with ``amqp10msg conformance run --peer ./this_file.py --only "Part 3, 3.2"``. It
needs no package besides the implementation.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any

NAME = "my implementation 1.0"
#: The exceptions that the implementation raises for invalid bytes. Any other exception is reported
#: as an error of the implementation.
REFUSALS: tuple[type[BaseException], ...] = (ValueError,)


def read(data: bytes) -> list[tuple[str, Any]]:
    """Decode a message, and return the names of its sections with their contents, in their order.

    The content of header and properties is the list of their fields, with None for an absent field;
    that of annotations, application-properties and footer is a dict; that of data is bytes; that of
    amqp-sequence is a list; that of amqp-value is a value. This example reads one data section.
    """
    head, content = data[:5], data[5:]
    if len(content) > 255 or head != b"\x00\x53\x75\xa0" + bytes([len(content)]):
        raise ValueError("only a data section of up to 255 bytes can be read")
    return [("data", content)]


def write(sections: list[tuple[str, Any]]) -> bytes:
    """Encode the sections that `read` has returned."""
    ((_, content),) = sections
    return b"\x00\x53\x75\xa0" + bytes([len(content)]) + bytes(content)


def typed(value: Any) -> list[Any]:
    """Return a value in typed JSON.

    Most Python types stand for several AMQP types, so the result names the family: integer, number,
    octets, sequence. If the implementation has a class for an AMQP type, return the type's name
    instead: ``["uint", 5]``, ``["symbol", "x"]``, ``["char", 97]``.
    """
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return ["integer", value]
    if isinstance(value, float):
        return ["number", value]
    if isinstance(value, str):
        return ["octets", value.encode().hex()]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ["octets", bytes(value).hex()]
    if isinstance(value, uuid.UUID):
        return ["uuid", value.hex]
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)  # noqa: UP017
        return ["timestamp", (value - epoch) // datetime.timedelta(milliseconds=1)]
    if isinstance(value, (list, tuple)):
        return ["sequence", [typed(item) for item in value]]
    if isinstance(value, dict):
        return ["map", pairs(value)]
    raise NotImplementedError(f"values of the class {type(value).__name__} are not supported")


def pairs(values: dict[Any, Any]) -> list[list[Any]]:
    """Return the pairs of a map in typed JSON."""
    return [[typed(key), typed(value)] for key, value in values.items()]


def section(name: str, content: Any) -> list[Any]:
    """Return a section in typed JSON."""
    if name == "data":
        return [name, content.hex()]
    if name == "amqp-value":
        return [name, typed(content)]
    if isinstance(content, dict):
        return [name, pairs(content)]
    return [name, [typed(item) for item in content]]


class Driver:
    """Connects the implementation to the run."""

    name = NAME
    refusals = REFUSALS

    def decode(self, kind: str, data: bytes) -> Any:
        """Return the sections of a message in typed JSON."""
        self._require_message(kind)
        return [section(name, content) for name, content in read(data)]

    def again(self, kind: str, data: bytes) -> bytes:
        """Return the bytes of a message that was decoded and encoded again."""
        self._require_message(kind)
        return write(read(data))

    def _require_message(self, kind: str) -> None:
        if kind != "message":
            raise NotImplementedError(f"{kind} is not supported")
