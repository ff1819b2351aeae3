"""The rules of the translation from 0-9-1 to 1.0 as data: a `ToAmqp10Rules` for each profile.

The compiled engine is configured from them. The lossless rules are derived from `table`.
"""

from __future__ import annotations

from enum import IntEnum

import attrs

from amqp10msg.basic.properties import PROPERTIES as BASIC_PROPERTIES
from amqp10msg.sections import Header, Properties
from amqp10msg.translate import table
from amqp10msg.translate._delivery import COUNTS, HEADERS
from amqp10msg.translate._headers import (
    BY_ANNOTATION,
    OF_BROKER,
    SECTIONS,
)
from amqp10msg.translate.losses import TO_AMQP10_LOSSES
from amqp10msg.translate.rabbitmq.version import VERSIONS, BrokerVersion
from amqp10msg.translate.residual import NAME
from amqp10msg.wire.kernel.codes import HEADER_CODE, PROPERTIES_CODE


class Form(IntEnum):
    """The values of a property that the engine converts itself, and the conversion."""

    #: A short string.
    TEXT = 0
    #: Either ``urn:uuid:`` and a UUID, or a short string without the prefixes ``urn:`` and ``ID:``.
    ID = 1
    #: A short string; RabbitMQ converts ``urn:uuid:`` and 36 more characters to a UUID.
    BROKER_ID = 2
    #: A symbol that the rules of 1.0 allow; other ASCII text becomes an annotation.
    KNOWN = 3
    #: ASCII.
    SYMBOL = 4
    #: 1 or 2.
    MODE = 5
    #: 0 to 9.
    PRIORITY = 6
    #: Any byte.
    NUMBER = 7
    #: A ttl in decimal digits without sign or leading zeros.
    DIGITS = 8
    #: Seconds, converted to milliseconds.
    SECONDS = 9
    #: Seconds that the broker treats as milliseconds.
    MOMENT = 10
    #: The name of the connection's user.
    USER = 11
    #: The name of a queue, converted to its address.
    ADDRESS = 12


_NUMBERS = {name: number for number, name in enumerate(TO_AMQP10_LOSSES)}
_INDEXES = {row.name: index for index, row in enumerate(BASIC_PROPERTIES)}
#: The engine's numbers for the value after a loss: `Loss.after`.
AFTER = {"nothing": 0, "same": 1, "one": 2, "binary": 3}
_NOTHING, _SAME = AFTER["nothing"], AFTER["same"]
_STRING, _BINARY, _SYMBOL = 0xA1, 0xA0, 0xA3


@attrs.frozen
class PropertyRule:
    """The conversion of a property of class basic.

    Attributes:
        wire_name: its name, such as ``content-type``.
        form: the values that the engine converts.
        section: the code of the section with the field that it becomes; 0 if no field holds it.
        field_index: the index of the field in the section.
        code: the constructor of the field, if it is text.
        annotation: the key of the annotation that it becomes; "" if no annotation holds it.
        only: if the property has both a field and an annotation, the only number that becomes the
            annotation; -1 if no number does.
    """

    wire_name: str
    form: Form
    section: int = 0
    field_index: int = 0
    code: int = _STRING
    annotation: str = ""
    only: int = -1

    @property
    def name(self) -> str:
        """The name of the attribute of `BasicProperties`."""
        return self.wire_name.replace("-", "_")


@attrs.frozen
class ToAmqp10Rules:
    """The rules of a profile.

    Attributes:
        properties: the rule of each property of class basic, in the order of the flags.
        losses: the losses of properties in the order of their report: index of the property, number
            of the loss, number of the value after it (see `AFTER`).
        address: the prefix of a queue's address; "" if the address is the name of the queue.
        unplaced: names of headers that the lossless profile does not convert to annotations.
        history: names of headers that RabbitMQ adds to dead letters, and the codes of their types.
        delivery_count: the encoding of the header's delivery-count, which is always 0.
        is_lossless: whether the profile is lossless, by means of the residual, and not a broker's.
        is_plugin: convert as the plugin of RabbitMQ 3.10 does.
        is_stream: convert as for a message read from a stream.
        own_first: the broker's annotations precede the sender's, with the routing key first.
        trims: omit trailing nulls of the properties.
    """

    properties: tuple[PropertyRule, ...]
    losses: tuple[tuple[int, int, int], ...] = ()
    address: str = ""
    unplaced: list[bytes] = attrs.field(factory=list)
    history: list[tuple[bytes, int]] = attrs.field(factory=list)
    delivery_count: int = 0x43
    is_lossless: bool = False
    is_plugin: bool = False
    is_stream: bool = False
    own_first: bool = False
    trims: bool = True


_FIELDS = {
    f"{name}.{field.name}": (code, index)
    for name, code, cls in (
        ("header", HEADER_CODE, Header),
        ("properties", PROPERTIES_CODE, Properties),
    )
    for index, field in enumerate(attrs.fields(cls))
}
_FORMS = {
    table.ID: Form.ID,
    table.DIGITS: Form.DIGITS,
    table.SECONDS: Form.SECONDS,
    table.PERSISTENT: Form.MODE,
    table.KNOWN: Form.KNOWN,
}


