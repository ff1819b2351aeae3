"""The rules: the table that `validate` and the documentation read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import attrs

from amqp10msg.validation import _checks as check
from amqp10msg.validation._view import View


@attrs.frozen
class Rule:
    """One rule: a row of the table that `validate` and the documentation read.

    Attributes:
        id: its short stable name; `DecodeError.rule` has the same one where decoding refuses it.
        clause: the clause of the specification. A rule that several clauses share names them all,
            and a violation of it names the one that was broken.
        severity: ``error`` for MUST, MUST NOT and what a type's definition requires,
            ``warning`` for SHOULD and SHOULD NOT. A profile may change it.
        text: what must be.
        quote: the specification's own words, where they are a sentence.
        refused: strict decoding refuses what breaks it.
        structural: lenient decoding refuses it too, because it is about the encodings.
        check: finds what breaks it; None where that shows when the message is read or encoded.
    """

    id: str
    clause: str
    severity: str
    text: str
    quote: str = ""
    refused: bool = False
    structural: bool = False
    check: Callable[[View], Iterator[check.Found]] | None = attrs.field(
        default=None, repr=False, eq=False
    )


def _structural(name: str, clause: str, text: str, quote: str = "") -> Rule:
    return Rule(name, clause, "error", text, quote, refused=True, structural=True)


_LIMIT = "Part 2, 2.8.15"
_SECTIONS = "Altogether a message consists of the following sections"
_ANNOTATION_KEYS = (
    "The annotations type is a map where the keys are restricted to be of type symbol or of type "
    "ulong."
)
_ROWS = (
    # The encodings of Part 1: what the kernel refuses, under the kernel's names.
    _structural(
        "truncated", "Part 1, 1.2", "A value has as many octets as its size or type requires."
    ),
    _structural(
        "unknown-constructor", "Part 1, 1.2", "A value begins with a format code of Part 1, 1.6."
    ),
    _structural(
        "compound-size-too-small",
        "Part 1, 1.2.3, 1.2.4",
        "The size of a list, map or array covers its count, and an array's its constructor.",
    ),
    _structural(
        "count-exceeds-size",
        "Part 1, 1.2.3, 1.2.4",
        "The values that a list, map or array counts fit into its size.",
    ),
    _structural(
        "element-overruns-compound",
        "Part 1, 1.2.3, 1.2.4",
        "A value ends before the list, map or array that it is in.",
    ),
    _structural(
        "compound-trailing-bytes",
        "Part 1, 1.2.3, 1.2.4",
        "Nothing follows the last value that a list, map or array counts.",
    ),
    _structural(
        "boolean-octet-not-0-or-1", "Part 1, 1.6.2", "The octet of a boolean is 0x00 or 0x01."
    ),
    _structural(
        "char-not-a-unicode-scalar",
        "Part 1, 1.6.16",
        "A char is a Unicode code point that is not a surrogate.",
    ),
    _structural("invalid-utf8", "Part 1, 1.6.20", "A string is UTF-8."),
    _structural("symbol-not-ascii", "Part 1, 1.6.21", "A symbol is ASCII."),
    _structural("map-odd-count", "Part 1, 1.6.23", "A map has a value for every key."),
    _structural("map-duplicate-key", "Part 1, 1.6.23", "A map has every key once."),
    _structural("depth-limit", _LIMIT, "Values are nested no deeper than Limits.depth."),
    _structural("items-limit", _LIMIT, "The message holds no more values than Limits.items."),
    _structural(
        "zero-width-limit",
        _LIMIT,
        "Arrays hold no more elements without octets than Limits.zero_width.",
    ),
    # Lenient decoding keeps such a map as a value, and so does a body.
    Rule(
        "keys-limit",
        _LIMIT,
        "error",
        "A section of annotations has no more ulong keys than a dict takes from strangers: 4,096.",
        refused=True,
    ),
    _structural("size-limit", _LIMIT, "The message has no more octets than Limits.size."),
    # The sections.
    Rule(
        "not-a-section",
        "Part 3, 3.2",
        "error",
        "A message is a sequence of sections, which are described values.",
        _SECTIONS,
        refused=True,
        check=partial(check.strangers, described=False),
    ),
    Rule(
        "unknown-section",
        "Part 3, 3.2",
        "error",
        "A section has one of the nine descriptors, 0x70 to 0x78.",
        _SECTIONS,
        refused=True,
        check=partial(check.strangers, described=True),
    ),
    Rule(
        "section-out-of-order",
        "Part 3, 3.2",
        "error",
        "Sections are in order, from the header to the footer.",
        _SECTIONS,
        refused=True,
        check=partial(check.misplaced, rule="section-out-of-order"),
    ),
    Rule(
        "duplicate-section",
        "Part 3, 3.2",
        "error",
        "A message has one section of a kind, except several data or amqp-sequence.",
        _SECTIONS,
        refused=True,
        check=partial(check.misplaced, rule="duplicate-section"),
    ),
    Rule(
        "mixed-body-sections",
        "Part 3, 3.2",
        "error",
        "The body is data, amqp-sequence or amqp-value, and not two of them.",
        _SECTIONS,
        refused=True,
        check=partial(check.misplaced, rule="mixed-body-sections"),
    ),
    Rule(
        "body-missing",
        "Part 3, 3.2",
        "error",
        "A message has a body: data, amqp-sequence or amqp-value.",
        "The bare message consists of three sections: standard properties, application-properties, "
        "and application-data (the body).",
        check=check.body_missing,
    ),
    Rule(
        "section-value-type",
        "Part 3, 3.2.1 to 3.2.9",
        "error",
        "A section's value is of the type that its descriptor names.",
        refused=True,
        check=check.section_value_type,
    ),
    # Header and properties.
    Rule(
        "too-many-fields",
        "Part 3, 3.2.1, 3.2.4",
        "error",
        "Header and properties have no more fields than are defined: 5 and 13.",
        refused=True,
        check=check.too_many_fields,
    ),
    Rule(
        "field-type",
        "Part 3, 3.2.1, 3.2.4, 3.2.11 to 3.2.15",
        "error",
        "A field is null or of its type; a message-id is ulong, uuid, binary or string, an address "
        "is a string.",
        refused=True,
        check=check.field_type,
    ),
    Rule(
        "delivery-annotations-rejected-type",
        "Part 3, 3.2.2",
        "error",
        "The value of the delivery annotation rejected is an error (Part 2, 2.8.14).",
        'Any values associated with the "rejected" key MUST be of type error.',
        check=check.rejected_type,
    ),
    Rule(
        "content-type-not-mime",
        "Part 3, 3.2.4",
        "warning",
        "The content-type is a MIME type, such as text/plain; one that is not known is left out.",
        "For clarity, as per section 7.2.1 of RFC-2616 [RFC2616], where the content type is "
        "unknown the content-type SHOULD NOT be set.",
        check=check.content_type_not_mime,
    ),
    Rule(
        "content-type-without-data",
        "Part 3, 3.2.4",
        "warning",
        "The content-type is set only if the body is data.",
        "When using an application-data section with a section code other than data, content-type "
        "SHOULD NOT be set.",
        check=partial(check.without_data, field="content-type"),
    ),
    Rule(
        "content-encoding-without-data",
        "Part 3, 3.2.4",
        "error",
        "The content-encoding is set only if the body is data.",
        "The content-encoding MUST NOT be set when the application-data section is other than "
        "data.",
        check=partial(check.without_data, field="content-encoding"),
    ),
    Rule(
        "content-encoding-identity",
        "Part 3, 3.2.4",
        "error",
        "The content-encoding is not identity: leave it out.",
        "Implementations MUST NOT use the identity encoding.",
        check=check.content_encoding_identity,
    ),
    Rule(
        "content-encoding-compress",
        "Part 3, 3.2.4",
        "warning",
        "The content-encoding is not compress.",
        "Implementations SHOULD NOT use the compress encoding, except as to remain compatible with "
        "messages originally sent with other protocols, e.g. HTTP or SMTP.",
        check=check.content_encoding_compress,
    ),
    Rule(
        "content-encoding-multiple",
        "Part 3, 3.2.4",
        "warning",
        "There is one content-encoding.",
        "Implementations SHOULD NOT specify multiple content-encoding values except as to be "
        "compatible with messages originally sent with other protocols, e.g. HTTP or SMTP.",
        check=check.content_encoding_multiple,
    ),
    Rule(
        "content-encoding-unregistered",
        "Part 3, 3.2.4",
        "warning",
        "The content-encoding is registered at IANA, such as gzip.",
        "Valid content-encodings are registered at IANA [IANAHTTPPARAMS].",
        check=check.content_encoding_unregistered,
    ),
    # Application properties.
    Rule(
        "application-properties-key-type",
        "Part 3, 3.2.5",
        "error",
        "The key of an application property is a string.",
        "The keys of this map are restricted to be of type string (which excludes the possibility "
        "of a null key) and the values are restricted to be of simple types only, that is, "
        "excluding map, list, and array types.",
        refused=True,
        check=partial(check.key_type, section="application-properties"),
    ),
    Rule(
        "application-properties-value-not-simple",
        "Part 3, 3.2.5",
        "error",
        "The value of an application property is of a simple type, also where it is described.",
        "The keys of this map are restricted to be of type string (which excludes the possibility "
        "of a null key) and the values are restricted to be of simple types only, that is, "
        "excluding map, list, and array types.",
        refused=True,
        check=check.value_not_simple,
    ),
    # Annotations.
    *(
        Rule(
            f"{section}-key-type",
            "Part 3, 3.2.10",
            "error",
            f"A key of the {section} is a symbol or a ulong.",
            _ANNOTATION_KEYS,
            refused=True,
            check=partial(check.key_type, section=section),
        )
        for section in check.ANNOTATIONS
    ),
    # A reserved key is the specification's to give out. Whether one was given out since cannot be
    # told from the message, and the clause says MUST only to receivers that do not know the key:
    # so an encoded message is suspect, not wrong.
    Rule(
        "annotation-key-reserved",
        "Part 3, 3.2.10",
        "warning",
        "An annotation's key is a symbol that begins with x-, unless a specification defines it.",
        'All ulong keys, and all symbolic keys except those beginning with "x-" are reserved.',
        check=check.key_reserved,
    ),
    # What a Message has and its octets do not.
    Rule(
        "message-format",
        "Part 3, 3.2.16",
        "warning",
        "The message-format of a message that follows Part 3 is 0.",
        "This value goes into the message-format field of the transfer frame when transferring "
        "messages of the format defined herein.",
    ),
    Rule(
        "not-encodable",
        "Part 3, 3.2",
        "error",
        "Every value of a message can be encoded as what it is declared to be.",
    ),
    # What RabbitMQ 4 makes of messages that the specification allows, seen with 4.0.5 and 4.3.6.
    Rule(
        "rabbitmq-described-value",
        "RabbitMQ 4",
        "error",
        "No annotation or application property is a described value, except an error.",
        check=check.rabbitmq_described_value,
    ),
    Rule(
        "rabbitmq-array-constructor",
        "RabbitMQ 4",
        "error",
        "The elements of an array before the body are not in a short form of an integer, list, map "
        "or array, and no decimals.",
        check=check.rabbitmq_array_constructor,
    ),
    Rule(
        "rabbitmq-annotation-null",
        "RabbitMQ 4",
        "error",
        "No message annotation is null: streams refuse the message, queues cannot deliver it.",
        check=check.rabbitmq_annotation_null,
    ),
    Rule(
        "rabbitmq-annotation-number",
        "RabbitMQ 4",
        "warning",
        "No message annotation is a decimal, infinite or NaN: streams of 4.0 refuse the message, "
        "queues cannot deliver it.",
        check=check.rabbitmq_annotation_number,
    ),
    Rule(
        "rabbitmq-user-id-empty",
        "RabbitMQ 4",
        "error",
        "The user-id is the name of the user of the connection, or left out.",
        check=check.rabbitmq_user_id_empty,
    ),
)

#: Every rule by its name, in the order of the clauses.
RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _ROWS})
