"""Read and write the W3C trace context of messages, also with OpenTelemetry's propagators.

Implements W3C Trace Context, its binary format, and its draft for AMQP. The sender stores the
fields ``traceparent`` and ``tracestate`` in the application properties. An intermediary must not
change the bare message, so it stores the fields in the message-annotations. If both sections have
them, readers use the message-annotations.
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

__all__ = [
    "TRACE_FIELDS",
    "TraceParent",
    "TraceSection",
    "extract",
    "fields",
    "inject",
    "with_fields",
]

#: The section in which trace fields are stored. Senders use the application properties,
#: intermediaries the message-annotations.
TraceSection: TypeAlias = Literal["application-properties", "message-annotations"]

#: The fields of W3C Trace Context and W3C Baggage.
TRACE_FIELDS = ("traceparent", "tracestate", "baggage")

#: The binary form of traceparent. It consists of the version, then for each field its number and
#: its value.
_BINARY_FORM = struct.Struct("BB16sB8sBB")
_TEXT_FORM = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.DOTALL,
)


def _check_id(_: Any, attribute: Any, value: bytes) -> None:
    """Raise ValueError if a trace id or parent id is invalid (a validator for attrs)."""
    size = 16 if attribute.name == "trace_id" else 8
    if len(value) != size or not any(value):
        raise ValueError(f"{attribute.name} must be {size} bytes, not all zero; got {value!r}")


@attrs.frozen
class TraceParent:
    """The field traceparent: the trace of a message, and the span that sent the message.

    Attributes:
        trace_id: 16 bytes, not all zero.
        parent_id: 8 bytes, not all zero.
        flags: 0 to 255; bit 0 means that the trace is recorded.

    Raises:
        ValueError: an attribute is invalid.
    """

    trace_id: bytes = attrs.field(validator=_check_id)
    parent_id: bytes = attrs.field(validator=_check_id)
    flags: int = attrs.field(
        default=1, validator=[attrs.validators.ge(0), attrs.validators.le(255)]
    )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse the text form, as in HTTP headers: ``00-<trace-id>-<parent-id>-<flags>``.

        Text of a version later than 00 may continue after the flags; W3C requires readers to ignore
        the rest.

        Raises:
            ValueError: the text is not a valid traceparent.
        """
        match = _TEXT_FORM.fullmatch(text)
        if (
            match is None
            or match["version"] == "ff"
            or (match["version"] == "00" and match["more"])
        ):
            raise ValueError(f"not a traceparent: {text!r:.80}")
        trace, parent = bytes.fromhex(match["trace"]), bytes.fromhex(match["parent"])
        return cls(trace, parent, int(match["flags"], 16))

    @classmethod
    def from_bytes(cls, octets: bytes) -> Self:
        """Parse the binary form of version 0. Bytes after the first 29 are padding, and ignored.

        Raises:
            ValueError: the bytes are not a valid binary traceparent.
        """
        if len(octets) >= _BINARY_FORM.size:
            version, first, trace, second, parent, third, flags = _BINARY_FORM.unpack_from(octets)
            if (version, first, second, third) == (0, 0, 1, 2):
                return cls(trace, parent, flags)
        raise ValueError(f"not a binary traceparent: {octets[: _BINARY_FORM.size]!r}")

    def __str__(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.parent_id.hex()}-{self.flags:02x}"

    def __bytes__(self) -> bytes:
        flags = bytes([self.flags])
        return b"\0\0" + self.trace_id + b"\1" + self.parent_id + b"\2" + flags


def fields(message: Message) -> dict[str, str]:
    """Return the trace fields of a message as {name: text}; see `TRACE_FIELDS`.

    Fields in the message-annotations take precedence over application properties. The tracestate
    comes from the section that contains the traceparent. Fields of invalid types are left out
    without an error, because an invalid trace must not make a message unusable.
    """
    expect_message(message, "fields")
    sections: list[Mapping[Any, Any]] = [
        section
        for section in (message.message_annotations, message.application_properties)
        if section
    ]
    parent_section = next(
        (s for s in sections if _field_text(entry_of(s, "traceparent")) is not None), {}
    )
    texts = {
        name: _field_text(entry_of(parent_section, name)) for name in ("traceparent", "tracestate")
    }
    texts["baggage"] = next(
        (t for s in sections if (t := _field_text(entry_of(s, "baggage"))) is not None), None
    )
    return {name: text for name, text in texts.items() if text is not None}


