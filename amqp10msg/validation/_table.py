"""The rules of Part 3, 3.2, and the requirements of Part 3 that an encoded message cannot show.

To add a rule, add one `Rule` to `_ALL_RULES`, with a check from `validation._checks` or a new one.
`validate`, the profiles, both prefilters and the documentation read this table.
"""

from __future__ import annotations

from functools import partial

from amqp10msg.brokers import ByName, by_attribute
from amqp10msg.validation import _checks as checks
from amqp10msg.validation.rules import Obligation, Rule, obligations_of
from amqp10msg.validation.suspicion import (
    ANY_BODY,
    DATA_OR_NO_BODY,
    AnnotationKey,
    AnnotationType,
    BodyKind,
    FieldValue,
    ValueType,
    is_free_key,
    is_mime_type,
    is_not_rejected,
    is_registered_coding,
)

# Suspicions that several rules share.
_UNREGISTERED_CODING_SUSPICION = FieldValue("content_encoding", is_registered_coding)
#: A value of a type that may contain other values.
_NESTED_VALUE_SUSPICION = ValueType(
    ("list", "map", "array", "described"),
    ("delivery_annotations", "message_annotations", "application_properties"),
)
#: An annotation of a type that RabbitMQ 4 cannot deliver to consumers.
_RABBITMQ_UNDELIVERABLE_SUSPICION = ValueType(
    ("null", "float", "double", "decimal32", "decimal64", "decimal128"), ("message_annotations",)
)
#: Annotations whose values do not have the types that Azure documents.
_SCHEDULED_TIME_SUSPICION = AnnotationType(("x-opt-scheduled-enqueue-time",), ("timestamp", "null"))
_PARTITION_KEY_SUSPICION = AnnotationType(
    ("x-opt-partition-key", "x-opt-via-partition-key"), ("string", "null")
)

#: The clauses of lists and maps, and of arrays. A violation names one of the two.
COMPOUND_CLAUSES = "Part 1, 1.2.3, 1.2.4"