def _lossless_rule(row: table.Row) -> PropertyRule:
    """Derive the engine's rule from a row of the table of correspondences."""
    section, field_index = _FIELDS.get(f"{row.section}.{row.field}", (0, 0))
    return PropertyRule(
        row.annotation.removeprefix(table.PREFIX),
        Form.PRIORITY if row.name == "priority" else _FORMS.get(row.form, Form.TEXT),
        section,
        field_index,
        {table.KNOWN: _SYMBOL, table.BYTES: _BINARY}.get(row.form, _STRING),
        row.annotation,
        {"delivery_mode": 1, "priority": table.DEFAULT_PRIORITY}.get(row.name, -1),
    )


def _field_rule(name: str, form: Form, field_path: str, code: int = _STRING) -> PropertyRule:
    return PropertyRule(name, form, *_FIELDS[field_path], code)


_HEADERS = PropertyRule("headers", Form.TEXT)


def _lossless_rules() -> tuple[PropertyRule, ...]:
    rules = {row.name: _lossless_rule(row) for row in table.ROWS}
    return tuple(rules.get(name, _HEADERS) for name in _INDEXES)


def _losses(*losses: tuple[str, str, int]) -> tuple[tuple[int, int, int], ...]:
    return tuple((_INDEXES[name], _NUMBERS[loss], after) for name, loss, after in losses)


_RABBITMQ = (
    _field_rule("content-type", Form.SYMBOL, "properties.content_type", _SYMBOL),
    _field_rule("content-encoding", Form.SYMBOL, "properties.content_encoding", _SYMBOL),
    _HEADERS,
    _field_rule("delivery-mode", Form.MODE, "header.durable"),
    _field_rule("priority", Form.NUMBER, "header.priority"),
    _field_rule("correlation-id", Form.BROKER_ID, "properties.correlation_id"),
    _field_rule("reply-to", Form.ADDRESS, "properties.reply_to"),
    _field_rule("expiration", Form.DIGITS, "header.ttl"),
    _field_rule("message-id", Form.BROKER_ID, "properties.message_id"),
    _field_rule("timestamp", Form.SECONDS, "properties.creation_time"),
    PropertyRule("type", Form.TEXT, annotation="x-basic-type"),
    _field_rule("user-id", Form.USER, "properties.user_id", _BINARY),
    _field_rule("app-id", Form.TEXT, "properties.group_id"),
    PropertyRule("cluster-id", Form.TEXT),
)
_LOSSES_4 = _losses(
    ("type", "type", _SAME), ("app_id", "app-id", _SAME), ("cluster_id", "cluster-id", _NOTHING)
)
# The rules of RabbitMQ 3.10 that differ from RabbitMQ 4.
_RABBITMQ_3_10 = {
    "correlation-id": _field_rule("correlation-id", Form.TEXT, "properties.correlation_id"),
    "message-id": _field_rule("message-id", Form.TEXT, "properties.message_id"),
    "timestamp": _field_rule("timestamp", Form.MOMENT, "properties.creation_time"),
    "type": PropertyRule("type", Form.TEXT),
    "user-id": _field_rule("user-id", Form.USER, "properties.user_id"),
    "app-id": PropertyRule("app-id", Form.TEXT),
}
_LOSSES_3_10 = _losses(
    ("type", "left-out", _NOTHING),
    ("app_id", "left-out", _NOTHING),
    ("cluster_id", "left-out", _NOTHING),
    ("timestamp", "moment", _SAME),
    ("user_id", "user", _SAME),
)

#: The rules of the lossless profile.
LOSSLESS = ToAmqp10Rules(
    _lossless_rules(),
    unplaced=[name.encode() for name in sorted({NAME, *BY_ANNOTATION, *OF_BROKER, *SECTIONS})],
    history=[(name.encode(), ord(HEADERS[name])) for name in sorted(HEADERS.keys() - COUNTS)],
    is_lossless=True,
)


def _rules_of(version: BrokerVersion) -> ToAmqp10Rules:
    if version.is_plugin:
        return ToAmqp10Rules(
            tuple(_RABBITMQ_3_10.get(rule.wire_name, rule) for rule in _RABBITMQ),
            _LOSSES_3_10,
            address="/queue/",
            delivery_count=0x40,
            is_plugin=True,
            is_stream=version.stream,
            trims=False,
        )
    return ToAmqp10Rules(
        _RABBITMQ,
        _LOSSES_4,
        address="/queues/" if version.queue_addresses else "",
        is_stream=version.stream,
        own_first=version.metadata_first,
        trims=version.trims,
    )


_RULES = {profile: _rules_of(version) for profile, version in VERSIONS.items()}


def rules_of(version: BrokerVersion) -> ToAmqp10Rules:
    """Return the rules of a version of RabbitMQ."""
    return _RULES[version.profile]
