"""The rules of the translation from 0-9-1 to 1.0 as data: a `ToAmqp10Rules` for each profile.

The compiled engine is configured from them. The lossless rules are derived from `table`.
"""

from __future__ import annotations

from enum import IntEnum

import attrs

from amqp10msg.basic.properties import PROPERTIES as BASIC_PROPERTIES
from amqp10msg.sections import Header, Properties
from amqp10msg.translate import table
from amqp10msg.translate._delivery import ADDED_HEADER_LETTERS, PER_DELIVERY_HEADER_NAMES
from amqp10msg.translate._headers import (
    BROKER_RESERVED_NAMES,
    ROW_BY_ANNOTATION,
    SAVED_SECTION_HEADERS,
)
from amqp10msg.translate.losses import TO_AMQP10_LOSSES
from amqp10msg.translate.rabbitmq.version import VERSIONS, BrokerVersion
from amqp10msg.translate.residual import RESIDUAL_NAME
from amqp10msg.wire.kernel.codes import HEADER_CODE, PROPERTIES_CODE


class Form(IntEnum):
    """How the compiled engine converts a 0-9-1 property. The plain rules convert other values."""

    #: A short string becomes the same text.
    TEXT = 0
    #: ``urn:uuid:`` and a UUID becomes a uuid, ``ID:AMQP_BINARY:`` and hexadecimal digits a binary.
    #: Any other short string becomes the same text.
    ID = 1
    #: A short string becomes the same text, but RabbitMQ converts ``urn:uuid:`` and 36 characters
    #: to a uuid.
    BROKER_ID = 2
    #: ASCII text becomes a symbol if its 1.0 field can hold the text, otherwise an annotation.
    KNOWN_SYMBOL = 3
    #: ASCII text becomes a symbol.
    SYMBOL = 4
    #: Delivery mode 1 or 2 becomes false or true.
    DELIVERY_MODE = 5
    #: A priority from 0 to 9 becomes a ubyte.
    PRIORITY = 6
    #: A priority from 0 to 255 becomes a ubyte.
    ANY_PRIORITY = 7
    #: Decimal text below 2^32, without sign or leading zeros, becomes a uint (the ttl).
    TTL_DIGITS = 8
    #: Seconds become milliseconds.
    SECONDS = 9
    #: Seconds become the same number of milliseconds, as in RabbitMQ 3.10.
    SAME_NUMBER_OF_MS = 10
    #: The name of the connection's user becomes the user-id.
    USER = 11
    #: The name of a queue becomes the queue's address.
    ADDRESS = 12


_LOSS_INDEXES = {name: number for number, name in enumerate(TO_AMQP10_LOSSES)}
_PROPERTY_INDEXES = {row.name: index for index, row in enumerate(BASIC_PROPERTIES)}
#: The engine's number for each kind of translated value (`Loss.after`), which is either missing,
#: the same as the original value, the number 1, or the text "binary".
AFTER_NUMBERS = {"nothing": 0, "same": 1, "one": 2, "binary": 3}
_NO_VALUE, _SAME_VALUE = AFTER_NUMBERS["nothing"], AFTER_NUMBERS["same"]
_STRING, _BINARY, _SYMBOL = 0xA1, 0xA0, 0xA3  # constructors of the short forms


@attrs.frozen
class PropertyRule:
    """How the engine converts a property of class basic.

    Attributes:
        wire_name: the property's name in the specification, such as ``content-type``.
        form: the values that the engine converts, and their conversion.
        section: the code of the 1.0 section whose field holds the property; 0 if there is no field.
        field_index: the index of that field in the section.
        text_constructor: the constructor of the field's short form, if the field is text.
        annotation: the key of the annotation that holds the property; "" if there is none.
        value_stored_as_annotation: if the property has both a field and an annotation, the only
            value that goes into the annotation; -1 if every value goes into the field.
    """

    wire_name: str
    form: Form
    section: int = 0
    field_index: int = 0
    text_constructor: int = _STRING
    annotation: str = ""
    value_stored_as_annotation: int = -1

    @property
    def name(self) -> str:
        """The property's attribute of `BasicProperties`."""
        return self.wire_name.replace("-", "_")