_ALL_RULES = (
    # The encodings of Part 1. The decoder `wire.kernel` checks these rules; `DecodeError.rule` is
    # the id of the violated rule.
    Rule(
        "truncated",
        "Part 1, 1.2",
        "error",
        "A value has as many bytes as its size or type requires.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "unknown-constructor",
        "Part 1, 1.2",
        "error",
        "A value begins with a format code of Part 1, 1.6.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "compound-size-too-small",
        COMPOUND_CLAUSES,
        "error",
        "The size of a list, map or array covers its count, and an array's its constructor.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "count-exceeds-size",
        COMPOUND_CLAUSES,
        "error",
        "The values that a list, map or array counts fit into its size.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "element-overruns-compound",
        COMPOUND_CLAUSES,
        "error",
        "A value ends before the list, map or array that it is in.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "compound-trailing-bytes",
        COMPOUND_CLAUSES,
        "error",
        "Nothing follows the last value that a list, map or array counts.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "boolean-octet-not-0-or-1",
        "Part 1, 1.6.2",
        "error",
        "The byte of a boolean is 0x00 or 0x01.",
        refused=True,
        about_encoding=True,
        damage="content",
    ),
    Rule(
        "char-not-a-unicode-scalar",
        "Part 1, 1.6.16",
        "error",
        "A char is a Unicode code point that is not a surrogate.",
        refused=True,
        about_encoding=True,
        damage="content",
    ),
    Rule(
        "invalid-utf8",
        "Part 1, 1.6.20",
        "error",
        "A string is UTF-8.",
        refused=True,
        about_encoding=True,
        damage="content",
    ),
    Rule(
        "symbol-not-ascii",
        "Part 1, 1.6.21",
        "error",
        "A symbol is ASCII.",
        refused=True,
        about_encoding=True,
        damage="content",
    ),
    Rule(
        "map-odd-count",
        "Part 1, 1.6.23",
        "error",
        "A map has a value for every key.",
        refused=True,
        about_encoding=True,
        damage="structure",
    ),
    Rule(
        "map-duplicate-key",
        "Part 1, 1.6.23",
        "error",
        "A map has every key once.",
        refused=True,
        damage="content",
    ),
    Rule(
        "array-without-constructor",
        "Part 1, 1.6.24",
        "error",
        "An array has the constructor of its elements, even if it is empty.",
        refused=True,
        damage="structure",
    ),
    Rule(
        "depth-limit",
        "Part 2, 2.8.15",
        "error",
        "Values are nested no deeper than Limits.depth.",
        refused=True,
        about_encoding=True,
    ),
    Rule(
        "items-limit",
        "Part 2, 2.8.15",
        "error",
        "The message holds no more values than Limits.items.",
        refused=True,
        about_encoding=True,
    ),
    Rule(
        "zero-width-limit",
        "Part 2, 2.8.15",
        "error",
        "Arrays hold no more elements without bytes than Limits.zero_width.",
        refused=True,
        about_encoding=True,
    ),
    Rule(
        "keys-limit",
        "Part 2, 2.8.15",
        "error",
        "A section of annotations has at most 4,096 ulong keys, which could be chosen to collide.",
        refused=True,
    ),
    Rule(
        "size-limit",
        "Part 2, 2.8.15",
        "error",
        "The message has no more bytes than Limits.size.",
        refused=True,
        about_encoding=True,
    ),
    # Rules about the kinds, the number and the order of sections.
    Rule(
        "not-a-section",
        "Part 3, 3.2",
        "error",
        "A message is a sequence of sections, which are described values.",
        quote="Altogether a message consists of the following sections",
        refused=True,
        check=partial(checks.unknown_values, described=False),
        damage="structure",
    ),
    Rule(
        "unknown-section",
        "Part 3, 3.2",
        "error",
        "A section has one of the nine descriptors, 0x70 to 0x78.",
        quote="Altogether a message consists of the following sections",
        refused=True,
        check=partial(checks.unknown_values, described=True),
        damage="structure",
    ),
    Rule(
        "section-out-of-order",
        "Part 3, 3.2",
        "error",
        "Sections are in order, from the header to the footer.",
        quote="Altogether a message consists of the following sections",
        refused=True,
        check=partial(checks.misplaced_sections, rule="section-out-of-order"),
    ),
    Rule(
        "duplicate-section",
        "Part 3, 3.2",
        "error",
        "A message has one section of a kind, except several data or amqp-sequence.",
        quote="Altogether a message consists of the following sections",
        refused=True,
        check=partial(checks.misplaced_sections, rule="duplicate-section"),
    ),
    Rule(
        "mixed-body-sections",
        "Part 3, 3.2",
        "error",
        "The body is data, amqp-sequence or amqp-value, and not two of them.",
        quote="Altogether a message consists of the following sections",
        refused=True,
        check=partial(checks.misplaced_sections, rule="mixed-body-sections"),
    ),
    Rule(
        "body-missing",
        "Part 3, 3.2",
        "error",
        "A message has a body: data, amqp-sequence or amqp-value.",
        quote=(
            "The bare message consists of three sections: standard properties, application- "
            "properties, and application-data (the body)."
        ),
        check=checks.body_missing,
        suspicion=BodyKind(ANY_BODY),
    ),
    Rule(
        "section-value-type",
        "Part 3, 3.2.1 to 3.2.9",
        "error",
        "A section's value is of the type that its descriptor names.",
        refused=True,
        check=checks.section_value_type,
        damage="type",
    ),
    # Rules about the header and the properties.
    Rule(
        "too-many-fields",
        "Part 3, 3.2.1, 3.2.4",
        "error",
        "Header and properties have no more fields than are defined: 5 and 13.",
        refused=True,
        check=checks.too_many_fields,
        sections=("header", "properties"),
        damage="type",
    ),
    Rule(
        "field-type",
        "Part 3, 3.2.1, 3.2.4, 3.2.11 to 3.2.15",
        "error",
        (
            "A field is null or of its type; a message-id is ulong, uuid, binary or string, an "
            "address is a string."
        ),
        refused=True,
        check=checks.field_type,
        sections=("header", "properties"),
        damage="type",
    ),
    Rule(
        "delivery-annotations-rejected-type",
        "Part 3, 3.2.2",
        "error",
        "The value of the delivery annotation rejected is an error (Part 2, 2.8.14).",
        quote='Any values associated with the "rejected" key MUST be of type error.',
        check=partial(checks.check_entries, ("delivery-annotations",), checks.rejected_type),
        sections=("delivery-annotations",),
        suspicion=AnnotationKey(is_not_rejected),
    ),
    Rule(
        "content-type-not-mime",
        "Part 3, 3.2.4",
        "warning",
        "The content-type is a MIME type, such as text/plain; it is left out if unknown.",
        quote=(
            "For clarity, as per section 7.2.1 of RFC-2616 [RFC2616], where the content type is "
            "unknown the content-type SHOULD NOT be set."
        ),
        check=partial(checks.check_symbol, "content-type", checks.content_type_not_mime),
        sections=("properties",),
        suspicion=FieldValue("content_type", is_mime_type),
    ),
    Rule(
        "content-type-without-data",
        "Part 3, 3.2.4",
        "warning",
        "The content-type is set only if the body is data.",
        quote=(
            "When using an application-data section with a section code other than data, content- "
            "type SHOULD NOT be set."
        ),
        check=partial(checks.field_without_data, field="content-type"),
        sections=("properties",),
        suspicion=BodyKind(DATA_OR_NO_BODY, ("content_type",)),
    ),
    Rule(
        "content-encoding-without-data",
        "Part 3, 3.2.4",
        "error",
        "The content-encoding is set only if the body is data.",
        quote=(
            "The content-encoding MUST NOT be set when the application-data section is other than "
            "data."
        ),
        check=partial(checks.field_without_data, field="content-encoding"),
        sections=("properties",),
        suspicion=BodyKind(DATA_OR_NO_BODY, ("content_encoding",)),
    ),
    Rule(
        "content-encoding-identity",
        "Part 3, 3.2.4",
        "error",
        "The content-encoding is not identity: leave it out.",
        quote="Implementations MUST NOT use the identity encoding.",
        check=partial(checks.check_symbol, "content-encoding", checks.content_encoding_identity),
        sections=("properties",),
        suspicion=_UNREGISTERED_CODING_SUSPICION,
    ),
    Rule(
        "content-encoding-compress",
        "Part 3, 3.2.4",
        "warning",
        "The content-encoding is not compress.",
        quote=(
            "Implementations SHOULD NOT use the compress encoding, except as to remain compatible "
            "with messages originally sent with other protocols, e.g. HTTP or SMTP."
        ),
        check=partial(checks.check_symbol, "content-encoding", checks.content_encoding_compress),
        sections=("properties",),
        suspicion=_UNREGISTERED_CODING_SUSPICION,
    ),
    Rule(
        "content-encoding-multiple",
        "Part 3, 3.2.4",
        "warning",
        "There is one content-encoding.",
        quote=(
            "Implementations SHOULD NOT specify multiple content-encoding values except as to be "
            "compatible with messages originally sent with other protocols, e.g. HTTP or SMTP."
        ),
        check=partial(checks.check_symbol, "content-encoding", checks.content_encoding_multiple),
        sections=("properties",),
        suspicion=_UNREGISTERED_CODING_SUSPICION,
    ),
    Rule(
        "content-encoding-unregistered",
        "Part 3, 3.2.4",
        "warning",
        "The content-encoding is registered at IANA, such as gzip.",
        quote="Valid content-encodings are registered at IANA [IANAHTTPPARAMS].",
        check=partial(
            checks.check_symbol, "content-encoding", checks.content_encoding_unregistered
        ),
        sections=("properties",),
        suspicion=_UNREGISTERED_CODING_SUSPICION,
    ),
    # Rules about the application properties and the annotations.
    Rule(
        "application-properties-key-type",
        "Part 3, 3.2.5",
        "error",
        "The key of an application property is a string.",
        quote=(
            "The keys of this map are restricted to be of type string (which excludes the "
            "possibility of a null key) and the values are restricted to be of simple types only, "
            "that is, excluding map, list, and array types."
        ),
        refused=True,
        check=partial(checks.key_type, section="application-properties"),
        sections=("application-properties",),
        damage="type",
    ),
    Rule(
        "application-properties-value-not-simple",
        "Part 3, 3.2.5",
        "error",
        "The value of an application property is of a simple type, even if it is described.",
        quote=(
            "The keys of this map are restricted to be of type string (which excludes the "
            "possibility of a null key) and the values are restricted to be of simple types only, "
            "that is, excluding map, list, and array types."
        ),
        refused=True,
        check=partial(checks.check_entries, ("application-properties",), checks.value_not_simple),
        sections=("application-properties",),
        damage="type",
    ),
    Rule(
        "delivery-annotations-key-type",
        "Part 3, 3.2.10",
        "error",
        "A key of the delivery-annotations is a symbol or a ulong.",
        quote=(
            "The annotations type is a map where the keys are restricted to be of type symbol or "
            "of type ulong."
        ),
        refused=True,
        check=partial(checks.key_type, section="delivery-annotations"),
        sections=("delivery-annotations",),
        damage="type",
    ),
    Rule(
        "message-annotations-key-type",
        "Part 3, 3.2.10",
        "error",
        "A key of the message-annotations is a symbol or a ulong.",
        quote=(
            "The annotations type is a map where the keys are restricted to be of type symbol or "
            "of type ulong."
        ),
        refused=True,
        check=partial(checks.key_type, section="message-annotations"),
        sections=checks.ONLY_MESSAGE_ANNOTATIONS,
        damage="type",
    ),
    Rule(
        "footer-key-type",
        "Part 3, 3.2.10",
        "error",
        "A key of the footer is a symbol or a ulong.",
        quote=(
            "The annotations type is a map where the keys are restricted to be of type symbol or "
            "of type ulong."
        ),
        refused=True,
        check=partial(checks.key_type, section="footer"),
        sections=("footer",),
        damage="type",
    ),
    Rule(
        "annotation-key-reserved",
        "Part 3, 3.2.10",
        "warning",
        "An annotation's key is a symbol that begins with x-, unless a specification defines it.",
        quote=(
            'All ulong keys, and all symbolic keys except those beginning with "x-" are reserved.'
        ),
        check=checks.key_reserved,
        sections=checks.ANNOTATION_SECTIONS,
        suspicion=AnnotationKey(is_free_key),
    ),
    # Rules about a `Message` object: the encoded bytes cannot show whether they are violated.
    Rule(
        "message-format",
        "Part 3, 3.2.16",
        "warning",
        "The message-format of a message that follows Part 3 is 0.",
        quote=(
            "This value goes into the message-format field of the transfer frame when "
            "transferring messages of the format defined herein."
        ),
    ),
    Rule(
        "not-encodable",
        "Part 3, 3.2",
        "error",
        "Every value of a message can be encoded as its declared type.",
    ),
    # Messages that the specification allows and RabbitMQ 4 does not handle (tried with 4.0.5 and
    # 4.3.6).
    Rule(
        "rabbitmq-described-value",
        "RabbitMQ 4",
        "error",
        "No annotation or application property is a described value, except an error.",
        check=partial(
            checks.check_entries, checks.MAPS_BEFORE_BODY, checks.rabbitmq_described_value
        ),
        sections=checks.MAPS_BEFORE_BODY,
        suspicion=_NESTED_VALUE_SUSPICION,
    ),
    Rule(
        "rabbitmq-array-constructor",
        "RabbitMQ 4",
        "error",
        (
            "The elements of an array before the body are not in a short form of an integer, "
            "list, map or array, and no decimals."
        ),
        check=checks.rabbitmq_array_constructor,
        sections=checks.MAPS_BEFORE_BODY,
        suspicion=_NESTED_VALUE_SUSPICION,
    ),
    Rule(
        "rabbitmq-annotation-null",
        "RabbitMQ 4",
        "error",
        "No message annotation is null: streams refuse the message, queues cannot deliver it.",
        check=partial(
            checks.check_entries, checks.ONLY_MESSAGE_ANNOTATIONS, checks.rabbitmq_annotation_null
        ),
        sections=checks.ONLY_MESSAGE_ANNOTATIONS,
        suspicion=_RABBITMQ_UNDELIVERABLE_SUSPICION,
    ),
    Rule(
        "rabbitmq-annotation-number",
        "RabbitMQ 4",
        "warning",
        (
            "No message annotation is a decimal, infinite or NaN: streams of 4.0 refuse the "
            "message, queues cannot deliver it."
        ),
        check=partial(
            checks.check_entries, checks.ONLY_MESSAGE_ANNOTATIONS, checks.rabbitmq_annotation_number
        ),
        sections=checks.ONLY_MESSAGE_ANNOTATIONS,
        suspicion=_RABBITMQ_UNDELIVERABLE_SUSPICION,
    ),
    Rule(
        "rabbitmq-user-id-empty",
        "RabbitMQ 4",
        "error",
        "The user-id is the name of the user of the connection, or left out.",
        check=checks.rabbitmq_user_id_empty,
        sections=("properties",),
        suspicion=FieldValue("user_id", bool),
    ),
    # The types of annotations that Azure's AMQP 1.0 protocol guide requires.
    Rule(
        "azure-scheduled-time-type",
        "Azure",
        "error",
        "The annotation x-opt-scheduled-enqueue-time is a timestamp.",
        check=partial(
            checks.annotation_type,
            keys=_SCHEDULED_TIME_SUSPICION.keys,
            usual="timestamp",
            effect="the message is not scheduled otherwise",
        ),
        sections=checks.ONLY_MESSAGE_ANNOTATIONS,
        suspicion=_SCHEDULED_TIME_SUSPICION,
    ),
    Rule(
        "azure-partition-key-type",
        "Azure",
        "error",
        "The annotations x-opt-partition-key and x-opt-via-partition-key are strings.",
        check=partial(
            checks.annotation_type,
            keys=_PARTITION_KEY_SUSPICION.keys,
            usual="string",
            effect="write the key as text",
        ),
        sections=checks.ONLY_MESSAGE_ANNOTATIONS,
        suspicion=_PARTITION_KEY_SUSPICION,
    ),
    # Rules about a value or a composite that is decoded alone, outside of a message.
    Rule(
        "trailing-bytes",
        "Part 1, 1.2",
        "error",
        "Nothing follows a value that is decoded alone.",
        refused=True,
        in_messages=False,
    ),
    Rule(
        "not-a-composite",
        "Part 1, 1.4",
        "error",
        "A composite is a described value.",
        refused=True,
        in_messages=False,
    ),
    Rule(
        "unknown-composite",
        "Part 1, 1.4",
        "error",
        "The descriptor of a composite is that of a registered class.",
        refused=True,
        in_messages=False,
    ),
    Rule(
        "mandatory-field-missing",
        "Part 1, 1.4",
        "error",
        "A mandatory field of a composite has a value.",
        refused=True,
        in_messages=False,
    ),
    Rule(
        "field-key-type",
        "Part 2, 2.8.13",
        "error",
        "The keys of a map of fields, such as the info of an error, are symbols.",
        refused=True,
        in_messages=False,
    ),
    Rule(
        "not-a-delivery-state",
        "Part 3, 3.4",
        "error",
        "A composite read as a delivery state or terminus is a state, a terminus or part of one.",
        refused=True,
        in_messages=False,
    ),
)

