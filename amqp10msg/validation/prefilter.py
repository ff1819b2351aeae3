"""Which rules a message that decodes may break: nearly always none, which is soon said.

Decoding enforces the rules that are `Rule.refused`, and the others are about few places. The tables
here say what is sound there; one message is held to them here, a batch of them in `columns`. A rule
that is named may be kept after all; one that is not named is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from amqp10msg.sections import BODY_KINDS, SPEC_OF
from amqp10msg.sections.parts import MessageMap
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import KINDS, TYPE_NAMES
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Symbol

# Texts that rules of Part 3 allow: MIME types, content codings, keys of annotations.

# A token holds no space and none of the separators, so that there is one way to match and the time
# is linear.
_TOKEN = r"[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]+"  # noqa: S105  (no password)
#: RFC 2045, 5.1: type "/" subtype \*(";" attribute "=" value).
MIME_TYPE = re.compile(
    rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|\"(?:[^\"\\\r\n]|\\.)*\"))*[ \t]*"
)
#: The HTTP Content Coding Registry of IANA, 2025.
CODINGS = frozenset(
    (
        "aes128gcm",
        "br",
        "compress",
        "dcb",
        "dcz",
        "deflate",
        "exi",
        "gzip",
        "identity",
        "pack200-gzip",
        "x-compress",
        "x-gzip",
        "zstd",
    )
)


def is_mime_type(text: str) -> bool:
    """Return whether a text is written like a MIME type."""
    return MIME_TYPE.fullmatch(text) is not None


def is_registered_coding(text: str) -> bool:
    """Return whether a text is one registered coding in its usual form that may be used."""
    return text in CODINGS and text not in ("identity", "compress", "x-compress")


def is_free_key(key: str, known: tuple[str, ...]) -> bool:
    """Return whether a symbol is not a reserved key of annotations, or one that a profile knows.

    Args:
        key: the symbol.
        known: keys that the profile knows; one that ends with ``*`` stands for all that begin so.
    """
    return key.startswith("x-") or any(
        key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern
        for pattern in known
    )


# What is sound.

#: Of a field of the properties that is set; and the rules that another value may break.
FIELDS: Final[dict[str, tuple[Callable[[Any], bool], tuple[str, ...]]]] = {
    # Texts repeat themselves from message to message.
    "content_type": (lru_cache(maxsize=256)(is_mime_type), ("content-type-not-mime",)),
    "content_encoding": (
        is_registered_coding,
        (
            "content-encoding-identity",
            "content-encoding-compress",
            "content-encoding-multiple",
            "content-encoding-unregistered",
        ),
    ),
    "user_id": (bool, ("rabbitmq-user-id-empty",)),
}
#: Of the kinds of body, None for no body, in messages that have one of these fields, or in all; and
#: the rules that another body may break.
BODIES: Final[tuple[tuple[frozenset[str | None], tuple[str, ...], tuple[str, ...]], ...]] = (
    (frozenset(kind.name for kind in BODY_KINDS), (), ("body-missing",)),
    (
        frozenset({"data", None}),
        ("content_type", "content_encoding"),
        ("content-type-without-data", "content-encoding-without-data"),
    ),
)
#: The sections of annotations, by attribute; and of their keys, given those that a profile knows,
#: by the rule that another key may break.
ANNOTATIONS: Final = {
    "delivery_annotations": "delivery-annotations",
    "message_annotations": "message-annotations",
    "footer": "footer",
}
KEYS: Final[dict[str, Callable[[str, tuple[str, ...]], bool]]] = {
    "delivery-annotations-rejected-type": lambda key, _: key != "rejected",
    "annotation-key-reserved": is_free_key,
}
#: The types of values that are not sound in these maps, and the rules that they may break.
TYPES: Final[tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...]] = (
    (
        ("list", "map", "array", "described"),
        ("delivery_annotations", "message_annotations", "application_properties"),
        ("rabbitmq-described-value", "rabbitmq-array-constructor"),
    ),
    (
        ("null", "float", "double", "decimal32", "decimal64", "decimal128"),
        ("message_annotations",),
        ("rabbitmq-annotation-null", "rabbitmq-annotation-number"),
    ),
)
#: Rules that decoding does not enforce and that are looked for here.
PREFILTERED: Final = frozenset(KEYS).union(
    *(rules for _, rules in FIELDS.values()),
    *(rules for _, _, rules in BODIES),
    *(rules for _, _, rules in TYPES),
)
# More sections are damage of another sort than one field's.
_MANY = 16
_BODY_NAMES: Final[dict[type, str]] = {kind.cls: kind.name for kind in BODY_KINDS}


def _classes(names: tuple[str, ...]) -> frozenset[type]:
    """The classes of decoded values of these types."""
    classes = {cls for cls, kind in KINDS.items() if TYPE_NAMES.get(kind) in names}
    return frozenset(classes | {AmqpMap} if "map" in names else classes)


# The same by section: the classes that are not sound in it, and the rules.
_VALUES: Final = [
    (attribute, [(_classes(types), rules) for types, held, rules in TYPES if attribute in held])
    for attribute in dict.fromkeys(attribute for _, held, _ in TYPES for attribute in held)
]


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
) -> set[str] | None:
    """Return the rules that a message may break, or None where any may be: it does not decode.

    Args:
        data: the encoded message, no larger than the limits allow.
        limits: what decoding may cost.
        known_keys: the reserved keys of annotations that a profile knows, by section.
    """
    try:
        message: Any = kernel.Reader(data, 0, limits).read_message(_Decoded, 0)
    except kernel.READ_FAULTS:
        return None
    return _of_sections(message, known_keys)


def narrow(view: MessageMap, known_keys: Mapping[str, tuple[str, ...]]) -> None:
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
    if _of_sections(message, known_keys) <= {"body-missing"}:
        # What the properties say must not be said of every body.
        view.doubtful = [
            section
            for section in view.sections
            if section.offset in damaged or (is_torn and section.kind.attribute == "properties")
        ]


def _of_sections(message: Any, known_keys: Mapping[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    given = []
    properties = message.properties
    if properties is not None:
        for name, (is_sound, rules) in FIELDS.items():
            value = getattr(properties, name)
            if value is not None:
                given.append(name)
                if not is_sound(value):
                    found.update(rules)
    body = message.body
    kind = None if body is None else _BODY_NAMES[type(body[0] if type(body) is list else body)]
    for kinds, fields, rules in BODIES:
        if kind not in kinds and (not fields or any(name in given for name in fields)):
            found.update(rules)
    for attribute, name in ANNOTATIONS.items():
        for key in getattr(message, attribute) or ():
            is_symbol = type(key) is Symbol
            if is_symbol and key.startswith("x-"):
                continue
            # A profile knows symbols only.
            known = known_keys.get(name, ()) if is_symbol else ()
            for rule, is_sound_key in KEYS.items():
                if rule not in found and not is_sound_key(str(key), known):
                    found.add(rule)
    for attribute, unsound in _VALUES:
        section = getattr(message, attribute)
        if section:
            types = set(map(type, section.values()))
            for classes, rules in unsound:
                if not classes.isdisjoint(types):
                    found.update(rules)
    return found
