"""What each column holds, in which unit: shown by DESCRIBE, and in the schemas of files."""

from __future__ import annotations

from collections.abc import Mapping

#: By column; `_schema` has one for each, and the tests hold it to that.
COMMENTS: Mapping[str, str] = {
    "message_format": "message-format of the transfer, 0 to 2^32 - 1; 0 for standard messages",
    "durable": "whether the message must outlive a restart of an intermediary",
    "priority": "relative priority, 0 to 255, higher first; 4 is normal",
    "ttl": "how long the message is live from its arrival at an intermediary, in ms",
    "first_acquirer": "whether no other link has acquired the message before",
    "delivery_count": "how many earlier attempts to deliver it failed",
    "delivery_annotations": "annotations for the next hop, by key",
    "message_annotations": "annotations for the whole way, by key",
    "message_id": "identifier of the message, as text",
    "message_id_type": "AMQP type of message_id: string, ulong (digits), uuid or binary (hex)",
    "user_id": "identity of the user who produced the message, as bytes",
    "to": "address of the node that the message is for",
    "subject": "summary of the content and purpose",
    "reply_to": "address of the node to send replies to",
    "correlation_id": "identifier that links the message to another, as text",
    "correlation_id_type": "AMQP type of correlation_id, as of message_id_type",
    "content_type": "MIME type of the body",
    "content_encoding": "what is applied to the body beyond its content type, such as gzip",
    "absolute_expiry_time": "when the message expires, UTC; null outside the years 1 to 9999",
    "absolute_expiry_time_ms": "the same outside the years 1 to 9999, in ms since 1970",
    "creation_time": "when the message was created, UTC; null outside the years 1 to 9999",
    "creation_time_ms": "the same outside the years 1 to 9999, in ms since 1970",
    "group_id": "the group that the message belongs to",
    "group_sequence": "its position in the group, 0 to 2^32 - 1",
    "reply_to_group_id": "the group that the reply belongs to",
    "application_properties": "properties that the application set, by name",
    "footer": "what could only be said after the body, such as hashes, by key",
    "body_kind": "data, amqp-sequence or amqp-value; null without a body",
    "body_sections": "how many sections the body has",
    "body": "the bytes of all data sections, joined; null for other bodies",
    "body_json": "typed JSON of an amqp-value, or of the list of amqp-sequences: exact",
    "body_text": "the body as text: data that is UTF-8, or an amqp-value that is a string",
    "body_value": "an amqp-value, or the list of amqp-sequences, with numbers as numbers",
    "section_offsets": "where each section begins, its content begins, and it ends, in bytes",
    "error_code": "the first rule that the message breaks; null for a sound message",
    "error_clause": "the clause of the specification that has the rule",
    "error_offset": "where in the message it is broken, in bytes",
    "error": "why the message could not be decoded: rule, clause, offset in bytes; null if it was",
    "wire": "the encoded message itself",
}
