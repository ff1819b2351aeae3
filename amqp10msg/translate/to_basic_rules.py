"""What the engine from 1.0 to 0-9-1 does for each profile, and what the plain rules tell it.

A `ToBasicRules` says what becomes of the sections, and has a row for each field of the properties.
The engine, which is compiled, reads it when it is made; the words of its forms stand there, too.
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
from amqp10msg.translate._delivery import ANNOTATIONS, HEADERS, tell_former_ttl
from amqp10msg.translate._headers import (
    INTERNAL,
    NOTHING,
    SECTIONS,
    header_value,
    place_of,
    property_name,
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
from amqp10msg.translate.rabbitmq.sections import decoded
from amqp10msg.translate.rabbitmq.terms import BrokerError, TermReader, generate, rewritten
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

#: A field of the properties, the number of its property or -1, and how one becomes the other.
Row: TypeAlias = tuple[int, int, str]

# The property that each field becomes.
_TARGETS = {
    row.field.replace("_", "-"): row.number - 1 for row in ROWS if row.section == "properties"
}
_BY_NUMBER = {row.number: row for row in ROWS}
_INDEXES = {row.name: row.number - 1 for row in ROWS}
#: Names of headers and keys of annotations that mean something to the translator or to brokers.
ODD_NAMES = [
    name.encode()
    for name in sorted({NAME, STREAM_FILTER_VALUE, *HEADERS, *ANNOTATIONS, *INTERNAL, *SECTIONS})
]
# The types of the annotations that RabbitMQ adds.
_KINDS = {int: "long", str: "string"}
_FACTS = [(key.encode(), _KINDS.get(kind, "array")) for key, kind in ANNOTATIONS.items()]
# What the plain rules are asked about is a single value of a message that no limit concerns.
_SINGLE = Limits(depth=64, zero_width=1_000)
_COMPOUND = 0xC0  # the least constructor of a list, map or array, but for the empty list
_LIST0 = 0x45
_DESCRIBED = 0x00
# A body beside properties: one of data, and one that is not.
_DATA, _VALUE = bytes.fromhex("005375a000"), bytes.fromhex("00537740")


@attrs.frozen
class ToBasicRules:
    """What the engine does with a message of 1.0.

    Attributes:
        way: ``lossless``; ``converted``, section by section; ``kept whole``, as headers.
        early: rows whose losses are told before those of the application properties.
        late: rows whose losses are told after them.
        durable_by_default: as `BrokerVersion` has it.
        stream: likewise.
        number_prefix: stands before an id that is a number.
        odd_names: names of headers, and keys, that the lossless profile treats otherwise.
        facts: the annotations that a delivery adds, and whether each is a long, string or array.
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
    """Return rows in this order."""
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
    """Return the engine's rules of a RabbitMQ version; None for the lossless profile."""
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