@attrs.frozen
class ToAmqp10Rules:
    """The rules of a profile, which the compiled engine copies when it is created.

    Attributes:
        properties: the rule of each property of class basic, in the order of the property flags.
        property_losses: the losses of properties, in the order in which they are reported: the
            property's index, the loss's index in `TO_AMQP10_LOSSES`, and a number of
            `AFTER_NUMBERS`.
        address_prefix: the prefix of a queue's address; "" if a queue's address is its name.
        residual_headers: names of ``x-`` headers that become no annotation in the lossless profile:
            the residual holds them.
        death_headers: names of headers that RabbitMQ adds to dead letters, and their type letters
            as numbers.
        delivery_count: the byte that encodes the header's delivery-count, which is 0 or null.
        is_lossless: whether this is the lossless profile, instead of a version of RabbitMQ.
        is_plugin: whether to convert like the plugin of RabbitMQ 3.10.
        is_stream: whether to convert like a stream of RabbitMQ, instead of a queue.
        broker_annotations_first: whether the broker's annotations precede the sender's, and the
            routing key the exchange.
        trims_nulls: whether to omit trailing nulls of the properties section.
    """

    properties: tuple[PropertyRule, ...]
    property_losses: tuple[tuple[int, int, int], ...] = ()
    address_prefix: str = ""
    residual_headers: list[bytes] = attrs.field(factory=list)
    death_headers: list[tuple[bytes, int]] = attrs.field(factory=list)
    delivery_count: int = 0x43
    is_lossless: bool = False
    is_plugin: bool = False
    is_stream: bool = False
    broker_annotations_first: bool = False
    trims_nulls: bool = True


# The section's code and the index of each field, by path, such as ``header.ttl``.
_FIELD_POSITIONS = {
    f"{name}.{field.name}": (code, index)
    for name, code, cls in (
        ("header", HEADER_CODE, Header),
        ("properties", PROPERTIES_CODE, Properties),
    )
    for index, field in enumerate(attrs.fields(cls))
}
# The engine's form for `table.Row.form`; `Form.TEXT` for all other forms.
_ENGINE_FORMS = {
    table.ID_FORM: Form.ID,
    table.DIGITS_FORM: Form.TTL_DIGITS,
    table.SECONDS_FORM: Form.SECONDS,
    table.PERSISTENT_TO_DURABLE_FORM: Form.DELIVERY_MODE,
    table.KNOWN_SYMBOL_FORM: Form.KNOWN_SYMBOL,
}


def _lossless_rule(row: table.Row) -> PropertyRule:
    """Derive the engine's rule for a property from its row in `table.ROWS`."""
    section, field_index = _FIELD_POSITIONS.get(f"{row.section}.{row.field}", (0, 0))
    return PropertyRule(
        row.annotation.removeprefix(table.ANNOTATION_PREFIX),
        Form.PRIORITY if row.name == "priority" else _ENGINE_FORMS.get(row.form, Form.TEXT),
        section,
        field_index,
        {table.KNOWN_SYMBOL_FORM: _SYMBOL, table.BYTES_FORM: _BINARY}.get(row.form, _STRING),
        row.annotation,
        {"delivery_mode": 1, "priority": table.DEFAULT_PRIORITY}.get(row.name, -1),
    )


def _field_rule(name: str, form: Form, field_path: str, code: int = _STRING) -> PropertyRule:
    """Return the rule for a property that becomes a field, such as ``header.ttl``."""
    return PropertyRule(name, form, *_FIELD_POSITIONS[field_path], code)


_HEADERS_RULE = PropertyRule("headers", Form.TEXT)


def _lossless_rules() -> tuple[PropertyRule, ...]:
    """Return the lossless rule of each property, in the order of the flags."""
    rules = {row.name: _lossless_rule(row) for row in table.ROWS}
    return tuple(rules.get(name, _HEADERS_RULE) for name in _PROPERTY_INDEXES)


def _loss_numbers(*losses: tuple[str, str, int]) -> tuple[tuple[int, int, int], ...]:
    """Replace names by the engine's numbers, for `ToAmqp10Rules.property_losses`."""
    return tuple(
        (_PROPERTY_INDEXES[name], _LOSS_INDEXES[loss], after) for name, loss, after in losses
    )


