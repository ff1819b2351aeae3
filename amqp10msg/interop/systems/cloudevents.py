"""Convert CloudEvents 1.0 to AMQP messages and back, in binary and structured content mode.

Implements the AMQP Protocol Binding for CloudEvents 1.0.3 (CNCF); numbers such as 3.1.3.2 are its
clauses. Events are objects of the package cloudevents, 2.0 or later. Needs
``amqp10msg[cloudevents]``.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from amqp10msg.message import Message, expect_message
from amqp10msg.sections import Data, Properties
from amqp10msg.sections.parts import check_fields
from amqp10msg.wire.errors import ContentError, EncodeError, wrong_type
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.primitives import Timestamp, plain

if TYPE_CHECKING:
    from cloudevents.core.base import BaseCloudEvent
    from cloudevents.core.formats.base import Format

__all__ = ["ContentMode", "from_message", "mode_of", "to_message"]

ContentMode: TypeAlias = Literal["binary", "structured"]

_EVENT_TYPE_PREFIX = "application/cloudevents"
_JSON_EVENT_TYPE = "application/cloudevents+json"
_ATTRIBUTE_PREFIXES = ("cloudEvents_", "cloudEvents:")
_REQUIRED_ATTRIBUTES = ("id", "source", "specversion", "type")
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
_JSON_CONTENT_TYPE = re.compile(r"[a-z]+/([^;\s]+\+)?json\s*(;.*)?", re.IGNORECASE | re.DOTALL)
_TEXT_CONTENT_TYPE = re.compile(r"text/[^;\s]+\s*(;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE)


def to_message(
    event: BaseCloudEvent,
    mode: ContentMode = "binary",
    *,
    separator: Literal["_", ":"] = "_",
    event_format: Format | None = None,
) -> Message:
    """Convert an event to a message.

    Args:
        event: the event, of any version that the package cloudevents supports.
        mode: the content mode. ``binary``: attributes become application properties, and the data
            becomes the body (3.1). ``structured``: the body contains the whole event (3.2).
        separator: the character after ``cloudEvents`` in the names of application properties
            (3.1.3.1). JMS selectors need ``_``; receivers older than version 1.0.3 may need ``:``.
        event_format: the format of the body in structured mode; None for JSON.

    Returns:
        A valid message. In binary mode, attributes have native AMQP types, except that a time with
        a fraction of a millisecond is text, so that nothing is lost.

    Raises:
        EncodeError: an attribute has a type that CloudEvents lacks, or the content mode cannot
            represent the event's data.
        ValueError: the mode or the separator is invalid.
        ImportError: the package cloudevents is not installed.
        TypeError: `event` is not an event.
    """
    if separator not in ("_", ":"):
        raise ValueError(f"the separator must be '_' or ':', not {separator!r}")
    if not hasattr(event, "get_attributes"):
        raise wrong_type("to_message", "an event of the package cloudevents", event)
    attributes = event.get_attributes()
    if mode == "structured":
        for name, value in attributes.items():
            if not isinstance(value, datetime.datetime):
                _to_native(name, value)
        event_format = event_format or _json_format()
        kind = f"{event_format.get_content_type()}; charset=utf-8"
        try:
            body = event_format.write(event)
        except TypeError as error:
            raise EncodeError(f"the event format cannot write the data: {error}", "data") from None
        return Message(Data(body), properties=Properties(content_type=kind))
    if mode != "binary":
        raise ValueError(f"the content mode must be binary or structured, not {mode!r}")
    data, content_type = _encode_data(event.get_data(), attributes.get("datacontenttype"))
    return Message(
        Data(data),
        properties=None if content_type is None else Properties(content_type=content_type),
        application_properties={
            f"cloudEvents{separator}{name}": _to_native(name, value)
            for name, value in attributes.items()
            if name != "datacontenttype" and value is not None
        },
    )


def mode_of(message: Message) -> ContentMode | None:
    """Return the content mode of the event in a message, or None if it contains no event.

    A message is in structured mode if its content-type begins with ``application/cloudevents``, and
    in binary mode if its application properties contain all required attributes (3).
    """
    expect_message(message, "mode_of")
    if _content_type(message).lower().startswith(_EVENT_TYPE_PREFIX):
        return "structured"
    names = {name for name, _ in _attributes(message)}
    return "binary" if names.issuperset(_REQUIRED_ATTRIBUTES) else None


def from_message(
    message: Message,
    factory: Callable[..., BaseCloudEvent] | None = None,
    *,
    event_format: Format | None = None,
) -> BaseCloudEvent:
    """Read the event in a message.

    Attributes may have native types or be text (3.1.3.2); their names may have either separator. In
    binary mode, the data is parsed for a JSON content-type, a str for ``text/…``, otherwise bytes.

    Args:
        message: the message.
        factory: creates the event; None for the class that belongs to the event's specversion.
        event_format: the format of the body in structured mode; None for JSON.

    Raises:
        ContentError: in structured mode, the body is not an event in `event_format`.
        ValueError: the message contains no event, the event cannot be read, or the content-type
            names another format than `event_format`.
        cloudevents.core.exceptions.CloudEventValidationError: the attributes break the rules of
            CloudEvents.
        ImportError: the package cloudevents is not installed.
    """
    expect_message(message, "from_message")
    mode = mode_of(message)
    if mode is None:
        raise ValueError(
            f"the message contains no event: its content-type is not {_EVENT_TYPE_PREFIX}…, "
            "and it lacks some of the application properties "
            f"{', '.join(f'cloudEvents_{name}' for name in _REQUIRED_ATTRIBUTES)}"
        )
    if mode == "structured":
        event_format = event_format or _json_format()
        message_format, expected_format = _content_type(message), event_format.get_content_type()
        if message_format.partition(";")[0].strip().lower() != expected_format:
            raise ValueError(
                f"the event is in the format {message_format!r}: pass another event_format"
            )
        octets = message.content()
        try:
            with _convert_errors():
                return event_format.read(factory, octets)
        except ValueError as error:
            fault = _describe_fault(octets) if expected_format == _JSON_EVENT_TYPE else ""
            fault = fault or f"the body is invalid: {error}"
            raise ContentError(
                f"the content-type {message_format!r} declares an event, but {fault}"
            ) from None
    check_fields(message)
    attributes = dict(_attributes(message))
    if isinstance(attributes.get("time"), str):
        attributes["time"] = datetime.datetime.fromisoformat(attributes["time"])
    data = message.content()
    content_type = _content_type(message)
    if content_type:
        attributes["datacontenttype"] = content_type
    if factory is None:
        version = str(attributes["specversion"])
        with _convert_errors():
            factory = import_core("bindings.common").get_event_factory_for_version(version)
    with _convert_errors():
        return factory(attributes, _decode_data(data, content_type))


@contextlib.contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise ValueError instead of the various exceptions of cloudevents for an invalid event."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"the event cannot be read: {type(error).__name__}: {error!s:.200}"
        ) from None


def _describe_fault(octets: bytes) -> str:
    """Describe why a body is not a JSON event; "" if the reason is unknown."""
    try:
        event = json.loads(octets.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"the body is not UTF-8 at byte {error.start}; Message.content() returns its bytes"
    except RecursionError:
        return "the body's JSON is nested too deeply"
    except ValueError as error:
        return f"the body is not JSON: {error}; Message.content() returns its bytes"
    if not isinstance(event, dict):
        return (
            f"the body must be a JSON object with {', '.join(_REQUIRED_ATTRIBUTES)}, not "
            f"{_describe_json_type(event)}; Message.json() returns the value"
        )
    for name in ("specversion", "time", "data_base64"):
        if not isinstance(event.get(name, ""), str):
            actual = _describe_json_type(event[name])
            return f"the event's {name} must be a JSON string, not {actual}"
    try:
        datetime.datetime.fromisoformat(event.get("time", "2018-04-05"))
    except ValueError:
        return f"the event's time must be like 2018-04-05T17:31:00Z, not {event['time']!r:.80}"
    return ""


def _describe_json_type(value: Any) -> str:
    """Describe the type of a JSON value, or the value if it is null, true or false."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "a number")


