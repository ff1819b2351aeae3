"""A driver for ``_pyamqp``, the AMQP 1.0 codec of Azure's clients (package azure-servicebus).

The codec decodes to plain Python values: integers of all widths become int, and binary, string and
symbol become bytes.
"""

from __future__ import annotations

import decimal
import struct
import uuid
from importlib import metadata
from typing import Any

from azure.servicebus._pyamqp import _decode, _encode
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes

# Numeric descriptors of the outcomes that the codec decodes, by the codec's name.
_OUTCOMES = {name: code for code, name in _decode._COMPOSITES.items()}


class Driver:
    """Decodes and encodes with the functions that the client's connections use."""

    # The codec has no exception classes for invalid bytes: these are what it happens to raise.
    refusals = (ValueError, LookupError, TypeError, struct.error, AttributeError)

    def __init__(self) -> None:
        self.name = f"azure-servicebus {metadata.version('azure-servicebus')} (_pyamqp)"

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes to typed JSON. If the codec loses a type, it is replaced by its family."""
        if kind == "message":
            return _message_sections(_decode.decode_payload(memoryview(data)))
        if kind not in ("value", "composite"):
            raise NotImplementedError(f"this codec does not support cases of the kind {kind}")
        return _to_typed(self._decode_value(data))

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON."""
        if kind not in ("value", "composite"):
            # The codec encodes only messages that it has decoded: see `again`.
            raise NotImplementedError(
                f"typed JSON of the kind {kind} cannot be encoded: only values and composites can"
            )
        out = bytearray()
        _encode.encode_value(out, _to_encodable(typed))
        return bytes(out)

    def again(self, kind: str, data: bytes) -> bytes:
        """Decode a message and encode the result."""
        if kind != "message":
            raise NotImplementedError(f"the codec handles {kind} only within connections")
        out = bytearray()
        _encode.encode_payload(out, _decode.decode_payload(memoryview(data)))
        return bytes(out)

    def _decode_value(self, data: bytes) -> Any:
        buffer = memoryview(data)
        trailing, value = _decode._DECODE_BY_CONSTRUCTOR[buffer[0]](buffer[1:])
        if len(trailing):
            raise ValueError(f"{len(trailing)} trailing bytes after the value")
        return value


def _message_sections(message: Any) -> list[Any]:
    """Return the sections of a decoded message, in the order of the specification."""
    sections: list[Any] = []
    for name, content in message._asdict().items():
        section = {"value": "amqp-value", "sequence": "amqp-sequence"}.get(name, name)
        section = section.replace("_", "-")
        if content is None:
            continue
        if name == "data":
            sections += [[section, bytes(part).hex()] for part in content]
        elif name == "sequence":
            sections += [[section, [_to_typed(item) for item in part]] for part in content]
        elif name in ("header", "properties"):
            fields = [_to_typed(field) for field in content]
            while fields and fields[-1] == ["null"]:
                fields.pop()
            sections.append([section, fields])
        elif name == "value":
            sections.append([section, _to_typed(content)])
        else:
            sections.append([section, _to_typed(content)[1]])
    return sections


def _to_typed(value: Any) -> list[Any]:
    """Return a decoded value in typed JSON.

    A type that the codec loses is replaced by its family, such as ``integer`` for uint.
    """
    if isinstance(value, dict) and len(value) == 1:
        # An outcome is {name: fields} with a str as name; decoded map keys are bytes.
        ((name, fields),) = value.items()
        if name in _OUTCOMES:
            return ["described", ["integer", _OUTCOMES[name]], _typed_by_class(fields)]
    descriptor = getattr(value, "descriptor", None)
    if descriptor is not None:
        return ["described", _to_typed(descriptor), _typed_by_class(value)]
    return _typed_by_class(value)


def _typed_by_class(value: Any) -> list[Any]:
    """Return a value without descriptor in typed JSON, by its Python class."""
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return ["integer", int(value)]
    if isinstance(value, float):
        return ["number", float(value)]
    if isinstance(value, bytes):
        return ["octets", bytes(value).hex()]
    if isinstance(value, uuid.UUID):
        return ["uuid", value.hex]
    if isinstance(value, decimal.Decimal):
        return ["decimal", str(value)]
    if isinstance(value, list):
        return ["sequence", [_to_typed(item) for item in value]]
    if isinstance(value, dict):
        return ["map", [[_to_typed(key), _to_typed(item)] for key, item in value.items()]]
    raise NotImplementedError(f"this driver does not support {type(value).__name__}")


def _to_encodable(typed: Any) -> dict[str, Any]:
    """Convert typed JSON to the form that the codec encodes: {TYPE: …, VALUE: …}."""
    kind, *content = typed
    if not hasattr(AMQPTypes, kind):
        raise NotImplementedError(f"the codec has no type {kind}")
    value: Any = content[0] if content else None
    if kind == "list":
        value = [_to_encodable(item) for item in value]
    elif kind == "map":
        value = [(_to_encodable(key), _to_encodable(item)) for key, item in value]
    elif kind == "described":
        value = (_to_encodable(content[0]), _to_encodable(content[1]))
    elif kind == "array":
        if len(content) > 2:
            raise NotImplementedError("arrays of described values are not written by this driver")
        value = [_to_encodable(item) for item in content[1]]
    elif kind in ("float", "double"):
        value = struct.unpack(">f" if kind == "float" else ">d", bytes.fromhex(value))[0]
    elif kind == "binary":
        value = bytes.fromhex(value)
    elif kind == "uuid":
        value = uuid.UUID(value)
    elif kind == "decimal128":
        raise NotImplementedError("decimals are not written by this driver")
    return {TYPE: getattr(AMQPTypes, kind), VALUE: value}
