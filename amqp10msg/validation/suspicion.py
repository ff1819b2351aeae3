"""Suspicions: cheap tests that show which rules a message cannot violate.

Nearly all messages decode and violate no rule, so running every check on every message would be
slow. A `Rule` may therefore have a suspicion: a condition on the decoded sections that is true for
every message that violates the rule. The check runs only on messages for which the condition is
true. The condition may also be true for a valid message: then the check finds no violation.

A rule without a suspicion is checked on every message, which is always correct, but slower.

`validation.prefilter` tests one message, `columns` tests a batch; both read these declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import attrs

from amqp10msg.sections import BODY_KINDS
from amqp10msg.wire.errors import expect

# Tests of MIME types, content codings and annotation keys.

# The pattern of a token, which excludes spaces and separators. Therefore a text can match in only
# one way, so that matching takes linear time.
_MIME_TOKEN = r"[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]+"  # noqa: S105  (no password)
#: A content-type according to RFC 2045, 5.1: type "/" subtype \*(";" attribute "=" value).
MIME_TYPE_PATTERN = re.compile(
    rf"{_MIME_TOKEN}/{_MIME_TOKEN}"
    rf"(?:[ \t]*;[ \t]*{_MIME_TOKEN}=(?:{_MIME_TOKEN}|\"(?:[^\"\\\r\n]|\\.)*\"))*[ \t]*"
)
#: The content codings in IANA's HTTP Content Coding Registry of 2025.
REGISTERED_CODINGS = frozenset(
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


@lru_cache(maxsize=256)  # messages use few different content types
def is_mime_type(text: str) -> bool:
    """Whether `text` has the form of a MIME type, such as ``text/plain; charset=utf-8``."""
    return MIME_TYPE_PATTERN.fullmatch(text) is not None


def is_registered_coding(text: str) -> bool:
    """Whether `text` is a single registered content coding in lower case that senders may use."""
    return text in REGISTERED_CODINGS and text not in ("identity", "compress", "x-compress")


def is_free_key(key: str, reserved_keys: tuple[str, ...]) -> bool:
    """Whether a symbolic annotation key begins with ``x-``, or the profile defines it.

    Args:
        key: the annotation key.
        reserved_keys: the reserved keys that the profile defines; ``*`` at the end of a key matches
            any characters.
    """
    expect(key, str, "the key of is_free_key", "a str")
    if key.startswith("x-") or key in reserved_keys:
        return True
    for pattern in reserved_keys:  # noqa: SIM110  (a generator takes longer than all patterns)
        if pattern.endswith("*") and key.startswith(pattern[:-1]):
            return True
    return False


def is_not_rejected(key: str, reserved_keys: tuple[str, ...]) -> bool:  # noqa: ARG001  (as in AnnotationKey)
    """Whether an annotation key is not ``rejected``, the key whose value must be an error."""
    return key != "rejected"


# The classes of suspicions, and the constants for their arguments.

#: The fields of the properties that `FieldValue` can test. The columns of a batch represent the
#: other fields differently from a message.
TESTABLE_FIELDS: Final = frozenset(
    (
        "user_id",
        "subject",
        "content_type",
        "content_encoding",
        "group_id",
        "reply_to_group_id",
    )
)
#: All kinds of body that a message can have.
ANY_BODY: Final[frozenset[str | None]] = frozenset(kind.name for kind in BODY_KINDS)
#: The kinds of body that allow a content-type; None means a message without a body.
DATA_OR_NO_BODY: Final[frozenset[str | None]] = frozenset({"data", None})
#: The sections whose keys `AnnotationKey` tests: their wire names by attribute of `Message`.
ANNOTATION_SECTION_NAMES: Final = {
    "delivery_annotations": "delivery-annotations",
    "message_annotations": "message-annotations",
    "footer": "footer",
}


def _check_testable(_: object, __: object, field: str) -> None:
    """Raise ValueError if suspicions cannot test a field; an attrs validator."""
    if field not in TESTABLE_FIELDS:
        raise ValueError(
            f"a suspicion cannot test the field {field!r}: use one of "
            f"{', '.join(sorted(TESTABLE_FIELDS))}, or leave the rule without a suspicion"
        )


@attrs.frozen
class FieldValue:
    """A suspicion: one field of the properties has an unusual value.

    Attributes:
        field: the field's Python name, from `TESTABLE_FIELDS`.
        is_usual: returns True only for values that satisfy the rule. The value is a str, or bytes
            for ``user_id``; null is always usual.
    """

    field: str = attrs.field(validator=_check_testable)
    is_usual: Callable[[Any], bool]


@attrs.frozen
class BodyKind:
    """A suspicion: the message has an unusual kind of body.

    Attributes:
        usual: the kinds of body that satisfy the rule: wire names such as ``data``, or None for a
            missing body.
        fields: Python names of fields of the properties: only messages that set such a field are
            suspected. Empty for all messages.
    """

    usual: frozenset[str | None]
    fields: tuple[str, ...] = ()


@attrs.frozen
class AnnotationKey:
    """A suspicion: an annotation section or the footer has an unusual key.

    Keys that begin with ``x-`` are always usual.

    Attributes:
        is_usual: returns True only for keys that satisfy the rule. The arguments are the key (a
            ulong in decimal digits) and the reserved keys that the profile defines for the section.
    """

    is_usual: Callable[[str, tuple[str, ...]], bool]


@attrs.frozen
class ValueType:
    """A suspicion: a map section has a value of an unusual type.

    Attributes:
        types: names of AMQP types, or ``described``.
        sections: attributes of `Message`: ``delivery_annotations``, ``message_annotations`` or
            ``application_properties``.
    """

    types: tuple[str, ...]
    sections: tuple[str, ...]


@attrs.frozen
class AnnotationType:
    """A suspicion: the value of a message annotation in `keys` has an unusual type.

    Attributes:
        keys: the annotation keys, which are symbols.
        usual: names of the AMQP types that satisfy the rule.
    """

    keys: tuple[str, ...]
    usual: tuple[str, ...]


#: A condition that is true for every decodable message that violates a rule.
Suspicion: TypeAlias = FieldValue | BodyKind | AnnotationKey | ValueType | AnnotationType
