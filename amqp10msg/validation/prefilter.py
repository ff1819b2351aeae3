"""Which rules a message that decodes may break: nearly always none, which is soon said.

Decoding enforces the rules that are `Rule.refused`, and the others are about few places. What is
named here may be kept after all; what is not named is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from amqp10msg.sections import SPEC_OF, Data
from amqp10msg.validation._view import View
from amqp10msg.validation.texts import is_free_key, is_mime_type, is_registered_coding
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import KINDS, TYPE_NAMES
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Symbol

#: The types of values that the rules of RabbitMQ are about, in all maps before the body and in the
#: message annotations alone.
NESTED: Final = ("list", "map", "array", "described")
UNSENT: Final = ("null", "float", "double", "decimal32", "decimal64", "decimal128")

_CODING: Final = (
    "content-encoding-identity",
    "content-encoding-compress",
    "content-encoding-multiple",
    "content-encoding-unregistered",
)
#: Rules that decoding does not enforce and that are looked for here.
PREFILTERED: Final = frozenset(
    {
        *_CODING,
        "body-missing",
        "delivery-annotations-rejected-type",
        "content-type-not-mime",
        "content-type-without-data",
        "content-encoding-without-data",
        "annotation-key-reserved",
        "rabbitmq-described-value",
        "rabbitmq-array-constructor",
        "rabbitmq-annotation-null",
        "rabbitmq-annotation-number",
        "rabbitmq-user-id-empty",
    }
)
# More sections are damage of another sort than one field's.
_MANY = 16
# Texts repeat themselves from message to message.
_is_mime_type = lru_cache(maxsize=256)(is_mime_type)


def _classes(names: tuple[str, ...]) -> frozenset[type]:
    """Return the classes of decoded values of these types."""
    return frozenset(cls for cls, kind in KINDS.items() if TYPE_NAMES.get(kind) in names)


_NESTED = _classes(NESTED) | {AmqpMap}
_UNSENT = _classes(UNSENT)


class _Decoded:
    """What the kernel fills with the sections of a message."""

    __slots__ = (
        "_lenient",
        "_wire",
        "application_properties",
        "body",
        "delivery_annotations",
        "footer",
        "header",
        "message_annotations",
        "message_format",
        "properties",
    )
    body: Any


def suspected(
    data: bytes, limits: Limits, known_keys: Mapping[str, tuple[str, ...]]
) -> list[str] | None:
    """Return the rules that a message may break, or None where any may be: it does not decode.

    Args:
        data: the encoded message, no larger than the limits allow.
        limits: what decoding may cost.
        known_keys: the reserved keys of annotations that a profile knows, by section.
    """
    try:
        message: Any = kernel.Reader(data, 0, limits).message(_Decoded, 0)
    except kernel.READ_FAULTS:
        return None
    return _of_sections(message, known_keys)


def narrow(view: View, known_keys: Mapping[str, tuple[str, ...]]) -> None:
    """Find the sections of a message that does not decode whose contents may break rules.

    Args:
        view: the message; gets `doubtful` where not all of its sections are.
        known_keys: the reserved keys of annotations that a profile knows, by section.
    """
    if len(view.sections) > _MANY:
        return
    message = _Decoded()
    for name in _Decoded.__slots__:
        setattr(message, name, None)
    body: list[Any] = []
    damaged = set()
    is_torn = False  # a body is among them
    # One reader, so that the limits hold for all of them.
    reader = kernel.Reader(view.data, 0, view.limits)
    for section in view.sections:
        attribute = section.kind.attribute
        reader.pos = section.content
        reader.end = section.end
        reader.depth = view.limits.depth
        try:
            value = reader.section(SPEC_OF[section.kind.code])
        except kernel.READ_FAULTS:
            value = None
        if value is None or reader.pos != section.end:
            damaged.add(section.offset)
            is_torn = is_torn or attribute == "body"
        elif attribute == "body":
            body.append(value)
        elif getattr(message, attribute) is None:
            setattr(message, attribute, value)
        else:
            return
    if len(set(map(type, body))) > 1:
        return
    message.body = body or None
    # The body is missing or not, whatever the others say.
    if set(_of_sections(message, known_keys)) <= {"body-missing"}:
        # What the properties say must not be said of every body.
        view.doubtful = [
            section
            for section in view.sections
            if section.offset in damaged or (is_torn and section.kind.attribute == "properties")
        ]


def _of_sections(message: Any, known_keys: Mapping[str, tuple[str, ...]]) -> list[str]:
    found: list[str] = []
    body = message.body
    if body is None:
        found.append("body-missing")
    properties = message.properties
    if properties is not None:
        found += _of_properties(properties, body)
    for name, section in (
        ("delivery-annotations", message.delivery_annotations),
        ("message-annotations", message.message_annotations),
        ("footer", message.footer),
    ):
        if section is None:
            continue
        is_reserved = False
        for key in section:
            if type(key) is Symbol and key.startswith("x-"):
                continue
            # Also after a reserved key, which is another rule's.
            if key == "rejected":
                found.append("delivery-annotations-rejected-type")
            if is_reserved:
                continue
            if type(key) is not Symbol or not is_free_key(key, known_keys.get(name, ())):
                found.append("annotation-key-reserved")
                is_reserved = True
    annotations = message.message_annotations
    for section in (message.delivery_annotations, annotations, message.application_properties):
        if section is None:
            continue
        types = set(map(type, section.values()))
        if not _NESTED.isdisjoint(types):
            found += ("rabbitmq-described-value", "rabbitmq-array-constructor")
        if section is annotations and not _UNSENT.isdisjoint(types):
            found += ("rabbitmq-annotation-null", "rabbitmq-annotation-number")
    return found


def _of_properties(properties: Any, body: Any) -> Iterator[str]:
    kind, coding = properties.content_type, properties.content_encoding
    if kind is not None and not _is_mime_type(kind):
        yield "content-type-not-mime"
    if coding is not None and not is_registered_coding(coding):
        yield from _CODING
    if (kind is not None or coding is not None) and body is not None:
        first = body[0] if type(body) is list else body
        if type(first) is not Data:
            yield "content-type-without-data"
            yield "content-encoding-without-data"
    if properties.user_id == b"":
        yield "rabbitmq-user-id-empty"
