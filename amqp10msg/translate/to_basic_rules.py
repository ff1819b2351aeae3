"""The rules of the translation from 1.0 to 0-9-1 as data, and the plain rules for the engine.

A `ToBasicRules` defines the conversion of sections, and has a row for each field of the properties.
The compiled engine reads it when it is constructed, and defines the names of the forms.
`PlainValues` converts the values that the engine does not convert itself.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from amqp10msg.basic.properties import decode_field, encode_field
from amqp10msg.brokers import STREAM_FILTER_VALUE
from amqp10msg.message import Message
from amqp10msg.sections import Data
from amqp10msg.translate._delivery import ANNOTATIONS, HEADERS, report_former_ttl
from amqp10msg.translate._headers import (
    INTERNAL,
    NOTHING,
    SECTIONS,
    header_value,
    property_name,
    section_and_key,
)
from amqp10msg.translate._merge_message import delivered_annotations, delivered_header
from amqp10msg.translate._to_amqp10 import body_of
from amqp10msg.translate._to_basic import (
    BasicDraft,
    annotation_header,
    carry_encodings,
    property_header,
    set_properties,
)
from amqp10msg.translate.rabbitmq import to_basic, v3
from amqp10msg.translate.rabbitmq.fields import (
    PROPERTY_NAMES,
)
from amqp10msg.translate.rabbitmq.sections import decode_section
from amqp10msg.translate.rabbitmq.terms import BrokerError, TermReader, generate, reencode_body
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Loss, Notes, as_json
from amqp10msg.translate.residual import NAME, SPARSE_PROPERTIES, is_of_basic
from amqp10msg.translate.table import ROWS, ULONG_ID, shortstr
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.kernel.codes import PROPERTIES_CODE
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Symbol

__all__ = ["PlainValues", "ToBasicRules", "rules_of"]

#: The index of a field of the properties section, the index of its property or -1, and the form.
Row: TypeAlias = tuple[int, int, str]

# The index of the property for each field.
_TARGETS = {
    row.field.replace("_", "-"): row.number - 1 for row in ROWS if row.section == "properties"
}
_BY_NUMBER = {row.number: row for row in ROWS}
_INDEXES = {row.name: row.number - 1 for row in ROWS}
#: Names of headers and keys of annotations with a meaning to the translator or to brokers.
ODD_NAMES = [
    name.encode()
    for name in sorted({NAME, STREAM_FILTER_VALUE, *HEADERS, *ANNOTATIONS, *INTERNAL, *SECTIONS})
]
# The types of the annotations that RabbitMQ adds.
_KINDS = {int: "long", str: "string"}
_FACTS = [(key.encode(), _KINDS.get(kind, "array")) for key, kind in ANNOTATIONS.items()]
# The plain rules decode single values of messages that have passed the caller's limits already.
_SINGLE = Limits(depth=64, zero_width=1_000)
_COMPOUND = 0xC0  # the lowest constructor of lists, maps and arrays, except the empty list
_LIST0 = 0x45
_DESCRIBED = 0x00
# Encoded bodies that complete a message with properties only: a data and an amqp-value section.
_DATA, _VALUE = bytes.fromhex("005375a000"), bytes.fromhex("00537740")


@attrs.frozen
class ToBasicRules:
    """The rules of a profile.

    Attributes:
        way: ``lossless``; ``converted``, section by section; ``kept whole``, sections as headers.
        early: rows whose losses precede the losses of application properties in the report.
        late: rows whose losses follow the losses of application properties in the report.
        durable_by_default: see `BrokerVersion`.
        stream: see `BrokerVersion`.
        number_prefix: the prefix of an id that is a number.
        odd_names: names of headers and keys that need special treatment in the lossless profile.
        facts: the annotations that a delivery adds, with their types: long, string or array.
    """

    way: str
    early: Sequence[Row]
    late: Sequence[Row] = ()
    durable_by_default: bool = False
    stream: bool = False
    number_prefix: bytes = b""
    odd_names: list[bytes] = ODD_NAMES
    facts: Sequence[tuple[bytes, str]] = ()


def _rows(forms: dict[str, str]) -> tuple[Row, ...]:
    """Return a row for each field, in the order of the forms."""
    renamed = {"group-id": _INDEXES["app_id"]} if forms.get("group-id") == "renamed" else {}
    targets = _TARGETS | renamed
    return tuple(
        (PROPERTY_NAMES.index(name), targets.get(name, -1), form) for name, form in forms.items()
    )


_LOSSLESS = _rows(
    {
        "message-id": "id",
        "user-id": "user",
        "to": "carried",
        "subject": "carried",
        "reply-to": "short text",
        "correlation-id": "id",
        "content-type": "known",
        "content-encoding": "known",
        "absolute-expiry-time": "carried",
        "creation-time": "seconds",
        "group-id": "carried",
        "group-sequence": "carried",
        "reply-to-group-id": "carried",
    }
)
_IDS = _rows({"message-id": "broker id", "correlation-id": "broker id"})
_KEPT_WHOLE = _rows(
    {
        "message-id": "bytes",
        "user-id": "login",
        "reply-to": "old address",
        "correlation-id": "bytes",
        "content-type": "bytes",
        "content-encoding": "bytes",
        "creation-time": "same number",
    }
)


def rules_of(version: BrokerVersion | None) -> ToBasicRules:
    """Return the rules of a RabbitMQ version; for None, the rules of the lossless profile."""
    if version is None:
        return ToBasicRules("lossless", _LOSSLESS, number_prefix=ULONG_ID.encode(), facts=_FACTS)
    if version.is_plugin:
        return ToBasicRules("kept whole", _KEPT_WHOLE, stream=version.stream)
    late = {
        "user-id": "login",
        "reply-to": "address" if version.queue_addresses else "text",
        "group-id": "renamed",
        "creation-time": "whole seconds",
        "content-type": "text",
        "content-encoding": "text",
        **dict.fromkeys(to_basic.LEFT_OUT, "dropped"),
    }
    return ToBasicRules("converted", _IDS, _rows(late), version.durable_by_default, version.stream)


# The same texts recur in many messages. A short string has at most 255 bytes, and an entry of the
# cache about 600 with its overhead, so the cache needs at most 0.6 MB.
@functools.lru_cache(maxsize=1024)
def is_symbol(row: int, octets: bytes) -> bool:
    """Return whether a field of 1.0 can hold a text exactly, if the body is data.

    Args:
        row: the index in `ROWS`: 0 for the content-type, 1 for the content-encoding.
        octets: the text.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    translated = ROWS[row].forward(text, True)
    return translated.target == "field" and translated.exact and shortstr(text)


