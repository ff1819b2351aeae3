# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The lossless way from 0-9-1 to 1.0.

Runs as it is, and compiled with the C types of `_to_amqp10.pxd`. The usual values go straight to
their places; `table` and `_values` know the others.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties, encode_field, encode_table
from amqp10msg.basic.tables import FieldTable, as_table
from amqp10msg.message import Message
from amqp10msg.sections import (
    Data,
)
from amqp10msg.translate import residual
from amqp10msg.translate._contents import (
    BODY,
    EMPTY,
    EXCHANGE,
    FIELDS,
    ORDER,
    ROUTING_KEY,
    TABLE,
)
from amqp10msg.translate._delivery import without_facts
from amqp10msg.translate._headers import (
    LONGEST_ROUTE,
    PICKY,
    ROUTES,
    SYMBOLS,
    annotation_of,
    header_value,
    is_name,
)
from amqp10msg.translate._natural import Natural
from amqp10msg.translate._values import NOTHING
from amqp10msg.translate.rabbitmq.writing import rewritten
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import (
    BYTES,
    DIGITS,
    ID,
    KNOWN,
    MARKER,
    PERSISTENT,
    ROWS,
    SECONDS,
    shortstr,
)
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel.twin import Layout, Text
from amqp10msg.wire.primitives import Int, ULong

_ANY = 2**31 - 1

_DATA = Layout(Data, [field.name for field in attrs.fields(Data)])
_BASIC = Layout(BasicMessage, [field.name for field in attrs.fields(BasicMessage)])
_new_int: Any = int.__new__
_Int = Int
_INTS = [Int(number) for number in range(-128, 128)]
_SYMBOLS = SYMBOLS.known

_RESIDUAL = residual.NAME

# The rows as the loop over the properties wants them.
_GIVEN = Layout(BasicProperties, [row.name for row in ROWS])
_ROWS = ROWS
_KEYS = tuple(row.annotation for row in ROWS)
_FORMS = bytes(row.form for row in ROWS)
_SYMBOLS_OF = [row.symbols.known for row in ROWS]
_IN_FIELD = bytes(row.section != "" for row in ROWS)
_TYPE = next(index for index, row in enumerate(ROWS) if row.name == "type")
_ID, _BYTES, _DIGITS, _SECONDS, _PERSISTENT, _KNOWN = ID, BYTES, DIGITS, SECONDS, PERSISTENT, KNOWN
# Twelve digits with their thousands fit a timestamp, and nine a ttl.
_MAX_SECONDS = 10**12
_MAX_DIGITS = 9


def is_ascii(text: Any) -> bool:
    """Whether something is a str of ASCII."""
    if type(text) is not str:
        return False
    known: str = text
    return known.isascii()


def is_finite(number: float) -> bool:
    """Whether a double is neither NaN nor an infinity."""
    return number - number == 0


def _is_usual_name(name: Any) -> bool:
    return Text.is_plain(name, _ANY) and (len(name) > LONGEST_ROUTE or name not in ROUTES)


def is_extension(name: Any) -> bool:
    """Whether a header's name begins with ``x-``."""
    if type(name) is not str:
        return bool(name[:2] == "x-")
    known: str = name
    return len(known) > 1 and known[0] == "x" and known[1] == "-"


def int_of(number: int) -> Any:
    """Return an AMQP int; small ones are made once."""
    if -128 <= number <= 127:
        return _INTS[number + 128]
    return _new_int(_Int, number)


def is_delivered(basic: BasicMessage) -> bool:
    """Whether exchange and routing key stand in annotations, as RabbitMQ 4 delivers them."""
    return bool(basic.exchange or basic.routing_key) and (
        shortstr(basic.exchange) and shortstr(basic.routing_key)
    )


def body_of(octets: bytes) -> Message | None:
    """Read a payload as the body sections that the marker promises; None where it is none."""
    try:
        found = Message.decode(octets)
    except DecodeError:
        return None
    alone = all(
        getattr(found, name) is None
        for name in (
            "header",
            "delivery_annotations",
            "message_annotations",
            "properties",
            "application_properties",
            "footer",
        )
    )
    return found if alone and found.body is not None else None


def translated(basic: Any, notes: Any) -> Any:
    """Translate a message by the rules; None where a header holds a residual."""
    table = basic.properties.headers
    entries = None
    if table is not None:
        entries = as_table(table).entries
        if entries and (basic.exchange or basic.routing_key):
            basic, entries = without_facts(basic, entries, notes)
    made = natural(basic, entries, notes)
    if made.has_residual:
        notes.losses.clear()
        return None
    return made.message(basic)


def natural(basic: Any, entries: Any, notes: Any) -> Natural:
    """Translate by the rules, and collect what needs the residual.

    Args:
        basic: the message.
        entries: of its table of headers, None where it has none.
        notes: takes the losses.
    """
    made = Natural()
    given, body, exchange, routing_key, redelivered = _BASIC.values(basic)
    is_routed = bool(exchange or routing_key)
    made.is_delivered = is_routed and is_delivered(basic)
    values = _GIVEN.values(given)
    if values[_TYPE] == MARKER:
        _marked_body(made, basic)
    if made.body is None:
        made.body = _DATA.build([body])
    _properties(made, values, notes)
    if redelivered and not made.is_delivered:
        notes.add(
            "redelivered",
            "retyped",
            True,
            1,
            "header.delivery-count says it; a broker on the way back says both anew",
            recoverable=True,
        )
    if is_routed and not made.is_delivered:
        for key, text in ((EXCHANGE, exchange), (ROUTING_KEY, routing_key)):
            made.carried[key] = text.encode("utf-8", "surrogateescape")
        notes.carried(
            "routing-key",
            (exchange, routing_key),
            "exchange or routing key is no UTF-8 without NUL of 255 bytes at most",
        )
    if entries is not None:
        _headers(made, entries, notes)
    return made