def with_fields(
    message: Message,
    fields: Mapping[str, str],
    place: TraceSection = "application-properties",
    *,
    binary: bool = False,
) -> Message:
    """Return a copy of a message in which the trace fields of one section are replaced.

    If nothing changes, the result is the message itself.

    Args:
        message: the message.
        fields: {name: text} of the new fields, as in HTTP headers. Fields of `TRACE_FIELDS` that
            are not in `fields` are removed from the section.
        place: the section. Intermediaries must use ``message-annotations``, which leaves the bytes
            of the bare message unchanged.
        binary: write traceparent in its binary form, as the draft for AMQP specifies. Most client
            instrumentations read and write text only. This module reads both forms.

    Raises:
        ValueError: `place` is invalid, or `binary` is true and traceparent is invalid.
    """
    expect_message(message, "with_fields")
    expect(place, str, "the place of with_fields", "a str")
    if place not in get_args(TraceSection):
        raise ValueError(
            f"place must be one of {', '.join(get_args(TraceSection))}, not {place!r:.80}"
        )
    attribute = place.replace("-", "_")
    new_fields: dict[str, Any] = dict(fields)
    if binary and "traceparent" in fields:
        new_fields["traceparent"] = bytes(TraceParent.from_text(fields["traceparent"]))
    section: Mapping[Any, Any] = getattr(message, attribute) or {}
    other_entries = [
        pair
        for pair in section.items()
        if not (isinstance(pair[0], str) and pair[0] in TRACE_FIELDS)
    ]
    # After lenient decoding, a section with keys that a dict cannot hold is an AmqpMap.
    if isinstance(section, AmqpMap):
        key_type = str if place == "application-properties" else Symbol
        result = merged(AmqpMap(other_entries), new_fields, key_type)
    else:
        result = merged(dict(other_entries), new_fields)
    if result == section:
        return message
    is_map = isinstance(result, AmqpMap)
    changes: Any = {attribute: None if is_map else result or None}
    copy = message.evolve(**changes)
    if is_map:
        setattr(copy, attribute, result or None)
    return copy


def inject(
    message: Message,
    context: Context | None = None,
    *,
    propagator: TextMapPropagator | None = None,
    place: TraceSection = "application-properties",
    binary: bool = False,
) -> Message:
    """Return a copy of a message with the trace fields of an OpenTelemetry context.

    Args:
        message: the message.
        context: the context to store; None for the current context.
        propagator: writes the fields; None for OpenTelemetry's global propagator.
        place: see `with_fields`.
        binary: see `with_fields`.

    Raises:
        ImportError: opentelemetry-api is not installed: ``amqp10msg[tracing]``.
    """
    expect_message(message, "inject")
    _expect_context(context)
    carrier: dict[str, str] = {}
    _resolve_propagator(propagator).inject(carrier, context)
    return with_fields(message, carrier, place, binary=binary)


def extract(
    message: Message, context: Context | None = None, *, propagator: TextMapPropagator | None = None
) -> Context:
    """Return an OpenTelemetry context with the trace fields of a message added.

    Args:
        message: the message; without trace fields, the context is returned unchanged.
        context: the context to extend; None for the current context.
        propagator: reads the fields; None for OpenTelemetry's global propagator.

    Raises:
        ImportError: opentelemetry-api is not installed: ``amqp10msg[tracing]``.
    """
    expect_message(message, "extract")
    _expect_context(context)
    reader = _resolve_propagator(propagator)
    carrier = fields(message)
    # Also pass the fields of other formats that the propagator reads, such as B3 and Jaeger.
    for section in (message.application_properties, message.message_annotations):
        for name in reader.fields - {*TRACE_FIELDS}:
            text = _field_text(entry_of(section, name))
            if text is not None:
                carrier[name] = text
    return reader.extract(carrier, context)


def _expect_context(context: object) -> None:
    expect(context, (Mapping, NoneType), "the context", "an OpenTelemetry Context or None")


def _resolve_propagator(propagator: TextMapPropagator | None) -> TextMapPropagator:
    """Return the propagator; OpenTelemetry's global propagator if it is None."""
    if propagator is not None:
        if not hasattr(propagator, "extract"):
            raise wrong_type("the propagator", "a TextMapPropagator", propagator)
        return propagator
    module = of_extra("opentelemetry.propagate", "tracing", "contexts need opentelemetry-api")
    global_propagator: TextMapPropagator = module.get_global_textmap()
    return global_propagator


def _field_text(value: Any) -> str | None:
    """Return the text of a field, as in HTTP headers; None if the type or bytes are invalid."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        octets = bytes(value)
        try:
            return str(TraceParent.from_bytes(octets))
        except ValueError:
            pass
        try:  # clients that cannot write an AMQP string write the text as binary
            return octets.decode("ascii")
        except UnicodeDecodeError:
            pass
    return None