#: Every rule by its id: first the rules that a message can violate, in the order of the clauses,
#: then the rules about a value or a composite that is decoded alone.
RULES: ByName[Rule] = ByName(by_attribute(_ALL_RULES, "id", "rule"), kind="rule")


#: The reasons why a requirement has no rule, by the key in `_REQUIREMENTS_WITHOUT_RULE`.
_NO_RULE_REASONS = {
    "two messages": "It shows only in the messages before and after the intermediary.",
    "receiver": "It concerns the behaviour of the receiver.",
    "intermediary": "It concerns the behaviour of the intermediary.",
    "target": "It concerns the behaviour of the target.",
    "sender": "It depends on knowledge of the sender that is not in the message.",
}
# For each requirement, a line with its clause and the reason, then the words of the specification.
_REQUIREMENTS_WITHOUT_RULE = """
Part 3, 3.2 | two messages
    If a section of the bare message is omitted, one MUST NOT be inserted by an intermediary.
Part 3, 3.2 | two messages
    The exact encoding of sections of the bare message MUST NOT be modified.
Part 3, 3.2.1 | receiver
    If the header section is omitted the receiver MUST assume the appropriate default values (or
    the meaning implied by no value being set) for the fields within the header unless other target
    or node specific defaults have otherwise been set.
Part 3, 3.2.1 | intermediary
    Durable messages MUST NOT be lost even if an intermediary is unexpectedly terminated and
    restarted.
Part 3, 3.2.1 | target
    A target which is not capable of fulfilling this guarantee MUST NOT accept messages where the
    durable header is set to true
Part 3, 3.2.1 | intermediary
    An AMQP intermediary implementing distinct priority levels MUST do so in the following manner
Part 3, 3.2.1 | intermediary
    priorities 0 to (5 - ceiling(n/2)) MUST be treated equivalently and MUST be the lowest
    effective priority.
Part 3, 3.2.1 | intermediary
    The priorities (4 + floor(n/2)) and above MUST be treated equivalently and MUST be the highest
    effective priority.
Part 3, 3.2.1 | intermediary
    The priorities (5 - ceiling(n/2)) to (4 + floor(n/2)) inclusive MUST be treated as distinct
    priorities.
Part 3, 3.2.1 | intermediary
    priorities 0 to (n - 1) MUST be distinct, and priorities n and above MUST be equivalent to
    priority (n - 1).
Part 3, 3.2.3 | two messages
    Intermediaries MUST propagate the annotations unless the annotations are explicitly augmented
    or modified (e.g., by the use of the modified outcome).
Part 3, 3.2.4 | two messages
    The properties section is part of the bare message; therefore, if retransmitted by an
    intermediary, it MUST remain unaltered.
Part 3, 3.2.4 | sender
    Where the section is known to be truly opaque binary data, the content-type SHOULD be set to
    application/octet-stream.
Part 3, 3.2.10 | receiver
    Keys beginning with "x-opt-" MUST be ignored if not understood.
Part 3, 3.2.10 | receiver
    On receiving an annotation key which is not understood, and which does not begin with "x-opt",
    the receiving AMQP container MUST detach the link with a not-implemented error.
"""
#: Every MUST, MUST NOT, SHOULD and SHOULD NOT of Part 3, 3.2 that has no rule.
NOT_VISIBLE: tuple[Obligation, ...] = obligations_of(_REQUIREMENTS_WITHOUT_RULE, _NO_RULE_REASONS)
