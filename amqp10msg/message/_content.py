"""The content of a body: bytes without their content-encoding, text, JSON, and types of users."""

from __future__ import annotations

import importlib
import json
import re
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import attrs

from amqp10msg.message._bodies import body_sections
from amqp10msg.sections import AmqpSequence, AmqpValue, Data, Properties
from amqp10msg.wire.errors import ContentError
from amqp10msg.wire.primitives import Symbol, plain

if TYPE_CHECKING:
    from amqp10msg.message import Message
    from amqp10msg.wire.codings import Coding

M = TypeVar("M", bound="Message")

_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)


def body_bytes(message: Message) -> bytes:
    """Return the body as it is; see `Message.body_bytes`."""
    body = body_sections(message)
    if all(type(part) is Data for part in body):
        return b"".join(bytes(part.data) for part in body)
    if len(body) == 1 and type(body[0]) is AmqpValue:
        value = body[0].value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, str):
            return value.encode("utf-8")
    raise ContentError(f"neither bytes nor text: {message.body!r:.80}")


def content(message: Message, limit: int | None) -> bytes:
    """Return the bytes without their content-encoding; see `Message.content`."""
    octets = body_bytes(message)
    coding = message.properties.content_encoding if message.properties is not None else None
    if not coding or _is_text(message):
        return octets
    if not isinstance(coding, str):
        raise ContentError(f"the content-encoding is {coding!r:.80}, and must be a symbol")
    codings = importlib.import_module("amqp10msg.wire.codings")
    made: bytes = codings.decompress(
        octets, coding, limit=codings.DEFAULT_LIMIT if limit is None else limit
    )
    return made


def text(message: Message, encoding: str | None, limit: int | None) -> str:
    """Return the text of a body; see `Message.text`."""
    if _is_text(message):
        return str(message.body.value)  # type: ignore[union-attr]
    octets = content(message, limit)
    if encoding is None:
        given = message.properties.content_type if message.properties is not None else None
        found = _CHARSET.search(given) if isinstance(given, str) else None
        encoding = found[1] if found is not None else "utf-8"
    try:
        return octets.decode(encoding)
    except LookupError:
        raise ContentError(f"unknown charset {encoding!r:.80}: pass encoding=") from None


def parsed(message: Message, limit: int | None) -> Any:
    """Return what the JSON in a body says; see `Message.json`."""
    try:
        return json.loads(text(message, None, limit))
    except json.JSONDecodeError as error:
        raise ContentError(f"no JSON: {error}") from None
    except RecursionError:
        raise ContentError("the JSON is nested too deeply") from None


def decoded(message: Message, wanted: Any, limit: int | None, strict: bool | None) -> Any:
    """Return a body as a type of pydantic or msgspec; see `Message.decoded`."""
    body = message.body
    value: Any = b""
    if isinstance(body, AmqpValue):
        value = body.value
    elif isinstance(body, AmqpSequence):
        value = body.values
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        document = text(message, None, limit)
        if _is_of_pydantic(wanted):
            return _adapter(wanted).validate_json(document, strict=strict)
        return _module("msgspec").json.decode(document, type=wanted, strict=strict is not False)
    if _is_of_pydantic(wanted):
        return _adapter(wanted).validate_python(plain(value), strict=strict)
    return _module("msgspec").convert(plain(value), type=wanted, strict=strict is not False)


def compressed(message: M, coding: Coding, level: int | None) -> M:
    """Return a copy with its body compressed; see `Message.compressed`."""
    if not _is_data(message):
        raise ContentError(
            "only a body of bytes has a content-encoding (Part 3, 3.2.4): make it Data"
        )
    own = message.properties or Properties()
    if own.content_encoding:
        raise ContentError(f"the body is {own.content_encoding} already")
    codings = importlib.import_module("amqp10msg.wire.codings")
    octets = codings.compress(body_bytes(message), coding, level)
    properties = attrs.evolve(own, content_encoding=Symbol(coding))
    return message.evolve(body=Data(octets), properties=properties)


def decompressed(message: M, limit: int | None) -> M:
    """Return a copy without content-encoding; see `Message.decompressed`."""
    if message.properties is None or not message.properties.content_encoding:
        return message
    properties = attrs.evolve(message.properties, content_encoding=None)
    return message.evolve(body=Data(content(message, limit)), properties=properties)


def _is_data(message: Message) -> bool:
    return all(type(part) is Data for part in body_sections(message))


def _is_text(message: Message) -> bool:
    return isinstance(message.body, AmqpValue) and isinstance(message.body.value, str)


def _is_of_pydantic(wanted: Any) -> bool:
    """Return whether a type is pydantic's: a model, an adapter, or made of one."""
    return (
        hasattr(wanted, "__pydantic_validator__")
        or hasattr(wanted, "validate_json")
        or any(map(_is_of_pydantic, get_args(wanted)))
    )


def _adapter(wanted: Any) -> Any:
    return wanted if hasattr(wanted, "validate_json") else _module("pydantic").TypeAdapter(wanted)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"decoded() needs {name}: pip install {name}") from error
