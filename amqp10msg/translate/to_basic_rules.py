"""The rules of the translation from 1.0 to 0-9-1 as data, and the plain rules for the engine.

A `ToBasicRules` defines the conversion of sections, and has a row for each field of the properties.
The compiled engine reads it when it is constructed, and defines the names of the forms.
`PlainValues` converts values of types that the engine does not convert itself.
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
from amqp10msg.translate._delivery import (
    ADDED_ANNOTATION_TYPES,
    ADDED_HEADER_LETTERS,
    report_former_ttl,
)
from amqp10msg.translate._headers import (
    INEXPRESSIBLE,
    SAVED_SECTION_HEADERS,
    UNDELIVERED_ANNOTATIONS,
    header_value,
    property_name,
    section_and_key,
)
from amqp10msg.translate._merge_message import (
    update_annotations_for_delivery,
    update_header_for_delivery,
)
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
from amqp10msg.translate.residual import RESIDUAL_NAME, SPARSE_PROPERTIES_KEY, is_of_basic
from amqp10msg.translate.table import ROWS, ULONG_ID_PREFIX, shortstr
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.kernel.codes import PROPERTIES_CODE
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Symbol

__all__ = ["PlainValues", "ToBasicRules", "rules_of"]

#: The conversion of a field in the properties section, with the index of the field, the index of
#: its 0-9-1 property (-1 for none), and the name of the form.
Row: TypeAlias = tuple[int, int, str]

# The index of the 0-9-1 property for each field that has a row in the correspondence.
_PROPERTY_INDEX_BY_FIELD = {
    row.field.replace("_", "-"): row.number - 1 for row in ROWS if row.section == "properties"
}
_ROWS_BY_NUMBER = {row.number: row for row in ROWS}
_PROPERTY_INDEX_BY_NAME = {row.name: row.number - 1 for row in ROWS}
#: Names of headers and keys of annotations with a special meaning to this library or to brokers.
SPECIAL_NAMES = [
    name.encode()
    for name in sorted(
        {
            RESIDUAL_NAME,
            STREAM_FILTER_VALUE,
            *ADDED_HEADER_LETTERS,
            *ADDED_ANNOTATION_TYPES,
            *UNDELIVERED_ANNOTATIONS,
            *SAVED_SECTION_HEADERS,
        }
    )
]
# The engine's names for the value types of the annotations that RabbitMQ adds; "array" for Array.
_ANNOTATION_TYPE_NAMES = {int: "long", str: "string"}
_BROKER_ANNOTATION_TYPES = [
    (key.encode(), _ANNOTATION_TYPE_NAMES.get(kind, "array"))
    for key, kind in ADDED_ANNOTATION_TYPES.items()
]
# Limits for decoding single values of messages that have already passed the caller's limits.
_VALUE_LIMITS = Limits(depth=64, zero_width=1_000)
_FIRST_COMPOUND_CODE = 0xC0  # the lowest constructor of non-empty lists, maps and arrays
_EMPTY_LIST_CODE = 0x45  # the constructor of the empty list
_DESCRIBED_CODE = 0x00
# An empty data section and a null amqp-value section, to complete a message that lacks a body.
_DATA_BODY, _VALUE_BODY = bytes.fromhex("005375a000"), bytes.fromhex("00537740")


@attrs.frozen
class ToBasicRules:
    """The rules of a profile, which the compiled engine copies when it is created.

    Attributes:
        section_conversion: ``lossless``; ``converted`` like in RabbitMQ 4; or ``kept whole`` as
            headers like in RabbitMQ 3.10.
        rows_before_headers: rows of fields whose losses are reported before the losses of
            application properties.
        rows_after_headers: rows of fields whose losses are reported after the losses of application
            properties.
        durable_by_default: see `BrokerVersion`.
        stream: see `BrokerVersion`.
        ulong_id_prefix: the prefix of a 0-9-1 id that represents a ulong.
        special_names: names of headers and keys of annotations with a special meaning, which the
            plain rules must translate in the lossless profile.
        broker_annotation_types: the annotations that RabbitMQ adds at delivery, and their types:
            long, string or array.
    """

    section_conversion: str
    rows_before_headers: Sequence[Row]
    rows_after_headers: Sequence[Row] = ()
    durable_by_default: bool = False
    stream: bool = False
    ulong_id_prefix: bytes = b""
    special_names: list[bytes] = SPECIAL_NAMES
    broker_annotation_types: Sequence[tuple[bytes, str]] = ()


def _make_rows(forms: dict[str, str]) -> tuple[Row, ...]:
    """Return a row for each field of `forms`, which maps names of fields to names of forms."""
    renamed = (
        {"group-id": _PROPERTY_INDEX_BY_NAME["app_id"]}
        if forms.get("group-id") == "renamed"
        else {}
    )
    targets = _PROPERTY_INDEX_BY_FIELD | renamed
    return tuple(
        (PROPERTY_NAMES.index(name), targets.get(name, -1), form) for name, form in forms.items()
    )


_LOSSLESS_PROFILE_ROWS = _make_rows(
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
_RABBITMQ_4_ID_ROWS = _make_rows({"message-id": "broker id", "correlation-id": "broker id"})
_RABBITMQ_3_10_ROWS = _make_rows(
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
    """Return the rules of a version of RabbitMQ; for None, the rules of the lossless profile."""
    if version is None:
        return ToBasicRules(
            "lossless",
            _LOSSLESS_PROFILE_ROWS,
            ulong_id_prefix=ULONG_ID_PREFIX.encode(),
            broker_annotation_types=_BROKER_ANNOTATION_TYPES,
        )
    if version.is_plugin:
        return ToBasicRules("kept whole", _RABBITMQ_3_10_ROWS, stream=version.stream)
    forms_after_headers = {
        "user-id": "login",
        "reply-to": "address" if version.queue_addresses else "text",
        "group-id": "renamed",
        "creation-time": "whole seconds",
        "content-type": "text",
        "content-encoding": "text",
        **dict.fromkeys(to_basic.LOST_PROPERTY_FIELDS, "dropped"),
    }
    return ToBasicRules(
        "converted",
        _RABBITMQ_4_ID_ROWS,
        _make_rows(forms_after_headers),
        version.durable_by_default,
        version.stream,
    )


# Cached because the same texts recur in many messages. A short string has at most 255 bytes, so an
# entry needs about 600 bytes with its overhead, and the whole cache at most 0.6 MB.
@functools.lru_cache(maxsize=1024)
def is_symbol(row: int, octets: bytes) -> bool:
    """Whether the field content-type or content-encoding of a data body can hold a text exactly.

    Args:
        row: the index in `ROWS`: 0 for the content-type, 1 for the content-encoding.
        octets: the text, as bytes.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    translated = ROWS[row].forward(text, True)
    return translated.target == "field" and translated.exact and shortstr(text)