def _marked_body(made: Natural, basic: BasicMessage) -> None:
    found = body_of(basic.body)
    if found is None:
        return
    made.body = found.body
    made.body_octets = basic.body
    first = found.body[0] if isinstance(found.body, list) else found.body
    made.is_data = isinstance(first, Data)
    if made.is_data or rewritten(basic.body) is None:
        # The way back takes data for the payload itself, and what RabbitMQ cannot deliver as
        # sections for bytes.
        made.carried[BODY] = 1


def _properties(made: Natural, values: tuple[Any, ...], notes: Notes) -> None:
    for index in range(len(_FORMS)):
        value = values[index]
        if value is None:
            continue
        if index == _TYPE and value == MARKER:
            if made.body_octets is None:
                _by_rule(made, index, value, notes)
            continue  # the kind of body says it
        if not made.is_data and _FORMS[index] == _KNOWN and Text.is_plain(value, _ANY):
            # In front of another body the field has no meaning.
            made.annotations[_KEYS[index]] = value
            continue
        item = _usual(made, index, value)
        if item is None:
            _by_rule(made, index, value, notes)
        elif _IN_FIELD[index]:
            made.set(index, item)
        else:
            made.annotations[_KEYS[index]] = item


def _usual(made: Natural, index: int, value: Any) -> Any:
    """Return what a property of its usual form becomes, None for any other."""
    form = _FORMS[index]
    if form == _KNOWN:
        known: dict[Any, Any] = _SYMBOLS_OF[index]
        return known.get(value) if made.is_data and type(value) is str else None
    if form == _PERSISTENT:
        return True if value == 2 else None
    if form == _SECONDS:
        if type(value) is int and 0 <= value < _MAX_SECONDS:
            return value * 1000
        return None
    if form == 0 or not Text.is_plain(value, _ANY):
        return None
    text: str = value
    if form == _ID:
        # C knows no tuple of prefixes.
        return None if text.startswith("urn:") or text.startswith("ID:") else text  # noqa: PIE810
    if form == _DIGITS:
        if not text.isdigit() or len(text) > _MAX_DIGITS or (text[0] == "0" and text != "0"):
            return None
        return int(text)
    return text.encode("ascii") if form == _BYTES else text


def _by_rule(made: Natural, index: int, value: Any, notes: Notes) -> None:
    """Translate a property as its row says, and note what that does not keep."""
    row = _ROWS[index]
    where, item, exact, (action, reason) = row.forward(value, made.is_data)
    if where == "field":
        made.set(index, item)
        if exact and row.form == _KNOWN:
            row.symbols.keep(value, item)
    elif where == "annotation":
        made.annotations[row.annotation] = item
    if not exact:
        made.carried[row.number] = _original(row.name, value)
        path = f"properties.{row.name.replace('_', '-')}"
        notes.add(path, action, value, item, reason, recoverable=True)
    elif type(item) is ULong:
        reason = "a ulong id kills consumers of 0-9-1 behind RabbitMQ 3.10"
        notes.add(
            f"properties.{row.name.replace('_', '-')}",
            "retyped",
            value,
            item,
            reason,
            recoverable=True,
        )


def _original(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise EncodeError(f"{value!r:.60} does not fit", f"properties.{name}")


def _headers(made: Natural, entries: list[Any], notes: Notes) -> None:
    application = made.application
    annotations = made.annotations
    item: Any
    fields: dict[str, bytes] = {}
    order: list[int] = []
    whole = False
    mixed = False
    position = -1
    for name, letter, value in entries:
        position += 1
        # The usual letters without a call.
        exact = True
        simple = True
        if letter == "S" and is_ascii(value):
            item = value
        elif letter == "I" and type(value) is int and -0x8000_0000 <= value <= 0x7FFF_FFFF:
            item = int_of(value)
        elif (
            letter == "l"
            or (letter == "d" and type(value) is float and is_finite(value))
            or (letter == "t" and type(value) is bool)
        ):
            item = value
        else:
            simple = False
        if is_extension(name):
            order.append(position)
            key = _SYMBOLS.get(name)
            if key is None:
                key = annotation_of(name)
            if key is None:
                item, exact = NOTHING, False
                made.has_residual = made.has_residual or name == _RESIDUAL
            elif not simple or name in PICKY:
                item, exact = header_value(name, letter, value)
            if item is not NOTHING:
                size = len(annotations)
                annotations.setdefault(key, item)
                if len(annotations) == size:
                    item = NOTHING
        else:
            if order:
                mixed = True
            if not simple:
                item, exact = header_value(name, letter, value)
            if item is not NOTHING:
                size = len(application)
                if _is_usual_name(name) or is_name(name):
                    application.setdefault(name, item)
                if len(application) == size:
                    item = NOTHING
        if item is NOTHING:
            whole = True
            made.unplaced.append(name)
            notes.carried(
                f"headers[{name!r}]",
                value,
                "1.0 has no place for it, or a broker could not deliver it",
            )
        elif not exact:
            fields[name] = encode_field(letter, value)
            notes.add(
                f"headers[{name!r}]",
                "retyped",
                value,
                item,
                f"1.0 has no type for {letter!r}",
                recoverable=True,
            )
    if whole:
        made.carried[TABLE] = encode_table(FieldTable.of(entries))
        return
    if fields:
        made.carried[FIELDS] = fields
    if mixed:
        made.carried[ORDER] = order
    if not entries:
        made.carried[EMPTY] = 1
