"""Suspicions: cheap tests that show which rules a message cannot have broken.

Nearly all messages decode and break no rule, so running every check on every message would be slow.
A `Rule` may therefore carry a suspicion: a condition on the decoded sections that holds for every
message that breaks the rule. The check runs only on messages for which the condition holds. The
condition may also hold for a message that keeps the rule, because the check has the last word.

A rule without a suspicion is checked on every message. That is always correct, and slower.

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

# Texts that Part 3 allows: MIME types, content codings, annotation keys.

# A token contains neither spaces nor separators. So there is only one way to match a text, and
# matching takes linear time.
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


@lru_cache(maxsize=256)  # the same few content types occur in message after message
def is_mime_type(text: str) -> bool:
    """Whether `text` has the form of a MIME type, such as ``text/plain; charset=utf-8``."""
    return MIME_TYPE.fullmatch(text) is not None


def is_registered_coding(text: str) -> bool:
    """Whether `text` is one registered content coding, in lower case, that senders may use."""
    return text in CODINGS and text not in ("identity", "compress", "x-compress")


def is_free_key(key: str, known: tuple[str, ...]) -> bool:
    """Whether a symbolic annotation key may be used by anyone, or is known to the profile.

    Args:
        key: the annotation key.
        known: keys that the profile knows; ``iothub-*`` stands for all keys that begin ``iothub-``.
    """
    expect(key, str, "the key of is_free_key", "a str")
    return key.startswith("x-") or any(
        key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern
        for pattern in known
    )


def is_not_rejected(key: str, known: tuple[str, ...]) -> bool:  # noqa: ARG001  (as in AnnotationKey)
    """Whether an annotation key differs from ``rejected``, whose value must be an error."""
    return key != "rejected"


# The declarations.

#: The fields of the properties that `FieldValue` can test. A batch holds the others, whose types
#: vary or are not texts, in a different form than a message does.
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
#: The kinds of body, and of a body that is data or missing; None stands for a missing body.
ANY_BODY: Final[frozenset[str | None]] = frozenset(kind.name for kind in BODY_KINDS)
DATA_OR_NO_BODY: Final[frozenset[str | None]] = frozenset({"data", None})
#: The sections whose keys `AnnotationKey` tests: wire names by attribute of `Message`.
ANNOTATIONS: Final = {
    "delivery_annotations": "delivery-annotations",
    "message_annotations": "message-annotations",
    "footer": "footer",
}


def _testable(_: object, __: object, field: str) -> None:
    if field not in TESTABLE_FIELDS:
        raise ValueError(
            f"a suspicion cannot test the field {field!r}: use one of "
            f"{', '.join(sorted(TESTABLE_FIELDS))}, or leave the rule without a suspicion"
        )


@attrs.frozen
class FieldValue:
    """Suspect messages whose properties have an unusual value in one field.

    Attributes:
        field: the field, by its name in Python, one of `TESTABLE_FIELDS`.
        is_usual: whether a value (str, or bytes of ``user_id``) keeps the rule for certain. Null is
            not tested: it always counts as usual.
    """

    field: str = attrs.field(validator=_testable)
    is_usual: Callable[[Any], bool]


@attrs.frozen
class BodyKind:
    """Suspect messages with an unusual kind of body.

    Attributes:
        usual: the kinds of body that keep the rule: wire names such as ``data``; None stands for a
            missing body.
        fields: test only messages that set one of these fields of the properties, by their names in
            Python; all messages where empty.
    """

    usual: frozenset[str | None]
    fields: tuple[str, ...] = ()


@attrs.frozen
class AnnotationKey:
    """Suspect messages with an unusual annotation key, in any of the three annotation sections.

    Keys that begin with ``x-`` are always usual.

    Attributes:
        is_usual: whether a key keeps the rule for certain. Gets the key (a ulong in decimal) and
            the reserved keys of this section that the profile knows.
    """

    is_usual: Callable[[str, tuple[str, ...]], bool]


@attrs.frozen
class ValueType:
    """Suspect messages that have values of some types in a map section.

    Attributes:
        types: names of AMQP types, or ``described``.
        sections: attributes of `Message`: ``delivery_annotations``, ``message_annotations`` or
            ``application_properties``.
    """

    types: tuple[str, ...]
    sections: tuple[str, ...]


@attrs.frozen
class AnnotationType:
    """Suspect messages in which some message annotations have an unusual type.

    Attributes:
        keys: the annotation keys, symbols.
        usual: names of the AMQP types that keep the rule.
    """

    keys: tuple[str, ...]
    usual: tuple[str, ...]


#: A condition that holds for every decodable message that breaks a rule.
Suspicion: TypeAlias = FieldValue | BodyKind | AnnotationKey | ValueType | AnnotationType
