"""Paths to parts of a message, as errors and violations write them: ``properties.message-id``."""

from __future__ import annotations

import ast
import re
from typing import Any

import attrs

from amqp10msg.sections import KINDS, SPEC_BY_CODE, SectionKind
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.primitives import Symbol, ULong

#: The path of the body, for all three kinds of body section.
BODY_PATH = "body"
#: A section, then optionally a dot and a field or key, or a key in brackets (see `path_of`).
_PATH_PATTERN = re.compile(r"([a-z]+(?:[_-][a-z]+)*)(?:\.(.+)|\[(.+)\])?", re.DOTALL)
#: The kinds of section outside of the body, by name.
_KIND_BY_NAME = {kind.name: kind for kind in KINDS if kind.attribute != BODY_PATH}
_MAX_ULONG = 2**64 - 1


@attrs.frozen
class Path:
    """The parsed path of a section, of a field or entry of a section, or of the body.

    Attributes:
        text: the path as the caller wrote it.
        kind: the kind of the section; None for the body.
        index: the index of the field in the section's list; -1 if the path has no field.
        key: the key of the entry in the section's map: a Symbol or a ULong for annotations, a str
            for application properties; None if the path has no key.
    """

    text: str
    kind: SectionKind | None
    index: int = -1
    key: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether the path names a whole section or the body."""
        return self.index < 0 and self.key is None


def path_of(text: str) -> Path:
    """Parse a path.

    A path names a section (``header``, ``body``), a field of the header or the properties
    (``header.ttl``, ``properties.message-id``), or an entry of a section that is a map. The key of
    an entry follows a dot (``application-properties.tenant``) or is a Python literal in brackets
    (``message-annotations['x-opt-trace']``). A number in brackets is a ulong key, and ``[0x…]`` is
    an encoded key in hex. Names may have underscores instead of dashes.

    Raises:
        ValueError: the section or field does not exist, or the section cannot have this key.
        TypeError: `text` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str, not {type(text).__name__}")
    match = _PATH_PATTERN.fullmatch(text)
    name = match[1].replace("_", "-") if match else text
    if match is None or (name not in _KIND_BY_NAME and name != BODY_PATH):
        raise ValueError(_unknown_path_error(text, name, [*_KIND_BY_NAME, BODY_PATH]))
    _, after_dot, in_brackets = match.groups()
    if name == BODY_PATH:
        if after_dot or in_brackets:
            raise ValueError(f"{text!r}: a path cannot name a part of the body: use 'body'")
        return Path(text, None)
    kind = _KIND_BY_NAME[name]
    if not (after_dot or in_brackets):
        return Path(text, kind)
    if kind.source == "map":
        key = after_dot or _key_in_brackets(text, in_brackets)
        return Path(text, kind, key=_key_of(text, kind, key))
    names = SPEC_BY_CODE[kind.code].names
    field = (after_dot or "").replace("_", "-")
    if field not in names:
        raise ValueError(
            _unknown_path_error(text, f"{name}.{field}", [f"{name}.{field}" for field in names])
        )
    return Path(text, kind, names.index(field))


def _key_in_brackets(text: str, literal: str) -> Any:
    """Parse the key in the brackets of the path `text`: a Python literal, or an encoding in hex."""
    try:
        if literal.startswith("0x"):
            return kernel.decode_value(bytes.fromhex(literal[2:]))
        return ast.literal_eval(literal)
    except (ValueError, SyntaxError, DecodeError, MemoryError, RecursionError):
        raise ValueError(
            f"{text!r}: a key in brackets must be a quoted string or a number"
        ) from None


def _key_of(text: str, kind: SectionKind, key: Any) -> Any:
    """Convert the key of the path `text` to the type of the section's keys."""
    if SPEC_BY_CODE[kind.code].shape == kernel.SHAPE_PROPERTIES:
        if type(key) is str and _is_encodable(key):
            return key
        raise ValueError(f"{text!r}: the key of an application property must be a string")
    if isinstance(key, str) and key.isascii():
        return Symbol(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key <= _MAX_ULONG:
        return ULong(key)
    raise ValueError(f"{text!r}: the key of an annotation must be an ASCII string or a ulong")


def _is_encodable(key: str) -> bool:
    """Return whether UTF-8 can encode a string: it cannot encode lone surrogates."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown_path_error(text: str, name: str, valid: list[str]) -> str:
    """Return the error text for an unknown path, with a suggestion."""
    from difflib import get_close_matches  # noqa: PLC0415  (only errors need it)

    fields = [
        f"{kind.name}.{field}"
        for kind in KINDS
        if kind.source == "list"
        for field in SPEC_BY_CODE[kind.code].names
        if field == name
    ]
    close = fields or get_close_matches(name, valid, 1)
    return f"a message has no {text!r}: " + (
        f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(valid)}"
    )
