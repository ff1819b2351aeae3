"""1.0 values as RabbitMQ's codec holds them.

A term is None, True, False, or a tuple that begins with the type: ("uint", 5), ("utf8", octets),
("list", items), ("map", pairs), ("array", type, items), ("described", descriptor, value) and
("as_is", code, octets) for what the broker carries without reading it; ("unread", code, octets)
where it cannot write that again. Text is bytes: the broker does not look whether it is text.
"""

from __future__ import annotations

import struct
from typing import Any

from amqp10msg.sections import BODY_KINDS, KINDS

Term = Any

#: Null as the value of a map that is a section: the broker reads it as no value at all.
UNDEFINED = ("undefined",)


class BrokerError(Exception):
    """A broker does not deliver a message.

    Attributes:
        reason: what happens, in words.
        path: the place in the message, as far as it is known.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class RefusedError(BrokerError):
    """The broker takes no such message: publishing it fails, or the publisher is cut off."""


class CrashedError(BrokerError):
    """A process of the broker dies on the message: a session, or a consumer's connection."""


#: More levels of nesting than any message has that this library reads: beyond, C would fail where
#: Python raises.
MOST_LEVELS = 300
_MOST_LEVELS = MOST_LEVELS


def check_level(level: int) -> None:
    """Raise RecursionError for a value within more others than a message can have."""
    if level > _MOST_LEVELS:
        raise RecursionError(f"values are nested in more than {MOST_LEVELS} others")


_SECTIONS: dict[Any, str] = {kind.code: kind.name for kind in KINDS}
_SYMBOLS: dict[Any, str] = {kind.symbol.encode(): kind.name for kind in KINDS}


#: The descriptors of the body sections.
BODY_CODES = {kind.name: kind.code for kind in BODY_KINDS}
_FLOAT_FORMS = {"float": struct.Struct(">f"), "double": struct.Struct(">d")}


def kind_of(term: Term) -> str:
    """Return the type of a term, "" of null, true and false."""
    return term[0] if isinstance(term, tuple) else ""


def untyped(value: Term) -> Any:
    """Return the number or bytes of a value without its type; None of values with none."""
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    if value[0] in _FLOAT_FORMS:
        return _FLOAT_FORMS[value[0]].unpack(value[1])[0]
    return value[1]


def section_name(descriptor: Term) -> str | None:
    """Return the name of the section that a descriptor stands for."""
    if isinstance(descriptor, tuple) and descriptor[0] == "ulong":
        return _SECTIONS.get(descriptor[1])
    if isinstance(descriptor, tuple) and descriptor[0] == "symbol":
        return _SYMBOLS.get(descriptor[1])
    return None
