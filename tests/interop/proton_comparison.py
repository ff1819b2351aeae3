"""Comparing messages by proton's own accessors and by proton's own encoder."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Header,
    Message,
    Properties,
    decode_value,
)
from amqp10msg.sections import KINDS
from amqp10msg.wire.primitives import identical

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

IDS = {"message_id", "correlation_id"}
#: Fields with another name in proton.Message.
NAMES = {"message_id": "id", "to": "address", "absolute_expiry_time": "expiry_time"}
#: Fields that proton's accessors return in another form.
FORMS: dict[str, Any] = {
    **dict.fromkeys(
        ("ttl", "absolute_expiry_time", "creation_time"), lambda ms: float(ms or 0) / 1000
    ),
    # An absent symbol is the text "None".
    **dict.fromkeys(("content_type", "content_encoding"), str),
    "user_id": lambda octets: octets or b"",
    "group_sequence": lambda number: int(number or 0),
}


def is_same_value(ours: Any, theirs: Any) -> bool:
    """Whether proton encodes its Python value with the AMQP type and content of ours."""
    data = proton.Data()
    data.put_object(theirs)
    value = dict(ours) if isinstance(ours, dict) else ours  # a map section has a class of its own
    return identical(value, decode_value(bytes(data.encode())))


def disagreements(message: Message, theirs: Any) -> list[str]:
    """Name the fields and sections that proton's accessors show otherwise."""
    different = []
    for fields in (message.header or Header(), message.properties or Properties()):
        for name in attrs.asdict(fields):
            ours, shown = getattr(fields, name), getattr(theirs, NAMES.get(name, name))
            if name in IDS:
                # Proton returns the ulong of an id as an int.
                agrees = is_same_value(ours, proton.ulong(shown) if type(shown) is int else shown)
            else:
                expected = FORMS[name](ours) if name in FORMS else ours
                agrees = expected == shown and isinstance(shown, type(expected))
            different += [] if agrees else [name]
    body = message.body
    content = body.data if isinstance(body, Data) else getattr(body, "values", None)
    for name, value in {
        "instructions": message.delivery_annotations,
        "annotations": message.message_annotations,
        "properties": message.application_properties,
        "inferred": isinstance(body, (Data, AmqpSequence)),
        "body": body.value if isinstance(body, AmqpValue) else content,
    }.items():
        different += [] if is_same_value(value, getattr(theirs, name)) else [name]
    return different


def same_message(message: Message, other: Message) -> bool:
    """Compare by value and AMQP type; encodings, also of arrays, are free."""
    return identical(as_values(message), as_values(other))


def as_values(message: Message) -> list[Any]:
    """Return the content of a message; an empty header or properties are like absent ones."""
    sections = [getattr(message, kind.attribute) for kind in KINDS]
    return [section_values(None if s in (Header(), Properties()) else s) for s in sections]


def section_values(section: Any) -> Any:
    if isinstance(section, list):
        return [section_values(part) for part in section]
    if isinstance(section, (Data, AmqpSequence, AmqpValue, Header, Properties)):
        fields = attrs.fields(type(section))
        return [type(section).__name__, *(getattr(section, field.name) for field in fields)]
    return section


def decoded_by_proton(octets: bytes) -> Any:
    theirs = proton.Message()
    theirs.decode(octets)
    return theirs


def is_kept_by_proton(message: Message, octets: bytes) -> bool:
    """Whether proton decodes and encodes the message without loss."""
    try:
        again = Message.decode(bytes(decoded_by_proton(octets).encode()), strict=False)
    except (proton.ProtonException, DecodeError, TypeError, ValueError):
        # TypeError and ValueError: keys that Python cannot hash, text that it cannot decode.
        return False
    # Proton's attributes return texts, except those of ids, up to the first NUL.
    texts = attrs.asdict(
        message.properties or Properties(), filter=lambda field, _: field.name not in IDS
    )
    return same_message(message, again) and "\0" not in "".join(map(str, texts.values()))
