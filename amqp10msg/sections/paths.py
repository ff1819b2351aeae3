"""Paths of what a message holds, as errors and violations write them: ``properties.message-id``."""

from __future__ import annotations

import ast
import re
from typing import Any

import attrs

from amqp10msg.sections import KINDS, SPEC_OF, SectionKind
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.primitives import Symbol, ULong

#: The path of the body, of whichever kind its sections are.
BODY = "body"
_PATH = re.compile(r"([a-z]+(?:[_-][a-z]+)*)(?:\.(.+)|\[(.+)\])?", re.DOTALL)
_KINDS = {kind.name: kind for kind in KINDS if kind.attribute != BODY}
_LARGEST = 2**64 - 1


@attrs.frozen
class Path:
    """A section, one of its fields or entries, or the body.

    Attributes:
        text: the path as it was given.
        kind: the section; None for the body.
        index: the number of the field in the section's list; -1 for none.
        key: the key of the entry in the section's map: a str, of annotations a Symbol or a ULong;
            None for none.
    """

    text: str
    kind: SectionKind | None
    index: int = -1
    key: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether a section is meant, not a part of one."""
        return self.index < 0 and self.key is None


def path_of(text: str) -> Path:
    """Read a path.

    A section alone (``header``, ``body``); a field of header or properties (``header.ttl``,
    ``properties.message-id``); an entry of a section that is a map, by its key after a dot
    (``application-properties.tenant``) or as Python writes it in brackets
    (``message-annotations['x-opt-trace']``). A number in brackets is a key that is a ulong, and
    ``0x`` begins the bytes of an encoded key. Names may have underscores instead of dashes.

    Raises:
        ValueError: there is no such section or field, or the key cannot be one.
        TypeError: it is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"a path is a str, not {type(text).__name__}")
    found = _PATH.fullmatch(text)
    name = found[1].replace("_", "-") if found else text
    if found is None or (name not in _KINDS and name != BODY):
        raise ValueError(_unknown(text, name, [*_KINDS, BODY]))
    _, after_dot, in_brackets = found.groups()
    if name == BODY:
        if after_dot or in_brackets:
            raise ValueError(f"{text!r}: of the body there is only the whole, 'body'")
        return Path(text, None)
    kind = _KINDS[name]
    if not (after_dot or in_brackets):
        return Path(text, kind)
    if kind.source == "map":
        key = after_dot or _key_in_brackets(text, in_brackets)
        return Path(text, kind, key=_key_of(text, kind, key))
    names = SPEC_OF[kind.code].names
    field = (after_dot or "").replace("_", "-")
    if field not in names:
        raise ValueError(_unknown(text, f"{name}.{field}", [f"{name}.{one}" for one in names]))
    return Path(text, kind, names.index(field))


def _key_in_brackets(text: str, written: str) -> Any:
    try:
        if written.startswith("0x"):
            return kernel.decode_value(bytes.fromhex(written[2:]))
        return ast.literal_eval(written)
    except (ValueError, SyntaxError, DecodeError, MemoryError, RecursionError):
        raise ValueError(f"{text!r}: a key in brackets is a text in quotes or a number") from None


def _key_of(text: str, kind: SectionKind, key: Any) -> Any:
    """Return a key as the type that keys of the section have."""
    if SPEC_OF[kind.code].shape == kernel.SHAPE_PROPERTIES:
        if type(key) is str and _is_text(key):
            return key
        raise ValueError(f"{text!r}: the key of an application property is a text")
    if isinstance(key, str) and key.isascii():
        return Symbol(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key <= _LARGEST:
        return ULong(key)
    raise ValueError(f"{text!r}: the key of an annotation is a text of ASCII or a ulong")


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown(text: str, name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (of this error alone)

    fields = [
        f"{kind.name}.{field}"
        for kind in KINDS
        if kind.source == "list"
        for field in SPEC_OF[kind.code].names
        if field == name
    ]
    near = fields or get_close_matches(name, known, 1)
    return f"there is no {text!r} in a message: " + (
        f"is {near[0]!r} meant?" if near else f"use one of {', '.join(known)}"
    )
