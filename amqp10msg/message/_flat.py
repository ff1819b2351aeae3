"""The flat arguments of `Message`: fields of its header and properties, and values for its body.

Flat arguments are passed in place of a section: ``ttl=5`` in place of ``header=Header(ttl=5)``.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Mapping
from typing import Any, Final, TypedDict

import attrs

from amqp10msg.sections import Data, Header, Properties
from amqp10msg.wire.errors import EncodeError

#: The Python types of a message-id.
Identifier = int | uuid.UUID | bytes | str


class FlatArguments(TypedDict, total=False):
    """Arguments of `Message` and `Message.evolve` that are passed in place of a section.

    The arguments are the fields of the header and of the properties, where None means the default
    of the field; and one of ``json``, ``text`` and ``data`` for the body.
    """

    durable: bool | None
    priority: int | None
    ttl: int | None
    first_acquirer: bool | None
    delivery_count: int | None
    message_id: Identifier | None
    user_id: bytes | None
    to: str | None
    subject: str | None
    reply_to: str | None
    correlation_id: Identifier | None
    content_type: str | None
    content_encoding: str | None
    absolute_expiry_time: datetime.datetime | int | None
    creation_time: datetime.datetime | int | None
    group_id: str | None
    group_sequence: int | None
    reply_to_group_id: str | None
    json: Any
    text: str
    data: bytes | bytearray | memoryview


#: The arguments of `Message` that are not flat, in the order of the positions in a ``case``
#: pattern.
SECTIONS: Final = (
    "body",
    "properties",
    "application_properties",
    "message_annotations",
    "header",
    "delivery_annotations",
    "footer",
    "message_format",
)
#: The class of each section whose fields are flat arguments.
_CLASSES: dict[str, Any] = {"header": Header, "properties": Properties}
#: The defaults of the fields, by section and field name.
_FIELD_DEFAULTS = {
    section: {field.name: field.default for field in attrs.fields(cls)}
    for section, cls in _CLASSES.items()
}
#: For each field of the header and the properties, the name and the class of its section.
SECTION_OF_FIELD: dict[str, tuple[str, type]] = {
    field.name: (section, cls) for section, cls in _CLASSES.items() for field in attrs.fields(cls)
}
#: The name of the section of each field.
_OWNER_OF_FIELD = {name: section for name, (section, _) in SECTION_OF_FIELD.items()}
#: The flat arguments that set the body.
_BODY_ARGUMENTS = ("json", "text", "data")
#: The default content-type of a body, by flat argument.
_CONTENT_TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8"}
#: The charset parameter of a content-type; group 1 is its value.
CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)


def expand(
    arguments: Mapping[str, Any], sections: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any]:
    """Convert flat arguments to the sections that they set, by the name of their argument.

    Args:
        arguments: the flat arguments, see `FlatArguments`.
        sections: the arguments of `Message` that are not flat, by name.
        base: the header and the properties of the message to copy, by name: fields that are not in
            `arguments` keep their values. Empty for a new message.

    Raises:
        TypeError: an argument is unknown, or a section was passed in addition to its fields.
    """
    fields: dict[str, dict[str, Any]] = {}  # by section
    bodies: dict[str, Any] = {}
    for name, value in arguments.items():
        owner = _OWNER_OF_FIELD.get(name)
        if owner is not None:
            fields.setdefault(owner, {})[name] = value
        elif name in _BODY_ARGUMENTS:
            bodies[name] = value
        else:
            raise unknown_argument_error(name)
    expanded: dict[str, Any] = {}
    if bodies:
        expanded["body"] = _body_of(bodies, sections, fields)
    for section, values in fields.items():
        if section in sections:
            name, value = next(iter(values.items()))
            raise TypeError(
                f"{name} is a field of the {section}, which is also passed: "
                f"write {section}={constructor_call(_CLASSES[section], {name: value})}"
            )
        expanded[section] = _with_fields(base.get(section), section, values)
    return expanded


def _body_of(
    bodies: Mapping[str, Any], sections: Mapping[str, Any], fields: dict[str, dict[str, Any]]
) -> Data:
    """Return the body for ``json``, ``text`` or ``data``, and set the content-type in `fields`."""
    (name, value), *others = bodies.items()
    if others or "body" in sections:
        other = others[0][0] if others else "body"
        raise TypeError(f"a message has one body: pass {name} or {other}, not both")
    if name == "data":
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, not {type(value).__name__}")
        return Data(bytes(value))
    if "properties" in sections:
        raise TypeError(
            f"{name} sets the content-type, and the properties are also passed: pass their "
            "fields, such as message_id=, instead of properties="
        )
    properties = fields.setdefault("properties", {})
    content_type = properties.get("content_type")
    if content_type is None:
        content_type = properties["content_type"] = _CONTENT_TYPES[name]
    if properties.setdefault("content_encoding", None) is not None:
        raise TypeError(
            f"{name} is not compressed, and content_encoding is passed, too: use "
            f"Message({name}=...).compressed({properties['content_encoding']!r:.40})"
        )
    return Data(_encode_json(value) if name == "json" else _encode_text(value, content_type))


def _with_fields(current: Any, section: str, fields: dict[str, Any]) -> Any:
    """Return the section `current` with changed fields.

    Returns None if `current` is None and all the fields are None.
    """
    cls = _CLASSES[section]
    if current is None:
        values = {name: value for name, value in fields.items() if value is not None}
        return cls(**values) if values else None
    if not isinstance(current, cls):
        raise TypeError(
            f"message.{section} has no fields, because it is of the class "
            f"{type(current).__name__}: pass {section}={cls.__name__}(...)"
        )
    defaults = _FIELD_DEFAULTS[section]
    return attrs.evolve(
        current,
        **{name: defaults[name] if value is None else value for name, value in fields.items()},
    )


def _encode_json(value: Any) -> bytes:
    """Return `value` as compact JSON, as httpx writes it. NaN and Infinity raise ValueError."""
    import json  # noqa: PLC0415  (few messages need it)

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _encode(text, "utf-8")


def _encode_text(text: Any, content_type: Any) -> bytes:
    """Return `text` in the charset of its content-type."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    match = CHARSET.search(content_type) if isinstance(content_type, str) else None
    return _encode(text, "utf-8" if match is None else match[1])


def _encode(text: str, encoding: str) -> bytes:
    """Return `text` in a charset; EncodeError if the charset is unknown or lacks a character."""
    try:
        return text.encode(encoding)
    except LookupError:
        raise EncodeError(f"unknown charset {encoding!r:.80}", "properties.content-type") from None
    except UnicodeError as error:  # some codecs do not report the position
        where = f"character {error.start}" if isinstance(error, UnicodeEncodeError) else "the text"
        hint = "use another charset in content_type="
        raise EncodeError(f"{where} cannot be encoded in {encoding}: {hint}", "body") from None


def constructor_call(cls: type, values: dict[str, Any]) -> str:
    """Return the source of a call of `cls`, with long values shortened, for an error text."""
    return f"{cls.__name__}({', '.join(f'{name}={value!r:.60}' for name, value in values.items())})"


def unknown_argument_error(name: str) -> TypeError:
    """Return the error for an unknown argument of `Message`, with a suggestion."""
    from difflib import get_close_matches  # noqa: PLC0415  (only errors need it)

    names = [*SECTIONS, *FlatArguments.__annotations__]
    close = get_close_matches(name, names, 1, 0.7)
    hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(names)}"
    return TypeError(f"a Message takes no {name}: {hint}")