_RABBITMQ_4_PROPERTIES = (
    _field_rule("content-type", Form.SYMBOL, "properties.content_type", _SYMBOL),
    _field_rule("content-encoding", Form.SYMBOL, "properties.content_encoding", _SYMBOL),
    _HEADERS_RULE,
    _field_rule("delivery-mode", Form.DELIVERY_MODE, "header.durable"),
    _field_rule("priority", Form.ANY_PRIORITY, "header.priority"),
    _field_rule("correlation-id", Form.BROKER_ID, "properties.correlation_id"),
    _field_rule("reply-to", Form.ADDRESS, "properties.reply_to"),
    _field_rule("expiration", Form.TTL_DIGITS, "header.ttl"),
    _field_rule("message-id", Form.BROKER_ID, "properties.message_id"),
    _field_rule("timestamp", Form.SECONDS, "properties.creation_time"),
    PropertyRule("type", Form.TEXT, annotation="x-basic-type"),
    _field_rule("user-id", Form.USER, "properties.user_id", _BINARY),
    _field_rule("app-id", Form.TEXT, "properties.group_id"),
    PropertyRule("cluster-id", Form.TEXT),
)
_RABBITMQ_4_LOSSES = _loss_numbers(
    ("type", "type", _SAME_VALUE),
    ("app_id", "app-id", _SAME_VALUE),
    ("cluster_id", "cluster-id", _NO_VALUE),
)
# The properties whose rules in RabbitMQ 3.10 differ from RabbitMQ 4.
_RABBITMQ_3_10_PROPERTIES = {
    "correlation-id": _field_rule("correlation-id", Form.TEXT, "properties.correlation_id"),
    "message-id": _field_rule("message-id", Form.TEXT, "properties.message_id"),
    "timestamp": _field_rule("timestamp", Form.SAME_NUMBER_OF_MS, "properties.creation_time"),
    "type": PropertyRule("type", Form.TEXT),
    "user-id": _field_rule("user-id", Form.USER, "properties.user_id"),
    "app-id": PropertyRule("app-id", Form.TEXT),
}
_RABBITMQ_3_10_LOSSES = _loss_numbers(
    ("type", "left-out", _NO_VALUE),
    ("app_id", "left-out", _NO_VALUE),
    ("cluster_id", "left-out", _NO_VALUE),
    ("timestamp", "moment", _SAME_VALUE),
    ("user_id", "user", _SAME_VALUE),
)

#: The rules of the lossless profile.
LOSSLESS = ToAmqp10Rules(
    _lossless_rules(),
    residual_headers=[
        name.encode()
        for name in sorted(
            {RESIDUAL_NAME, *ROW_BY_ANNOTATION, *BROKER_RESERVED_NAMES, *SAVED_SECTION_HEADERS}
        )
    ],
    death_headers=[
        (name.encode(), ord(ADDED_HEADER_LETTERS[name]))
        for name in sorted(ADDED_HEADER_LETTERS.keys() - PER_DELIVERY_HEADER_NAMES)
    ],
    is_lossless=True,
)


def _make_rules(version: BrokerVersion) -> ToAmqp10Rules:
    """Return the rules of a version of RabbitMQ."""
    if version.is_plugin:
        return ToAmqp10Rules(
            tuple(
                _RABBITMQ_3_10_PROPERTIES.get(rule.wire_name, rule)
                for rule in _RABBITMQ_4_PROPERTIES
            ),
            _RABBITMQ_3_10_LOSSES,
            address_prefix="/queue/",
            delivery_count=0x40,
            is_plugin=True,
            is_stream=version.stream,
            trims_nulls=False,
        )
    return ToAmqp10Rules(
        _RABBITMQ_4_PROPERTIES,
        _RABBITMQ_4_LOSSES,
        address_prefix="/queues/" if version.queue_addresses else "",
        is_stream=version.stream,
        broker_annotations_first=version.broker_annotations_first,
        trims_nulls=version.trims_nulls,
    )


_RULES_BY_PROFILE = {profile: _make_rules(version) for profile, version in VERSIONS.items()}


def rules_of(version: BrokerVersion) -> ToAmqp10Rules:
    """Return the rules of a version of RabbitMQ."""
    return _RULES_BY_PROFILE[version.profile]
