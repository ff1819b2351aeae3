"""Convert the body of a message: content-encodings, JSON, and types of pydantic and msgspec."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, get_args

import attrs

from amqp10msg.sections import Data, Properties
from amqp10msg.wire.errors import ContentError, as_bytes
from amqp10msg.wire.primitives import Symbol, plain
from amqp10msg.wire.text import refuse_constant

if TYPE_CHECKING:
    from amqp10msg.wire.codings import Coding


def compress_body(
    body: list[Any], properties: Properties | None, coding: Coding, level: int | None
) -> tuple[Data, Properties]:
    """Return the compressed body, and the properties that name its content-encoding.

    Raises:
        ContentError: a section of the body is not Data, or the properties have a content-encoding.
        ImportError: the coding needs an extra that is not installed.
        TypeError: a Data section was built with something other than bytes.
        ValueError: `level` is out of range.
    """
    if not all(type(part) is Data for part in body):
        raise ContentError(
            "only a body of bytes has a content-encoding (Part 3, 3.2.4): make it Data"
        )
    properties = properties or Properties()
    if properties.content_encoding:
        raise ContentError(f"the body is {properties.content_encoding} already")
    from amqp10msg.wire import codings  # noqa: PLC0415  (few bodies have a content-encoding)

    octets = codings.compress(
        b"".join([as_bytes(part.data, "Data") for part in body]), coding, level
    )
    return Data(octets), attrs.evolve(properties, content_encoding=Symbol(coding))


def decompress_body(octets: bytes, coding: Any, limit: int | None) -> bytes:
    """Return the decompressed bytes of a body.

    Raises:
        ContentError: the content-encoding is not a symbol or unknown, the bytes are not valid in
            it, or the result has more than `limit` bytes.
        ImportError: the coding needs an extra that is not installed.
    """
    if not isinstance(coding, str):
        raise ContentError(f"the content-encoding must be a symbol, not {coding!r:.80}")
    from amqp10msg.wire import codings  # noqa: PLC0415  (few bodies have a content-encoding)

    maximum = codings.DEFAULT_LIMIT if limit is None else limit
    return codings.decompress(octets, coding, limit=maximum)


def parse_json(document: str) -> Any:
    """Parse a body as JSON.

    Raises:
        ContentError: the text is not JSON (RFC 8259), or is nested too deeply.
    """
    import json  # noqa: PLC0415  (only this function needs it)

    try:
        return json.loads(document, parse_constant=refuse_constant)
    except ValueError as error:  # also raised for an integer with too many digits for Python
        raise ContentError(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise ContentError("the JSON of the body is nested too deeply") from None


def convert_json(document: str, target_type: Any, strict: bool | None) -> Any:
    """Parse JSON as the type `target_type`, with pydantic or msgspec."""
    if _is_pydantic_type(target_type):
        return _type_adapter(target_type).validate_json(document, strict=strict)
    return _import_module("msgspec").json.decode(
        document, type=target_type, strict=strict is not False
    )


def convert_value(value: Any, target_type: Any, strict: bool | None) -> Any:
    """Convert an AMQP value to the type `target_type`, with pydantic or msgspec."""
    if _is_pydantic_type(target_type):
        return _type_adapter(target_type).validate_python(plain(value), strict=strict)
    return _import_module("msgspec").convert(
        plain(value), type=target_type, strict=strict is not False
    )


def _is_pydantic_type(target_type: Any) -> bool:
    """Return whether a type is a pydantic model or adapter, or contains one."""
    return (
        hasattr(target_type, "__pydantic_validator__")
        or hasattr(target_type, "validate_json")
        or any(map(_is_pydantic_type, get_args(target_type)))
    )


def _type_adapter(target_type: Any) -> Any:
    """Return pydantic's TypeAdapter for a type; a TypeAdapter is returned unchanged."""
    if hasattr(target_type, "validate_json"):
        return target_type
    return _import_module("pydantic").TypeAdapter(target_type)


def _import_module(name: str) -> Any:
    """Import pydantic or msgspec; the ImportError tells the user which package to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"decoded() needs {name}: pip install {name}") from error