#: The header of a value: its name, None if the value is dropped; the type and value of the field;
#: the original value in its smallest encoding; whether the header holds it exactly; the losses.
PlainHeader: TypeAlias = tuple[bytes | None, bytes, bytes, bool, list[tuple[Any, ...]]]


class PlainValues:
    """The plain rules for values that the engine does not convert itself.

    Args:
        version: the version of RabbitMQ; None for the lossless profile.
    """

    is_symbol = staticmethod(is_symbol)
    delivered_header = staticmethod(delivered_header)
    delivered_annotations = staticmethod(delivered_annotations)
    reencode_body = staticmethod(reencode_body)

    def __init__(self, version: BrokerVersion | None) -> None:
        self._version = version
        self._is_old = version is not None and version.is_plugin

    def is_body(self, octets: bytes) -> bool:
        """Return whether bytes are valid body sections."""
        try:
            Message.decode(octets, limits=_SINGLE)
            if self._is_old:
                v3.split_message(octets)
        except (AmqpError, BrokerError):
            return False
        return True

    def section(self, octets: bytes) -> tuple[bytes, int] | None:
        """Describe lost delivery-annotations or a lost footer; None if they are invalid.

        Returns:
            The lost entries as JSON, and their number.
        """
        try:
            message = Message.decode(octets, limits=_SINGLE)
            if self._is_old:
                v3.split_message(octets)
            elif self._version is not None:
                name, pairs = decode_section(TermReader(self._version.codec, octets, 0).term())
                lost_entries = pairs if name == "footer" else len(pairs)
                return str(as_json(lost_entries)).encode(), len(pairs)
        except (AmqpError, BrokerError):
            return None
        section = message.delivery_annotations if message.footer is None else message.footer
        entries: dict[Any, Any] = dict(section or {})
        return str(as_json(entries)).encode("utf-8", "backslashreplace"), len(entries)

    def properties(self, octets: bytes, is_data: bool) -> tuple[Any, ...] | None:
        """Convert the properties section without loss; None if it is invalid.

        Args:
            octets: the section.
            is_data: whether the body is data.

        Returns:
            The texts, each with the index of its property; the timestamp in seconds, or None;
            encoded fields for the residual by index; whether the residual needs the whole section;
            the losses.
        """
        wire = octets + (_DATA if is_data else _VALUE)
        try:
            message = Message.decode(wire, limits=_SINGLE)
        except AmqpError:
            return None
        draft, notes = BasicDraft(message, wire), Notes()
        properties: Any = message.properties
        set_properties(draft, properties, notes)
        carry_encodings(draft)
        seconds = draft.property_values.pop("timestamp", None)
        texts = [
            (_INDEXES[name], text.encode("utf-8")) for name, text in draft.property_values.items()
        ]
        residual = draft.carried.get(SPARSE_PROPERTIES, {})
        is_whole = PROPERTIES_CODE in draft.carried
        return texts, seconds, list(residual.items()), is_whole, list(map(_members, notes.losses))

    def is_deliverable_body(self, octets: bytes) -> bool:
        """Return whether a payload is body sections other than data that RabbitMQ can deliver."""
        message = body_of(octets)
        if message is None or reencode_body(octets) is None:
            return False
        body = message.body
        return not isinstance(body[0] if isinstance(body, list) else body, Data)

    def is_only_in_residual(self, number: int, value: Any, is_data: bool) -> bool:
        """Return whether only the residual can hold a property.

        Args:
            number: the number of the property in the residual.
            value: its value.
            is_data: whether the body is data.
        """
        row = _BY_NUMBER.get(number)
        if row is None or not is_of_basic({number: value}):
            return False
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return row.forward(text, is_data).target == "residual"

    def value_of(self, name: bytes, field: bytes) -> bytes | None:
        """Return the encoded 1.0 value of a header; None if 1.0 cannot hold it."""
        try:
            text = name.decode("utf-8")
            value, _ = header_value(text, *decode_field(field))
            return None if value is NOTHING else bytes(kernel.encode_value(value))
        except (AmqpError, UnicodeDecodeError):
            return None

    def is_representable(self, name: bytes, field: bytes) -> bool:
        """Return whether a 1.0 message can hold a header, given its name and its encoded field."""
        text = name.decode("utf-8", "surrogateescape")
        if section_and_key(text) is None:
            return False
        return header_value(text, *decode_field(field))[0] is not NOTHING

    def former_ttl(self, octets: bytes) -> list[tuple[Any, ...]] | None:
        """Return the losses that `report_former_ttl` reports for the encoded deaths of a message.

        Return None if the deaths are invalid.
        """
        notes = Notes()
        try:
            report_former_ttl(kernel.decode_value(octets, limits=_SINGLE), notes)
        except (AmqpError, ValueError, TypeError):
            return None
        return [_members(loss) for loss in notes.losses]

    def value_json(self, octets: bytes) -> bytes | None:
        """Return a lost value as JSON; None if it cannot be decoded."""
        try:
            text = as_json(kernel.decode_value(octets, limits=_SINGLE))
        except AmqpError:
            return None
        return None if text is None else text.encode()

    def header(
        self, key: bytes, octets: bytes, is_annotation: bool, is_saved: bool = False
    ) -> PlainHeader | None:
        """Convert an annotation or application property to a header; None if it is invalid.

        Args:
            key: its key.
            octets: its encoded value.
            is_annotation: whether it is a message annotation.
            is_saved: whether the message has a residual from 0-9-1.
        """
        if not is_annotation and (octets[0] >= _COMPOUND or octets[0] in (_LIST0, _DESCRIBED)):
            return None
        notes = Notes()
        try:
            value = kernel.decode_value(octets, limits=_SINGLE)
            if self._version is None:
                header = _lossless_header(key, value, is_annotation, is_saved, notes)
            elif self._is_old:
                TermReader(self._version.codec, octets, 0).term()
                header = None, b"", True
            else:
                header = self._rabbitmq_header(key, octets, is_annotation, notes)
            wire = kernel.encode_value(value)
        except (AmqpError, BrokerError):
            return None
        name, field, is_exact = header
        return name, field, wire, is_exact, [_members(loss) for loss in notes.losses]

    def _rabbitmq_header(
        self, key: bytes, octets: bytes, is_annotation: bool, notes: Notes
    ) -> tuple[bytes | None, bytes, bool]:
        version: Any = self._version
        term = TermReader(version.codec, octets, 0).term()
        if is_annotation:
            pairs = [(("symbol", key), term)]
            to_basic.check_routes(version, pairs)
            if version.stream:
                generate(("map", pairs))  # if the broker cannot write it, the session crashes
            headers = to_basic.annotation_headers(version, pairs, notes)
        else:
            headers = to_basic.property_headers(version, [(("utf8", key), term)], notes)
        if not headers:
            return None, b"", True
        name, letter, value = headers[0]
        if letter == to_basic.UNWRITTEN:
            raise value
        return name, encode_field(letter, value), True


def _lossless_header(
    key: bytes, value: Any, is_annotation: bool, is_saved: bool, notes: Notes
) -> tuple[bytes | None, bytes, bool]:
    text = key.decode("utf-8")
    if is_annotation:
        name, letter, item, is_exact = annotation_header(Symbol(text), value, notes, is_saved)
    else:
        name, letter, item, is_exact = property_header(property_name(text), text, value, notes)
    if not letter:
        return None, b"", False
    return name.encode("utf-8"), encode_field(letter, item), is_exact


def _members(loss: Loss) -> tuple[Any, ...]:
    """Return the members of a loss in the form that the engine expects."""
    before_json, after_json = as_json(loss.before), as_json(loss.after)
    return (
        loss.path.encode("utf-8", "backslashreplace"),
        loss.action.encode(),
        None if before_json is None else before_json.encode(),
        None if after_json is None else after_json.encode(),
        loss.reason.encode("utf-8", "backslashreplace"),
        loss.recoverable,
    )
