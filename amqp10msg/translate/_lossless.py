"""The lossless profile: the residual keeps the values that the rules cannot translate exactly.

The reverse translation restores an original value from the residual only if its translation is
still in the message: an edit of the translated message has precedence.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage, as_encoded
from amqp10msg.basic.properties import encode_properties
from amqp10msg.basic.tables import FieldTable, as_table
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.message import Message
from amqp10msg.sections import SPEC_BY_CODE, ApplicationProperties
from amqp10msg.sections.parts import parts_of
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import (
    ADDED_HEADER_LETTERS,
    in_name_order,
    is_header_of_3,
    is_in_name_order,
    name_order,
    without_rabbitmq_3_additions,
    without_rabbitmq_4_additions,
)
from amqp10msg.translate._merge_basic import restored_basic
from amqp10msg.translate._merge_message import restored_message
from amqp10msg.translate._single import translate_by_engine
from amqp10msg.translate._streams import restore_from_stream
from amqp10msg.translate._to_amqp10 import draft_of, translate_by_rules
from amqp10msg.translate._to_basic import (
    BasicDraft,
    basic_draft_of,
    carry,
    carry_encodings,
    names_of_annotations,
)
from amqp10msg.translate.losses import TO_BASIC_LOSSES
from amqp10msg.translate.report import Notes, path_of_key
from amqp10msg.translate.residual import (
    DATA_HEADS_KEY,
    ENCODED_NULL,
    HEADER_INDEXES_KEY,
    MESSAGE_FORMAT_KEY,
    MESSAGE_IN_PAYLOAD_KEY,
    ROUTING_ANNOTATIONS_FIRST_KEY,
    SPARSE_APPLICATION_KEY,
    SPARSE_PROPERTIES_KEY,
    UNMARKED_SECTIONS_KEY,
    WHOLE_MESSAGE_KEY,
    is_of_message,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError, DecodeError, EncodeError
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    FIRST_SECTION_CODE,
    FOOTER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
)
from amqp10msg.wire.kernel.messages import decode_message
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Symbol

# The keys of the new residual of a message whose own residual restores an original 0-9-1 message.
_NEW_RESIDUAL_KEYS = (
    UNMARKED_SECTIONS_KEY,
    DELIVERY_ANNOTATIONS_CODE,
    APPLICATION_PROPERTIES_CODE,
    FOOTER_CODE,
    SPARSE_PROPERTIES_KEY,
    SPARSE_APPLICATION_KEY,
)


def to_amqp10(basic: BasicMessage, notes: Notes, _: Any = None) -> Message:
    """Translate from 0-9-1 to 1.0. The third argument, the circumstances, is not used."""
    octets = translate_by_engine(basic, "lossless", notes)
    if octets is not None:
        return _decode_translation(octets, basic)
    basic = as_encoded(basic)
    if _has_residual(basic.properties.headers):
        return _restore_original(basic, notes)
    message: Message | None = translate_by_rules(basic, notes)
    return _restore_original(basic, notes) if message is None else message


def _has_residual(table: Any) -> bool:
    """Whether the last header is a residual; this library always writes it last."""
    return (
        type(table) is FieldTable
        and bool(table.entries)
        and table.entries[-1][0] == residual.RESIDUAL_NAME
    )


def _decode_translation(octets: bytes, basic: BasicMessage) -> Message:
    """Decode a 1.0 message that the compiled engine has translated.

    content-type and content-encoding become symbols, as by the plain rules, if the 0-9-1 message
    `basic` has no exchange, no routing key and no residual.
    """
    message: Message = decode_message(Message, octets, limits=UNLIMITED)
    properties = message.properties
    if properties is not None and not (
        basic.exchange or basic.routing_key or _has_residual(basic.properties.headers)
    ):
        if properties.content_type is not None:
            properties.content_type = Symbol(properties.content_type)
        if properties.content_encoding is not None:
            properties.content_encoding = Symbol(properties.content_encoding)
    return message


def _restore_original(basic: BasicMessage, notes: Notes) -> Message:
    """Translate a 0-9-1 message whose residual holds parts of an original 1.0 message."""
    table: Any = basic.properties.headers
    entries = as_table(table).entries
    residuals = [entry for entry in entries if entry[0] == residual.RESIDUAL_NAME]
    _, letter, value = residuals[0]
    content = None
    if len(residuals) == 1 and letter == "S" and isinstance(value, str):
        content = residual.unpack_text(value)
    if content is not None and is_of_message(content):
        basic = _undo_stream(basic, entries)
        entries = as_table(basic.properties.headers).entries
        other_entries = [entry for entry in entries if entry[0] != residual.RESIDUAL_NAME]
        try:
            return restored_message(basic, other_entries, content, notes, to_basic)
        except (AmqpError, ValueError, TypeError, AttributeError, KeyError, IndexError):
            notes.losses.clear()
    message = draft_of(basic, entries, notes).message(basic)
    notes.add_carried(
        f"headers[{residual.RESIDUAL_NAME!r}]",
        value,
        "it is not a residual, or damaged, and is ignored",
    )
    return message


def _undo_stream(basic: BasicMessage, entries: list[Any]) -> BasicMessage:
    """Undo the changes that a stream has made to a message, if the residual makes that possible.

    The stream offset stays: a later step removes all values that RabbitMQ adds at delivery.
    """
    offset_entries = [entry for entry in entries if entry[0] == STREAM_OFFSET]
    if not offset_entries or not (basic.exchange or basic.routing_key):
        return basic
    published = restore_from_stream(basic, to_basic)
    if published is None:
        return basic
    table: Any = published.properties.headers
    properties = attrs.evolve(
        published.properties, headers=FieldTable.of(offset_entries + table.entries)
    )
    return attrs.evolve(published, properties=properties)


def to_basic(message: Message, notes: Notes, _: Any = None) -> BasicMessage:
    """Translate from 1.0 to 0-9-1. The third argument, the circumstances, is not used."""
    wire = message.encode()
    message_format = message.message_format
    if message._lenient or message._wire != wire:
        try:
            message = Message.decode(wire, limits=UNLIMITED, message_format=message_format)
        except DecodeError:
            return _carry_whole(wire, message_format, notes)
    undelivered = _without_rabbitmq_additions(message, notes)
    if undelivered is not message:
        wire = undelivered.encode()
        message = Message.decode(wire, limits=UNLIMITED, message_format=message_format)
    return _finish(basic_draft_of(message, wire, notes), message, notes)


def _without_rabbitmq_additions(message: Message, notes: Notes) -> Message:
    """Remove the values that RabbitMQ added at delivery.

    Return `message` itself if there are none.
    """
    annotations = message.message_annotations
    if annotations is not None and "x-exchange" in annotations:
        message = without_rabbitmq_4_additions(message, notes)
    return (
        without_rabbitmq_3_additions(message, notes)
        if is_header_of_3(message.encode())
        else message
    )


def _finish(draft: BasicDraft, message: Message, notes: Notes) -> BasicMessage:
    """Complete a translated message: add a residual, or restore from the residual that it has."""
    by_rules = dict(draft.carried)
    is_certain = not carry_encodings(draft) and draft.is_certain
    if draft.saved is not None:
        # Carry values that headers cannot express, but drop unusual encodings of other values.
        for code in (SPARSE_PROPERTIES_KEY, SPARSE_APPLICATION_KEY):
            if code in by_rules:
                draft.carried[code] = by_rules[code]
        clashing: set[str] = set()
        if draft.carried.pop(APPLICATION_PROPERTIES_CODE, None) and (
            APPLICATION_PROPERTIES_CODE in by_rules
        ):
            clashing = _carry_application(draft)
        return _finish_restored(draft, clashing, notes)
    if not draft.carried:
        _report_order(draft.entries, notes)
        return _fit_into_frame(draft.basic, draft.wire, message.message_format, notes)
    message_format = message.message_format
    if draft.route_position == "first":
        draft.carried[ROUTING_ANNOTATIONS_FIRST_KEY] = 1
    annotations = message.message_annotations
    if (
        annotations is not None
        and MESSAGE_ANNOTATIONS_CODE not in draft.carried
        # Carry the annotations if a delivered message's headers would not restore them: brokers
        # add headers of the same names, or exchange and routing key are neither first nor last.
        and (
            draft.route_position == "elsewhere"
            or any(entry[0] in ADDED_HEADER_LETTERS for entry in draft.entries)
        )
    ):
        carry(draft, MESSAGE_ANNOTATIONS_CODE, annotations)
    indexes = name_order(draft.entries)
    is_ordered = indexes == list(range(len(indexes)))
    if not is_ordered:
        draft.carried[HEADER_INDEXES_KEY] = indexes
    basic = _with_residual(draft.basic, draft.carried)
    # Also try it with sorted headers, because a broker may sort them: then the entry
    # `HEADER_INDEXES_KEY` must restore their order.
    if not is_certain and not (
        _round_trips(basic, draft.wire, message_format)
        and (is_ordered or _round_trips(_with_sorted_headers(basic), draft.wire, message_format))
    ):
        basic = _with_residual(draft.basic, _whole_content(draft.wire, message_format))
    return _fit_into_frame(basic, draft.wire, message_format, notes)


def _carry_application(draft: BasicDraft) -> set[str]:
    """Carry the application properties of a message that already has a residual from 0-9-1.

    Returns:
        The keys of properties that are not carried, because an annotation becomes a header of the
        same name.
    """
    properties: Any = draft.message.application_properties
    clashing = names_of_annotations(draft).intersection(properties)
    restorable = {key: value for key, value in properties.items() if key not in clashing}
    if restorable:
        section = ApplicationProperties(restorable)
        carry(draft, APPLICATION_PROPERTIES_CODE, section)
    return clashing


def _finish_restored(draft: BasicDraft, clashing: set[str], notes: Notes) -> BasicMessage:
    """Complete a message with a residual that restores an original 0-9-1 message.

    Values that a broker has added since then, and unusual encodings, are dropped.
    """
    basic = restored_basic(draft, notes)
    carried = {code: value for code, value in draft.carried.items() if code in _NEW_RESIDUAL_KEYS}
    if fields := carried.pop(SPARSE_PROPERTIES_KEY, None):
        fields = {index: octets for index, octets in fields.items() if octets != ENCODED_NULL}
        if fields:
            carried[SPARSE_PROPERTIES_KEY] = fields
    notes.losses = [loss for loss in notes.losses if loss.path not in draft.restored]
    # Losses with these paths become permanent. The residual no longer has `DATA_HEADS_KEY`, which
    # says how to divide the body into data sections.
    lost_paths = (
        *("header", "message-annotations"),
        *(["body"] if DATA_HEADS_KEY in draft.carried else []),
        *(path_of_key("application-properties", key) for key in clashing),
    )
    for position, loss in enumerate(notes.losses):
        if loss.recoverable and loss.path.startswith(lost_paths):
            action = "dropped" if loss.action == "carried" else loss.action
            notes.losses[position] = attrs.evolve(loss, action=action, recoverable=False)
    if carried:
        return _with_residual(basic, carried)
    table = basic.properties.headers
    _report_order(table.entries if isinstance(table, FieldTable) else [], notes)
    return basic


def _report_order(entries: list[Any], notes: Notes) -> None:
    """Report which sections lose the order of their entries if a broker sorts the headers."""
    if len(entries) < 2 or not notes.enabled or is_in_name_order(entries):
        return
    properties = [entry for entry in entries if entry[0][:2] != "x-"]
    annotations = [entry for entry in entries if entry[0][:2] == "x-"]
    if not is_in_name_order(properties):
        _report_sorted("application-properties", notes)
    # If sorting puts a header from a property after a header from an annotation, the reverse
    # translation adds an annotation: a residual with the positions of the headers.
    expected = [*in_name_order(properties), *in_name_order(annotations)]
    if not (is_in_name_order(annotations) and is_in_name_order(expected)):
        _report_sorted("message-annotations", notes)


def _report_sorted(section: str, notes: Notes) -> None:
    """Report that a section loses the order of its entries."""
    notes.add_defined(TO_BASIC_LOSSES["by-name"], section, "in their order", "by their names")


def _with_residual(basic: BasicMessage, content: dict[int, Any]) -> BasicMessage:
    """Set a residual as the last header of a message, in place, and return the message."""
    table = basic.properties.headers
    entries = table.entries if isinstance(table, FieldTable) else []
    other_entries = [entry for entry in entries if entry[0] != residual.RESIDUAL_NAME]
    other_entries.append((residual.RESIDUAL_NAME, "S", residual.pack_text(content)))
    basic.properties.headers = headers = FieldTable()
    headers.entries = other_entries
    return basic


def _with_sorted_headers(basic: BasicMessage) -> BasicMessage:
    """Return the message with its headers sorted, as RabbitMQ sorts them when it adds one."""
    table = basic.properties.headers
    entries = in_name_order(table.entries) if isinstance(table, FieldTable) else []
    properties = attrs.evolve(basic.properties, headers=FieldTable.of(entries))
    return attrs.evolve(basic, properties=properties)


def _round_trips(basic: BasicMessage, wire: bytes, message_format: int) -> bool:
    """Whether the reverse translation of `basic` gives these bytes and this message-format."""
    try:
        restored = to_amqp10(basic, Notes())
        return restored.encode() == wire and restored.message_format == message_format
    except EncodeError:
        return False


def _whole_content(wire: bytes, message_format: int) -> dict[int, Any]:
    """Return the content of a residual that holds a whole message."""
    return (
        {WHOLE_MESSAGE_KEY: wire, MESSAGE_FORMAT_KEY: message_format}
        if message_format
        else {WHOLE_MESSAGE_KEY: wire}
    )


def _carry_whole(wire: bytes, message_format: int, notes: Notes) -> BasicMessage:
    """Translate the valid sections of an invalid message, and put all its bytes into a residual."""
    valid: list[bytes] = []
    allowed = kernel.ALLOWED_NEXT_SECTIONS[0]
    for code, start, content, end in parts_of(wire):
        # Check each section separately: decoding the growing message for each section would take
        # quadratic time.
        if code < 0 or not allowed[code] or not _is_section(wire, code, content, end):
            continue
        valid.append(wire[start:end])
        allowed = kernel.ALLOWED_NEXT_SECTIONS[code - FIRST_SECTION_CODE + 1]
    octets = b"".join(valid)
    draft = basic_draft_of(Message.decode(octets, limits=UNLIMITED), octets, notes)
    notes.add_carried(
        "", len(wire), "the message breaks rules of Part 3: the residual carries all of it"
    )
    return _fit_into_frame(
        _with_residual(draft.basic, _whole_content(wire, message_format)),
        wire,
        message_format,
        notes,
    )


def _fit_into_frame(
    basic: BasicMessage, wire: bytes, message_format: int, notes: Notes
) -> BasicMessage:
    """If the properties do not fit into a 0-9-1 frame, make the whole 1.0 message the payload."""
    table: Any = basic.properties.headers
    if table is None:
        return basic
    if len(wire) - len(basic.body) <= residual.MAX_SIZE_FITTING_FRAME and not any(
        entry[1] in "AF" for entry in table.entries
    ):
        return basic
    if len(encode_properties(basic.properties)) <= residual.MAX_PROPERTIES_SIZE:
        return basic
    reason = "the headers do not fit in a frame of 128 KiB: the payload is the whole message"
    notes.add("", "retyped", "sections", "bytes", reason, recoverable=True)
    basic.body = wire
    properties = basic.properties
    properties.headers = properties.content_type = None
    properties.content_encoding = properties.type = None
    return _with_residual(
        basic,
        {MESSAGE_IN_PAYLOAD_KEY: 1, MESSAGE_FORMAT_KEY: message_format}
        if message_format
        else {MESSAGE_IN_PAYLOAD_KEY: 1},
    )


def _is_section(wire: bytes, code: int, content: int, end: int) -> bool:
    """Whether the value after a section's descriptor is valid for that section."""
    reader = kernel.Reader(wire, content, UNLIMITED)
    reader.end = end
    try:
        reader.section(SPEC_BY_CODE[code])
    except kernel.READ_FAULTS:
        return False
    return bool(reader.pos == end)