# Texts repeat themselves. A short string has at most 255 bytes: with what the cache takes for an
# entry of its own some 600 in all, so 0.6 MB.
@functools.lru_cache(maxsize=1024)
def is_symbol(row: int, octets: bytes) -> bool:
    """Whether the field of 1.0 holds this text, with a body of data.

    Args:
        row: of `ROWS`: 0 for the content-type, 1 for the content-encoding.
        octets: the text.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    place = ROWS[row].forward(text, True)
    return place.where == "field" and place.exact and shortstr(text)


#: What the plain rules make of a value: the name of the header, None where it is left out; letter
#: and value of the field; the value in its smallest encoding; whether the header says all; losses.
Said: TypeAlias = tuple[bytes | None, bytes, bytes, bool, list[tuple[Any, ...]]]


class PlainValues:
    """What the plain rules say of the values that the engine does not read.

    Args:
        version: of RabbitMQ, None for the lossless profile.
    """

    is_symbol = staticmethod(is_symbol)
    delivered_header = staticmethod(delivered_header)
    delivered_annotations = staticmethod(delivered_annotations)
    rewritten = staticmethod(rewritten)

    def __init__(self, version: BrokerVersion | None) -> None:
        self._version = version
        self._is_old = version is not None and version.is_plugin

    def is_body(self, octets: bytes) -> bool:
        """Whether these are body sections."""
        try:
            Message.decode(octets, limits=_SINGLE)
            if self._is_old:
                v3.assembled(octets)
        except (AmqpError, BrokerError):
            return False
        return True

    def section(self, octets: bytes) -> tuple[bytes, int] | None:
        """Return delivery-annotations or a footer as a loss tells them; None where they are odd.

        Returns:
            What is lost, as JSON, and how many keys are.
        """
        try:
            message = Message.decode(octets, limits=_SINGLE)
            if self._is_old:
                v3.assembled(octets)
            elif self._version is not None:
                name, pairs = decoded(TermReader(self._version.codec, octets, 0).term())
                told = pairs if name == "footer" else len(pairs)
                return str(as_json(told)).encode(), len(pairs)
        except (AmqpError, BrokerError):
            return None
        found = message.delivery_annotations if message.footer is None else message.footer
        lost: dict[Any, Any] = dict(found or {})
        return str(as_json(lost)).encode("utf-8", "backslashreplace"), len(lost)

    def properties(self, octets: bytes, is_data: bool) -> tuple[Any, ...] | None:
        """Return the properties of class basic without loss; None where they are odd.

        Args:
            octets: the section.
            is_data: whether the body is data.

        Returns:
            The texts, each with the number of its property; the seconds of the timestamp, None
            for none; encoded fields for the residual by their numbers; whether that has the whole
            section; the losses.
        """
        wire = octets + (_DATA if is_data else _VALUE)
        try:
            message = Message.decode(wire, limits=_SINGLE)
        except AmqpError:
            return None
        made, notes = BasicDraft(message, wire), Notes()
        properties: Any = message.properties
        set_properties(made, properties, notes)
        carry_encodings(made)
        seconds = made.given.pop("timestamp", None)
        texts = [(_INDEXES[name], text.encode("utf-8")) for name, text in made.given.items()]
        kept = made.carried.get(SPARSE_PROPERTIES, {})
        is_whole = PROPERTIES_CODE in made.carried
        return texts, seconds, list(kept.items()), is_whole, list(map(_told, notes.losses))

    def is_rewritten(self, octets: bytes) -> bool:
        """Whether a payload is body sections that are not data, and RabbitMQ can deliver them."""
        found = body_of(octets)
        if found is None or rewritten(octets) is None:
            return False
        body = found.body
        return not isinstance(body[0] if isinstance(body, list) else body, Data)

    def is_nowhere(self, number: int, value: Any, is_data: bool) -> bool:
        """Whether the residual alone holds a property, given its number and value there."""
        row = _BY_NUMBER.get(number)
        if row is None or not is_of_basic({number: value}):
            return False
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return row.forward(text, is_data).where == "residual"

    def value_of(self, name: bytes, field: bytes) -> bytes | None:
        """Return the value of a header in 1.0, encoded; None for a header that has none there."""
        try:
            text = name.decode("utf-8")
            value, _ = header_value(text, *decode_field(field))
            return None if value is NOTHING else bytes(kernel.encode_value(value))
        except (AmqpError, UnicodeDecodeError):
            return None

    def has_place(self, name: bytes, field: bytes) -> bool:
        """Whether a header stands in a message of 1.0, given its name, and letter and value."""
        text = name.decode("utf-8", "surrogateescape")
        if place_of(text) is None:
            return False
        return header_value(text, *decode_field(field))[0] is not NOTHING

    def former_ttl(self, octets: bytes) -> list[tuple[Any, ...]] | None:
        """Return the losses of a dead letter without ttl, given its deaths; None if odd."""
        notes = Notes()
        try:
            tell_former_ttl(kernel.decode_value(octets, limits=_SINGLE), notes)
        except (AmqpError, ValueError, TypeError):
            return None
        return [_told(loss) for loss in notes.losses]

    def told(self, octets: bytes) -> bytes | None:
        """Return a lost value as JSON; None where it cannot be read."""
        try:
            said = as_json(kernel.decode_value(octets, limits=_SINGLE))
        except AmqpError:
            return None
        return None if said is None else said.encode()

    def header(
        self, key: bytes, octets: bytes, is_annotation: bool, is_saved: bool = False
    ) -> Said | None:
        """Make the header of an annotation or application property; None where it is odd.

        Args:
            key: of it.
            octets: its value, encoded.
            is_annotation: whether it is a message annotation.
            is_saved: whether a residual from 0-9-1 stands beside it.
        """
        if not is_annotation and (octets[0] >= _COMPOUND or octets[0] in (_LIST0, _DESCRIBED)):
            return None
        notes = Notes()
        try:
            value = kernel.decode_value(octets, limits=_SINGLE)
            if self._version is None:
                found = _lossless_header(key, value, is_annotation, is_saved, notes)
            elif self._is_old:
                TermReader(self._version.codec, octets, 0).term()
                found = None, b"", True
            else:
                found = self._converted(key, octets, is_annotation, notes)
            wire = kernel.encode_value(value)
        except (AmqpError, BrokerError):
            return None
        name, field, is_exact = found
        return name, field, wire, is_exact, [_told(loss) for loss in notes.losses]

    def _converted(
        self, key: bytes, octets: bytes, is_annotation: bool, notes: Notes
    ) -> tuple[bytes | None, bytes, bool]:
        version: Any = self._version
        term = TermReader(version.codec, octets, 0).term()
        if is_annotation:
            pairs = [(("symbol", key), term)]
            to_basic.check_routes(version, pairs)
            if version.stream:
                generate(("map", pairs))  # or the publisher's session dies
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


def _told(loss: Loss) -> tuple[Any, ...]:
    """Return the members of a loss as the engine takes them."""
    before, after = as_json(loss.before), as_json(loss.after)
    return (
        loss.path.encode("utf-8", "backslashreplace"),
        loss.action.encode(),
        None if before is None else before.encode(),
        None if after is None else after.encode(),
        loss.reason.encode("utf-8", "backslashreplace"),
        loss.recoverable,
    )
