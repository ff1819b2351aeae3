"""The lossless profile: by the rules, with what they cannot say in the residual, and back.

The residual of a translated message holds original values. On the way back one is restored only
where it still becomes what now stands there: an edit made in between wins over it.

"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage, as_encoded
from amqp10msg.basic.properties import encode_properties
from amqp10msg.basic.tables import FieldTable, as_table
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.message import Message
from amqp10msg.sections import SPEC_OF, ApplicationProperties
from amqp10msg.sections.parts import parts_of
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import (
    HEADERS,
    in_name_order,
    is_header_of_3,
    is_in_name_order,
    name_order,
    received,
    without_header_of_3,
)
from amqp10msg.translate._merge_basic import restored_basic
from amqp10msg.translate._merge_message import restored_message
from amqp10msg.translate._single import translated as by_engine
from amqp10msg.translate._streams import as_sent
from amqp10msg.translate._to_amqp10 import draft_of, translated
from amqp10msg.translate._to_basic import (
    BasicDraft,
    carry,
    carry_encodings,
    names_of_annotations,
    read,
)
from amqp10msg.translate.losses import TO_BASIC_LOSSES
from amqp10msg.translate.report import Notes, path_of_key
from amqp10msg.translate.residual import (
    FORM,
    FORMAT,
    NULL,
    PAYLOAD,
    PLACES,
    SHAPE,
    SPARSE_APPLICATION,
    SPARSE_PROPERTIES,
    UNMARKED,
    WHOLE,
    is_of_message,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError, DecodeError, EncodeError
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    FIRST_CODE,
    FOOTER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
)
from amqp10msg.wire.kernel.messages import decode_message
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Symbol

_KEPT = (
    UNMARKED,
    DELIVERY_ANNOTATIONS_CODE,
    APPLICATION_PROPERTIES_CODE,
    FOOTER_CODE,
    SPARSE_PROPERTIES,
    SPARSE_APPLICATION,
)


def to_amqp10(basic: BasicMessage, notes: Notes, _: Any = None) -> Message:
    """Translate from 0-9-1 to 1.0 without loss; no circumstance matters."""
    octets = by_engine(basic, "lossless", notes)
    if octets is not None:
        return _decoded(octets, basic)
    basic = as_encoded(basic)
    if _has_residual(basic.properties.headers):
        return _with_residual(basic, notes)
    made: Message | None = translated(basic, notes)
    return _with_residual(basic, notes) if made is None else made


def _has_residual(table: Any) -> bool:
    """Whether there is a residual where this library puts it."""
    return (
        type(table) is FieldTable and bool(table.entries) and table.entries[-1][0] == residual.NAME
    )


def _decoded(octets: bytes, basic: BasicMessage) -> Message:
    """Decode a message that was never sent: its content-type and -encoding are symbols."""
    made: Message = decode_message(Message, octets, limits=UNLIMITED)
    properties = made.properties
    if properties is not None and not (
        basic.exchange or basic.routing_key or _has_residual(basic.properties.headers)
    ):
        if properties.content_type is not None:
            properties.content_type = Symbol(properties.content_type)
        if properties.content_encoding is not None:
            properties.content_encoding = Symbol(properties.content_encoding)
    return made


def _with_residual(basic: BasicMessage, notes: Notes) -> Message:
    """Translate a message that carries what was left over when it was a 1.0 message."""
    table: Any = basic.properties.headers
    entries = as_table(table).entries
    found = [entry for entry in entries if entry[0] == residual.NAME]
    _, letter, value = found[0]
    content = None
    if len(found) == 1 and letter == "S" and isinstance(value, str):
        content = residual.unpack_text(value)
    if content is not None and is_of_message(content):
        basic = _unstreamed(basic, entries)
        entries = as_table(basic.properties.headers).entries
        rest = [entry for entry in entries if entry[0] != residual.NAME]
        try:
            return restored_message(basic, rest, content, notes, to_basic)
        except (AmqpError, ValueError, TypeError, AttributeError, KeyError, IndexError):
            notes.losses.clear()
    made = draft_of(basic, entries, notes).message(basic)
    notes.carried(
        f"headers[{residual.NAME!r}]", value, "it is not a residual, or damaged, and is ignored"
    )
    return made


def _unstreamed(basic: BasicMessage, entries: list[Any]) -> BasicMessage:
    """Return a delivered message as it was before a stream changed it, where that is known.

    The offset stays, to be dropped with the other facts of the delivery.
    """
    facts = [entry for entry in entries if entry[0] == STREAM_OFFSET]
    if not facts or not (basic.exchange or basic.routing_key):
        return basic
    sent = as_sent(basic, to_basic)
    if sent is None:
        return basic
    table: Any = sent.properties.headers
    properties = attrs.evolve(sent.properties, headers=FieldTable.of(facts + table.entries))
    return attrs.evolve(sent, properties=properties)


def to_basic(message: Message, notes: Notes, _: Any = None) -> BasicMessage:
    """Translate from 1.0 to 0-9-1 without loss; no circumstance matters."""
    wire = message.encode()
    format_ = message.message_format
    if message._lenient or message._wire != wire:
        try:
            message = Message.decode(wire, limits=UNLIMITED, message_format=format_)
        except DecodeError:
            return _whole(wire, format_, notes)
    sent = _without_delivery(message, notes)
    if sent is not message:
        wire = sent.encode()
        message = Message.decode(wire, limits=UNLIMITED, message_format=format_)
    return _finished(read(message, wire, notes), message, notes)


def _without_delivery(message: Message, notes: Notes) -> Message:
    """Return the message without what RabbitMQ wrote for one delivery; unchanged if nothing."""
    annotations = message.message_annotations
    if annotations is not None and "x-exchange" in annotations:
        message = received(message, notes)
    return without_header_of_3(message, notes) if is_header_of_3(message.encode()) else message


def _finished(made: BasicDraft, message: Message, notes: Notes) -> BasicMessage:
    """Add a residual, or restore from the one that is there."""
    by_rules = dict(made.carried)
    is_certain = not carry_encodings(made) and made.is_certain
    if made.saved is not None:
        # Values are kept that no header can say, but no encoding.
        for code in (SPARSE_PROPERTIES, SPARSE_APPLICATION):
            if code in by_rules:
                made.carried[code] = by_rules[code]
        clashing: set[str] = set()
        if made.carried.pop(APPLICATION_PROPERTIES_CODE, None) and (
            APPLICATION_PROPERTIES_CODE in by_rules
        ):
            clashing = _carry_application(made)
        return _restored(made, clashing, notes)
    if not made.carried:
        _tell_order(made.entries, notes)
        return _fitting(made.basic, made.wire, message.message_format, notes)
    format_ = message.message_format
    if made.route_position == "first":
        made.carried[FORM] = 1
    annotations = message.message_annotations
    if (
        annotations is not None
        and MESSAGE_ANNOTATIONS_CODE not in made.carried
        # After a broker, headers of these names could not be told apart from those that it adds.
        and (
            made.route_position == "elsewhere" or any(entry[0] in HEADERS for entry in made.entries)
        )
    ):
        carry(made, MESSAGE_ANNOTATIONS_CODE, annotations)
    places = name_order(made.entries)
    is_ordered = places == list(range(len(places)))
    if not is_ordered:
        made.carried[PLACES] = places
    basic = _packed(made.basic, made.carried)
    # After a broker that sorts the headers it is the same: `PLACES` puts them in order again.
    if not is_certain and not (
        _returns(basic, made.wire, format_)
        and (is_ordered or _returns(_sorted(basic), made.wire, format_))
    ):
        basic = _packed(made.basic, _all_of(made.wire, format_))
    return _fitting(basic, made.wire, format_, notes)


def _carry_application(made: BasicDraft) -> set[str]:
    """Carry the application properties beside a residual of 0-9-1.

    Returns:
        The keys of those that do not come back: an annotation has the header of their name, and
        is not carried as well.
    """
    found: Any = made.message.application_properties
    clashing = names_of_annotations(made).intersection(found)
    kept = {key: value for key, value in found.items() if key not in clashing}
    if kept:
        section = ApplicationProperties(kept)
        carry(made, APPLICATION_PROPERTIES_CODE, section)
    return clashing


def _restored(made: BasicDraft, clashing: set[str], notes: Notes) -> BasicMessage:
    """Finish a message that carries what was left over when it was a 0-9-1 message.

    What a broker adds to it on the way is not part of it: encodings and delivery details go.
    """
    basic = restored_basic(made, notes)
    kept = {code: value for code, value in made.carried.items() if code in _KEPT}
    if fields := kept.pop(SPARSE_PROPERTIES, None):
        fields = {index: octets for index, octets in fields.items() if octets != NULL}
        if fields:
            kept[SPARSE_PROPERTIES] = fields
    notes.losses = [loss for loss in notes.losses if loss.path not in made.restored]
    # The parts of a body are not kept either.
    lost = (
        *("header", "message-annotations"),
        *(["body"] if SHAPE in made.carried else []),
        *(path_of_key("application-properties", key) for key in clashing),
    )
    for place, loss in enumerate(notes.losses):
        if loss.recoverable and loss.path.startswith(lost):
            action = "dropped" if loss.action == "carried" else loss.action
            notes.losses[place] = attrs.evolve(loss, action=action, recoverable=False)
    if kept:
        return _packed(basic, kept)
    table = basic.properties.headers
    _tell_order(table.entries if isinstance(table, FieldTable) else [], notes)
    return basic


def _tell_order(entries: list[Any], notes: Notes) -> None:
    """Note of which section the order is lost where a broker sorts the headers."""
    if len(entries) < 2 or not notes.enabled or is_in_name_order(entries):
        return
    properties = [entry for entry in entries if entry[0][:2] != "x-"]
    annotations = [entry for entry in entries if entry[0][:2] == "x-"]
    if not is_in_name_order(properties):
        _tell_sorted("application-properties", notes)
    # They come back sorted, or with a residual that says how they stood among the properties.
    expected = [*in_name_order(properties), *in_name_order(annotations)]
    if not (is_in_name_order(annotations) and is_in_name_order(expected)):
        _tell_sorted("message-annotations", notes)


def _tell_sorted(section: str, notes: Notes) -> None:
    notes.tell(TO_BASIC_LOSSES["by-name"], section, "in their order", "by their names")


def _packed(basic: BasicMessage, content: dict[int, Any]) -> BasicMessage:
    """Add a residual after the headers of a message that was made here."""
    table = basic.properties.headers
    entries = table.entries if isinstance(table, FieldTable) else []
    kept = [entry for entry in entries if entry[0] != residual.NAME]
    kept.append((residual.NAME, "S", residual.pack_text(content)))
    basic.properties.headers = made = FieldTable()
    made.entries = kept
    return basic


def _sorted(basic: BasicMessage) -> BasicMessage:
    """Return the message as RabbitMQ leaves it when it adds a header."""
    table = basic.properties.headers
    entries = in_name_order(table.entries) if isinstance(table, FieldTable) else []
    properties = attrs.evolve(basic.properties, headers=FieldTable.of(entries))
    return attrs.evolve(basic, properties=properties)


def _returns(basic: BasicMessage, wire: bytes, format_: int) -> bool:
    try:
        back = to_amqp10(basic, Notes())
        return back.encode() == wire and back.message_format == format_
    except EncodeError:
        return False


def _all_of(wire: bytes, format_: int) -> dict[int, Any]:
    return {WHOLE: wire, FORMAT: format_} if format_ else {WHOLE: wire}


def _whole(wire: bytes, format_: int, notes: Notes) -> BasicMessage:
    """Translate as much as possible of a message that breaks Part 3, and carry all of it."""
    good: list[bytes] = []
    allowed = kernel.FOLLOWERS[0]
    for code, start, content, end in parts_of(wire):
        # Each section by itself and by its place: an attempt at the whole would be quadratic.
        if code < 0 or not allowed[code] or not _is_section(wire, code, content, end):
            continue
        good.append(wire[start:end])
        allowed = kernel.FOLLOWERS[code - FIRST_CODE + 1]
    octets = b"".join(good)
    made = read(Message.decode(octets, limits=UNLIMITED), octets, notes)
    notes.carried("", len(wire), "the message breaks rules of Part 3: all of it is carried")
    return _fitting(_packed(made.basic, _all_of(wire, format_)), wire, format_, notes)


def _fitting(basic: BasicMessage, wire: bytes, format_: int, notes: Notes) -> BasicMessage:
    """Put a message whose properties would not fit in a frame into the payload, all of it."""
    table: Any = basic.properties.headers
    if table is None:
        return basic
    if len(wire) - len(basic.body) <= residual.ROOMY and not any(
        entry[1] in "AF" for entry in table.entries
    ):
        return basic
    if len(encode_properties(basic.properties)) <= residual.MOST_PROPERTIES:
        return basic
    reason = "the headers do not fit in a frame of 128 KiB: the payload is the whole message"
    notes.add("", "retyped", "sections", "bytes", reason, recoverable=True)
    basic.body = wire
    given = basic.properties
    given.headers = given.content_type = given.content_encoding = given.type = None
    return _packed(basic, {PAYLOAD: 1, FORMAT: format_} if format_ else {PAYLOAD: 1})


def _is_section(wire: bytes, code: int, content: int, end: int) -> bool:
    """Whether what follows a section's descriptor is the section that Part 3 describes."""
    reader = kernel.Reader(wire, content, UNLIMITED)
    reader.end = end
    try:
        reader.section(SPEC_OF[code])
    except kernel.READ_FAULTS:
        return False
    return bool(reader.pos == end)
