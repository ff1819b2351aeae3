"""A driver for python-qpid-proton: for its codec ``Data``, or for its class ``Message``."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from typing import Any


class Driver:
    """Decodes and encodes with `proton.Data`, or messages with `proton.Message`.

    Args:
        api: the tested class: ``data`` or ``message``.
        module: the module that contains proton's classes.
        distribution: the distribution package whose name and version `name` contains.
    """

    def __init__(
        self, api: str = "data", module: str = "proton", distribution: str = "python-qpid-proton"
    ) -> None:
        self._proton = importlib.import_module(module)
        self._is_message_driver = api == "message"
        version = importlib.import_module("importlib.metadata").version(distribution)
        self.name = f"{distribution} {version}{' (Message)' if self._is_message_driver else ''}"
        # ValueError, TypeError and OverflowError: for invalid values, such as chars, that proton
        # decodes, but cannot convert to Python values.
        self.refusals = (
            *(self._proton.ProtonException, _RefusedError, ValueError, TypeError, OverflowError),
        )

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes to typed JSON. Composites are returned as described lists.

        With ``message``, a message is decoded to None, because `Message` hides some values.
        """
        if kind == "message":
            if self._is_message_driver:
                self.check(data)
                return None
            return self._decode_sections(data)
        self._require_value_kind(kind)
        typed, used = self._decode_value(data)
        if used != len(data):
            raise _RefusedError(f"{len(data) - used} trailing bytes after the value")
        return typed

    def check(self, data: bytes) -> None:
        """Decode a message with `Message`. Raises ProtonException if `Message` refuses it."""
        self._proton.Message().decode(data)

    def again(self, kind: str, data: bytes) -> Any:
        """Decode bytes and encode the result."""
        if kind == "message" and self._is_message_driver:
            message = self._proton.Message()
            message.decode(data)
            return message.encode()
        self._require_value_kind(kind)
        holder = self._proton.Data()
        holder.decode(data)
        return holder.encode()

    def _require_value_kind(self, kind: str) -> None:
        """Raise NotImplementedError unless this driver supports cases of a kind with one value."""
        if self._is_message_driver or kind not in ("value", "composite"):
            raise NotImplementedError(f"proton handles {kind} only within connections")

    def _decode_value(self, octets: bytes) -> tuple[Any, int]:
        """Decode the first value in `octets`. Return its typed JSON, and its size in bytes."""
        data = self._proton.Data()
        used = data.decode(octets)
        data.rewind()
        data.next()
        return self._read_typed(data), used

    def _decode_sections(self, octets: bytes) -> list[Any]:
        sections = []
        while octets:
            typed, used = self._decode_value(octets)
            octets = octets[used:]
            if typed[0] != "described":
                raise _RefusedError(f"{typed[0]} is not a section")
            _, descriptor, content = typed
            row = (
                SECTION_BY_DESCRIPTOR.get(descriptor[1])
                if descriptor[0] in ("ulong", "symbol")
                else None
            )
            if row is None:
                sections.append(["unknown", typed])
            else:
                name, source = row
                sections.append([name, content[1] if content[0] == source else content])
        return sections

    def _read_typed(self, data: Any) -> list[Any]:
        """Return the current node of a `proton.Data` in typed JSON."""
        kind = data.type()
        if kind is None:
            raise _RefusedError("proton found no value")
        name = AMQP_NAME_BY_PROTON_NAME.get(data.type_names[kind], data.type_names[kind])
        if name == "described":
            return [name, *self._read_children(data)]
        if name == "list":
            return [name, self._read_children(data)]
        if name == "map":
            children = self._read_children(data)
            # Proton accepts a map whose last key has no value: the last pair then has one item.
            return [name, [children[i : i + 2] for i in range(0, len(children), 2)]]
        if name == "array":
            _, described, element = data.get_array()
            children = self._read_children(data)
            descriptors = [[children.pop(0)]] if described else []
            element_type = data.type_names[element]
            return [
                name,
                AMQP_NAME_BY_PROTON_NAME.get(element_type, element_type),
                children,
                *descriptors,
            ]
        return _typed_scalar(name, data.get_object())

    def _read_children(self, data: Any) -> list[Any]:
        children = []
        data.enter()
        while data.next():
            children.append(self._read_typed(data))
        data.exit()
        return children


class _RefusedError(Exception):
    """The bytes are invalid, which the codec itself does not detect."""


# AMQP's names of types that have another name in proton.
AMQP_NAME_BY_PROTON_NAME = {"bool": "boolean"}
# (name, type of the content) of each section by numeric and by symbolic descriptor; Part 3, 3.2.
SECTION_BY_DESCRIPTOR: dict[int | str, tuple[str, str]] = {
    key: (name, source)
    for code, (name, source, symbol) in enumerate(
        (
            ("header", "list", "amqp:header:list"),
            ("delivery-annotations", "map", "amqp:delivery-annotations:map"),
            ("message-annotations", "map", "amqp:message-annotations:map"),
            ("properties", "list", "amqp:properties:list"),
            ("application-properties", "map", "amqp:application-properties:map"),
            ("data", "binary", "amqp:data:binary"),
            ("amqp-sequence", "list", "amqp:amqp-sequence:list"),
            ("amqp-value", "*", "amqp:amqp-value:*"),
            ("footer", "map", "amqp:footer:map"),
        ),
        0x70,
    )
    for key in (code, symbol)
}
# Conversions of proton's values to typed JSON, by AMQP type; other types are integers.
_JSON_CONVERSION_BY_TYPE: dict[str, Callable[[Any], Any]] = {
    "boolean": bool,
    "float": lambda value: struct.pack(">f", value).hex(),
    "double": lambda value: struct.pack(">d", value).hex(),
    "decimal32": lambda value: f"{int(value):08x}",
    "decimal64": lambda value: f"{int(value):016x}",
    "decimal128": lambda value: bytes(value).hex(),
    "char": ord,
    "uuid": lambda value: value.hex,
    "binary": lambda value: bytes(value).hex(),
    "string": str,
    "symbol": str,
}


def _typed_scalar(name: str, value: Any) -> list[Any]:
    return [name] if name == "null" else [name, _JSON_CONVERSION_BY_TYPE.get(name, int)(value)]
