# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The lossless way from 1.0 to 0-9-1.

Runs as it is, and compiled with the C types of `_to_basic.pxd`. The usual values go straight to
their places; `table` and `_values` know the others.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.message import Message
from amqp10msg.sections import BODY_CODES, Data, Header
from amqp10msg.sections.parts import octets_of_sections
from amqp10msg.translate import residual
from amqp10msg.translate._contents import (
    FORM,
    FORMAT,
    SHAPE,
    SPARSE_APPLICATION,
    UNMARKED,
    is_of_basic,
)
from amqp10msg.translate._delivery import becomes_text, decorated
from amqp10msg.translate._fields import is_data, set_properties, tell_fragile
from amqp10msg.translate._headers import (
    BY_ANNOTATION,
    FOUND,
    LONGEST_ROUTE,
    PICKY,
    ROUTES,
    header_field,
    header_of,
    property_name,
)
from amqp10msg.translate._reading import DELIVERY_MODE, EXPIRATION, PRIORITY_AT, TYPE, Reading
from amqp10msg.translate._to_amqp10 import is_finite
from amqp10msg.translate._values import LETTERS as _LETTERS
from amqp10msg.translate.rabbitmq.writing import rewritten
from amqp10msg.translate.report import Notes, path_of_key
from amqp10msg.translate.table import DEFAULT_PRIORITY, MARKER, ROWS, shortstr
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    FOOTER_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
)
from amqp10msg.wire.kernel.messages import write_message
from amqp10msg.wire.kernel.twin import Entries, Layout, Text
from amqp10msg.wire.primitives import Int

_MESSAGE = Layout(
    Message,
    [
        "header",
        "delivery_annotations",
        "message_annotations",
        "properties",
        "application_properties",
        "footer",
        "message_format",
    ],
)
_HEADER = Layout(Header, [field.name for field in attrs.fields(Header)])
_EXCHANGE = "x-exchange"
_ROUTING_KEY = "x-routing-key"
_RESIDUAL = residual.NAME
_BY_ANNOTATION = BY_ANNOTATION
_FOUND = FOUND.known
_INT_LETTERS = "bBsuIi"

_Int = Int
_Data = Data


def _is_usual_name(name: Any) -> bool:
    """Whether an application property of this name is a header of that name."""
    if not Text.is_plain(name, 255):
        return False
    known: str = name
    if len(known) <= LONGEST_ROUTE:
        return known not in ROUTES and known[:2] != "x-"
    return not (known[0] == "x" and known[1] == "-")


def read(message: Any, wire: Any, notes: Any) -> Reading:
    """Translate by the rules, and collect what needs the residual.

    Args:
        message: decoded from `wire`.
        wire: its octets.
        notes: takes the losses.
    """
    made = Reading(message, wire)
    _body(made, notes)
    header, delivery_annotations, own, properties, application, footer, format_ = _MESSAGE.values(
        message
    )
    annotations = None
    if own is not None:
        annotations = Entries.of(own)
    delivered = _delivery(made, annotations)
    if delivered:
        made.certain = False
    if header is not None:
        _header(made, header, delivered, notes)
    elif delivered:
        made.carried[HEADER_CODE] = b""
    if properties is not None:
        set_properties(made, properties, notes)
    if application is not None:
        _application(made, application, notes)
    made.split = len(made.entries)
    if annotations is not None:
        _annotations(made, annotations, delivered, notes)
    if delivery_annotations is not None:
        made.carried[DELIVERY_ANNOTATIONS_CODE] = kernel.encode_value(delivery_annotations)
        notes.carried(
            "delivery-annotations", dict(delivery_annotations), "0-9-1 has no delivery-annotations"
        )
    if footer is not None:
        made.carried[FOOTER_CODE] = kernel.encode_value(footer)
        notes.carried("footer", dict(footer), "0-9-1 has no footer")
    if format_:
        made.carried[FORMAT] = format_
    made.build()
    return made


def usual(message: Any, notes: Any) -> Reading | None:
    """Read a message that is encoded as this library would; None where it is not."""
    known = message._wire
    if known is None or message._lenient or write_message(message) != known:
        return None
    return read(message, known, notes)


def _delivery(made: Reading, annotations: dict[Any, Any] | None) -> str:
    """Find the two annotations that RabbitMQ 4 adds at delivery; return in which order they are."""
    if annotations is None or _EXCHANGE not in annotations:
        return ""
    keys = list(annotations)
    exchange, key = annotations.get(_EXCHANGE), annotations.get(_ROUTING_KEY)
    if not (type(exchange) is str and type(key) is str and shortstr(exchange) and shortstr(key)):
        return ""
    if not exchange and not key:
        return ""
    made.exchange, made.routing_key = exchange, key
    if keys[:2] == [_ROUTING_KEY, _EXCHANGE]:
        return "later"
    return "exact" if keys[len(keys) - 2 :] == [_EXCHANGE, _ROUTING_KEY] else "other"


