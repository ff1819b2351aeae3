"""Evaluators for the names in expressions, and conversions of values like in brokers."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final

from amqp10msg.composite import rows
from amqp10msg.delivery.filters._evaluators import (
    Converted,
    Evaluator,
    HeaderField,
    MapEntry,
    PropertyField,
)
from amqp10msg.delivery.filters._glob import MANY, ONE, Element, compile_like
from amqp10msg.delivery.filters._syntax import UnknownNameError
from amqp10msg.delivery.jms_ids import to_jms_correlation_id, to_jms_message_id
from amqp10msg.sections import Header, Properties
from amqp10msg.wire.primitives import Char, Described, Symbol, Timestamp

__all__ = ["resolve_oasis_name", "resolve_rabbitmq_name", "resolve_selector_name"]

_HEADER_FIELDS_BY_NAME: Final = {field.name: field for field in rows(Header)}
_PROPERTIES_FIELDS_BY_NAME: Final = {field.name: field for field in rows(Properties)}


def _header_evaluator(name: str) -> Evaluator:
    """Return the evaluator of a field of the header section."""
    return HeaderField(name, _HEADER_FIELDS_BY_NAME[name].default)


def _property_evaluator(name: str) -> Evaluator:
    """Return the evaluator of a field of the properties section."""
    return PropertyField(name, _PROPERTIES_FIELDS_BY_NAME[name].type == "timestamp")


def _annotation_evaluator(section: str, key: str) -> Evaluator:
    """Return the evaluator of an annotation, or of an entry in the footer."""
    return MapEntry(section, Symbol(key) if key.isascii() else key)


def _decode_text(value: Any) -> Any:
    """Decode a binary if it is UTF-8; return other values unchanged."""
    if not isinstance(value, bytes):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return value


def _jms_id_converter(convert: Callable[[Any], str]) -> Callable[[Any], Any]:
    """Return a function that converts an id to its JMS form, and other values to None."""

    def change(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError):
            return None

    return change


# An integer as text. A 64-bit integer has at most 20 digits.
_INTEGER_PATTERN: Final = re.compile(r"-?[0-9]{1,20}")
_DATETIME_OFFSET_DESCRIPTOR: Final = Symbol("com.microsoft:datetime-offset")
# Azure Event Hubs compares these annotations as numbers, although they may be text, and although
# receivers put the literals in quotes: ``amqp.annotation.x-opt-offset > '100'``.
_ANNOTATIONS_COMPARED_AS_NUMBERS: Final = (
    "x-opt-offset",
    "x-opt-sequence-number",
    "x-opt-enqueued-time",
)


def event_hubs_number(value: Any) -> Any:
    """Convert an annotation or quoted literal to a number, as Azure Event Hubs does.

    Text becomes an int, and a ``com.microsoft:datetime-offset`` becomes milliseconds since the Unix
    epoch. Other values are returned unchanged.
    """
    if isinstance(value, str) and _INTEGER_PATTERN.fullmatch(value):
        return int(value)
    if isinstance(value, Described) and value.descriptor == _DATETIME_OFFSET_DESCRIPTOR:
        ticks = value.value
        return Timestamp.from_ticks(ticks) if _is_integer(ticks) else value
    return value


#: The value of `Language.number_converters` for JMS selectors.
NUMBER_CONVERTERS: Final = {
    f"amqp.annotation.{key}": event_hubs_number for key in _ANNOTATIONS_COMPARED_AS_NUMBERS
}


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer, not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


# JMSExpiration is 0 if the message does not expire (JMS 2.0, 3.4.9).
_JMS_EXPIRATION_EVALUATOR: Final = PropertyField("absolute_expiry_time", is_time=True, default=0)
_DELIVERY_MODE_EVALUATOR: Final = Converted(
    _header_evaluator("durable"), lambda durable: "PERSISTENT" if durable else "NON_PERSISTENT"
)
_REDELIVERED_EVALUATOR: Final = Converted(
    _header_evaluator("delivery_count"), lambda count: count > 0 if _is_integer(count) else None
)
_USER_ID_EVALUATOR: Final = Converted(_property_evaluator("user_id"), _decode_text)

# Names after the prefix "amqp.": the fields of header and properties, and names from Apache Qpid.
_EVALUATORS_OF_AMQP_NAMES: Final[dict[str, Evaluator]] = {
    **{name: _header_evaluator(name) for name in _HEADER_FIELDS_BY_NAME},
    **{name: _property_evaluator(name) for name in _PROPERTIES_FIELDS_BY_NAME},
    "user_id": _USER_ID_EVALUATOR,
    "delivery_mode": _DELIVERY_MODE_EVALUATOR,
    "redelivered": _REDELIVERED_EVALUATOR,
}
# The headers and properties of JMS 2.0, 3.4 and 3.5.9, according to the AMQP JMS Mapping.
_EVALUATORS_OF_JMS_NAMES: Final[dict[str, Evaluator]] = {
    "JMSCorrelationID": Converted(
        _property_evaluator("correlation_id"), _jms_id_converter(to_jms_correlation_id)
    ),
    "JMSDeliveryMode": _DELIVERY_MODE_EVALUATOR,
    "JMSDeliveryTime": _annotation_evaluator("message_annotations", "x-opt-delivery-time"),
    "JMSDestination": _property_evaluator("to"),
    "JMSExpiration": _JMS_EXPIRATION_EVALUATOR,
    "JMSMessageID": Converted(
        _property_evaluator("message_id"), _jms_id_converter(to_jms_message_id)
    ),
    "JMSPriority": _header_evaluator("priority"),
    "JMSRedelivered": _REDELIVERED_EVALUATOR,
    "JMSReplyTo": _property_evaluator("reply_to"),
    "JMSTimestamp": _property_evaluator("creation_time"),
    "JMSType": _property_evaluator("subject"),
    "JMSXDeliveryCount": Converted(
        _header_evaluator("delivery_count"), lambda count: count + 1 if _is_integer(count) else None
    ),
    "JMSXGroupID": _property_evaluator("group_id"),
    "JMSXGroupSeq": _property_evaluator("group_sequence"),
    "JMSXUserID": _USER_ID_EVALUATOR,
}


def resolve_selector_name(name: str) -> tuple[Evaluator, str | None]:
    """Return the evaluator of a name in a selector, and the key of an application property.

    The key is None for a name that does not belong to an application property.
    """
    if name.startswith("amqp."):
        field = name.removeprefix("amqp.")
        key = field.removeprefix("annotation.")
        if key and key != field:
            return _annotation_evaluator("message_annotations", key), None
        if field not in _EVALUATORS_OF_AMQP_NAMES:
            names = [
                f"amqp.{suffix}" for suffix in (*_EVALUATORS_OF_AMQP_NAMES, "annotation.<name>")
            ]
            raise UnknownNameError(_unknown_name_text(name, names))
        return _EVALUATORS_OF_AMQP_NAMES[field], None
    get = _EVALUATORS_OF_JMS_NAMES.get(name)
    return (MapEntry("application_properties", name), name) if get is None else (get, None)


# The fields that JMS names mean, by section; the names of a field in other languages are derived.
_FIELDS_OF_JMS_NAMES: Final = {
    "JMSCorrelationID": ("properties", "correlation_id"),
    "JMSDeliveryMode": ("header", "durable"),
    "JMSDeliveryTime": ("message_annotations", "x-opt-delivery-time"),
    "JMSDestination": ("properties", "to"),
    "JMSExpiration": ("properties", "absolute_expiry_time"),
    "JMSMessageID": ("properties", "message_id"),
    "JMSPriority": ("header", "priority"),
    "JMSRedelivered": ("header", "delivery_count"),
    "JMSReplyTo": ("properties", "reply_to"),
    "JMSTimestamp": ("properties", "creation_time"),
    "JMSType": ("properties", "subject"),
    "JMSXDeliveryCount": ("header", "delivery_count"),
    "JMSXGroupID": ("properties", "group_id"),
    "JMSXGroupSeq": ("properties", "group_sequence"),
    "JMSXUserID": ("properties", "user_id"),
}
# The fields that the system properties of Azure Service Bus mean, after the prefix ``sys.``, in
# lower case.
_FIELDS_OF_SYSTEM_NAMES: Final = {
    "contenttype": ("properties", "content_type"),
    "correlationid": ("properties", "correlation_id"),
    "enqueuedtimeutc": ("message_annotations", "x-opt-enqueued-time"),
    "label": ("properties", "subject"),
    "messageid": ("properties", "message_id"),
    "replyto": ("properties", "reply_to"),
    "replytosessionid": ("properties", "reply_to_group_id"),
    "sequencenumber": ("message_annotations", "x-opt-sequence-number"),
    "sessionid": ("properties", "group_id"),
    "subject": ("properties", "subject"),
    "to": ("properties", "to"),
}
# The fields that names of AMQP 0-9-1 mean, with underscores.
_FIELDS_OF_BASIC_NAMES: Final = {
    "content_encoding": ("properties", "content_encoding"),
    "content_type": ("properties", "content_type"),
    "correlation_id": ("properties", "correlation_id"),
    "delivery_mode": ("header", "durable"),
    "exchange": ("message_annotations", "x-exchange"),
    "expiration": ("header", "ttl"),
    "message_id": ("properties", "message_id"),
    "priority": ("header", "priority"),
    "redelivered": ("header", "delivery_count"),
    "reply_to": ("properties", "reply_to"),
    "routing_key": ("message_annotations", "x-routing-key"),
    "timestamp": ("properties", "creation_time"),
    "type": ("properties", "subject"),
    "user_id": ("properties", "user_id"),
}


def _field_of_any_language(name: str) -> tuple[str, str] | None:
    """Return the section and the key that a name means in one of the languages; None if unknown.

    The languages are JMS selectors, also with Qpid's names after ``amqp.``, SQL filter expressions,
    the SQL of Azure Service Bus, and the names of AMQP 0-9-1.
    """
    prefix, dot, key = name.partition(".")
    key = key.removeprefix("[").removesuffix("]")
    if not dot:
        field = _FIELDS_OF_JMS_NAMES.get(name)
        return field or _FIELDS_OF_BASIC_NAMES.get(name.replace("-", "_").lower())
    if prefix == "sys":
        return _FIELDS_OF_SYSTEM_NAMES.get(key.replace("_", "").lower())
    if prefix in ("user", "headers"):
        return "application_properties", key
    if prefix == "amqp" and key.startswith("annotation."):
        return "message_annotations", key.removeprefix("annotation.")
    section = _SECTION_OF_PREFIX.get(prefix, "")
    if section in ("message_annotations", "application_properties"):
        return section, key
    field_name = key.replace("-", "_")
    for candidate, fields in (
        ("header", _HEADER_FIELDS_BY_NAME),
        ("properties", _PROPERTIES_FIELDS_BY_NAME),
    ):
        if (section == candidate or prefix == "amqp") and field_name in fields:
            return candidate, field_name
    return None


def name_in_selector(name: str) -> str:
    """Return the name in a JMS selector for a name of another language; empty if there is none."""
    field = _field_of_any_language(name)
    if field is None:
        return ""
    section, key = field
    if section == "application_properties":
        return key
    right = f"amqp.annotation.{key}" if section == "message_annotations" else f"amqp.{key}"
    return "" if right == name or name in _FIELDS_OF_JMS_NAMES else right


def name_in_sql(name: str) -> str:
    """Return the name in an SQL filter expression for one of another language; empty if none."""
    field = _field_of_any_language(name)
    if field is None:
        return ""
    section, key = field
    if section == "application_properties":
        right = key if re.fullmatch(r"[A-Za-z_]\w*", key) else f"[{key}]"
    elif section == "message_annotations":
        right = f"m.[{key}] (only in the dialect oasis)"
    else:
        is_limited = section == "header" and key != "priority"
        right = f"{section}.{key}{' (only in the dialect oasis)' if is_limited else ''}"
    prefix = name.partition(".")[0]
    return "" if prefix in _SECTION_OF_PREFIX and "." in name else right


_SECTION_OF_PREFIX: Final = {
    "header": "header",
    "h": "header",
    "delivery_annotations": "delivery_annotations",
    "d": "delivery_annotations",
    "message_annotations": "message_annotations",
    "m": "message_annotations",
    "properties": "properties",
    "p": "properties",
    "application_properties": "application_properties",
    "a": "application_properties",
    "footer": "footer",
    "f": "footer",
}
_SECTIONS_IN_RABBITMQ_FILTERS: Final = ("header", "properties", "application_properties")


def resolve_oasis_name(name: str | tuple[str, str]) -> tuple[Evaluator, str | None]:
    """Return the evaluator of a name in an SQL filter expression (filtex 6.4.4.4), and a key.

    The key is that of the application property; None for a name of another section.
    """
    if isinstance(name, str):
        return MapEntry("application_properties", name), name
    prefix, field = name
    section = _SECTION_OF_PREFIX.get(prefix)
    if section is None:
        right = name_in_sql(f"{prefix}.{field}")
        if right:
            raise UnknownNameError(f"there is no {prefix}.{field} in this language: use {right}")
        known_prefixes = [f"{known}." for known in _SECTION_OF_PREFIX]
        text = _unknown_name_text(f"{prefix}.", known_prefixes)
        raise UnknownNameError(text)
    if section in ("header", "properties"):
        fields: Any = _HEADER_FIELDS_BY_NAME if section == "header" else _PROPERTIES_FIELDS_BY_NAME
        if field not in fields:
            known_names = [f"{prefix}.{known}" for known in fields]
            text = _unknown_name_text(f"{prefix}.{field}", known_names)
            raise UnknownNameError(text)
        return (_header_evaluator if section == "header" else _property_evaluator)(field), None
    if section == "application_properties":
        return MapEntry(section, field), field
    return _annotation_evaluator(section, field), None


def resolve_rabbitmq_name(name: str | tuple[str, str]) -> tuple[Evaluator, str | None]:
    """Return what `resolve_oasis_name` returns, if RabbitMQ 4.2 supports the name."""
    resolved = resolve_oasis_name(name)
    if not isinstance(name, str):
        section = _SECTION_OF_PREFIX[name[0]]
        if section not in _SECTIONS_IN_RABBITMQ_FILTERS or (
            section == "header" and name[1] != "priority"
        ):
            raise UnknownNameError(
                f"RabbitMQ filters by header.priority, properties and application properties, not "
                f"by {'.'.join(name)}: use the dialect oasis"
            )
    return resolved


def _unknown_name_text(name: str, known_names: list[str]) -> str:
    """Return the error text for an unknown name, with a similar name or all known names."""
    close = get_close_matches(name, known_names, 1)
    return f"there is no {name}: " + (
        f"did you mean {close[0]}?" if close else f"use one of {', '.join(known_names)}"
    )


def resolve_rabbitmq_43_name(name: str | tuple[str, str]) -> tuple[Evaluator, str | None]:
    """Return the evaluator of a name, which converts values as RabbitMQ 4.3 does, and None.

    The names are those of `resolve_rabbitmq_name`. None means that no key is reported.
    """
    evaluator, _ = resolve_rabbitmq_name(name)
    return Converted(evaluator, rabbitmq_value), None


def rabbitmq_value(value: Any) -> Any:
    """Convert a value as RabbitMQ 4.3 does; None for a value that RabbitMQ does not decode."""
    if isinstance(value, Char):
        return ord(value)
    if isinstance(value, (bool, str, bytes, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else None


def rabbitmq_43_like(pattern: Sequence[Element]) -> Callable[[str], bool | None]:
    """Return a function that matches a ``LIKE`` pattern as RabbitMQ 4.3 does.

    Its argument is a text, or a binary decoded with surrogates for invalid bytes. If the pattern
    has no ``_`` and at most one ``%``, RabbitMQ compares bytes. Otherwise it builds a regular
    expression of ``.`` and ``.*?`` between ``^`` and ``$``: neither wildcard matches a line feed, a
    single line feed at the end is ignored, and binary that is not UTF-8 is unknown.
    """
    matches = compile_like(pattern)
    if ONE not in pattern and pattern.count(MANY) <= 1:
        return matches

    def match(text: str) -> bool | None:
        try:
            text.encode()
        except UnicodeEncodeError:
            return None
        line = text.removesuffix("\n")
        return "\n" not in line and matches(line)

    return match


#: The relations between a property and a reference that a property filter tests, besides "=".
IS_PRESENT, BEGINS, ENDS = "is present", "begins with", "ends with"


def rabbitmq_43_test(relation: str, reference: Any) -> Callable[[Any], bool]:
    """Return a function that tests a value of a property filter as RabbitMQ 4.3 does.

    Strings, symbols, binary and UUIDs compare by their bytes, timestamps as numbers. The reference
    None matches null and every value that RabbitMQ decodes. A reference that RabbitMQ does not
    decode, such as a list, matches no value.
    """

    def as_bytes(value: Any) -> Any:
        converted = rabbitmq_value(value)
        return converted.encode() if isinstance(converted, str) else converted

    expected = as_bytes(reference)
    if relation in (BEGINS, ENDS):
        holds = bytes.startswith if relation == BEGINS else bytes.endswith
        return lambda value: (
            isinstance(actual := as_bytes(value), bytes) and holds(actual, expected)
        )

    def test(value: Any) -> bool:
        actual = as_bytes(value)
        if reference is None:
            return value is None or actual is not None
        if actual is None:
            return False
        is_same_kind = isinstance(actual, bool) is isinstance(expected, bool)
        return is_same_kind and bool(actual == expected)

    return test
