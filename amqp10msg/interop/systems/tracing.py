"""The trace context of W3C in messages, and OpenTelemetry's propagators on them.

By W3C Trace Context, its binary format, and its draft for AMQP: the fields ``traceparent`` and
``tracestate`` stand in the application properties, where the sender puts them, or in the
message-annotations, where an intermediary puts them, as it may not change a bare message. Readers
prefer those in the message-annotations.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import attrs

from amqp10msg.message import Message, expect_message
from amqp10msg.sections.parts import entry_of, merged
from amqp10msg.wire.errors import expect, wrong_type
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.primitives import AmqpMap, Symbol

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator

__all__ = ["FIELDS", "Place", "TraceParent", "extract", "fields", "inject", "with_fields"]

#: The section that fields go to; the second is an intermediary's.
Place: TypeAlias = Literal["application-properties", "message-annotations"]

#: The fields of W3C Trace Context and of W3C Baggage, which are looked for.
FIELDS = ("traceparent", "tracestate", "baggage")

#: The version, and each field after its number.
_BINARY = struct.Struct("BB16sB8sBB")
_TEXT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.DOTALL,
)


def _not_zero(_: Any, attribute: Any, value: bytes) -> None:
    size = 16 if attribute.name == "trace_id" else 8
    if len(value) != size or not any(value):
        raise ValueError(f"{attribute.name} is {size} bytes that are not all zero, not {value!r}")


@attrs.frozen
class TraceParent:
    """The field traceparent: which trace a message belongs to, and which span sent it.

    Attributes:
        trace_id: 16 bytes, not all zero.
        parent_id: 8 bytes, not all zero.
        flags: 0 to 255; bit 0 says that the trace is recorded.

    Raises:
        ValueError: one of them is something else.
    """

    trace_id: bytes = attrs.field(validator=_not_zero)
    parent_id: bytes = attrs.field(validator=_not_zero)
    flags: int = attrs.field(
        default=1, validator=[attrs.validators.ge(0), attrs.validators.le(255)]
    )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the form of HTTP headers, ``00-<trace-id>-<parent-id>-<flags>``.

        What later versions add after the flags is passed over, as W3C asks for.

        Raises:
            ValueError: it is none.
        """
        found = _TEXT.fullmatch(text)
        if (
            found is None
            or found["version"] == "ff"
            or (found["version"] == "00" and found["more"])
        ):
            raise ValueError(f"not a traceparent: {text!r:.80}")
        trace, parent = bytes.fromhex(found["trace"]), bytes.fromhex(found["parent"])
        return cls(trace, parent, int(found["flags"], 16))

    @classmethod
    def from_bytes(cls, octets: bytes) -> Self:
        """Read the binary form of version 0; what follows its 29 bytes is padding.

        Raises:
            ValueError: it is none.
        """
        if len(octets) >= _BINARY.size:
            version, first, trace, second, parent, third, flags = _BINARY.unpack_from(octets)
            if (version, first, second, third) == (0, 0, 1, 2):
                return cls(trace, parent, flags)
        raise ValueError(f"not a binary traceparent: {octets[: _BINARY.size]!r}")

    def __str__(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.parent_id.hex()}-{self.flags:02x}"

    def __bytes__(self) -> bytes:
        flags = bytes([self.flags])
        return b"\0\0" + self.trace_id + b"\1" + self.parent_id + b"\2" + flags


def fields(message: Message) -> dict[str, str]:
    """Return the fields of a message as text, by name; see `FIELDS`.

    Those in the message-annotations come before those in the application properties: a tracestate
    is taken from the section that has the traceparent. A field of another type is left out, as a
    trace must not stop a message.
    """
    expect_message(message, "fields")
    sections: list[Mapping[Any, Any]] = [
        section
        for section in (message.message_annotations, message.application_properties)
        if section
    ]
    parent = next((s for s in sections if _text(entry_of(s, "traceparent")) is not None), {})
    found = {name: _text(entry_of(parent, name)) for name in ("traceparent", "tracestate")}
    found["baggage"] = next(
        (t for s in sections if (t := _text(entry_of(s, "baggage"))) is not None), None
    )
    return {name: text for name, text in found.items() if text is not None}