def _is_transient(made: Reading) -> bool:
    """Whether a delivered message says in the annotation that its delivery mode was 1.

    RabbitMQ 4.0 and 4.1 make a message durable that does not say whether it is, so behind them the
    annotation is to be believed and not the header.
    """
    annotations: Any = made.message.message_annotations or {}
    return bool(annotations.get(_MODE.annotation) == 1)


def _header(made: Reading, header: Any, delivered: str, notes: Notes) -> None:
    exact = True
    durable, priority, ttl, first_acquirer, count = _HEADER.values(header)
    if durable and not (delivered and _is_transient(made)):
        made.given[DELIVERY_MODE] = 2
    if priority != DEFAULT_PRIORITY:
        value, same = _PRIORITY.backward(int(priority))
        made.given[PRIORITY_AT] = value
        if not same:
            exact = False
            notes.add(
                "header.priority",
                "clamped",
                priority,
                value,
                "a priority of 0-9-1 is 0 to 9",
                recoverable=True,
            )
    if ttl is not None:
        made.given[EXPIRATION] = str(int(ttl))
    if delivered:
        made.redelivered = not first_acquirer
        if count or delivered == "other" or not made.raw.startswith(decorated(header)):
            exact = False
    else:
        if count:
            made.redelivered = True
        if count == 1 and not first_acquirer:
            # What a redelivered 0-9-1 message becomes, so it returns without a residual.
            notes.add(
                "header.delivery-count",
                "retyped",
                count,
                True,
                "redelivered says it; a broker on the way back says both anew",
                recoverable=True,
            )
        elif first_acquirer or count:
            exact = False
            notes.add(
                "header",
                "carried",
                header,
                made.redelivered,
                "0-9-1 says only whether it may have been delivered before",
                recoverable=True,
            )
        if not (durable or priority != DEFAULT_PRIORITY or ttl is not None or count):
            exact = False
    if not exact:
        made.carried[HEADER_CODE] = kernel.encode_value(header)


def _application(made: Reading, application: Any, notes: Notes) -> None:
    sparse: dict[str, bytes] = {}
    whole = not application
    entries = made.entries
    held = Entries.of(application)
    for key, value in held.items():
        kind = type(value)
        if _is_usual_name(key):
            # In the order of their frequency.
            if kind is str:
                entries.append((key, "S", value))
                continue
            if kind is _Int:
                entries.append((key, "I", int(value)))
                continue
            if kind is float and is_finite(value):
                entries.append((key, "d", value))
                continue
            letter = _LETTERS.get(kind)
            if letter is not None:
                entries.append((key, letter, int(value) if letter in _INT_LETTERS else value))
                if letter == "x":
                    _in_stream(f"application-properties[{key!r}]", letter, value, value, notes)
                continue
        named = property_name(key)
        letter, item, exact = header_field(named[0], value) if named else ("", None, False)
        if named is None or not letter or (not named[1] and _header_exists(made, named[0])):
            whole = True
            notes.carried(f"application-properties[{key!r}]", value, "no header can say it")
            continue
        entries.append((named[0], letter, item))
        if letter in "xAF":
            _in_stream(f"application-properties[{key!r}]", letter, value, item, notes)
        whole = whole or not named[1]
        if not exact or letter in "AF":
            sparse[key] = kernel.encode_value(value)
            notes.add(
                f"application-properties[{key!r}]",
                "retyped",
                value,
                item,
                "0-9-1 has no such type",
                recoverable=True,
            )
    if whole:
        made.certain = False
        made.carried[APPLICATION_PROPERTIES_CODE] = kernel.encode_value(application)
    elif sparse:
        made.carried[SPARSE_APPLICATION] = sparse


def _in_stream(path: str, letter: str, value: Any, item: Any, notes: Notes) -> None:
    """Note what a stream would change."""
    if becomes_text(letter, item):
        notes.add(
            path,
            "retyped",
            value,
            item,
            "unchanged, but a stream of RabbitMQ 4 makes text of bytes that are UTF-8",
            recoverable=True,
        )
    elif letter in "AF" and path.startswith("message-annotations"):
        notes.add(
            path,
            "dropped",
            value,
            item,
            "unchanged, but a stream of RabbitMQ 3.10 drops arrays and tables",
            recoverable=True,
        )


def _header_exists(made: Reading, name: str) -> bool:
    """Whether an annotation becomes a header of this name."""
    for key in made.message.message_annotations or ():
        found = header_of(key)
        if found is not None and found[0] == name:
            return True
    return False


