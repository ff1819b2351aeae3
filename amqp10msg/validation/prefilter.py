"""Which rules a message that decodes may break: nearly always none, which is soon said.

Decoding enforces the rules that are `Rule.refused`, and the others are about few places. What is
named here may be kept after all; what is not named is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from amqp10msg import _core
from amqp10msg._core.codes import KINDS, TYPE_NAMES
from amqp10msg.limits import Limits
from amqp10msg.primitives import AmqpMap, Symbol
from amqp10msg.sections import Data
from amqp10msg.validation.texts import is_free_key, is_mime_type, is_registered_coding

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
        message: Any = _core.Reader(data, 0, limits).message(_Decoded, 0)
    except _core.READ_FAULTS:
        return None
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
            # Also behind a reserved key, which is another rule's.
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