def with_fields(
    message: Message,
    fields: Mapping[str, str],
    place: Place = "application-properties",
    *,
    binary: bool = False,
) -> Message:
    """Return a copy of a message with these fields instead of those that the section has.

    Args:
        message: the message.
        fields: their texts by name, as in HTTP headers; all of `FIELDS` that are not named go.
        place: where they go. An intermediary that gives ``message-annotations`` leaves the bytes
            of the bare message as they are.
        binary: write traceparent in its binary form, as the draft for AMQP says; as text it is
            what most instrumentations of clients write and read. Readers here take both.

    Raises:
        ValueError: there is no such place, or traceparent is to be binary and is not valid.
    """
    expect_message(message, "with_fields")
    expect(place, str, "the place of with_fields", "a str")
    if place not in get_args(Place):
        raise ValueError(f"place must be one of {', '.join(get_args(Place))}, not {place!r:.80}")
    attribute = place.replace("-", "_")
    new: dict[str, Any] = dict(fields)
    if binary and "traceparent" in fields:
        new["traceparent"] = bytes(TraceParent.from_text(fields["traceparent"]))
    held: Mapping[Any, Any] = getattr(message, attribute) or {}
    kept = [pair for pair in held.items() if not (isinstance(pair[0], str) and pair[0] in FIELDS)]
    if isinstance(held, AmqpMap):  # a lenient message's, whose keys no dict holds
        key_type = str if place == "application-properties" else Symbol
        made = merged(AmqpMap(kept), new, key_type)
    else:
        made = merged(dict(kept), new)
    if made == held:
        return message
    is_map = isinstance(made, AmqpMap)
    changes: Any = {attribute: None if is_map else made or None}
    copy = message.evolve(**changes)
    if is_map:
        setattr(copy, attribute, made or None)
    return copy


def inject(
    message: Message,
    context: Context | None = None,
    *,
    propagator: TextMapPropagator | None = None,
    place: Place = "application-properties",
    binary: bool = False,
) -> Message:
    """Return a copy of a message that carries OpenTelemetry's context.

    Args:
        message: the message.
        context: what to carry; the current context where None.
        propagator: what writes the fields; OpenTelemetry's global one where None.
        place: see `with_fields`.
        binary: see `with_fields`.

    Raises:
        ImportError: opentelemetry-api is not installed: ``amqp10msg[tracing]``.
    """
    expect_message(message, "inject")
    _expect_context(context)
    carrier: dict[str, str] = {}
    _propagator(propagator).inject(carrier, context)
    return with_fields(message, carrier, place, binary=binary)


def extract(
    message: Message, context: Context | None = None, *, propagator: TextMapPropagator | None = None
) -> Context:
    """Return OpenTelemetry's context with what a message carries.

    Args:
        message: the message; without fields, the context stays as it is.
        context: what to add it to; the current context where None.
        propagator: what reads the fields; OpenTelemetry's global one where None.

    Raises:
        ImportError: opentelemetry-api is not installed: ``amqp10msg[tracing]``.
    """
    expect_message(message, "extract")
    _expect_context(context)
    used = _propagator(propagator)
    carrier = fields(message)
    # Propagators of other formats have fields of their own, such as those of B3 and Jaeger.
    for section in (message.application_properties, message.message_annotations):
        for name in used.fields - {*FIELDS}:
            text = _text(entry_of(section, name))
            if text is not None:
                carrier[name] = text
    return used.extract(carrier, context)


def _expect_context(context: object) -> None:
    expect(context, (Mapping, NoneType), "the context", "an OpenTelemetry Context or None")


def _propagator(given: TextMapPropagator | None) -> TextMapPropagator:
    if given is not None:
        if not hasattr(given, "extract"):
            raise wrong_type("the propagator", "a TextMapPropagator", given)
        return given
    module = of_extra("opentelemetry.propagate", "tracing", "contexts need opentelemetry-api")
    found: TextMapPropagator = module.get_global_textmap()
    return found


def _text(value: Any) -> str | None:
    """Return a field as the text that it is in HTTP headers; None where it is not a field."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        octets = bytes(value)
        try:
            return str(TraceParent.from_bytes(octets))
        except ValueError:
            pass
        try:  # clients without types of their own write text as binary
            return octets.decode("ascii")
        except UnicodeDecodeError:
            pass
    return None