def _annotations(made: Reading, annotations: Any, delivered: str, notes: Notes) -> None:
    exact = True
    produced = False
    last = 0
    names: set[str] = set()
    saved = _RESIDUAL in annotations
    if saved:
        made.certain = False
    for key, value in annotations.items():
        if saved and key == _RESIDUAL:
            made.saved = _read_saved(value, notes)
            if made.saved is None:
                exact = False
            else:
                produced = True
            continue
        if delivered and key in (_EXCHANGE, _ROUTING_KEY):
            produced = True
            continue
        row = _BY_ANNOTATION.get(key) if isinstance(key, str) else None
        if row is not None:
            made.certain = False
            held = _annotated(made, row, value)
            if held is not None:
                made.given[row.number - 1] = held
                produced = True
                if not saved:
                    tell_fragile(row, held, path_of_key("message-annotations", key), notes)
                exact = exact and row.number > last and not names
                last = row.number
                continue
        name, letter, item, same = annotation_header(key, value, notes, saved, names)
        if not letter:
            exact = False
            continue
        produced = True
        names.add(name)
        made.entries.append((name, letter, item))
        exact = exact and same
    if saved:
        keys = list(annotations)
        if keys[len(keys) - (3 if delivered and delivered != "later" else 1)] != _RESIDUAL:
            exact = False
    if exact and produced and delivered == "later":
        made.carried[FORM] = 1
    elif not exact or not produced or delivered == "other":
        made.carried[MESSAGE_ANNOTATIONS_CODE] = kernel.encode_value(
            made.message.message_annotations
        )


def annotation_header(
    key: Any, value: Any, notes: Any, saved: bool = False, names: Any = ()
) -> tuple[str, str, Any, bool]:
    """Make the header of an annotation, and tell where it is not the same.

    Args:
        key: of the annotation.
        value: of the annotation.
        notes: takes the losses.
        saved: what a stream would change is not told, as the residual holds it.
        names: of the headers that there are already.

    Returns:
        Its name, letter and value, and whether the way back gives the annotation again; the letter
        is "" where there is no such header.
    """
    found = _FOUND.get(key)
    if found is None:
        found = header_of(key)
    letter = _LETTERS.get(type(value), "")
    item, same = value, True
    if found is not None and (not letter or found[0] in PICKY):
        letter, item, same = header_field(found[0], value)
    elif letter and letter in _INT_LETTERS:
        item = int(value)
    if found is None or not letter or found[0] in names:
        notes.carried(path_of_key("message-annotations", key), value, "no header can say it")
        return "", "", None, False
    if letter in "xAF" and not saved:
        _in_stream(path_of_key("message-annotations", key), letter, value, item, notes)
    if found[1] and same:
        return found[0], letter, item, True
    notes.add(
        path_of_key("message-annotations", key),
        "retyped",
        value,
        item,
        "0-9-1 has no such type, or the name is another",
        recoverable=True,
    )
    return found[0], letter, item, False


def _read_saved(value: Any, notes: Notes) -> dict[int, Any] | None:
    found = residual.unpack(value) if isinstance(value, bytes) else None
    if found is not None and not is_of_basic(found):
        found = None
    if found is None:
        notes.carried(
            f"message-annotations[{residual.NAME!r}]",
            value,
            "it is not a residual, or damaged, and is ignored",
        )
    return found


def _annotated(made: Reading, row: Any, value: Any) -> Any:
    """Return the property that an annotation holds, None where it is not to be believed."""
    if made.given[row.number - 1] is not None:
        return None  # the field says it
    section = row.section
    if not section and row.name != "type" and Text.is_plain(value, 255):
        return value
    header = made.message.header
    if (
        section == "header"
        and header is not None
        and getattr(header, row.field) != row.default
        and not (row is _MODE and (made.exchange or made.routing_key))
    ):
        return None
    return row.annotated(value, is_data(made))


def _body(made: Reading, notes: Notes) -> None:
    body = made.body
    if type(body) is _Data:
        made.payload = bytes(body.data)
        return
    made.certain = made.certain and body is not None and not isinstance(body, list)
    if body is None:
        made.carried[SHAPE] = []
        notes.add(
            "body", "carried", None, b"", "a 0-9-1 message always has a payload", recoverable=True
        )
        return
    if isinstance(body, list) and isinstance(body[0], Data):
        made.payload = b"".join([bytes(part.data) for part in body])
        made.carried[SHAPE] = []  # filled with what stands on the wire
        notes.add("body", "retyped", len(body), 1, "the data sections are joined", recoverable=True)
        return
    made.payload = octets_of_sections(made.raw, BODY_CODES)
    written = rewritten(made.payload)
    if written is not None:
        made.given[TYPE] = MARKER
        if written != made.payload:
            notes.add(
                "body",
                "retyped",
                "sections",
                "sections",
                "unchanged, but a stream of RabbitMQ 4 re-encodes it (arrays, for example)",
                recoverable=True,
            )
        return
    made.certain = False
    made.carried[UNMARKED] = 1
    notes.add(
        "body",
        "retyped",
        "sections",
        "bytes",
        "RabbitMQ could not deliver it as sections: the payload is the encoded sections",
        recoverable=True,
    )


_MODE = next(row for row in ROWS if row.name == "delivery_mode")
_PRIORITY = next(row for row in ROWS if row.field == "priority")