def _content_type(message: Message) -> str:
    return str((message.properties and message.properties.content_type) or "")


def _attributes(message: Message) -> Iterator[tuple[str, Any]]:
    """Yield the name, without prefix, and the value of each event attribute in a message."""
    for key, value in (message.application_properties or {}).items():
        for prefix in _ATTRIBUTE_PREFIXES:
            if isinstance(key, str) and key.startswith(prefix) and value is not None:
                yield key[len(prefix) :], plain(value)


def _to_native(name: str, value: Any) -> Any:
    """Convert the value of an attribute to its native AMQP type (3.1.3.2)."""
    path = f"attributes[{name!r}]"
    if not _ATTRIBUTE_NAME.fullmatch(name):
        raise EncodeError("names must consist of lower-case ASCII letters and digits", path)
    if isinstance(value, (str, bytes, bool)):
        return value
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise EncodeError(f"an Integer must fit in 32 bits, got {value}", path)
        return int(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise EncodeError("a Timestamp needs a time zone, such as datetime.UTC", path)
        if value.microsecond % 1000:
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        return Timestamp.from_datetime(value)
    raise EncodeError(
        "an attribute must be a Boolean, Integer, String, Binary or Timestamp, not "
        f"{type(value).__name__}",
        path,
    )


def _encode_data(data: Any, content_type: str | None) -> tuple[bytes, str | None]:
    """Encode the data of an event. Return the bytes and the content-type."""
    if data is None:
        return b"", content_type
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data), content_type
    if isinstance(data, str):
        try:
            return data.encode("utf-8"), content_type
        except UnicodeEncodeError as error:
            raise EncodeError(f"the text cannot be encoded as UTF-8: {error}", "data") from None
    # Without a content-type, data is JSON: CloudEvents JSON Event Format, 3.1.
    content_type = content_type or "application/json"
    if _JSON_CONTENT_TYPE.fullmatch(content_type) is None:
        raise EncodeError(
            f"data of {content_type} must be bytes or str, not {type(data).__name__}", "data"
        )
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8"), content_type
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"JSON cannot represent the data: {error}", "data") from None


def _decode_data(octets: bytes, content_type: str) -> Any:
    """Decode the data of an event according to its content-type."""
    if not octets and not content_type:
        return None
    try:
        if _JSON_CONTENT_TYPE.fullmatch(content_type):
            value = json.loads(octets)
            # Do not parse a JSON string: `to_message` expects a str to be JSON text, with quotes.
            return octets.decode("utf-8") if isinstance(value, str) else value
        if _TEXT_CONTENT_TYPE.fullmatch(content_type):
            return octets.decode("utf-8")
    except (ValueError, RecursionError):
        pass  # the bytes do not match the content-type: return them
    return octets


def _json_format() -> Format:
    json_format: Format = import_core("formats.json").JSONFormat()
    return json_format


def import_core(module: str) -> Any:
    """Import a module of ``cloudevents.core``. Raises ImportError if the package is missing."""
    reason = "events need the package cloudevents 2"
    return of_extra(f"cloudevents.core.{module}", "cloudevents", reason)
