"""azure-servicebus: ``_pyamqp``, the AMQP 1.0 codec in Python of Azure's clients.

It decodes to plain Python values, so integers of all widths are int, and binary, string and symbol
are bytes; it has no exceptions of its own for what it refuses.
"""

from __future__ import annotations

import decimal
import struct
import uuid
from importlib import metadata
from typing import Any

from azure.servicebus._pyamqp import _decode, _encode
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes

_OUTCOMES = {name: code for code, name in _decode._COMPOSITES.items()}


class Driver:
    """The functions that its connections call."""

    refusals = (ValueError, LookupError, TypeError, struct.error, AttributeError)

    def __init__(self) -> None:
        self.name = f"azure-servicebus {metadata.version('azure-servicebus')} (_pyamqp)"

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind, types as far as they are kept."""
        if kind == "message":
            return _sections(_decode.decode_payload(memoryview(data)))
        if kind not in ("value", "composite"):
            raise NotImplementedError(f"{kind} is not of AMQP 1.0, or not decided by a codec")
        return _typed(self._value(data))

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON."""
        if kind not in ("value", "composite"):
            raise NotImplementedError(f"{kind}: its encoder takes messages that it decoded")
        out = bytearray()
        _encode.encode_value(out, _wrapped(typed))
        return bytes(out)

    def again(self, kind: str, data: bytes) -> bytes:
        """Decode, and encode what was decoded."""
        if kind != "message":
            raise NotImplementedError(f"no {kind} outside of connections")
        out = bytearray()
        _encode.encode_payload(out, _decode.decode_payload(memoryview(data)))
        return bytes(out)

    def _value(self, data: bytes) -> Any:
        buffer = memoryview(data)
        rest, value = _decode._DECODE_BY_CONSTRUCTOR[buffer[0]](buffer[1:])
        if len(rest):
            raise ValueError(f"{len(rest)} trailing bytes after the value")
        return value


def _sections(message: Any) -> list[Any]:
    """Return the sections of a decoded message, in the order of the specification."""
    made: list[Any] = []
    for name, content in message._asdict().items():
        section = {"value": "amqp-value", "sequence": "amqp-sequence"}.get(name, name)
        section = section.replace("_", "-")
        if content is None:
            continue
        if name == "data":
            made += [[section, bytes(one).hex()] for one in content]
        elif name == "sequence":
            made += [[section, [_typed(item) for item in one]] for one in content]
        elif name in ("header", "properties"):
            fields = [_typed(field) for field in content]
            while fields and fields[-1] == ["null"]:
                fields.pop()
            made.append([section, fields])
        elif name == "value":
            made.append([section, _typed(content)])
        else:
            made.append([section, _typed(content)[1]])
    return made


def _typed(value: Any) -> list[Any]:
    """Return typed JSON, with families of types where the type is not kept."""
    if isinstance(value, dict) and len(value) == 1:
        # An outcome is its name and its fields; keys that were decoded are bytes, and no str.
        ((name, fields),) = value.items()
        if name in _OUTCOMES:
            return ["described", ["integer", _OUTCOMES[name]], _plain(fields)]
    descriptor = getattr(value, "descriptor", None)
    if descriptor is not None:
        return ["described", _typed(descriptor), _plain(value)]
    return _plain(value)


def _plain(value: Any) -> list[Any]:
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
        return ["sequence", [_typed(item) for item in value]]
    if isinstance(value, dict):
        return ["map", [[_typed(key), _typed(item)] for key, item in value.items()]]
    raise NotImplementedError(f"{type(value).__name__} is not known to this driver")


def _wrapped(typed: Any) -> dict[str, Any]:
    """Return a value as its encoder takes it: with its type."""
    kind, *rest = typed
    if not hasattr(AMQPTypes, kind):
        raise NotImplementedError(f"it has no {kind}")
    value: Any = rest[0] if rest else None
    if kind == "list":
        value = [_wrapped(item) for item in value]
    elif kind == "map":
        value = [(_wrapped(key), _wrapped(item)) for key, item in value]
    elif kind == "described":
        value = (_wrapped(rest[0]), _wrapped(rest[1]))
    elif kind == "array":
        if len(rest) > 2:
            raise NotImplementedError("arrays of described values are not written by this driver")
        value = [_wrapped(item) for item in rest[1]]
    elif kind in ("float", "double"):
        value = struct.unpack(">f" if kind == "float" else ">d", bytes.fromhex(value))[0]
    elif kind == "binary":
        value = bytes.fromhex(value)
    elif kind == "uuid":
        value = uuid.UUID(value)
    elif kind == "decimal128":
        raise NotImplementedError("decimals are not written by this driver")
    return {TYPE: getattr(AMQPTypes, kind), VALUE: value}