#: The 0-9-1 header for a 1.0 value.
#:
#: - The name of the header; None if the value is dropped.
#: - The encoded field (type letter and value).
#: - The 1.0 value in its smallest encoding.
#: - Whether the header holds the value exactly.
#: - The losses.
PlainHeader: TypeAlias = tuple[bytes | None, bytes, bytes, bool, list[tuple[Any, ...]]]


class PlainValues:
    """The plain rules for single values that the compiled engine does not convert itself.

    Args:
        version: the version of RabbitMQ; None for the lossless profile.
    """

    is_symbol = staticmethod(is_symbol)
    update_header_for_delivery = staticmethod(update_header_for_delivery)
    update_annotations_for_delivery = staticmethod(update_annotations_for_delivery)
    reencode_body = staticmethod(reencode_body)

    def __init__(self, version: BrokerVersion | None) -> None:
        self._version = version
        self._is_plugin = version is not None and version.is_plugin

    def is_body(self, octets: bytes) -> bool:
        """Whether bytes are valid body sections."""
        try:
            Message.decode(octets, limits=_VALUE_LIMITS)
            if self._is_plugin:
                v3.split_message(octets)
        except (AmqpError, BrokerError):
            return False
        return True

    def lost_section_json(self, octets: bytes) -> tuple[bytes, int] | None:
        """Describe a section (delivery-annotations or footer) that is lost; None if it is invalid.

        Returns:
            The entries of the section as JSON, and their number.
        """
        try:
            message = Message.decode(octets, limits=_VALUE_LIMITS)
            if self._is_plugin:
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

    def convert_properties(self, octets: bytes, is_data: bool) -> tuple[Any, ...] | None:
        """Convert the properties section as in the lossless profile; None if it is invalid.

        Args:
            octets: the encoded section.
            is_data: whether the body is data.

        Returns:
            A list of 0-9-1 properties that are text, as pairs (index, text); the timestamp in
            seconds, or None; a list of fields for the residual, as pairs (index, encoded value);
            whether the residual needs the whole section; a list of the losses.
        """
        wire = octets + (_DATA_BODY if is_data else _VALUE_BODY)
        try:
            message = Message.decode(wire, limits=_VALUE_LIMITS)
        except AmqpError:
            return None
        draft, notes = BasicDraft(message, wire), Notes()
        properties: Any = message.properties
        set_properties(draft, properties, notes)
        carry_encodings(draft)
        seconds = draft.property_values.pop("timestamp", None)
        texts = [
            (_PROPERTY_INDEX_BY_NAME[name], text.encode("utf-8"))
            for name, text in draft.property_values.items()
        ]
        residual = draft.carried.get(SPARSE_PROPERTIES_KEY, {})
        is_whole = PROPERTIES_CODE in draft.carried
        return (
            texts,
            seconds,
            list(residual.items()),
            is_whole,
            list(map(_loss_members, notes.losses)),
        )

    def is_deliverable_body(self, octets: bytes) -> bool:
        """Whether a payload is amqp-sequence or amqp-value sections that RabbitMQ can deliver."""
        message = body_of(octets)
        if message is None or reencode_body(octets) is None:
            return False
        body = message.body
        return not isinstance(body[0] if isinstance(body, list) else body, Data)

    def is_only_in_residual(self, number: int, value: Any, is_data: bool) -> bool:
        """Whether only the residual of a 1.0 message can hold a 0-9-1 property.

        Args:
            number: the property's key in the residual.
            value: the property's value in the residual.
            is_data: whether the body is data.
        """
        row = _ROWS_BY_NUMBER.get(number)
        if row is None or not is_of_basic({number: value}):
            return False
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return row.forward(text, is_data).target == "residual"

    def encode_header_value(self, name: bytes, field: bytes) -> bytes | None:
        """Convert a header's encoded field to an encoded 1.0 value; None if 1.0 cannot hold it."""
        try:
            text = name.decode("utf-8")
            value, _ = header_value(text, *decode_field(field))
            return None if value is INEXPRESSIBLE else bytes(kernel.encode_value(value))
        except (AmqpError, UnicodeDecodeError):
            return None

    def is_representable(self, name: bytes, field: bytes) -> bool:
        """Whether a 1.0 message can hold a header, given its name and its encoded field."""
        text = name.decode("utf-8", "surrogateescape")
        if section_and_key(text) is None:
            return False
        return header_value(text, *decode_field(field))[0] is not INEXPRESSIBLE

    def former_ttl_losses(self, octets: bytes) -> list[tuple[Any, ...]] | None:
        """Return the losses that `report_former_ttl` reports; None if the bytes are invalid.

        Args:
            octets: the encoded value of the annotation ``x-opt-deaths``.
        """
        notes = Notes()
        try:
            report_former_ttl(kernel.decode_value(octets, limits=_VALUE_LIMITS), notes)
        except (AmqpError, ValueError, TypeError):
            return None
        return [_loss_members(loss) for loss in notes.losses]

    def lost_value_json(self, octets: bytes) -> bytes | None:
        """Decode a lost 1.0 value and return it as JSON; None if it cannot be decoded."""
        try:
            text = as_json(kernel.decode_value(octets, limits=_VALUE_LIMITS))
        except AmqpError:
            return None
        return None if text is None else text.encode()

    def convert_to_header(
        self, key: bytes, octets: bytes, is_annotation: bool, is_saved: bool = False
    ) -> PlainHeader | None:
        """Convert an annotation or application property to a header; None if it is invalid.

        Args:
            key: the key.
            octets: the encoded value.
            is_annotation: whether it is a message annotation.
            is_saved: whether the message has a residual from a translation of 0-9-1.
        """
        if not is_annotation and (
            octets[0] >= _FIRST_COMPOUND_CODE or octets[0] in (_EMPTY_LIST_CODE, _DESCRIBED_CODE)
        ):
            return None
        notes = Notes()
        try:
            value = kernel.decode_value(octets, limits=_VALUE_LIMITS)
            if self._version is None:
                header = _to_lossless_header(key, value, is_annotation, is_saved, notes)
            elif self._is_plugin:
                TermReader(self._version.codec, octets, 0).term()
                header = None, b"", True
            else:
                header = self._to_rabbitmq_header(key, octets, is_annotation, notes)
            wire = kernel.encode_value(value)
        except (AmqpError, BrokerError):
            return None
        name, field, is_exact = header
        return name, field, wire, is_exact, [_loss_members(loss) for loss in notes.losses]

    def _to_rabbitmq_header(
        self, key: bytes, octets: bytes, is_annotation: bool, notes: Notes
    ) -> tuple[bytes | None, bytes, bool]:
        version: Any = self._version
        term = TermReader(version.codec, octets, 0).term()
        if is_annotation:
            pairs = [(("symbol", key), term)]
            to_basic.check_routes(version, pairs)
            if version.stream:
                generate(("map", pairs))  # raises if the broker cannot write the annotation
            headers = to_basic.annotation_headers(version, pairs, notes)
        else:
            headers = to_basic.property_headers(version, [(("utf8", key), term)], notes)
        if not headers:
            return None, b"", True
        name, letter, value = headers[0]
        if letter == to_basic.UNWRITABLE_LETTER:
            raise value
        return name, encode_field(letter, value), True


def _to_lossless_header(
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


def _loss_members(loss: Loss) -> tuple[Any, ...]:
    """Return the attributes of a loss for the engine: UTF-8 texts, with the values as JSON."""
    before_json, after_json = as_json(loss.before), as_json(loss.after)
    return (
        loss.path.encode("utf-8", "backslashreplace"),
        loss.action.encode(),
        None if before_json is None else before_json.encode(),
        None if after_json is None else after_json.encode(),
        loss.reason.encode("utf-8", "backslashreplace"),
        loss.recoverable,
    )
