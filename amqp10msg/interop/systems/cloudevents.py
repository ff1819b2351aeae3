"""CloudEvents 1.0 in AMQP messages, both ways: binary and structured content mode.

By the AMQP Protocol Binding for CloudEvents 1.0.3 (of CNCF); clauses are those of that document.
Events are objects of the package cloudevents, 2.0 or later. Needs ``amqp10msg[cloudevents]``.
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

_EVENT = "application/cloudevents"
_JSON_EVENT = "application/cloudevents+json"
_PREFIXES = ("cloudEvents_", "cloudEvents:")
_REQUIRED = ("id", "source", "specversion", "type")
_NAME = re.compile(r"[a-z0-9]+")
_JSON = re.compile(r"[a-z]+/([^;\s]+\+)?json\s*(;.*)?", re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(r"text/[^;\s]+\s*(;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE)


def to_message(
    event: BaseCloudEvent,
    mode: ContentMode = "binary",
    *,
    separator: Literal["_", ":"] = "_",
    event_format: Format | None = None,
) -> Message:
    """Put an event into a message.

    Args:
        event: the event, of any version that the package knows.
        mode: ``binary``, attributes as application properties and the data as the body (3.1), or
            ``structured``, all of it in the body (3.2).
        separator: what follows ``cloudEvents`` in the names of application properties (3.1.3.1):
            JMS selectors need ``_``, receivers of before 1.0.3 may need ``:``.
        event_format: for structured mode; that of JSON where None.

    Returns:
        A message that `validate` finds nothing wrong with. Attributes have native AMQP types; a
        moment that is not a whole number of milliseconds is text, so that none of it is lost.

    Raises:
        EncodeError: an attribute is not of the types of CloudEvents, or the data of none that its
            content mode can hold.
        ValueError: there is no such mode or separator.
        ImportError: the package cloudevents is not installed.
        TypeError: `event` is not an event.
    """
    if separator not in ("_", ":"):
        raise ValueError(f"the separator is '_' or ':', not {separator!r}")
    if not hasattr(event, "get_attributes"):
        raise wrong_type("to_message", "an event of the package cloudevents", event)
    attributes = event.get_attributes()
    if mode == "structured":
        for name, value in attributes.items():
            if not isinstance(value, datetime.datetime):
                _native(name, value)
        event_format = event_format or _json_format()
        kind = f"{event_format.get_content_type()}; charset=utf-8"
        try:
            body = event_format.write(event)
        except TypeError as error:
            raise EncodeError(f"the event format cannot write it: {error}", "data") from None
        return Message(Data(body), properties=Properties(content_type=kind))
    if mode != "binary":
        raise ValueError(f"the content mode is binary or structured, not {mode!r}")
    data, content_type = _octets(event.get_data(), attributes.get("datacontenttype"))
    return Message(
        Data(data),
        properties=None if content_type is None else Properties(content_type=content_type),
        application_properties={
            f"cloudEvents{separator}{name}": _native(name, value)
            for name, value in attributes.items()
            if name != "datacontenttype" and value is not None
        },
    )


def mode_of(message: Message) -> ContentMode | None:
    """Return the content mode of the event in a message; None where there seems to be none.

    The content-type decides for structured mode; a message is taken for an event in binary mode
    where it has all attributes that an event must have (3).
    """
    expect_message(message, "mode_of")
    if _content_type(message).lower().startswith(_EVENT):
        return "structured"
    found = {name for name, _ in _attributes(message)}
    return "binary" if found.issuperset(_REQUIRED) else None


def from_message(
    message: Message,
    factory: Callable[..., BaseCloudEvent] | None = None,
    *,
    event_format: Format | None = None,
) -> BaseCloudEvent:
    """Read the event in a message.

    Attributes may have native types or be text (3.1.3.2), and names either separator. Of a
    content-type of JSON the data is what the JSON says, of ``text/…`` a str, otherwise bytes.

    Args:
        message: the message.
        factory: the class of the event; that of the event's specversion where None.
        event_format: for structured mode; that of JSON where None.

    Raises:
        ContentError: in structured mode, the body is not an event in its event format.
        ValueError: there is no event in the message, or it cannot be read, or its event format is
            another one.
        cloudevents.core.exceptions.CloudEventValidationError: the attributes break the rules of
            CloudEvents.
        ImportError: the package cloudevents is not installed.
    """
    expect_message(message, "from_message")
    mode = mode_of(message)
    if mode is None:
        raise ValueError(
            "there is no event in the message: neither is its content-type "
            f"{_EVENT}…, nor has it all of the application properties "
            f"{', '.join(f'cloudEvents_{name}' for name in _REQUIRED)}"
        )
    if mode == "structured":
        event_format = event_format or _json_format()
        given, known = _content_type(message), event_format.get_content_type()
        if given.partition(";")[0].strip().lower() != known:
            raise ValueError(f"the event is in the format {given!r}: pass another event_format")
        octets = message.content()
        try:
            with _readable():
                return event_format.read(factory, octets)
        except ValueError as error:
            why = _fault(octets) if known == _JSON_EVENT else ""
            raise ContentError(
                f"the body is said to be an event, {given}, and {why or f'is none: {error}'}"
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
        with _readable():
            factory = kernel("bindings.common").get_event_factory_for_version(version)
    with _readable():
        return factory(attributes, _data(data, content_type))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Make ValueErrors of what the package cloudevents raises where something is not an event."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"the event cannot be read: {type(error).__name__}: {error!s:.200}"
        ) from None


def _fault(octets: bytes) -> str:
    """Say what keeps a body from being an event in JSON; nothing where that is not known."""
    try:
        made = json.loads(octets.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"is not UTF-8 at byte {error.start}; Message.content() returns its bytes"
    except RecursionError:
        return "its JSON is nested too deep"
    except ValueError as error:
        return f"is not JSON: {error}; Message.content() returns its bytes"
    if not isinstance(made, dict):
        return (
            f"is {_kind(made)} in JSON, where an event is an object with {', '.join(_REQUIRED)}; "
            "Message.json() returns the value"
        )
    for name in ("specversion", "time", "data_base64"):
        if not isinstance(made.get(name, ""), str):
            return f"its {name} is {_kind(made[name])} in JSON, and must be a string"
    try:
        datetime.datetime.fromisoformat(made.get("time", "2018-04-05"))
    except ValueError:
        return f"its time is {made['time']!r:.80}, and must be like 2018-04-05T17:31:00Z"
    return ""


def _kind(value: Any) -> str:
    """Name a value of JSON."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    known: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
    return known.get(type(value), "a number")


def _content_type(message: Message) -> str:
    return str((message.properties and message.properties.content_type) or "")


def _attributes(message: Message) -> Iterator[tuple[str, Any]]:
    for key, value in (message.application_properties or {}).items():
        for prefix in _PREFIXES:
            if isinstance(key, str) and key.startswith(prefix) and value is not None:
                yield key[len(prefix) :], plain(value)


def _native(name: str, value: Any) -> Any:
    """Return the value of an attribute as its AMQP type (3.1.3.2)."""
    path = f"attributes[{name!r}]"
    if not _NAME.fullmatch(name):
        raise EncodeError("a name consists of lower-case letters and digits of ASCII", path)
    if isinstance(value, (str, bytes, bool)):
        return value
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise EncodeError(f"an Integer has 32 bits, and {value} does not fit", path)
        return int(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise EncodeError("a Timestamp needs a time zone, such as datetime.UTC", path)
        if value.microsecond % 1000:
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        return Timestamp.from_datetime(value)
    raise EncodeError(
        "an attribute is a Boolean, Integer, String, Binary or Timestamp, not "
        f"{type(value).__name__}",
        path,
    )


def _octets(data: Any, content_type: str | None) -> tuple[bytes, str | None]:
    if data is None:
        return b"", content_type
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data), content_type
    if isinstance(data, str):
        try:
            return data.encode("utf-8"), content_type
        except UnicodeEncodeError as error:
            raise EncodeError(f"text must be Unicode: {error}", "data") from None
    # Data that is said to be of no type is JSON: CloudEvents JSON Event Format, 3.1.
    content_type = content_type or "application/json"
    if _JSON.fullmatch(content_type) is None:
        raise EncodeError(
            f"data of {content_type} must be bytes or str, not {type(data).__name__}", "data"
        )
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8"), content_type
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"JSON cannot hold it: {error}", "data") from None


def _data(octets: bytes, content_type: str) -> Any:
    if not octets and not content_type:
        return None
    try:
        if _JSON.fullmatch(content_type):
            made = json.loads(octets)
            # A str is JSON that is written already: see to_message.
            return octets.decode("utf-8") if isinstance(made, str) else made
        if _TEXT.fullmatch(content_type):
            return octets.decode("utf-8")
    except (ValueError, RecursionError):
        pass  # not what the content-type says: as it is
    return octets


def _json_format() -> Format:
    made: Format = kernel("formats.json").JSONFormat()
    return made


def kernel(module: str) -> Any:
    what = "events need the package cloudevents 2"
    return of_extra(f"cloudevents.core.{module}", "cloudevents", what)
